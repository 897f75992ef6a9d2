"""What keeps the gate from telling hard questions better, measured on SciFact's training claims.

    scripts/bench/gate_limits SCIFACT_BEIR_FOLDER --work DIR [--out FILE]

DIR is where fit_gate left its collections and features. Three things are asked: how often the search puts a paper
that a claim cites first; how a judge would do that knew for certain whether the first document is one; and how much
the number of claims matters that the models are fitted to.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from fit_gate import reductions_of
from gate import with_tables
from gate_sets import Beir, Qrels, read_beir, reduction

from ragcli.collection import Collection
from ragcli.grounding.sufficiency.fitting import LabelledFeatures, best_penalty, fit_logistic, folds
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher

OUT = Path(__file__).parent / "GATE.md"
DEPTH = 10
SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
DRAWN = 4
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of all reductions: their observations, and the rank of the first cited paper (0: beyond `DEPTH`)."""

    observed: Sequence[LabelledFeatures]
    ranks: npt.NDArray[np.int64]

    @property
    def truth(self) -> npt.NDArray[np.bool_]:
        """Which can be answered."""
        return np.asarray([each.answerable for each in self.observed])

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """The family of each."""
        return np.asarray([each.group for each in self.observed])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write, and say where the table is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="SCIFACT_BEIR_FOLDER")
    parser.add_argument("--work", type=Path, metavar="DIR", required=True, help="where fit_gate kept its collections")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    given = parser.parse_args(arguments)
    claims = read_claims(read_beir(given.folder), given.work)
    measured = "\n".join(table(claims))
    text = given.out.read_text(encoding="utf-8") if given.out.exists() else "# How well the gate says no\n"
    given.out.write_text(with_tables(text, measured, "gate_limits"), encoding="utf-8")
    print(f"wrote {given.out}")
    return 0


def read_claims(beir: Beir, work: Path) -> Claims:
    """The features that fit_gate left, and where each claim's papers are found."""
    stored = json.loads((work / "features.json").read_text("utf-8"))["vectors"]
    observed = [LabelledFeatures(**each) for each in stored]
    claims = [each for each in observed if each.label != "easy"]
    ranks: list[int] = []
    qrels = beir.qrels("train")
    for seed in range(1, reductions_of(observed) + 1):
        ranks += ranks_of(beir, qrels, Collection.open(work / "data", f"fit-{seed}"), seed)
    if len(ranks) != len(claims):
        sys.exit(f"{work} has features of {len(claims)} claims and collections for {len(ranks)}; run fit_gate again.")
    return Claims(claims, np.asarray(ranks))


def ranks_of(beir: Beir, qrels: Qrels, collection: Collection, seed: int) -> Iterator[int]:
    """The ranks for one reduction, in the order in which fit_gate takes its claims."""
    chosen = reduction(qrels, seed)
    print(f"reduction {seed}: searching for {len(chosen.kept)} claims", file=sys.stderr)
    yield from [0] * len(chosen.lost)
    with Searcher([collection]) as searcher:
        for claim in chosen.kept:
            hits = searcher.query(QueryRequest(beir.questions[claim], top=DEPTH)).hits
            yield next((hit.rank for hit in hits if hit.chunk.document_id in qrels[claim]), 0)


def table(claims: Claims) -> Iterator[str]:
    """All that is asked, a line each."""
    truth, ranks = claims.truth, claims.ranks
    kept = ranks[truth]
    gate = out_of_fold(claims, 1.0, 0)
    first = ranks == 1
    certain = np.where(first, 1.0, 0.0)
    yield "\n## What stands in the way (training claims)\n"
    yield f"{truth.sum()} times a claim that can be answered, {(~truth).sum()} times one that cannot.\n"
    yield "| | |"
    yield "|---|--:|"
    for depth in (1, 3, 10):
        yield f"| a cited paper among the first {depth} | {((kept > 0) & (kept <= depth)).mean():.3f} |"
    yield f"| AUC of the gate's features, out of fold | {auc(gate, truth):.3f} |"
    yield f"| … where a cited paper is first | {auc(gate, truth, first | ~truth):.3f} |"
    yield f"| … where it is not | {auc(gate, truth, ~first):.3f} |"
    yield f"| AUC of a judge that knows whether the first document is cited | {auc(certain, truth):.3f} |"
    ordered = certain * (1 + gate.max() - gate.min()) + gate
    yield f"| … and goes by the gate's features where it makes no difference | {auc(ordered, truth):.3f} |"
    for share in SHARES:
        drawn = [auc(out_of_fold(claims, share, seed), truth) for seed in range(1 if share == 1.0 else DRAWN)]
        named = "all families of claims" if share == 1.0 else f"1/{round(1 / share)} of the families"
        yield f"| AUC when fitted to {named} | {sum(drawn) / len(drawn):.3f} |"


def out_of_fold(claims: Claims, share: float, seed: int) -> Numbers:
    """What models say of each claim that were fitted to that share of the families of the other folds."""
    truth, groups = claims.truth, claims.groups
    features = [each.features for each in claims.observed]
    names = sorted(features[0])
    random = np.random.default_rng(seed)
    penalty = best_penalty(features, truth, groups, names)
    told = np.zeros(len(truth))
    for seen, unseen in folds(truth, groups):
        families = np.unique(groups[seen])
        taken = random.choice(families, round(len(families) * share), replace=False)
        mine = seen[np.isin(groups[seen], taken)]
        model = fit_logistic([features[at] for at in mine], truth[mine], names, penalty)
        told[unseen] = [model.logit(features[at]) for at in unseen]
    return told


def auc(scores: Numbers, truth: npt.NDArray[np.bool_], among: npt.NDArray[np.bool_] | None = None) -> float:
    """AUC, of some alone if `among` says so."""
    from sklearn.metrics import roc_auc_score

    chosen = np.ones(len(truth), dtype=bool) if among is None else among
    return float(roc_auc_score(truth[chosen], scores[chosen]))


if __name__ == "__main__":
    sys.exit(main())
