"""One ranking out of the rankings of several collections, each with its weight.

Collections with the same encoder have been ranked in one pool: their scores mean the same, and there a weight
multiplies a passage's score, scaled to 0..1 over the pool. The scores of different encoders say nothing about each
other, so those rankings are merged by reciprocal rank (Cormack, Clarke and Buettcher, SIGIR 2009), a passage of a
collection with weight w counting w / (60 + rank). Either way the score from before stays on the hit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ragcli.errors import UsageError
from ragcli.retrieval.fusion import RRF_K, min_max
from ragcli.retrieval.ranked import Candidate, Ranked


def check_weights(weights: Mapping[str, float], collections: Iterable[str]) -> None:
    """UsageError when a weight is given to a collection that is not searched."""
    names = list(collections)
    for name in weights:
        if name not in names:
            raise UsageError(f"--weight names the collection '{name}', which is not searched ({', '.join(names)} are).")


def merge(groups: Sequence[Ranked], weights: Mapping[str, float]) -> Iterable[Candidate]:
    """All candidates, best first; equal ones in the order of their collections."""
    if len(groups) == 1 and not weights:
        group = groups[0]
        return (Candidate(group, place, float(group.final[place]), group.score_type) for place in group.order)
    if len(groups) == 1:
        return _weighted(groups[0], weights)
    merged = [
        Candidate(
            group,
            place,
            weights.get(group.snapshot_of(place).collection, 1.0) / (RRF_K + rank),
            "fused",
            float(group.final[place]),
        )
        for group in groups
        for rank, place in enumerate(group.order, 1)
    ]
    return sorted(merged, key=lambda candidate: -candidate.score)


def _weighted(group: Ranked, weights: Mapping[str, float]) -> list[Candidate]:
    of_owner = np.asarray([weights.get(snapshot.collection, 1.0) for snapshot in group.snapshots])
    scores = min_max(group.final) * of_owner[group.pool.owners] if len(group.pool) else group.final
    order = sorted(group.order, key=lambda place: -float(scores[place]))
    return [Candidate(group, place, float(scores[place]), "fused", float(group.final[place])) for place in order]
