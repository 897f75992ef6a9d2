"""Sentences against the passages they cite: what is supported, what is not, and what is named as missing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.collection_builders import new_collection, take_in, write_files
from tests.support.llm_server import Fault, llm_server
from tests.support.tiny_models import tiny_encoder

from ragcli.errors import LanguageModelError, UsageError
from ragcli.grounding.answers import Answer, answer_faithfulness, cited_sentences
from ragcli.grounding.faithfulness.claims import Claim, EvidencePassage, FaithfulnessJudge, Support, check_faithfulness
from ragcli.grounding.faithfulness.facts import differences, facts_of, quantities, same_value
from ragcli.grounding.judge_registry import open_faithfulness_judge
from ragcli.llm.cached_client import open_language_model
from ragcli.llm.usage_budget import LanguageModelSettings
from ragcli.types import Hit, StoredChunk

PASSAGE = (
    "Our system was tested on 1,800 machines in August 2004. Each leader sends heartbeats to its followers every "
    "50 ms, and a follower that hears nothing for 300 ms starts an election. The index does not need a lock. "
    "Latency was higher in Dublin than in Seattle, where 42.5% of all requests were served. "
    "Recall rose from 0.61 to 0.83 when IL-6 was measured too."
)
ABOUT = "A Note on Zeta › Measurements"


def judged(sentence: str, judge: FaithfulnessJudge | None = None, passage: str = PASSAGE) -> Support:
    (support,) = (judge or open_faithfulness_judge()).judge([Claim(sentence, (EvidencePassage(passage, ABOUT),))])
    return support


@pytest.mark.parametrize(
    "sentence",
    [
        "Each leader sends heartbeats to its followers every 50 ms.",
        "In August 2004 the system was tested on 1800 machines.",
        "The authors tested their system on 1,800 machines.",
        "In Seattle 42.5 percent of all requests were served.",
        "Zeta's index does not need a lock.",
        "When IL6 was measured too, recall rose from 0.61 to 0.83.",
        "A follower starts an election when it hears nothing for 300 milliseconds.",
    ],
)
def test_a_sentence_said_otherwise_is_supported(sentence: str) -> None:
    support = judged(sentence)
    assert support.supported, support
    assert support.missing == ()
    assert 0.5 <= support.score <= 1


@pytest.mark.parametrize(
    ("sentence", "missing"),
    [
        ("Each leader sends heartbeats to its followers every 500 ms.", "500 ms"),
        ("Each leader sends heartbeats to its followers every 50 s.", "50 s"),
        ("The system was tested on 1,900 machines in August 2004.", "1,900"),
        ("Each leader sends heartbeats to its followers every 300 ms.", "300 ms"),
        ("The index needs a lock.", "lock"),
        ("Each leader does not send heartbeats to its followers every 50 ms.", "not send"),
        ("Latency was lower in Dublin than in Seattle.", "lower"),
        ("Latency was higher in Lisbon than in Seattle.", "Lisbon"),
        ("Recall rose from 0.61 to 0.83 when IL-8 was measured too.", "IL-8"),
        ("The moon is made of green cheese.", "moon"),
    ],
)
def test_one_changed_fact_is_caught_and_named(sentence: str, missing: str) -> None:
    support = judged(sentence)
    assert not support.supported, support
    assert any(missing in each or each in missing for each in support.missing), support.missing


def test_the_verdict_says_where_the_best_passage_speaks_of_it() -> None:
    passages = (EvidencePassage("Fish swim in the sea and eat what they find there."), EvidencePassage(PASSAGE))
    (support,) = open_faithfulness_judge().judge([Claim("The index does not need a lock.", passages)])
    assert support.passage == 1
    assert "The index does not need a lock." in PASSAGE[support.start : support.end]


@pytest.mark.parametrize("passages", [(), (EvidencePassage(""),), (EvidencePassage(" \n "),)])
def test_without_a_passage_nothing_is_supported(passages: tuple[EvidencePassage, ...]) -> None:
    for name in ("semantic", "heuristic"):
        (support,) = open_faithfulness_judge(name).judge([Claim("The index does not need a lock.", passages)])
        assert not support.supported


@pytest.mark.parametrize("sentence", ["", "?", "…", "— — —", "\x00", "1", "a" * 5000, "x. " * 400, "不需要锁。"])
def test_whatever_is_claimed_gets_a_verdict(sentence: str) -> None:
    for name in ("semantic", "heuristic"):
        assert 0 <= judged(sentence, open_faithfulness_judge(name)).score <= 1


def test_a_passage_that_is_one_endless_line_is_read_in_pieces() -> None:
    passage = "word " * 20_000 + "the index does not need a lock"
    assert judged("The index does not need a lock.", passage=passage).supported


def test_vectors_of_the_collection_are_used_where_there_are_some(tmp_path: Path) -> None:
    """With a collection's encoder, a word that means the same weighs less than one that does not."""
    from tests.support.collection_builders import HashEncoder

    from ragcli.grounding.faithfulness.semantic import SemanticJudge, TokenVectors

    judge = SemanticJudge(TokenVectors(HashEncoder()))
    assert judged("The index does not need a lock.", judge).supported
    assert not judged("Wholly other words stand in this line.", judge).supported


