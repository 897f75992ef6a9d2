"""Measures how well the judges of faithfulness tell true sentences from sentences with one changed fact.

    scripts/bench/faithfulness CORPUS… [--count N] [--seed N] [--out FILE]
    scripts/bench/faithfulness --fit CORPUS [--count N]

A corpus is a folder of papers or a BEIR folder; `made_sentences.py` says how sentences are made of it. With --fit the
coefficients of the semantic judge are fitted on a corpus, by logistic regression, and printed for
`ragcli/grounding/faithfulness/semantic_coefficients.json`; never measure on that corpus. It is fitted on more than it
is measured on: directions turned round too, and sentences that stand in another document, because a sentence may also
be supported by nothing at all.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from made_sentences import KINDS, Made, made_sentences

from ragcli.grounding.faithfulness.claims import Claim, EvidencePassage, FaithfulnessJudge
from ragcli.grounding.faithfulness.semantic import SemanticJudge, TokenVectors, support_probability
from ragcli.grounding.judge_registry import open_faithfulness_judge
from ragcli.index.late_interaction import idf_weights
from ragcli.models import load_encoder
from ragcli.types import CollectionSettings

HERE = Path(__file__).parent
START = "<!-- measured by scripts/bench/faithfulness: start -->"
END = "<!-- measured by scripts/bench/faithfulness: end -->"
RESAMPLED = 1000
ROUNDS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the table, or fit and print the coefficients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*", type=Path, metavar="CORPUS")
    parser.add_argument("--fit", type=Path, metavar="CORPUS", help="fit the coefficients on this corpus")
    parser.add_argument("--count", type=int, default=100, metavar="N", help="supported sentences, and changed ones")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--out", type=Path, default=HERE / "FAITHFULNESS.md", metavar="FILE")
    parser.add_argument("--sentences", type=Path, metavar="FILE", help="write the sentences and their scores here")
    given = parser.parse_args(arguments)
    if given.fit:
        made = made_sentences(
            given.fit, given.count, seed=given.seed, kinds=(*KINDS, "direction"), unrelated=given.count // 4
        )
        vectors = token_vectors(made)
        for name, judge in (("vectors", SemanticJudge(vectors)), ("words", SemanticJudge())):
            print(f'    "{name}": {json.dumps(fitted(judge, made))},', flush=True)
        return 0
    tables = [measured(corpus, given.count, given.seed, given.sentences) for corpus in given.corpora]
    text = given.out.read_text(encoding="utf-8") if given.out.exists() else f"{START}\n{END}\n"
    before, rest = text.split(START, 1)
    after = rest.split(END, 1)[1]
    given.out.write_text(f"{before}{START}\n{''.join(tables)}{END}{after}", encoding="utf-8")
    print(f"wrote {given.out}")
    return 0


def claim_of(made: Made) -> Claim:
    """The claim and its one passage."""
    return Claim(made.sentence, (EvidencePassage(made.passage, made.about),))


def token_vectors(made: Sequence[Made]) -> TokenVectors:
    """The default encoder, with the word pieces counted in these passages."""
    encoder = load_encoder(CollectionSettings().encoder)
    frequency = np.zeros(encoder.vocabulary_size, np.int64)
    passages = sorted({each.passage for each in made})
    for start in range(0, len(passages), 32):
        for encoding in encoder.encode_tokens(passages[start : start + 32]):
            frequency[np.unique(encoding.token_ids)] += 1
    return TokenVectors(encoder, lambda token_ids: idf_weights(token_ids, frequency, len(passages)))


def fitted(judge: SemanticJudge, made: Sequence[Made]) -> dict[str, float]:
    """The coefficients for features as they are, each claim judged by the stretch that speaks best for it.

    Which stretch that is depends on the coefficients, so they are fitted a few times over. A feature that would count
    the wrong way round, as a spurious one may, is left out and the rest fitted again.
    """
    from sklearn.linear_model import LogisticRegression

    candidates = [[features for features, _ in judge.features(claim_of(each))] for each in made]
    kept = [number for number, each in enumerate(candidates) if each]
    labels = np.asarray([made[number].supported for number in kept])
    weights: dict[str, float] = {"intercept": 0.0, "coverage": 1.0, "words": -1.0}
    names = list(candidates[kept[0]][0])
    for _ in range(ROUNDS):
        best = [max(candidates[number], key=lambda each: support_probability(each, weights)) for number in kept]
        while True:
            rows = np.asarray([[features[name] for name in names] for features in best])
            model = LogisticRegression(C=3.0, max_iter=5000, class_weight="balanced").fit(rows, labels)
            wrong = [
                name
                for name, value in zip(names, model.coef_[0], strict=True)
                if (value < 0) == (name in ("coverage", "weakest"))
            ]
            if not wrong:
                break
            names = [name for name in names if name not in wrong]
        weights = {"intercept": round(float(model.intercept_[0]), 3)}
        weights |= {name: round(float(value), 3) for name, value in zip(names, model.coef_[0], strict=True)}
    scores = [max(support_probability(each, weights) for each in candidates[number]) for number in kept]
    print(
        f"  fitted on {len(kept)}: AUC {auc(labels, scores):.3f}, {accuracy(labels, scores, 0.5):.3f} right",
        file=sys.stderr,
    )
    return weights


def measured(corpus: Path, count: int, seed: int, sentences: Path | None) -> str:
    """The table of one corpus."""
    made = made_sentences(corpus, count, seed=seed)
    vectors = token_vectors(made)
    judges: Mapping[str, FaithfulnessJudge] = {
        "`semantic`": SemanticJudge(vectors),
        "`semantic` without an encoder": SemanticJudge(),
        "`heuristic`": open_faithfulness_judge("heuristic"),
    }
    labels = np.asarray([each.supported for each in made])
    lines = [
        f"\n### {corpus.name}: {int(labels.sum())} supported, {int((~labels).sum())} with one changed fact\n\n",
        "| judge | AUC | 95 % | numbers | negations | names | right at its threshold | ms a sentence |\n",
        "|---|--:|--:|--:|--:|--:|--:|--:|\n",
    ]
    kept = []
    for name, judge in judges.items():
        started = time.perf_counter()
        found = judge.judge([claim_of(each) for each in made])
        spent = (time.perf_counter() - started) / len(made) * 1000
        scores = [each.score for each in found]
        right = np.mean([each.supported == label for each, label in zip(found, labels, strict=True)])
        by_kind = " | ".join(f"{_of_kind(made, labels, scores, kind):.3f}" for kind in KINDS)
        low, high = interval(labels, scores)
        lines.append(
            f"| {name} | {auc(labels, scores):.3f} | {low:.3f}-{high:.3f} | {by_kind} | {right:.1%} | {spent:.0f} |\n"
        )
        kept += [
            {
                "judge": judge.name,
                "kind": one.kind,
                "supported": one.supported,
                "score": round(each.score, 4),
                "missing": each.missing,
                "sentence": one.sentence,
                "original": one.original,
            }
            for one, each in zip(made, found, strict=True)
        ]
    if sentences is not None:
        sentences.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in kept), encoding="utf-8")
    return "".join(lines)


def _of_kind(made: Sequence[Made], labels: np.ndarray, scores: Sequence[float], kind: str) -> float:
    mine = [number for number, each in enumerate(made) if each.kind == kind]
    return auc(labels[mine], [scores[number] for number in mine])


def auc(labels: np.ndarray, scores: Sequence[float]) -> float:
    """The area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores))


def accuracy(labels: np.ndarray, scores: Sequence[float], threshold: float) -> float:
    """The share of sentences on the right side of the threshold."""
    return float(np.mean((np.asarray(scores) >= threshold) == labels))


def interval(labels: np.ndarray, scores: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the AUC, by bootstrap over sentences."""
    chance = random.Random(0)
    values = []
    for _ in range(RESAMPLED):
        drawn = [chance.randrange(len(labels)) for _ in labels]
        if 0 < labels[drawn].sum() < len(drawn):
            values.append(auc(labels[drawn], [scores[number] for number in drawn]))
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    sys.exit(main())
