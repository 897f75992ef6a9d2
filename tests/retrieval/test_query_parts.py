"""A question taken apart, and passages cut to what answers it, as a person asks for it."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli_calls import Ragcli
from tests.support.llm_server import LlmServer, llm_server
from tests.support.notes import model, of, places, ragcli

__all__ = ["model", "places", "ragcli"]


# parts


def test_a_comparison_is_taken_apart_without_a_model_and_shown_by_its_parts(ragcli: Ragcli) -> None:
    question = ("query", "compare a sketch with a drug dose", "-c", "notes", "--decompose", "--top", "4")
    answer = ragcli(*question, "--json")
    assert answer.err == ""
    hits = answer.json
    parts = list(dict.fromkeys(hit["sub_question"] for hit in hits))
    assert sorted(parts) == ["a drug dose", "a sketch"]
    assert [hit["sub_question"] for hit in hits] == sorted((hit["sub_question"] for hit in hits), key=parts.index)
    best = {part: next(hit for hit in hits if hit["sub_question"] == part) for part in parts}
    assert Path(best["a sketch"]["source"]).stem == "sketch"
    assert Path(best["a drug dose"]["source"]).stem == "drug"
    assert sorted(hit["rank"] for hit in hits) == [1, 2, 3, 4]
    assert hits[0]["rank"] == 1
    shown = ragcli(*question).out
    assert shown.index("a sketch\n") < shown.index("sketch.md")
    assert shown.index("a drug dose\n") < shown.index("drug.md")
    assert "4 hits" in shown


def test_every_part_gets_its_best_hit_however_few_are_shown(ragcli: Ragcli) -> None:
    question = ("query", "What is a vote? What is a sketch? What is a dose?", "-c", "notes", "--decompose", "--json")
    hits = ragcli(*question, "--top", "3").json
    assert {hit["sub_question"] for hit in hits} == {"What is a vote?", "What is a sketch?", "What is a dose?"}
    for part in ("What is a vote?", "What is a sketch?", "What is a dose?"):
        best = ragcli("query", part, "-c", "notes", "--json", "--top", "1").json[0]
        assert best["chunk_id"] in {hit["chunk_id"] for hit in hits}


def test_a_question_that_is_one_stays_one(ragcli: Ragcli) -> None:
    question = ("query", "distinct words in a stream", "-c", "notes", "--json")
    assert ragcli(*question, "--decompose").json == ragcli(*question).json


def test_a_language_model_takes_a_question_apart(ragcli: Ragcli, model: LlmServer) -> None:
    answer = ragcli("query", "sketches and drugs", "-c", "notes", "--decompose", "--json", *of(model))
    assert {hit["sub_question"] for hit in answer.json} == {"what is a sketch", "what does a drug dose do"}


def test_copies_in_several_collections_are_one_hit_whichever_part_finds_them(ragcli: Ragcli) -> None:
    question = ("query", "compare a sketch with a drug dose", "-c", "notes", "-c", "again", "--json", "--top", "8")
    hits = ragcli(*question, "--decompose").json
    assert len({hit["text"] for hit in hits}) == len(hits) == 8


def test_hits_can_be_grouped_by_document_after_merging(ragcli: Ragcli) -> None:
    question = (
        "query",
        "compare a leader with a wing",
        "-c",
        "long",
        "-c",
        "notes",
        "--json",
        "--decompose",
        "--group",
    )
    hits = ragcli(*question, "--top", "3").json
    assert len({hit["document_id"] for hit in hits}) == len(hits) == 3


def test_a_filter_holds_for_every_query_that_is_asked(ragcli: Ragcli) -> None:
    question = ("query", "compare a leader with a wing", "-c", "notes", "--json", "--decompose", "--expand", "rm3")
    hits = ragcli(*question, "--where", 'file ~ "e"', "--top", "8").json
    assert hits
    assert all("e" in Path(hit["source"]).stem for hit in hits)
    assert any("e" not in Path(hit["source"]).stem for hit in ragcli(*question, "--top", "8").json)


# shorter passages


def test_a_passage_is_cut_to_the_sentences_that_answer_in_their_order(ragcli: Ragcli, places: Path) -> None:
    question = ("query", "how is a leader of the cluster elected by vote", "-c", "long", "--top", "1", "--json")
    whole = ragcli(*question).json[0]
    short = ragcli(*question, "--compress", "extractive").json[0]
    assert len(short["text"]) < len(whole["text"]) / 2
    assert "A leader of the cluster is elected by a vote of the servers." in short["text"]
    assert "fish" not in short["text"]
    kept = [whole["text"][each["start"] : each["end"]] for each in short["kept"]]
    assert kept
    assert [each["start"] for each in short["kept"]] == sorted(each["start"] for each in short["kept"])
    assert short["text"].split(" … ") == kept or short["text"] == " ".join(kept)
    assert {"rank", "score", "chunk_id", "scores"} <= short.keys()
    assert short["score"] == whole["score"]


def test_a_heading_is_no_sentence_that_answers(ragcli: Ragcli) -> None:
    hits = ragcli("query", "on the leader", "-c", "notes", "--compress", "extractive", "--json", "--top", "8").json
    assert not [hit["text"] for hit in hits if hit["text"].startswith("#")]


def test_a_cross_encoder_that_reranks_also_picks_the_sentences(ragcli: Ragcli, places: Path) -> None:
    answer = ragcli(
        *("query", "leader", "-c", "long", "--compress", "extractive", "--json", "--top", "1"),
        *("--reranker", str(places / "cross")),
    )
    assert answer.json[0]["reranker"] == str(places / "cross")
    assert 1 <= len(answer.json[0]["kept"]) <= 4


def test_what_is_left_of_a_passage_stands_on_the_pages_that_it_is_on(ragcli: Ragcli) -> None:
    whole = ragcli("query", "leader", "-c", "long", "--json", "--top", "9").json
    assert {(hit["page_start"], hit["page_end"]) for hit in whole} >= {(1, 2)}
    short = ragcli("query", "the wing is new", "-c", "long", "--json", "--top", "9", "--compress", "extractive").json
    for hit in short:
        pages = [each["page"] for each in hit["kept"]]
        assert hit["page_start"] == min(pages)
        assert hit["page_end"] >= max(pages)
    assert any(hit["text"].endswith("The wing is new.") and hit["page_start"] == 2 for hit in short)


def test_a_language_model_can_pick_sentences_but_add_none(ragcli: Ragcli, model: LlmServer) -> None:
    answer = ragcli("query", "vote", "-c", "long", "--compress", "llm", "--json", "--top", "1", *of(model))
    hit = answer.json[0]
    assert hit["text"] == "A new term begins with a vote for the leader."
    assert len(hit["kept"]) == 1


def test_a_model_whose_picks_are_not_in_the_passage_leaves_it_to_the_reranker(ragcli: Ragcli) -> None:
    with llm_server('{"sentences": ["It never rains in the cluster."]}') as server:
        answer = ragcli("query", "vote", "-c", "long", "--compress", "llm", "--json", "--top", "1", *of(server))
    extractive = ragcli("query", "vote", "-c", "long", "--compress", "extractive", "--json", "--top", "1")
    assert answer.json == extractive.json
    assert answer.err == ""