@pytest.mark.parametrize(
    "written",
    ["“{}”", '"{}"', "‘{}’", "«{}»", "*{}*", "— {}", "> {}", "[...] {}", "• {}"],
)
def test_a_quotation_is_supported_as_its_words_are(written: str, tmp_path: Path) -> None:
    from ragcli.grounding.faithfulness.semantic import SemanticJudge, TokenVectors
    from ragcli.models import load_encoder

    judge = SemanticJudge(TokenVectors(load_encoder(str(tiny_encoder(tmp_path / "encoder")))))
    said = "The index does not need a lock."
    plain, quoted = judged(said, judge), judged(written.format(said), judge)
    assert plain.supported
    assert quoted.score == pytest.approx(plain.score, abs=0.05)


def test_a_collection_without_an_encoder_is_judged_by_words(tmp_path: Path) -> None:
    from ragcli.retrieval.searcher import Searcher

    collection = new_collection(tmp_path, encoder="none", token_vectors="none")
    take_in(collection, write_files(tmp_path / "notes", {"zeta.md": PASSAGE}))
    with Searcher([collection]) as searcher:
        judge = open_faithfulness_judge(searcher=searcher)
        assert judged("The index does not need a lock.", judge).supported
        assert not judged("The index needs no fewer than 7 locks.", judge).supported


def test_the_heuristic_counts_shared_words_and_knows_no_more() -> None:
    judge = open_faithfulness_judge("heuristic")
    short = "Each leader sends heartbeats to its followers every 50 ms."
    assert judged(short, judge, short).score == 1
    assert judged("Each leader sends heartbeats to followers every 51 ms.", judge, short).supported
    assert judged("The moon is made of cheese.", judge, short).missing == ("moon", "made", "cheese")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1,800", "1800", True),
        ("two", "2", True),
        ("40 %", "40 percent", True),
        ("0.4", "40%", True),
        ("41.2", "41.23", True),
        ("41.3", "41.23", False),
        ("4", "4.3", False),
        ("3 million", "3,000,000", True),
        ("10 ms", "10 seconds", True),
        ("-5", "5", False),
    ],
)
def test_numbers_are_compared_as_values(one: str, other: str, same: bool) -> None:
    (claimed,), (known,) = quantities(f"it is {one}"), quantities(f"it is {other}")
    assert same_value(claimed, known) is same


@pytest.mark.parametrize("text", ["IL-6", "p53", "the B2B case", "COVID-19"])
def test_a_number_in_a_name_is_no_number(text: str) -> None:
    assert quantities(text) == []


def test_not_only_denies_nothing_and_a_clause_ends_a_denial() -> None:
    assert differences(facts_of("It is not only fast but small."), facts_of("It is fast and small.")).denials == ()
    known = facts_of("It keeps logs (which carry no entries) and maintains authority.")
    assert differences(facts_of("It maintains authority."), known).denials == ()


def chunk(text: str, number: int = 1) -> StoredChunk:
    return StoredChunk(
        number, f"d{number}:0", f"d{number}", "papers", f"{number}.md", None, None, text, 0, 0, len(text), 1, 1, None
    )


@pytest.mark.parametrize(
    ("sentence", "missing"),
    [
        ("A leader is elected by a minority of the machines.", "minority"),
        ("The log is copied in a synchronous way to all of them.", "synchronous"),
        ("The store holds 3 terabytes of logs.", "3 terabytes"),
        ("The logs go back by 2 decades.", "2 decades"),
    ],
)
def test_an_opposite_or_another_unit_is_no_other_word_for_the_same(sentence: str, missing: str) -> None:
    passage = (
        "A leader is elected by a majority of the machines. The log is copied in an asynchronous way to all of them. "
        "The store holds 3 petabytes of logs. The logs go back by 2 centuries."
    )
    support = judged(sentence, passage=passage)
    assert not support.supported
    assert missing in support.missing


