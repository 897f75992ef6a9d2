"""Fits the coefficients that the calibrated gate is shipped with, and writes them into the package.

    scripts/bench/fit_gate SCIFACT_BEIR_FOLDER [--work DIR] [--reductions N] [--out FILE]

Only SciFact's training claims, the off-topic questions in off_topic/fit.txt and questions made up from word lists, as
research in other sciences asks them, are looked at. Several times a
random third of the claims loses its documents: these are hard negatives, the other claims answerable. Claims that
cite a paper in common share a fold. The features go into WORK/features.json, from which --again fits without
searching.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from gate_sets import Corpora, families, off_topic, read_beir, reduction, technical

from ragcli.collection import Collection
from ragcli.grounding.sufficiency.calibration_models import CalibrationKind, encode_calibration
from ragcli.grounding.sufficiency.features import features_of
from ragcli.grounding.sufficiency.fitting import (
    FittedCalibration,
    LabelledFeatures,
    QuestionLabel,
    fit_default_calibration,
)
from ragcli.grounding.sufficiency.pool_statistics import JUDGED_CANDIDATES, PoolStatistics, measure_pools
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher

OUT = Path(__file__).parents[2] / "src" / "ragcli" / "grounding" / "sufficiency" / "coefficients.json"
TECHNICAL = 200
KINDS: tuple[CalibrationKind, ...] = ("vectors", "words")
Row = tuple[str, QuestionLabel, int, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Extract, fit, write, and say what cross-validation thinks of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="SCIFACT_BEIR_FOLDER")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where the collections are kept")
    parser.add_argument("--reductions", type=int, default=5, metavar="N")
    parser.add_argument("--again", action="store_true", help="fit to the features of an earlier run")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        store = work / "features.json"
        if not given.again:
            extracted = extract(given.folder, work, given.reductions)
            store.write_text(json.dumps(extracted), encoding="utf-8")
        observed = json.loads(store.read_text("utf-8"))
    fitted = {}
    for kind in KINDS:
        observations = [LabelledFeatures(**each) for each in observed[kind]]
        where = "SciFact's training claims and off-topic questions"
        fitted[kind] = fit_default_calibration(observations, kind, encoder=None, where=where)
        print(f"{kind}: {summary(fitted[kind], observations)}")
    written = {kind: json.loads(encode_calibration(_rounded(each))) for kind, each in fitted.items()}
    given.out.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def extract(folder: Path, work: Path, reductions: int) -> dict[CalibrationKind, list[dict[str, Any]]]:
    """The features of every question on every reduction, by kind."""
    beir = read_beir(folder)
    qrels = beir.qrels("train")
    family = families(qrels)
    strangers = [(text, "general") for text in off_topic("fit")]
    strangers += [(text, "technical") for text in technical(TECHNICAL, 1)]
    observed: dict[CalibrationKind, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for seed in range(1, reductions + 1):
        chosen = reduction(qrels, seed)
        collection = Corpora(beir, work).without(chosen.removed, f"fit-{seed}")
        rows: list[Row] = [(beir.questions[claim], "hard", family[claim], "") for claim in chosen.lost]
        rows += [(beir.questions[claim], "answerable", family[claim], "") for claim in chosen.kept]
        rows += [(text, "easy", -at, sort) for at, (text, sort) in enumerate(strangers, 1)]
        for kind, found in features(collection, rows).items():
            observed[kind] += [asdict(each) for each in found]
        print(f"reduction {seed}: {len(chosen.kept)} claims kept, {len(chosen.lost)} lost", file=sys.stderr)
    return observed


def reductions_of(observed: Sequence[LabelledFeatures]) -> int:
    """How many reductions features are of: an off-topic question is asked of each once."""
    asked = [each.group for each in observed if each.label == "easy"]
    return len(asked) // len({*asked})


def features(collection: Collection, rows: Sequence[Row]) -> dict[CalibrationKind, list[LabelledFeatures]]:
    """What the pools of some questions measure, with vectors and by words alone."""
    observed: dict[CalibrationKind, list[LabelledFeatures]] = {kind: [] for kind in KINDS}
    with Searcher([collection]) as searcher:
        for text, label, group, sort in rows:
            for pool in measure_pools(searcher, QueryRequest(text), text):
                observed["vectors"].append(LabelledFeatures(features_of(pool), label, group, sort))
                if (bare := by_words(pool)) is not None:
                    observed["words"].append(LabelledFeatures(features_of(bare), label, group, sort))
    return observed


def by_words(pool: PoolStatistics) -> PoolStatistics | None:
    """The pool as it would be without an encoder; None if there would be nothing in it."""
    best = np.argsort(-pool.bm25, kind="stable")[:JUDGED_CANDIDATES]
    best = best[pool.bm25[best] > 0]
    if not len(best):
        return None
    return replace(pool, documents=pool.documents[best], bm25=pool.bm25[best], words=pool.words[best], vectors=None)


def summary(fitted: FittedCalibration, observations: Sequence[LabelledFeatures]) -> str:
    """How well the folds told the kinds apart."""
    from sklearn.metrics import roc_auc_score

    labels = np.asarray([each.label for each in observations])
    scores = np.asarray(fitted.probabilities)
    parts = []
    for kind in ("hard", "easy"):
        chosen = (labels == "answerable") | (labels == kind)
        parts.append(f"{kind} AUC {roc_auc_score(labels[chosen] == 'answerable', scores[chosen]):.3f}")
    for preset, threshold in fitted.calibration.thresholds.items():
        passed = [
            f"{(scores[labels == label] >= threshold).mean():.2f} {label}" for label in ("answerable", "hard", "easy")
        ]
        parts.append(f"{preset} ({threshold:.3f}) passes {', '.join(passed)}")
    return "; ".join(parts)


def _rounded(fitted: FittedCalibration) -> Any:
    def short(model: Any) -> Any:
        terms = tuple(
            replace(term, centre=_short(term.centre), scale=_short(term.scale), weight=_short(term.weight))
            for term in model.terms
        )
        return replace(model, terms=terms, intercept=_short(model.intercept))

    calibration = fitted.calibration
    thresholds = {preset: _short(each) for preset, each in calibration.thresholds.items()}
    return replace(calibration, topic=short(calibration.topic), fact=short(calibration.fact), thresholds=thresholds)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


if __name__ == "__main__":
    sys.exit(main())
