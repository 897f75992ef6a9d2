"""`ragcli ask`, as a person or a script calls it, with a tiny encoder and a language model on the loopback."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripts.make_papers import write_papers
from tests.support.cli_calls import Ragcli, caller
from tests.support.llm_server import Fault, llm_server
from tests.support.terminals import on_terminal, run
from tests.support.tiny_models import tiny_encoder

KNOWN = "how does the coupling produce negative average null energy on the horizon"
UNKNOWN = "which zebra won the lottery in Vienna"
HEURISTIC = ("--judge", "heuristic", "--preset", "lenient")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the five papers of the demo."""
    folder = tmp_path_factory.mktemp("ask")
    write_papers(folder / "papers")
    encoder = tiny_encoder(folder / "encoder")
    done = run(folder / "data", "ingest", str(folder / "papers"), "-c", "papers", "--encoder", str(encoder))
    assert done.returncode == 0, done.stderr
    return folder / "data"


@pytest.fixture
def ragcli(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ragcli:
    return caller(made, tmp_path, monkeypatch, capsys)


def asked(ragcli: Ragcli, *arguments: str) -> Any:
    called = ragcli("ask", *HEURISTIC, *arguments, "--json")
    assert called.code in (0, 6), called.err
    return called.json


def test_a_question_the_papers_answer_exits_0_with_the_passage_and_its_page(ragcli: Ragcli) -> None:
    called = ragcli("ask", KNOWN, *HEURISTIC)
    assert called.code == 0, called.err
    assert called.out.splitlines()[0].startswith(("Answerable: PASS", "Needs review: PASS"))
    assert "wormhole.pdf, p. 2" in called.out


def test_a_question_the_papers_do_not_answer_exits_6_with_the_reasons(ragcli: Ragcli) -> None:
    called = ragcli("ask", UNKNOWN, *HEURISTIC)
    assert called.code == 6
    assert re.match(r"Insufficient: [A-Z_]+(, [A-Z_]+)* \(0\.\d\d; lenient takes 0\.\d\d\)\n", called.out)
    assert "Evidence" in called.out


@pytest.mark.parametrize("question", [KNOWN, UNKNOWN])
def test_the_calibrated_judge_gives_a_probability(ragcli: Ragcli, question: str) -> None:
    called = ragcli("ask", question, "--json")
    assert called.json["judge"].startswith("calibrated")
    assert 0.0 <= called.json["score"] <= 1.0
    assert called.code == (6 if called.json["verdict"] == "insufficient" else 0)


def test_the_json_is_the_whole_trace(ragcli: Ragcli) -> None:
    record = asked(ragcli, UNKNOWN, "--preset", "strict")
    assert record["verdict"] == "insufficient"
    assert record["preset"] == "strict"
    assert record["reasons"]
    assert record["explanation"]
    assert record["features"]
    assert record["answer"] is record["faithfulness"] is None
    assert {"source", "text", "page_start", "scores"} <= record["evidence"][0].keys()
    trace = record["trace"]
    assert trace["retries"] == len(trace["attempts"]) - 1
    assert trace["stopped"] in ("no retries left", "no gain", "nothing to add")
    assert (trace["overridden"], trace["degraded"]) == (False, None)
    assert trace["seconds"] > 0
    first, last = trace["attempts"][0], trace["attempts"][-1]
    assert first["added"] == []
    assert {"pool", "rerank", "judge"} <= {stage["stage"] for stage in first["stages"]}
    if last is not first:
        assert last["added"][0].keys() == {"word", "weight"}


def test_retries_can_be_forbidden_and_the_judge_overridden(ragcli: Ragcli) -> None:
    record = asked(ragcli, UNKNOWN, "--retries", "0", "--override")
    assert record["verdict"] == "answerable"
    assert record["passed"] is False
    assert record["trace"]["overridden"] is True
    assert len(record["trace"]["attempts"]) == 1
    called = ragcli("ask", UNKNOWN, *HEURISTIC, "--override")
    assert called.code == 0
    assert "The judge was overridden." in called.out
    assert called.out.splitlines()[0].startswith("Answerable (overridden): ")


def test_the_configuration_may_say_how_to_judge(ragcli: Ragcli, tmp_path: Path) -> None:
    (tmp_path / "collections.toml").write_text('[ask]\npreset = "strict"\njudge = "heuristic"\nretries = 0\n')
    record = ragcli("ask", UNKNOWN, "--json").json
    assert (record["preset"], record["judge"], record["trace"]["retries"]) == ("strict", "heuristic", 0)
    assert ragcli("ask", UNKNOWN, "--preset", "lenient", "--json").json["preset"] == "lenient"


def test_an_extract_quotes_the_papers_and_names_the_page(ragcli: Ragcli) -> None:
    called = ragcli("ask", KNOWN, *HEURISTIC, "--extract", "--sentences", "2")
    answer = called.out.split("\nAnswer\n")[1]
    assert 1 <= len(re.findall(r"“[^”]+” \[\d\]\n +\w+\.pdf, p\. \d", answer)) <= 2
    record = asked(ragcli, KNOWN, "--extract")
    for sentence in record["answer"]["sentences"]:
        (number,) = sentence["citations"]
        hit = record["evidence"][number - 1]
        quoted = " ".join(hit["text"][sentence["start"] : sentence["end"]].split())
        assert sentence["text"] == f"“{quoted}” [{number}]"
        assert hit["page_start"] <= sentence["page"] <= hit["page_end"]
    assert record["answer"]["by"] == "extract"


def llm(server: Any) -> tuple[str, ...]:
    return ("--answer", "--llm-base-url", server.base_url, "--llm-model", "test")


def test_a_model_answers_from_the_evidence_and_false_citations_go(ragcli: Ragcli) -> None:
    said = "With the right sign the coupling produces a negative average null energy on the horizon [1]. So it is [9]."
    with llm_server(said) as server:
        record = asked(ragcli, KNOWN, *llm(server))
    answer = record["answer"]
    assert answer["text"].endswith("on the horizon [1]. So it is.")
    assert (answer["by"], answer["removed_citations"], answer["uncited"]) == ("test", 1, ["So it is."])
    assert record["verdict"] == "needs_review"
    assert any("cites nothing" in line for line in record["review"])
    assert record["faithfulness"]["judge"] == "semantic"
    assert record["trace"]["language_model"]["calls"] == 1
    (prompt,) = server.prompts
    assert record["evidence"][0]["text"][:200] in prompt
    assert f"Question: {KNOWN}" in prompt


def test_a_false_sentence_is_found_unsupported(ragcli: Ragcli) -> None:
    with llm_server("The coupling melts all the cheese of Switzerland within 17 days [1].") as server:
        called = ragcli("ask", KNOWN, *HEURISTIC, *llm(server), "--check", "heuristic")
        unchecked = asked(ragcli, KNOWN, *llm(server), "--check", "none")
    assert called.code == 0
    assert called.out.startswith("Needs review: PASS")
    assert "Not supported: The coupling melts all the cheese" in called.out
    assert unchecked["faithfulness"] is None


def test_insufficient_means_that_no_model_is_asked(ragcli: Ragcli) -> None:
    with llm_server() as server:
        called = ragcli("ask", UNKNOWN, *HEURISTIC, *llm(server))
        assert (called.code, server.requests) == (6, [])
        assert "Answer" not in called.out
        overridden = ragcli("ask", UNKNOWN, *HEURISTIC, *llm(server), "--override")
    assert (overridden.code, len(server.requests)) == (0, 1)


def test_a_model_that_fails_costs_a_warning_and_the_extract_stands_in(ragcli: Ragcli) -> None:
    with llm_server(Fault(status=400)) as server:
        called = ragcli("ask", KNOWN, *HEURISTIC, *llm(server))
    assert called.code == 0
    assert called.err.count("\n") == 1
    assert "gave no answer" in called.err
    assert "“" in called.out.split("\nAnswer\n")[1]


@pytest.mark.parametrize("said", ["[1][2]", "[1, 9]", "[9]", "- [Passage 1, Passage 2]."])
def test_an_answer_of_citations_alone_is_none_and_the_extract_stands_in(ragcli: Ragcli, said: str) -> None:
    with llm_server(said) as server:
        called = ragcli("ask", KNOWN, *HEURISTIC, *llm(server))
    assert called.code == 0
    assert called.err == "ragcli: The language model test wrote nothing but citations.\n"
    assert "“" in called.out.split("\nAnswer\n")[1]


def test_a_number_alone_is_checked_like_any_sentence(ragcli: Ragcli) -> None:
    with llm_server("4217 [1].") as server:
        record = asked(ragcli, KNOWN, *llm(server))
    assert record["faithfulness"]["sentences"][0]["missing"] == ["4217"]
    assert record["verdict"] == "needs_review"


def test_a_citation_is_known_however_it_is_written(ragcli: Ragcli) -> None:
    with llm_server("It leaks [Passage 1, Passage 2]. It holds 【1†source】. It melts 【7†source】.") as server:
        record = asked(ragcli, KNOWN, *llm(server), "--check", "none")
    assert record["answer"]["text"] == "It leaks [1, 2]. It holds [1]. It melts."
    assert (record["answer"]["removed_citations"], record["answer"]["uncited"]) == (1, ["It melts."])


def test_the_prompt_can_be_ones_own(ragcli: Ragcli, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("Say it in verse. $passages\nAsked: $question")
    with llm_server("So [1].") as server:
        asked(ragcli, KNOWN, *llm(server), "--prompt", "mine.txt")
    assert server.prompts[0].startswith("Say it in verse. [1]")
    assert server.prompts[0].endswith(f"Asked: {KNOWN}")


def test_on_a_terminal_the_verdict_stands_before_the_answer_which_comes_as_it_is_written(made: Path) -> None:
    with llm_server("It leaks through the bridge [1]. It never melts cheese [8].") as server:
        code, shown = on_terminal(made, "ask", KNOWN, *HEURISTIC, *llm(server), "--check", "none")
        assert server.requests[0].body["stream"] is True
    assert code == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n")
    places = [text.index(part) for part in ("PASS", "Evidence", "\nAnswer\n", "It leaks through the bridge [1].")]
    assert places == sorted(places)
    assert "[8]" not in text
    assert "One citation named no passage and was removed." in text
    assert text.rstrip().splitlines()[-1].startswith("1 of the answer's 2 sentences cites nothing.")


def test_techniques_are_used_and_told_of(ragcli: Ragcli) -> None:
    two = "what is negative energy and how does a random surfer get bored"
    record = asked(ragcli, two, "--decompose", "--expand", "rm3", "--compress", "extractive")
    assert len(record["trace"]["asked"]["parts"]) == 2
    assert record["question"] == two
    whole = asked(ragcli, two, "--decompose", "--expand", "rm3")
    by_id = {hit["chunk_id"]: hit["text"] for hit in whole["evidence"]}
    assert any(len(hit["text"]) < len(by_id[hit["chunk_id"]]) for hit in record["evidence"] if hit["chunk_id"] in by_id)


def test_the_gate_judges_the_question_that_was_made_to_stand_alone(ragcli: Ragcli, tmp_path: Path) -> None:
    (tmp_path / "said.md").write_text("user: tell me of wormholes\n\nassistant: gladly\n")
    with llm_server(KNOWN) as server:
        record = asked(
            ragcli, "and its energy?", "--rewrite", "--history", "said.md",
            "--llm-base-url", server.base_url, "--llm-model", "test",
        )  # fmt: skip
    assert record["question"] == KNOWN
    assert len(server.requests) == 1


@pytest.mark.parametrize("content", ["", " \n\n", "[]", "user:"])
def test_a_conversation_that_has_not_begun_is_no_history(ragcli: Ragcli, tmp_path: Path, content: str) -> None:
    (tmp_path / "said.md").write_text(content)
    with llm_server(KNOWN) as server:
        record = asked(
            ragcli, "and its energy?", "--rewrite", "--history", "said.md",
            "--llm-base-url", server.base_url, "--llm-model", "test",
        )  # fmt: skip
    assert record["verdict"] in ("answerable", "insufficient", "needs_review")


def test_an_empty_collection_has_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "empty.md").write_text("")
    ragcli = caller(tmp_path / "data", tmp_path, monkeypatch, capsys)
    ragcli("ingest", "notes", "-c", "empty", "--encoder", "none")
    called = ragcli("ask", KNOWN, "-c", "empty", "--json")
    assert called.code == 6, called.err
    assert called.json["reasons"] == ["NO_EVIDENCE"]
    with llm_server("It is so [1].") as server:
        overridden = ragcli("ask", KNOWN, "-c", "empty", "--override", "--json", *llm(server))
    assert (overridden.code, server.requests) == (0, [])
    assert overridden.json["answer"] is None


def test_without_an_encoder_the_trace_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.md").write_text("A leader is elected by a vote of the servers.\n")
    ragcli = caller(tmp_path / "data", tmp_path, monkeypatch, capsys)
    ragcli("ingest", "note.md", "-c", "words", "--encoder", "none")
    called = ragcli("ask", "who is elected by a vote of the servers", "-c", "words", "--json")
    assert called.code in (0, 6), called.err
    assert called.json["trace"]["degraded"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--extract", "--answer"], "exclude each other"),
        (["--answer"], "needs a language model"),
        (["--prompt", "x.txt"], "--prompt is for --answer"),
        (["--check", "llm"], "--check is for --answer"),
        (["--sentences", "2"], "--sentences"),
        (["--extract", "--sentences", "0"], "--sentences"),
        (["--preset", "severe"], "strict, balanced, lenient"),
        (["--judge", "nobody"], "calibrated or heuristic"),
        (["--retries", "9"], "--retries"),
        (["--llm-model", "x"], "--llm-model"),
    ],
)
def test_a_call_that_makes_no_sense_is_a_usage_error(ragcli: Ragcli, arguments: list[str], told: str) -> None:
    called = ragcli("ask", KNOWN, *arguments)
    assert called.code == 2
    assert told in called.err