def test_an_answer_is_held_against_what_each_sentence_cites() -> None:
    hits = [
        Hit(rank, chunk(text, rank), 1.0, "fused", 0.0, None, {})
        for rank, text in enumerate(("The index does not need a lock.", "Every leader sends heartbeats."), 1)
    ]
    text = (
        "# Answer\n\nThe index does not need a lock [1]. Every leader sends heartbeats [1]. "
        "Every leader sends heartbeats."
    )
    answer = Answer(text, "test", 2, sentences=cited_sentences(text))
    found = answer_faithfulness(answer, hits, open_faithfulness_judge())
    assert [each.supported for each in found.sentences] == [True, False, True]
    assert [each.claim for each in found.unsupported] == ["Every leader sends heartbeats."]
    assert 0 < found.score < 1
    assert check_faithfulness([], open_faithfulness_judge()).score == 1


def test_an_answer_in_markdown_is_judged_by_its_words() -> None:
    hits = [
        Hit(1, chunk("A candidate with the votes of a majority becomes the leader.", 1), 1.0, "fused", 0.0, None, {})
    ]
    text = (
        "- **A candidate with the votes of a majority** becomes the `leader` [1].\n"
        "- *A candidate with the votes of 7 machines* becomes the leader [1]."
    )
    answer = Answer(text, "test", 1, sentences=cited_sentences(text))
    found = answer_faithfulness(answer, hits, open_faithfulness_judge())
    assert [(each.claim, each.supported) for each in found.sentences] == [
        ("A candidate with the votes of a majority becomes the leader.", True),
        ("A candidate with the votes of 7 machines becomes the leader.", False),
    ]


def llm_judge(base_url: str, **more: Any) -> FaithfulnessJudge:
    model = open_language_model(LanguageModelSettings(base_url, "judge", timeout=5.0))
    return open_faithfulness_judge("llm", model=model, **more)


def test_a_language_model_judges_by_the_prompt() -> None:
    def respond(request: dict[str, Any]) -> str:
        asked = request["messages"][-1]["content"]
        supported = "does not need a lock" in asked.split("Sentence:")[1]
        return f"Sure: {json.dumps({'supported': supported, 'missing': ['seven locks']})}"

    with llm_server(respond) as server:
        judge = llm_judge(server.base_url)
        assert judged("The index does not need a lock.", judge).supported
        support = judged("The index needs seven locks.", judge)
        assert (support.supported, support.missing, support.passage) == (False, ("seven locks",), 0)
        own = llm_judge(server.base_url, prompt="Mine. Sentence: $sentence")
        assert judged("It does not need a lock.", own).supported
    assert PASSAGE in server.prompts[0]
    assert server.prompts[-1] == "Mine. Sentence: It does not need a lock."


@pytest.mark.parametrize("reply", ["I would say yes.", '{"verdict": 1}', '{"supported": "perhaps"}', Fault(status=400)])
def test_a_language_model_that_does_not_say_is_no_judge(reply: Any) -> None:
    with llm_server(reply) as server, pytest.raises(LanguageModelError):
        judged("The index does not need a lock.", llm_judge(server.base_url))


def test_an_unknown_judge_and_one_without_its_model_are_refused() -> None:
    with pytest.raises(UsageError, match="'oracle'"):
        open_faithfulness_judge("oracle")
    with pytest.raises(UsageError, match="language model"):
        open_faithfulness_judge("llm")


@pytest.mark.slow
@pytest.mark.skipif(
    "RAGCLI_TEST_DATA" not in os.environ, reason="RAGCLI_TEST_DATA names the papers to make sentences of"
)
def test_the_semantic_judge_tells_changed_facts_on_real_papers() -> None:
    """By words alone, which takes seconds; the script measures it with vectors too."""
    import sys

    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "bench"))
    try:
        from faithfulness import auc, claim_of, made_sentences
    finally:
        sys.path.pop(0)
    import numpy as np

    made = made_sentences(Path(os.environ["RAGCLI_TEST_DATA"]) / "papers", 100, seed=1)
    labels = np.asarray([each.supported for each in made])
    assert int(labels.sum()) == 100
    assert len(made) == 200
    scores = {
        name: [each.score for each in open_faithfulness_judge(name).judge([claim_of(each) for each in made])]
        for name in ("semantic", "heuristic")
    }
    assert auc(labels, scores["semantic"]) > 0.95
    assert auc(labels, scores["semantic"]) > auc(labels, scores["heuristic"]) + 0.3
