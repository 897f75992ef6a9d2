"""The loop of `ask`: search, judge, search in other words, and what becomes of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.collection_builders import new_collection, take_in, write_files

from ragcli.errors import LanguageModelError, UsageError
from ragcli.grounding.answers import Answer, cited_sentences, write_answer
from ragcli.grounding.ask import REVIEW_BAND, AskResult, ask
from ragcli.grounding.extractive_answer import extract_answer, extract_writer
from ragcli.grounding.faithfulness.claims import Claim, Support
from ragcli.grounding.sufficiency.evidence import Decision, Evidence, Preset
from ragcli.llm.chat_model import Message
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher

NOTES = {
    "raft.md": "Raft elects a leader by randomized timeouts. The leader replicates the log to all servers.",
    "terms.md": "A leader is elected for one term. Randomized timeouts keep split votes rare.",
    "paxos.md": "Randomized timeouts, leases and quorums.",
    "funnel.md": "The ship had four funnels. The fourth funnel was there for looks and for air.",
}
QUESTION = QueryRequest("how is a leader elected")


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    folder = tmp_path_factory.mktemp("ask")
    collection = new_collection(folder, encoder="none")
    take_in(collection, write_files(folder / "notes", NOTES))
    with Searcher([collection]) as opened:
        yield opened


@dataclass
class ScriptedJudge:
    """Gives the scores it was told to, one after another; the threshold is 0.5."""

    scores: list[float]
    judged: list[Evidence] = field(default_factory=list)
    name: str = "scripted"

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:  # noqa: ARG002
        self.judged.append(evidence)
        score = self.scores[len(self.judged) - 1]
        passed = score >= 0.5
        reason = "PASS" if passed else "LOW_COVERAGE"
        return Decision(passed, score, 0.5, (reason,), "Because.", {"coverage": score}, self.name)  # type: ignore[arg-type]


def verdict(searcher: Searcher, *scores: float, **options: object) -> AskResult:
    return ask(searcher, QUESTION, judge=ScriptedJudge(list(scores)), **options)  # type: ignore[arg-type]


def test_a_question_that_passes_is_answerable_at_once(searcher: Searcher) -> None:
    result = verdict(searcher, 0.9)
    assert (result.verdict, result.trace.stopped, len(result.trace.attempts)) == ("answerable", "passed", 1)
    assert {hit.chunk.source for hit in result.hits} >= {"raft.md", "terms.md"}
    assert result.trace.attempts[0].stages[-1].stage == "judge"


def test_a_question_that_fails_is_searched_for_in_other_words_and_may_pass(searcher: Searcher) -> None:
    judge = ScriptedJudge([0.2, 0.8])
    result = ask(searcher, QUESTION, judge=judge)
    assert (result.verdict, result.trace.chosen, result.trace.stopped) == ("answerable", 1, "passed")
    assert result.trace.attempts[0].added == ()
    assert "timeouts" in dict(result.trace.attempts[1].added)
    assert "paxos.md" in [hit.chunk.source for hit in result.hits]


def test_the_judge_always_judges_the_question_that_was_asked(searcher: Searcher) -> None:
    judge = ScriptedJudge([0.1, 0.2, 0.3])
    result = ask(searcher, QueryRequest("leader elected", pipeline="tfidf"), judge=judge)
    assert len({each.query for each in result.trace.attempts}) > 1
    assert {each.question for each in judge.judged} == {"leader elected"}


def test_there_are_two_retries_at_most(tmp_path: Path) -> None:
    chain = {"a.md": "A leader is elected by timeouts.", "b.md": "Timeouts or leases.", "c.md": "Leases or clocks."}
    collection = new_collection(tmp_path, encoder="none")
    take_in(collection, write_files(tmp_path / "notes", chain))
    with Searcher([collection]) as searcher:
        result = verdict(searcher, 0.1, 0.2, 0.3, 0.4)
        assert (result.verdict, result.trace.stopped) == ("insufficient", "no retries left")
        assert [each.decision.score for each in result.trace.attempts] == [0.1, 0.2, 0.3]
        # Each search reached one note further than the one before it.
        assert [len(each.evidence) for each in result.trace.attempts] == [1, 2, 3]
        assert len(verdict(searcher, 0.1, retries=0).trace.attempts) == 1
        with pytest.raises(UsageError, match="retries"):
            verdict(searcher, 0.1, retries=3)


def test_a_retry_that_gains_next_to_nothing_is_the_last_and_the_best_attempt_counts(searcher: Searcher) -> None:
    result = verdict(searcher, 0.3, 0.305, 0.9)
    assert (result.trace.stopped, len(result.trace.attempts), result.trace.chosen) == ("no gain", 2, 1)
    assert verdict(searcher, 0.3, 0.2, 0.9).trace.chosen == 0


def test_without_any_hit_there_is_nothing_to_add(searcher: Searcher) -> None:
    result = ask(searcher, QueryRequest("zebra crossing"), judge=ScriptedJudge([0.0, 0.9]))
    assert (result.verdict, result.hits, result.trace.stopped) == ("insufficient", (), "nothing to add")


def test_an_override_lets_the_question_through_and_is_recorded(searcher: Searcher) -> None:
    result = verdict(searcher, 0.1, retries=0, override=True)
    assert (result.verdict, result.trace.overridden, result.decision.passed) == ("answerable", True, False)
    assert not verdict(searcher, 0.9, override=True).trace.overridden


def test_passing_by_a_hairs_breadth_wants_a_second_look(searcher: Searcher) -> None:
    close = verdict(searcher, 0.5 + REVIEW_BAND / 2)
    assert close.verdict == "needs_review"
    assert "0.0" in close.review[0]
    assert verdict(searcher, 0.5 + REVIEW_BAND).verdict == "answerable"


def test_a_collection_without_an_encoder_is_degraded_and_says_so(searcher: Searcher) -> None:
    assert "papers" in str(verdict(searcher, 0.9).trace.degraded)


def test_fewer_hits_may_be_shown_than_are_judged(searcher: Searcher) -> None:
    judge = ScriptedJudge([0.9])
    result = ask(searcher, QueryRequest(QUESTION.text, top=1), judge=judge)
    assert len(result.hits) == 1
    assert len(judge.judged[0].hits) > 1


def said(text: str, by: str = "model") -> Answer:
    return Answer(text, by, 3, sentences=cited_sentences(text))


def test_insufficient_means_that_no_writer_is_called(searcher: Searcher) -> None:
    calls: list[AskResult] = []

    def writer(result: AskResult) -> Answer:
        calls.append(result)
        return said("It is so [1].")

    assert verdict(searcher, 0.1, retries=0, writers=[writer]).answer is None
    assert calls == []
    assert verdict(searcher, 0.1, retries=0, writers=[writer], override=True).answer is not None
    assert len(calls) == 1


def test_a_sentence_that_cites_nothing_flips_the_verdict(searcher: Searcher) -> None:
    good = verdict(searcher, 0.9, writers=[lambda _: said("It is so [1]. And so [2].")])
    bad = verdict(searcher, 0.9, writers=[lambda _: said("It is so [1]. And so on.")])
    assert (good.verdict, good.review) == ("answerable", ())
    assert (bad.verdict, bad.review) == ("needs_review", ("1 of the answer's 2 sentences cites nothing.",))
    assert [stage.stage for stage in bad.trace.stages] == ["answer"]


@dataclass
class ScriptedCheck:
    """Finds unsupported what has one of these words, or fails like a language model that is away."""

    words: tuple[str, ...] = ()
    away: bool = False
    name: str = "scripted"

    def judge(self, claims: Sequence[Claim]) -> tuple[Support, ...]:
        if self.away:
            raise LanguageModelError("The judge is away.")
        return tuple(Support(each.text, not any(word in each.text for word in self.words), 0.5) for each in claims)


def test_an_unsupported_sentence_flips_the_verdict_and_is_listed(searcher: Searcher) -> None:
    writers = [lambda _: said("A leader is elected [1]. Nine ships sank [2].")]
    result = verdict(searcher, 0.9, writers=writers, judges=[ScriptedCheck(("Nine",))])
    assert result.verdict == "needs_review"
    assert result.faithfulness is not None
    assert [each.claim for each in result.faithfulness.unsupported] == ["Nine ships sank."]
    assert [stage.stage for stage in result.trace.stages] == ["answer", "check"]
    assert verdict(searcher, 0.9, writers=writers, judges=[ScriptedCheck()]).verdict == "answerable"


def test_where_a_language_model_fails_the_next_writer_and_judge_stand_in_with_a_warning(searcher: Searcher) -> None:
    def away(_: AskResult) -> Answer:
        raise LanguageModelError("The model is away.")

    result = verdict(
        searcher,
        0.9,
        writers=[away, extract_writer(searcher)],
        judges=[ScriptedCheck(away=True), ScriptedCheck()],
    )
    assert result.answer is not None
    assert result.answer.by == "extract"
    assert result.trace.warnings == ("The model is away.", "The judge is away.")
    nobody = verdict(searcher, 0.9, writers=[away, extract_writer(searcher)], judges=[ScriptedCheck(away=True)])
    assert nobody.verdict == "needs_review"


@dataclass
class EchoModel:
    """Answers with what it was told to, and keeps what it was asked."""

    answer: str
    asked: list[str] = field(default_factory=list)
    name: str = "echo"

    def complete(self, messages: Sequence[Message], **_: object) -> str:
        self.asked.append(messages[-1].text)
        return self.answer


def test_a_model_sees_the_numbered_passages_and_what_it_cites_beyond_them_is_removed(searcher: Searcher) -> None:
    hits = searcher.query(QueryRequest("leader elected", top=2)).hits
    model = EchoModel("By timeouts [1]. By magic [3].")
    answer = write_answer("who is elected?", hits, model)
    assert (answer.text, answer.removed, answer.uncited) == ("By timeouts [1]. By magic.", 1, ("By magic.",))
    (asked,) = model.asked
    assert f"[1] {hits[0].chunk.source}" in asked
    assert hits[1].chunk.text in asked
    assert asked.index("[1]") < asked.index("[2]") < asked.index("Question: who is elected?")


def test_a_prompt_of_ones_own_replaces_ours_and_nothing_in_a_passage_is_a_placeholder(tmp_path: Path) -> None:
    collection = new_collection(tmp_path, encoder="none")
    take_in(collection, write_files(tmp_path / "notes", {"a.md": "The price is $question for each leader."}))
    model = EchoModel("So [1].")
    with Searcher([collection]) as searcher:
        hits = searcher.query(QueryRequest("leader price")).hits
        write_answer("how much?", hits, model, prompt="Q=$question P=$passages")
    assert model.asked[0].startswith("Q=how much? P=[1]")
    assert "The price is $question" in model.asked[0]


def test_an_extract_is_word_for_word_and_each_sentence_cites_its_passage(searcher: Searcher) -> None:
    hits = searcher.query(QueryRequest("leader elected for a term")).hits
    answer = extract_answer(searcher, "for how long is a leader elected", hits)
    assert answer is not None
    assert "A leader is elected for one term." in answer.text
    for sentence, quote in zip(answer.sentences, answer.quotes, strict=True):
        hit = hits[sentence.citations[0] - 1]
        assert quote.chunk_id == hit.chunk.chunk_id
        assert sentence.text == f"“{hit.chunk.text[quote.start : quote.end]}” [{hit.rank}]"
    assert not answer.uncited


def test_an_extract_says_a_thing_once_asks_nothing_and_keeps_to_its_length(tmp_path: Path) -> None:
    collection = new_collection(tmp_path, encoder="none")
    notes = {
        "a.md": "The leader is elected by a vote of the servers. Who is the leader? The leader sends beats.",
        "b.md": "As we said, the leader is elected by a vote of the servers. A leader may fail at any time.",
    }
    take_in(collection, write_files(tmp_path / "notes", notes))
    with Searcher([collection]) as searcher:
        hits = searcher.query(QueryRequest("leader elected vote")).hits
        many = extract_answer(searcher, "who is the leader elected by a vote", hits, most=9)
        one = extract_answer(searcher, "who is the leader elected by a vote", hits, most=1)
        none = extract_answer(searcher, "who", ())
    assert many is not None
    assert one is not None
    assert many.text.count("by a vote of the servers") == 1
    assert "?" not in many.text
    assert len(one.sentences) == 1
    assert none is None
