"""Test collections in the forms people have them in; a mistake in one is named by file and line."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragcli.atomic_files import write_output_file
from ragcli.errors import InputError, UsageError
from ragcli.evaluation.beir_dataset import read_beir
from ragcli.evaluation.dataset_loader import detect_format, match_items, read_ranking_set, read_topics_of_format
from ragcli.evaluation.relevance_labels import query_id_from_text, read_labelled_questions
from ragcli.evaluation.topics_qrels_runs import Qrels, Run, best_first
from ragcli.evaluation.trec_format import format_run, read_qrels, read_run, read_topics, run_file_paths, write_run


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    write(folder / "corpus.jsonl", '{"_id": "d1", "title": "", "text": "one"}\n{"_id": "d2", "text": "two"}\n')
    write(
        folder / "queries.jsonl",
        '{"_id": "1", "text": "first"}\n{"_id": "2", "text": "second"}\n{"_id": "3", "text": "third"}\n',
    )
    write(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\n1\td1\t2\n1\td2\t0\n2\tgone\t1\n9\td1\t1\n")
    return folder


class Shelf:
    """A collection's items, as the matching of ids asks for them."""

    def __init__(self, documents: dict[str, str], chunks: dict[str, str]) -> None:
        self._documents, self._chunks = documents, chunks

    def document(self, name: str) -> str | None:
        return self._documents.get(name)

    def chunk(self, name: str) -> str | None:
        return self._chunks.get(name)


def test_a_beir_folder_gives_judged_topics_and_counts_the_rest(beir: Path) -> None:
    given = read_beir(beir)
    assert given.split == "test"
    assert [topic.text for topic in given.topics] == ["first", "second"]
    assert given.qrels.judgements == {"1": {"d1": 2, "d2": 0}, "2": {"gone": 1}}
    assert [topic.query_id for topic in given.unjudged] == ["3"]
    assert given.without_topic == ("9",)
    matched, _ = match_items(given, Shelf({"d1": "d1", "d2": "d2"}, {}))
    assert matched.unknown == ("gone",)
    assert matched.qrels == given.qrels


def test_the_split_is_test_where_there_is_one_and_must_be_named_where_there_are_others(beir: Path) -> None:
    write(beir / "qrels" / "dev.tsv", "query-id\tcorpus-id\tscore\n3\td2\t1\n")
    assert read_beir(beir).split == "test"
    assert [topic.query_id for topic in read_beir(beir, "dev").topics] == ["3"]
    with pytest.raises(InputError, match="no split 'train'; it has dev, test"):
        read_beir(beir, "train")
    (beir / "qrels" / "test.tsv").rename(beir / "qrels" / "train.tsv")
    with pytest.raises(InputError, match="--split; it has dev, train"):
        read_beir(beir)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "line 2: the line is empty"),
        ("{", "line 2: not valid JSON"),
        ("[]", "line 2: a JSON object"),
        ('{"text": "x"}', 'line 2: the query has no "_id"'),
        ('{"_id": "2", "text": " "}', 'line 2: query 2 has no "text"'),
        ('{"_id": "1", "text": "again"}', "line 2: query 1 stands already on line 1"),
    ],
)
def test_a_wrong_query_is_named_by_file_and_line(beir: Path, line: str, complaint: str) -> None:
    write(beir / "queries.jsonl", f'{{"_id": "1", "text": "first"}}\n{line}\n{{"_id": "5", "text": "fifth"}}\n')
    with pytest.raises(InputError, match=f"queries.jsonl, {complaint}"):
        read_beir(beir)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 0 d1", "line 2: a judgement has four columns .*, this line 3"),
        ("1 0 d1 high", "line 2: the grade must be a whole number, not 'high'"),
        ("1 0 d1 0.5", "line 2: the grade must be a whole number"),
        ("1 0 d0 2", "line 2: d0 has grade 1 for query 1 on line 1"),
        ("", "line 2: the line is empty"),
    ],
)
def test_a_wrong_judgement_is_named_by_file_and_line(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path / "some.qrels", f"1 0 d0 1\n{line}\n1 0 d9 1\n")
    with pytest.raises(InputError, match=f"some.qrels, {complaint}"):
        read_qrels(path)


