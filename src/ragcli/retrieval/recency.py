"""New before old, as far as one wants: a document's age as part of its score.

Age decays exponentially: a document as old as the half-life has half of what one of today has. The pool's scores are
scaled to 0..1 first, so that a share of recency means the same with every pipeline and question. Li and Croft (CIKM
2003) have the same decay as the prior of a document.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.retrieval.candidates import Pool, StageScores
from ragcli.retrieval.fusion import min_max

if TYPE_CHECKING:
    from ragcli.collection import Snapshot

_DAY: Final = 86_400.0


def decay(snapshots: Sequence[Snapshot], pool: Pool, half_life: float, *, now: float | None = None) -> StageScores:
    """0.5 to the power of each candidate's age in half-lives (days), (n,): 1 today or later; NaN without a date."""
    moment = time.time() if now is None else now
    found = np.full(len(pool), np.nan)
    for owner in dict.fromkeys(pool.owners.tolist()):
        mine = np.flatnonzero(pool.owners == owner)
        dates = snapshots[owner].dates(pool.numbers[mine].tolist())
        for place in mine.tolist():
            date = dates.get(int(pool.numbers[place]))
            if date is not None:
                found[place] = 0.5 ** (max(moment - date, 0.0) / _DAY / half_life)
    return found


def blended(scores: StageScores, decays: StageScores, share: float) -> StageScores:
    """(1 - share) x scores, scaled to 0..1, + share x decay (n,); a document without a date gets nothing for it."""
    blend: StageScores = (1.0 - share) * min_max(scores) + share * np.nan_to_num(decays)
    return blend
