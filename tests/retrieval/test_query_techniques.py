"""Query techniques as a person asks for them: real collections, a tiny encoder, a real server as language model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cli_calls import Ragcli
from tests.support.llm_server import Answer, Fault, LlmServer, llm_server
from tests.support.notes import NOTES, by_technique, model, of, places, ragcli, sources

__all__ = ["model", "places", "ragcli"]


# rm3


def test_rm3_finds_by_words_of_the_best_passages_what_the_question_alone_does_not(ragcli: Ragcli) -> None:
    question = ("query", "leader elected", "-c", "notes", "--pipeline", "bm25", "--json", "--top", "8")
    plain, expanded = sources(ragcli(*question)), sources(ragcli(*question, "--expand", "rm3"))
    assert "sketch" not in plain
    assert set(plain) < set(expanded)
    assert expanded[:2] == plain[:2]


def test_explain_shows_what_was_asked_and_added(ragcli: Ragcli) -> None:
    shown = ragcli("query", "leader elected", "-c", "notes", "--expand", "rm3", "--explain").out
    table = shown[shown.index("Asked") :]
    assert "leader elected" in table
    assert "vote 0." in table
    assert "feedback" in shown


def test_rm3_without_bm25_makes_no_sense(ragcli: Ragcli) -> None:
    answer = ragcli("query", "x", "-c", "notes", "--expand", "rm3", "--pipeline", "dense")
    assert (answer.code, answer.out) == (2, "")
    assert "BM25" in answer.err


# other ways to put it


def test_other_ways_to_ask_bring_what_they_find_and_the_question_stays_dominant(
    ragcli: Ragcli, model: LlmServer
) -> None:
    question = ("query", "boundary layer flow", "-c", "notes", "--json", "--top", "4", "--reranker", "none")
    bm25 = (*question, "--pipeline", "bm25")
    assert sources(ragcli(*bm25)) == ["flow"]
    answer = ragcli(*bm25, "--expand", "llm", *of(model))
    found = sources(answer)
    assert found[0] == "flow"
    assert {"vote", "leader"} <= set(found)
    first = answer.json[0]
    assert first["score_type"] == "fused"
    assert first["score"] >= 1 / 61
    assert [hit["rank"] for hit in answer.json] == [1, 2, 3, 4]


def test_the_limit_of_hits_from_one_document_holds_for_the_merged_ranking(ragcli: Ragcli, model: LlmServer) -> None:
    question = ("query", "leader of the cluster", "-c", "long", "--expand", "llm", *of(model), "--json")
    assert len(ragcli(*question, "--max-per-source", "1").json) == 1


def test_a_model_that_answers_the_same_question_again_is_not_asked_again(ragcli: Ragcli, model: LlmServer) -> None:
    for _ in range(2):
        assert ragcli("query", "leader", "-c", "notes", "--expand", "llm", *of(model)).code == 0
    assert len(model.requests) == 1


# rewriting


@pytest.mark.parametrize(
    "history",
    [
        '[{"role": "user", "content": "What is a sketch?"}, {"role": "assistant", "content": "It counts a stream."}]',
        '{"role": "user", "content": "What is a sketch?"}\n{"role": "assistant", "content": "It counts a stream."}\n',
        '{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is a sketch?"}]},'
        ' {"role": "assistant", "content": "It counts a stream."}]}',
        "user: What is a sketch?\n\nassistant: It counts\na stream.\n",
        "**User:** What is a sketch?\n\n**Assistant:** It counts\n\na stream.\n",
    ],
)
def test_a_question_that_leans_on_a_conversation_is_asked_in_full(
    ragcli: Ragcli, model: LlmServer, tmp_path: Path, history: str
) -> None:
    (tmp_path / "said").write_text(history, encoding="utf-8")
    answer = ragcli(
        *("query", "how many does it count", "-c", "notes", "--json", "--rewrite"),
        *("--history", str(tmp_path / "said"), *of(model)),
    )
    assert sources(answer)[0] == "sketch"
    assert answer.err == "ragcli: asked: how many distinct words does a sketch count\n"
    prompt = model.prompts[0]
    assert "user: What is a sketch?\nassistant: It counts a stream." in prompt
    assert "how many does it count" in prompt


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("Some notes of mine.", "is no conversation"),
        ('[{"role": "user"}]', "turn 1"),
        ('{"role": "user", "content": "x"}\n{"role": ', "line 2"),
        ('[{"role": "user", "content": "x"}', "begins like a JSON list"),
        ('[{"role": "nobody", "content": "x"}]', "turn 1"),
    ],
)
def test_a_history_that_is_none_is_named(ragcli: Ragcli, tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "said").write_text(content, encoding="utf-8")
    answer = ragcli("query", "x", "-c", "notes", "--rewrite", "--history", str(tmp_path / "said"))
    assert (answer.code, answer.out) == (3, "")
    assert complaint in answer.err
    assert str(tmp_path / "said") in answer.err


def test_a_history_is_for_rewriting(ragcli: Ragcli, tmp_path: Path) -> None:
    assert ragcli("query", "x", "-c", "notes", "--history", "said").code == 2


# hypothetical passages


def test_hyde_looks_for_what_resembles_the_imagined_passages(ragcli: Ragcli, model: LlmServer) -> None:
    question = ("query", "what lifts it", "-c", "notes", "--pipeline", "dense", "--json")
    plain, imagined = ragcli(*question), ragcli(*question, "--hyde", *of(model))
    assert sources(imagined)[0] == "flow"
    before = {hit["chunk_id"]: hit["score"] for hit in plain.json}
    best = imagined.json[0]
    assert best["score"] > before.get(best["chunk_id"], 0.0) + 0.1
    assert len(model.requests) == 1


def test_the_number_of_passages_may_be_left_out(ragcli: Ragcli, model: LlmServer) -> None:
    for number, (words, asked) in enumerate(
        [
            (("query", "flow", "--hyde", "3"), 3),
            (("query", "--hyde", "flow of a wing"), 1),
            (("query", "wing", "--hyde"), 1),
            (("query", "boundary", "--hyde=2"), 2),
            (("query", "layer", "--json", "--hyde", "--", "-c"), None),
        ]
    ):
        model.requests.clear()
        answer = ragcli(*words[:1], "-c", "notes", *of(model), *words[1:])
        if asked is None:
            assert answer.code == 2
        else:
            assert (answer.code, len(model.requests)) == (0, asked), (number, answer.err)
    assert len(set(model.prompts)) == len(model.prompts)


@pytest.mark.parametrize("said", ["{}", "[[", "…", "- - -"])
def test_an_imagined_passage_without_a_word_is_none(ragcli: Ragcli, said: str) -> None:
    with llm_server(said) as server:
        answer = ragcli("query", "what lifts a wing", "-c", "notes", "--hyde", *of(server))
    assert answer.code == 0
    assert "wrote no word. The question was asked without --hyde." in answer.err


def test_hyde_is_the_mean_of_the_question_and_the_passages(places: Path) -> None:
    import numpy as np

    from ragcli.collection import Collection
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.searcher import Searcher

    with Searcher([Collection.open(places / "data", "notes")]) as searcher:
        reader = searcher.readers[0]
        encoder = searcher.encoder(reader.settings.encoder)
        texts = ["what lifts it", "The flow over the wing.", "A hash of one value."]
        mean = encoder.encode(texts).mean(axis=0)
        request = QueryRequest(texts[0], pipeline="dense", hypothetical=tuple(texts[1:]), top=8)
        hits = searcher.query(request).hits
        (vector,) = reader.vectors([hits[0].chunk.number])
        assert hits[0].score == pytest.approx(float(vector @ mean / np.linalg.norm(mean)), abs=1e-5)


@pytest.mark.parametrize("words", [("--hyde", "0"), ("--hyde", "9"), ("--hyde", "--pipeline", "bm25")])
def test_hyde_that_makes_no_sense_is_told(ragcli: Ragcli, words: tuple[str, ...]) -> None:
    answer = ragcli("query", "x", "-c", "notes", *words)
    assert (answer.code, answer.out) == (2, "")
    assert "--hyde" in answer.err


def test_hyde_without_vectors_to_compare_with_is_told(ragcli: Ragcli, model: LlmServer, tmp_path: Path) -> None:
    (tmp_path / "wing.md").write_text("Air flows over the wing.", encoding="utf-8")
    assert ragcli("ingest", str(tmp_path / "wing.md"), "-c", "words", "--encoder", "none").code == 0
    answer = ragcli("query", "what lifts a wing", "-c", "words", "--hyde", *of(model))
    assert (answer.code, answer.out) == (2, "")
    assert "without an encoder" in answer.err
    half = ragcli("query", "what lifts a wing", "-c", "words", "-c", "notes", "--hyde", *of(model))
    assert half.code == 0
    assert "--hyde says nothing to words" in half.err
    ragcli("collections", "delete", "words", "--yes")


# ask


def test_ask_shows_its_evidence_by_parts_and_shortened(ragcli: Ragcli) -> None:
    question = ("ask", "compare a sketch with a drug dose", "-c", "notes", "--decompose", "--compress", "extractive")
    answer = ragcli(*question, "--top", "4", "--json")
    evidence = answer.json["evidence"]
    assert [each["rank"] for each in evidence] == [1, 2, 3, 4]
    assert {each["sub_question"] for each in evidence} == {"a sketch", "a drug dose"}
    assert all(each["kept"] for each in evidence)
    assert answer.json["trace"]["asked"]["parts"] == ["a sketch", "a drug dose"]
    shown = ragcli(*question, "--top", "4").out
    assert shown.index("a sketch\n") < shown.index("sketch.md")


def test_ask_goes_on_without_a_model_too(ragcli: Ragcli) -> None:
    question = ("ask", "who elects the leader", "-c", "notes", "--json")
    plain, answer = ragcli(*question), ragcli(*question, "--hyde")
    assert answer.code == plain.code
    assert answer.json["verdict"] == plain.json["verdict"]
    assert answer.json["trace"]["asked"]["without"] == ["--hyde"]
    assert answer.err.count("ragcli: ") == 1


# a model that fails


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=400),
        Fault("malformed"),
        Fault("odd"),
        "I would rather talk about the weather, at length.\n\n\n1\n2\n3\n4",
    ],
)
def test_whatever_a_language_model_does_the_question_is_asked_and_one_warning_told(
    ragcli: Ragcli, fault: Answer
) -> None:
    question = ("query", "who elects the leader", "-c", "notes", "--json")
    plain = ragcli(*question)
    with llm_server(by_technique(queries=fault, questions=fault, rewritten=fault, sentences=fault)) as server:
        answer = ragcli(*question, "--rewrite", "--expand", "llm", "--decompose", *of(server))
    assert answer.code == 0
    assert answer.json == plain.json
    assert answer.err.count("ragcli: ") == 1
    assert "--rewrite" in answer.err
    assert "--expand llm" in answer.err


def test_a_model_that_is_away_is_asked_once_for_all_techniques(ragcli: Ragcli) -> None:
    with llm_server(Fault(status=400)) as server:
        answer = ragcli("query", "leader", "-c", "notes", "--rewrite", "--expand", "llm", "--hyde", "4", *of(server))
        assert answer.code == 0
        assert len(server.requests) == 1


def test_a_server_that_is_not_there_is_one_warning(ragcli: Ragcli) -> None:
    answer = ragcli(
        "query", "leader", "-c", "notes", "--hyde", "--llm-base-url", "http://127.0.0.1:9/v1", "--llm-model", "x"
    )
    assert answer.code == 0
    assert answer.err.count("ragcli: ") == 1
    assert "without --hyde" in answer.err


def test_without_any_model_the_question_is_asked_and_one_warning_told(ragcli: Ragcli) -> None:
    question = ("query", "who elects the leader", "-c", "notes", "--json")
    answer = ragcli(*question, "--hyde", "--rewrite", "--expand", "llm")
    assert answer.json == ragcli(*question).json
    assert answer.err.count("ragcli: ") == 1
    assert "--llm-base-url" in answer.err


def test_the_budget_of_calls_is_kept(ragcli: Ragcli, model: LlmServer) -> None:
    answer = ragcli("query", "leader", "-c", "notes", "--hyde", "4", "--json", *of(model), "--max-llm-calls", "2")
    assert answer.code == 0
    assert len(model.requests) == 2
    assert "--max-llm-calls" in answer.err


def test_options_for_a_language_model_that_nothing_asks_are_a_mistake(ragcli: Ragcli) -> None:
    answer = ragcli("query", "leader", "-c", "notes", "--expand", "rm3", "--llm-model", "x")
    assert answer.code == 2
    assert "--llm-model" in answer.err


def test_prompts_can_be_replaced(ragcli: Ragcli, model: LlmServer, tmp_path: Path) -> None:
    (tmp_path / "here" / "prompts").mkdir()
    (tmp_path / "here" / "prompts" / "hyde.txt").write_text("Write a passage on $question; it is $other.")
    (tmp_path / "here" / "own.toml").write_text(
        f'[llm]\nbase_url = "{model.base_url}"\nmodel = "test"\nprompts = "prompts"\n', encoding="utf-8"
    )
    assert ragcli("--config", "own.toml", "query", "lift $angle", "-c", "notes", "--hyde").code == 0
    assert model.prompts == ["Write a passage on lift $angle; it is $other."]


# comparing them


def test_techniques_are_options_of_pipelines_in_a_comparison(ragcli: Ragcli, model: LlmServer, tmp_path: Path) -> None:
    lines = [
        {"query": "leader elected", "relevant_ids": ["vote.md"]},
        {"query": "what lifts it", "relevant_ids": ["flow.md"]},
        {
            "query": "how many does it count",
            "relevant_ids": ["sketch.md"],
            "history": [{"role": "user", "content": "What is a sketch?"}],
        },
    ]
    questions = tmp_path / "questions.jsonl"
    questions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    specs = "hybrid,hybrid:expand=rm3,hybrid:hyde=2,hybrid:rewrite=yes,bm25:decompose=yes,expand=llm"
    answer = ragcli("eval", str(questions), "-c", "notes", "--compare", specs, "--json", *of(model))
    assert answer.code == 0, answer.err
    rows = {row["label"]: row for row in answer.json["pipelines"]}
    assert list(rows) == specs.replace(",expand", " expand").replace(",", "\n").replace(" ", ",").split("\n")
    assert rows["hybrid:hyde=2"]["options"] == {"hyde": 2}
    assert rows["hybrid:expand=rm3"]["cost"]["queries"] == 3
    assert any("user: What is a sketch?" in prompt for prompt in model.prompts)
    (told,) = [note for note in answer.json["data"]["notes"] if note.startswith("hybrid:hyde=2: ")]
    assert "asked 6 times" in told
    shown = ragcli("eval", str(questions), "-c", "notes", "--compare", "hybrid,hybrid:expand=rm3")
    assert "hybrid:expand=rm3 (late)" in shown.out


def test_a_comparison_says_for_how_many_questions_the_model_failed(ragcli: Ragcli, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    lines = [json.dumps({"query": name, "relevant_ids": [f"{name}.md"]}) for name in NOTES]
    questions.write_text("\n".join(lines), encoding="utf-8")
    with llm_server(Fault(status=400)) as server:
        answer = ragcli(
            *("eval", str(questions), "-c", "notes", "--compare", "bm25,hybrid:hyde=1", "--json"), *of(server)
        )
        assert len(server.requests) == 3
    assert answer.code == 0
    assert any("8 of 8 questions were asked without --hyde" in note for note in answer.json["data"]["notes"]), (
        answer.json["data"]["notes"]
    )


def test_what_is_measured_is_what_a_query_gives(places: Path) -> None:
    from ragcli.collection import Collection
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.searcher import Searcher

    with Searcher([Collection.open(places / "data", "notes")]) as searcher:
        plain = QueryRequest("compare a sketch with a vote", top=8)
        for request in (
            plain,
            replace(plain, decompose=True),
            replace(plain, expand="rm3"),
            replace(plain, expand="rm3", decompose=True),
        ):
            result = searcher.query(request)
            shown = [hit.chunk.chunk_id for hit in result.hits]
            ranked = [chunk.chunk_id for chunk in searcher.ranking(request, plan=result.plan, chunks=8).chunks]
            assert ranked[: len(shown)] == shown


def test_a_program_can_bring_its_own_steps(places: Path) -> None:
    from ragcli.collection import Collection
    from ragcli.errors import LanguageModelError
    from ragcli.retrieval.expansion.query_plan import plan_queries, run_plan
    from ragcli.retrieval.expansion.query_rewriting import TechniqueFunctions
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.searcher import Searcher

    def fails(question: str) -> list[str]:
        raise LanguageModelError("No answer today.")

    with Searcher([Collection.open(places / "data", "notes")]) as searcher:
        steps = TechniqueFunctions(
            rewrite=lambda question, _: question.replace("it", "the sketch"),
            decompose=lambda question: [question, "what is a drug"],
            vary=fails,
        )
        planned = plan_queries(searcher, QueryRequest("what does it count"), steps)
        assert planned.parts == ("what does the sketch count", "what is a drug")
        found = run_plan(searcher, planned, steps)
        assert {group.question for group in found.groups} == set(planned.parts)
        assert found.warnings == ("No answer today. The question was asked without --expand llm.",)