def test_a_judgement_given_twice_alike_counts_once_and_blank_lines_at_the_end_are_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "q", "1 0 d0 1\n1 0 d0 1\n\n  \n")
    assert read_qrels(path).judgements == {"1": {"d0": 1}}


def test_a_file_that_is_not_text_is_named_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "q"
    path.write_bytes(b"1 0 d0 1\n1 0 d\xff 1\n")
    with pytest.raises(InputError, match="q, line 2: byte 6 is not UTF-8"):
        read_qrels(path)
    with pytest.raises(InputError, match="There is no file"):
        read_qrels(tmp_path / "absent")
    with pytest.raises(InputError, match="is a folder"):
        read_qrels(tmp_path)


CLASSIC = """
<top>

<num> Number: 301
<title> International Organized
 Crime

<desc> Description:
Identify organizations that participate in
international criminal activity.

<narr> Narrative:
A relevant document must name it.
</top>
<top>
<num>302</num>
<title>Poliomyelitis and Post-Polio</title>
<desc> Description: Is it </desc>
</top>
"""


def test_classic_topics_are_read_with_and_without_closing_tags(tmp_path: Path) -> None:
    path = write(tmp_path / "topics", CLASSIC)
    assert [(topic.query_id, topic.text) for topic in read_topics(path)] == [
        ("301", "International Organized Crime"),
        ("302", "Poliomyelitis and Post-Polio"),
    ]
    assert read_topics(path, "desc")[0].text.startswith("Identify organizations")
    assert detect_format(path) == "trec"
    with pytest.raises(InputError, match="line 15: topic 302 has no <narr>"):
        read_topics(path, "narr")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<top>\n<num> 1\n<title> x\n", "line 1: the <top> that starts here has no </top>"),
        ("<top>\n<title> x\n</top>\n", "line 1: the topic that starts here has no <num>"),
        ("<top>\n<num> 1\n<top>\n", "line 3: a <top> starts before the one of line 1"),
        ("<num> 1\n", "line 1: text stands outside of a <top>"),
        ("<top>\n<num> 1\n<title> x\n</top>\n<top><num> 1 <title> y </top>\n", "line 5: topic 1 stands already"),
    ],
)
def test_a_broken_topic_is_named_by_file_and_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_topics(write(tmp_path / "topics", text))


def test_labelled_questions_keep_whether_they_can_be_answered(tmp_path: Path) -> None:
    path = write(
        tmp_path / "q.jsonl",
        '{"query": "What is RAG?", "relevant_ids": ["rag", 7], "answerable": true}\n'
        '{"query": "Who won?", "relevant_ids": [], "answerable": false}\n'
        '{"query": "bm25", "relevant_ids": ["bm25"], "id": "b"}\n',
    )
    topics, qrels = read_labelled_questions(path)
    assert [topic.answerable for topic in topics] == [True, False, None]
    assert qrels.judgements == {query_id_from_text("What is RAG?"): {"rag": 1, "7": 1}, "b": {"bm25": 1}}
    given = read_ranking_set(path, None)
    assert [topic.text for topic in given.unjudged] == ["Who won?"]
    assert given.unjudged[0].answerable is False


