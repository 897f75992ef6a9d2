"""Making qrels by hand: each passage once, each answer on the disk, and nothing asked twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragcli.errors import InputError
from ragcli.evaluation.relevance_labels import (
    LabelKey,
    LabelPassage,
    LabelQuestion,
    QrelsFile,
    label_passages,
    pool_passages,
)
from ragcli.evaluation.topics_qrels_runs import Topic
from ragcli.evaluation.trec_format import read_qrels

TOPICS = (Topic("t1", "first question"), Topic("t2", "second question"))


def passage(name: str) -> LabelPassage:
    return LabelPassage(name, name.split(":", maxsplit=1)[0], "source.md", "page 1", f"text of {name}")


POOLS = [(TOPICS[0], [passage("d1:0"), passage("d1:1"), passage("d2:0")]), (TOPICS[1], [passage("d1:0")])]


def answering(keys: str, shown: list[str] | None = None) -> Callable[[LabelQuestion], LabelKey]:
    answers = iter(keys)

    def ask(question: LabelQuestion) -> LabelKey:
        if shown is not None:
            shown.append(f"{question.topic.query_id}/{question.passage.chunk_id}")
        key: LabelKey = next(answers, "q")  # type: ignore[assignment]
        return key

    return ask


def test_rankings_are_pooled_in_turns_and_each_passage_is_there_once() -> None:
    first, second = [passage("a:0"), passage("b:0"), passage("c:0")], [passage("b:0"), passage("d:0")]
    assert [each.chunk_id for each in pool_passages([first, second])] == ["a:0", "b:0", "d:0", "c:0"]


def test_answers_are_written_as_qrels(tmp_path: Path) -> None:
    path = tmp_path / "out.qrels"
    outcome = label_passages(POOLS, QrelsFile(path, TOPICS), answering("ynuy"))
    assert path.read_text() == "t1 0 d1:0 1\nt1 0 d1:1 0\nt2 0 d1:0 1\n"
    assert (outcome.relevant, outcome.not_relevant, outcome.unsure, outcome.remaining) == (2, 1, 1, 0)


def test_an_answer_is_on_the_disk_before_the_next_question(tmp_path: Path) -> None:
    path = tmp_path / "out.qrels"
    lines: list[int] = []

    def ask(_: LabelQuestion) -> LabelKey:
        lines.append(len(path.read_text().splitlines()) if path.exists() else 0)
        return "y"

    label_passages(POOLS, QrelsFile(path, TOPICS), ask)
    assert lines == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["out.qrels", "out.jsonl"])
def test_a_later_run_asks_what_is_left_and_what_was_unsure(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    first = label_passages(POOLS, QrelsFile(path, TOPICS), answering("yuq"))
    assert first.remaining == 2
    shown: list[str] = []
    label_passages(POOLS, QrelsFile(path, TOPICS), answering("nny", shown))
    assert shown == ["t1/d1:1", "t1/d2:0", "t2/d1:0"]
    shown.clear()
    label_passages(POOLS, QrelsFile(path, TOPICS), answering("", shown))
    assert shown == []


def test_going_back_takes_the_answer_back(tmp_path: Path) -> None:
    path = tmp_path / "out.qrels"
    shown: list[str] = []
    label_passages(POOLS, QrelsFile(path, TOPICS), answering("bybnubyq", shown))
    assert shown[:4] == ["t1/d1:0", "t1/d1:0", "t1/d1:1", "t1/d1:0"]
    assert path.read_text() == "t1 0 d1:0 0\nt1 0 d1:1 1\n"


def test_what_the_file_holds_already_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.qrels"
    path.write_text("other 0 dx 2\n")
    label_passages(POOLS, QrelsFile(path, TOPICS), answering("y"))
    assert read_qrels(path).judgements == {"other": {"dx": 2}, "t1": {"d1:0": 1}}


def test_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "out.qrels"
    path.write_text("not a judgement\n")
    with pytest.raises(InputError, match="line 1"):
        QrelsFile(path, TOPICS)
    assert path.read_text() == "not a judgement\n"


def test_labelled_json_has_the_question_and_both_kinds_of_ids(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    label_passages(POOLS, QrelsFile(path, TOPICS), answering("yn"))
    assert path.read_text() == (
        '{"id": "t1", "query": "first question", "relevant_ids": ["d1:0"], "nonrelevant_ids": ["d1:1"]}\n'
    )


@given(st.text("ynub", max_size=25))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_the_keys_the_file_says_what_the_last_answers_said(tmp_path: Path, keys: str) -> None:
    path = tmp_path / "out.qrels"
    path.unlink(missing_ok=True)
    label_passages(POOLS, QrelsFile(path, TOPICS), answering(keys))
    asked = [(topic.query_id, each.chunk_id) for topic, passages in POOLS for each in passages]
    answers: list[str] = []
    for key in keys:
        if len(answers) == len(asked):
            break
        if key == "b":
            answers[-1:] = []
        else:
            answers.append(key)
    expected = {asked[at]: int(key == "y") for at, key in enumerate(answers) if key != "u"}
    judgements = read_qrels(path).judgements if path.exists() and path.read_text() else {}
    assert {(query, item): grade for query, items in judgements.items() for item, grade in items.items()} == expected
