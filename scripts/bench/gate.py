"""Measures how well the gate tells what a collection can answer from what it cannot, and writes the table.

    scripts/bench/gate SCIFACT_BEIR_FOLDER CRANFIELD_BEIR_FOLDER [--work DIR] [--thirds N] [--out FILE]

SciFact is built without the documents that a random third of its test claims cites. The claims that keep a document
are answerable. That third is unanswerable and hard: near in topic, absent in fact. Cranfield's questions and the
off-topic questions in off_topic/test.txt are unanswerable and easy. Nothing that is measured here was fitted or
chosen on these questions: see fit_gate.py. The first third, with seed 1, makes the table; the others show how much
chance there is in it. Then the same gate is tried where it was never fitted: on Cranfield, with its own questions.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gate_sets import Beir, Corpora, labels, off_topic, read_beir, reduction

from ragcli.collection import Collection
from ragcli.evaluation.gate_evaluation import GateQuestion, GateReport, area, gate_report, judge_questions
from ragcli.grounding import Decision, open_judge
from ragcli.grounding.sufficiency.evidence import PRESETS, SUFFICIENCY_JUDGES
from ragcli.retrieval.searcher import Searcher

HERE = Path(__file__).parent
KINDS = ("answerable", "hard", "Cranfield", "off-topic")
EASY = ("Cranfield", "off-topic")
Questions = Mapping[str, Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Measured:
    """A judge's decisions, at `balanced`, on each kind of question."""

    judge: str
    found: Mapping[str, Sequence[Decision]]

    def area(self, *unanswerable: str) -> float:
        """AUC of the answerable ones against these kinds."""
        scores, truth = self._together(unanswerable)
        return area([each.score for each in scores], truth) or 0.0

    def report(self, *unanswerable: str) -> GateReport:
        """The figures on the answerable ones and these kinds."""
        found, truth = self._together(unanswerable)
        passed = [each.passed for each in found]
        scores = [each.score for each in found]
        threshold = found[0].threshold
        return gate_report(self.judge, "balanced", threshold, scores, passed, truth, probabilities=self.calibrated)

    @property
    def calibrated(self) -> bool:
        """Are its scores probabilities?"""
        return self.judge != "heuristic"

    def _together(self, unanswerable: Sequence[str]) -> tuple[list[Decision], list[bool]]:
        found = [(each, kind == "answerable") for kind in ("answerable", *unanswerable) for each in self.found[kind]]
        return [each for each, _ in found], [truth for _, truth in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write, and say where the tables are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scifact", type=Path, metavar="SCIFACT_BEIR_FOLDER")
    parser.add_argument("cranfield", type=Path, metavar="CRANFIELD_BEIR_FOLDER")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where the collections are kept")
    parser.add_argument("--thirds", type=int, default=5, metavar="N", help="how many thirds to try")
    parser.add_argument("--out", type=Path, default=HERE / "GATE.md", metavar="FILE")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        measured = "\n".join(sections(read_beir(given.scifact), read_beir(given.cranfield), work, given.thirds))
    text = given.out.read_text(encoding="utf-8") if given.out.exists() else "# How well the gate says no\n"
    given.out.write_text(with_tables(text, measured, "gate"), encoding="utf-8")
    print(f"wrote {given.out}")
    return 0


def sections(scifact: Beir, cranfield: Beir, work: Path, thirds: int) -> Iterator[str]:
    """The tables, one after another."""
    strangers = labels("off-topic", off_topic("test"))
    others = list(cranfield.questions.items())
    corpora = Corpora(scifact, work)
    qrels = scifact.qrels("test")
    hard: dict[str, list[float]] = {judge: [] for judge in SUFFICIENCY_JUDGES}
    for seed in range(1, thirds + 1):
        chosen = reduction(qrels, seed)
        collection = corpora.without(chosen.removed, f"test-{seed}")
        questions: Questions = {
            "answerable": [(claim, scifact.questions[claim]) for claim in chosen.kept],
            "hard": [(claim, scifact.questions[claim]) for claim in chosen.lost],
            "Cranfield": others if seed == 1 else [],
            "off-topic": strangers if seed == 1 else [],
        }
        found = [measure(collection, judge, questions) for judge in SUFFICIENCY_JUDGES]
        for each in found:
            hard[each.judge].append(each.area("hard"))
        if seed == 1:
            yield from main_table(found, questions, len(chosen.removed))
            yield from preset_table(found)
    if thirds > 1:
        yield f"\n## {thirds} random thirds\n"
        yield "| judge | AUC, hard: each third | mean |"
        yield "|---|---|--:|"
        for judge, areas in hard.items():
            yield f"| `{judge}` | {', '.join(f'{each:.3f}' for each in areas)} | {sum(areas) / len(areas):.3f} |"
    yield from transfer_table(scifact, cranfield, work, strangers)


def measure(collection: Collection, judge: str, questions: Questions) -> Measured:
    """What a judge says of all questions."""
    with Searcher([collection]) as searcher:
        opened = open_judge(judge, [collection])
        found = {
            kind: judge_questions(searcher, opened, [GateQuestion(*each, kind == "answerable") for each in mine])
            for kind, mine in questions.items()
        }
    print(f"{collection.name}: {judge} judged {sum(map(len, found.values()))} questions", file=sys.stderr)
    return Measured(judge, found)


def main_table(found: Sequence[Measured], questions: Questions, removed: int) -> Iterator[str]:
    """Both judges on all kinds, at `balanced`."""
    counts = ", ".join(f"{len(questions[kind])} {kind}" for kind in KINDS)
    yield f"\n## SciFact, test claims, without {removed} cited documents\n\nQuestions: {counts}.\n"
    yield (
        "| judge | AUC, easy | AUC, Cranfield | AUC, off-topic | AUC, hard | precision, answerable + easy | recall "
        "| precision, with hard | calibration error |"
    )
    yield "|---|" + "--:|" * 8
    for each in found:
        easy = each.report(*EASY)
        whole = each.report("hard", *EASY)
        areas = [each.area(*EASY), each.area("Cranfield"), each.area("off-topic"), each.area("hard")]
        cells = [f"{area:.3f}" for area in areas]
        cells += [_share(easy.precision), _share(easy.recall), _share(whole.precision), _share(whole.ece)]
        yield f"| `{each.judge}` | {' | '.join(cells)} |"


def preset_table(found: Sequence[Measured]) -> Iterator[str]:
    """What share of each kind the calibrated judge lets through at each preset."""
    from ragcli.grounding.sufficiency.calibration_models import default_calibration

    thresholds = default_calibration("vectors").thresholds
    yield "\nWhat the `calibrated` judge lets through:\n"
    yield "| preset | from probability | " + " | ".join(KINDS) + " |"
    yield "|---|" + "--:|" * (1 + len(KINDS))
    for each in found:
        if each.calibrated:
            for preset in PRESETS:
                least = thresholds[preset]
                passed = [sum(one.score >= least for one in each.found[kind]) / len(each.found[kind]) for kind in KINDS]
                yield f"| {preset} | {least:.2f} | " + " | ".join(f"{share:.0%}" for share in passed) + " |"


def transfer_table(scifact: Beir, cranfield: Beir, work: Path, strangers: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The judges on a collection and questions of another kind."""
    collection = Corpora(cranfield, work / "cranfield").whole()
    claims = [(claim, scifact.questions[claim]) for claim in scifact.qrels("test")]
    questions = {"answerable": list(cranfield.questions.items()), "claims": claims, "off-topic": strangers}
    yield (
        f"\n## Cranfield, where nothing was fitted\n\nIts own {len(cranfield.questions)} questions against "
        f"{len(claims)} claims of SciFact and {len(strangers)} off-topic questions.\n"
    )
    yield "| judge | AUC | precision | recall | calibration error |"
    yield "|---|" + "--:|" * 4
    for judge in SUFFICIENCY_JUDGES:
        each = measure(collection, judge, questions)
        report = each.report("claims", "off-topic")
        cells = [f"{each.area('claims', 'off-topic'):.3f}"]
        cells += [_share(report.precision), _share(report.recall), _share(report.ece)]
        yield f"| `{judge}` | {' | '.join(cells)} |"


def with_tables(text: str, measured: str, script: str) -> str:
    """The text with the tables between the markers of a script, which are added at its end if it has none."""
    start, end = (f"<!-- measured by scripts/bench/{script}: {part} -->" for part in ("start", "end"))
    if start not in text or end not in text:
        return f"{text.rstrip()}\n\n{start}\n{measured}\n{end}\n"
    before, after = text.index(start) + len(start), text.index(end)
    return f"{text[:before]}\n{measured}\n{text[after:]}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