def test_a_question_keeps_its_id_when_others_are_added_or_its_spacing_changes(tmp_path: Path) -> None:
    first = read_labelled_questions(write(tmp_path / "a", '{"query": "What  is it", "relevant_ids": ["x"]}\n'))[0]
    later = read_labelled_questions(
        write(
            tmp_path / "b",
            '{"query": "new", "relevant_ids": ["y"]}\n{"query": "what is it ", "relevant_ids": ["x"]}\n',
        )
    )[0]
    assert first[0].query_id == later[1].query_id


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"query": ""}', 'line 1: the line has no "query" with words'),
        ('{"query": "x"}', 'line 1: "relevant_ids" must be a list'),
        ('{"query": "x", "relevant_ids": ["a", null]}', 'line 1: "relevant_ids" has an entry that is not an id: null'),
        ('{"query": "x", "relevant_ids": ["a"], "answerable": "yes"}', 'line 1: "answerable" must be true or false'),
        ('{"query": "x", "relevant_ids": ["a"], "answerable": false}', 'line 1: "answerable" is false, but'),
        (
            '{"query": "x", "relevant_ids": ["a"]}\n{"query": "X", "relevant_ids": ["a"]}',
            "line 2: the query stands already on line 1",
        ),
        ('{"query": "x", "relevant_ids": []}\n\n{"query": "y", "relevant_ids": []}', "line 2: the line is empty"),
    ],
)
def test_a_wrong_labelled_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_labelled_questions(write(tmp_path / "q.jsonl", line + "\n"))


def test_forms_are_told_apart_by_their_look(tmp_path: Path, beir: Path) -> None:
    assert detect_format(beir) == "beir"
    assert detect_format(beir / "queries.jsonl") == "queries"
    assert detect_format(write(tmp_path / "a", '\n{"query": "x", "relevant_ids": []}\n')) == "jsonl"
    assert detect_format(write(tmp_path / "b", "1\tsome question\n")) == "tsv"
    assert detect_format(write(tmp_path / "c", "some question\n")) == "lines"
    with pytest.raises(InputError, match="is empty"):
        detect_format(write(tmp_path / "d", "\n"))
    with pytest.raises(InputError, match="not a BEIR folder"):
        detect_format(tmp_path)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(b"\xef\xbb\xbf1\tfirst\r\n2\tsecond\r\n")
    topics, _ = read_topics_of_format(path)
    assert [(topic.query_id, topic.text) for topic in topics] == [("1", "first"), ("2", "second")]


def test_topics_without_qrels_say_what_is_missing(tmp_path: Path) -> None:
    topics = write(tmp_path / "t.tsv", "1\tfirst\n")
    with pytest.raises(UsageError, match="says nothing of relevance; add --qrels"):
        read_ranking_set(topics, None)
    with pytest.raises(InputError, match=r"None of the 1 questions .* is judged"):
        read_ranking_set(topics, write(tmp_path / "q", "7 0 d 1\n"))


def test_ids_may_be_documents_sources_or_chunks(tmp_path: Path) -> None:
    path = write(
        tmp_path / "q.jsonl",
        '{"query": "a", "relevant_ids": ["notes/raft.md", "d2", "d3:4", "nowhere"]}\n',
    )
    shelf = Shelf({"notes/raft.md": "d1", "d1": "d1", "d2": "d2", "d3": "d3"}, {"d3:4": "d3"})
    given, names = match_items(read_ranking_set(path, None), shelf)
    assert given.level == "document"
    assert given.qrels.judgements[query_id_from_text("a")] == {"notes/raft.md": 1, "d2": 1, "d3": 1, "nowhere": 1}
    assert names == {"d1": "notes/raft.md", "d2": "d2"}
    assert given.unknown == ("nowhere",)
    assert "1 judged ids are chunks" in given.notes[0]


def test_where_all_ids_are_chunks_chunks_are_ranked_unless_documents_are_wanted(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", '{"query": "a", "relevant_ids": ["d3:4", "d3:5", "d9:1"]}\n')
    shelf = Shelf({"d3": "d3"}, {"d3:4": "d3", "d3:5": "d3"})
    given, _ = match_items(read_ranking_set(path, None), shelf)
    assert given.level == "chunk"
    assert given.unknown == ("d9:1",)
    by_document, _ = match_items(read_ranking_set(path, None), shelf, "document")
    assert by_document.qrels.judgements[query_id_from_text("a")] == {"d3": 1, "d9:1": 1}


def test_qrels_that_fit_nothing_in_the_collection_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", '{"query": "a", "relevant_ids": ["x", "y"]}\n')
    with pytest.raises(InputError, match="None of the 2 judged ids \\(x, y\\)"):
        match_items(read_ranking_set(path, None), Shelf({}, {}))


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
rankings = st.dictionaries(
    names, st.lists(st.tuples(names, st.floats(-1e6, 1e6)), min_size=1, max_size=8), min_size=1, max_size=4
)


@given(rankings)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_run_written_and_read_again_has_the_same_order_and_scores(
    tmp_path: Path, found: dict[str, list[tuple[str, float]]]
) -> None:
    run = Run("tag", {query: best_first(items) for query, items in found.items()})
    write_run(tmp_path / "run", run)
    again = read_run(tmp_path / "run")
    for query in found:
        assert again.items(query) == run.items(query)
        scores = [np.float32(ranked.score) for ranked in again.rankings[query]]
        assert scores == [np.float32(ranked.score) for ranked in run.rankings[query]]


@given(st.lists(st.tuples(st.integers(0, 20).map(str), st.floats(-1e5, 1e5)), max_size=20))
def test_scores_of_a_ranking_fall_strictly_and_the_first_place_of_an_item_counts(
    items: list[tuple[str, float]],
) -> None:
    ranking = best_first(items)
    scores = [ranked.score for ranked in ranking]
    assert all(first > second for first, second in itertools.pairwise(scores))
    assert [ranked.item for ranked in ranking] == list(dict.fromkeys(item for item, _ in items))


def test_ids_with_spaces_become_one_column(tmp_path: Path) -> None:
    run = Run("my pipeline", {"q 1": best_first([("A paper 100%.pdf", 1.0), ("plain%20.pdf", 0.5)])})
    text = format_run(run)
    assert text.splitlines()[0].split() == ["q%201", "Q0", "A%20paper%20100%25.pdf", "1", "1", "my%20pipeline"]
    assert text.splitlines()[1].split()[2] == "plain%20.pdf"
    path = write(tmp_path / "q", "q 0 A%20paper%20100%25.pdf 1\n")
    topics = write(tmp_path / "t.tsv", "q\tsome words\n")
    given, names_of = match_items(read_ranking_set(topics, path), Shelf({"A paper 100%.pdf": "d1"}, {}))
    assert given.unknown == ()
    assert names_of == {"d1": "A%20paper%20100%25.pdf"}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 Q0 d 1 0.5", "line 2: a run has six columns .*, this line 5"),
        ("1 Q0 d 1 high tag", "line 2: the score must be a number, not 'high'"),
        ("1 Q0 d0 2 0.4 tag", "line 2: d0 is already ranked for query 1"),
    ],
)
def test_a_wrong_line_of_a_run_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(InputError, match=f"run, {complaint}"):
        read_run(write(tmp_path / "run", f"1 Q0 d0 1 0.5 tag\n{line}\n"))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "out", "old")

    def full_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(InputError, match="No space left"):
        write_output_file(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    with pytest.raises(InputError, match="cannot be written"):
        write_output_file(tmp_path / "no" / "out", "new")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a file"):
        write_output_file(tmp_path / "pipe", "new")
    assert (tmp_path / "pipe").is_fifo()


def test_several_runs_get_a_file_each(tmp_path: Path) -> None:
    assert run_file_paths(tmp_path / "r.run", ["bm25"]) == {"bm25": tmp_path / "r.run"}
    assert run_file_paths(tmp_path / "r.run", ["bm25", "hybrid:pool=50,reranker=a/b"]) == {
        "bm25": tmp_path / "r.bm25.run",
        "hybrid:pool=50,reranker=a/b": tmp_path / "r.hybrid-pool=50-reranker=a-b.run",
    }
    assert run_file_paths(tmp_path / "{name}.trec", ["bm25"]) == {"bm25": tmp_path / "bm25.trec"}


def test_renaming_two_ids_of_one_document_keeps_the_better_grade() -> None:
    qrels = Qrels({"1": {"a": 0, "b": 2}})
    assert qrels.renamed({"b": "a"}).judgements == {"1": {"a": 2}}


def test_a_json_line_that_is_hostile_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", '{"query": ' + "[" * 200_000 + "\n")
    with pytest.raises(InputError, match="line 1: "):
        read_labelled_questions(path)
