"""The gate's judges on real collections: what passes, what does not, and what the numbers depend on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.collection_builders import READ_HERE, prose
from tests.support.tiny_models import tiny_encoder

from ragcli.collection import Collection, IngestOptions, ingest_jsonl
from ragcli.errors import CollectionError, UsageError
from ragcli.grounding import Decision, gather_evidence, open_judge
from ragcli.grounding.sufficiency.calibration_models import (
    Logistic,
    Term,
    decode_calibration,
    default_calibration,
    encode_calibration,
)
from ragcli.grounding.sufficiency.features import features_of
from ragcli.grounding.sufficiency.fitting import (
    LabelledFeatures,
    fit_collection_calibration,
    fit_default_calibration,
    fit_logistic,
)
from ragcli.grounding.sufficiency.pool_statistics import measure_pools
from ragcli.models import load_encoder
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher
from ragcli.types import CollectionSettings

TEXTS = {
    "worm": "a traversable wormhole needs negative average null energy in its throat",
    "energy": "the null energy condition in quantum field gravity is not a bound",
    "raft": "leader election and the replicated log of a server cluster reach consensus by vote",
    "sketch": "estimate the distinct count of a stream with little memory by hash registers",
    "flow": "boundary layer flow and shock on a supersonic wing with heat and drag",
    "cells": "a vaccine trial against a virus in mouse cells",
    **{f"other{n}": prose(n, 40) for n in range(8)},
}
ON_TOPIC = "does a traversable wormhole need negative energy"
OFF_TOPIC = "zyx qwv kjh fgd"


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGCLI_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
        yield tiny_encoder(tmp_path_factory.mktemp("models") / "encoder")


def collect(data: Path, name: str, settings: CollectionSettings, texts: dict[str, str]) -> Collection:
    collection = Collection.create(data, name, settings)
    lines = [json.dumps({"id": key, "text": text}).encode() + b"\n" for key, text in texts.items()]
    ingest_jsonl(collection, lines, lambda: load_encoder(settings.encoder), IngestOptions(read=READ_HERE))
    return collection


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory, encoder_folder: Path) -> Collection:
    settings = CollectionSettings(encoder=str(encoder_folder))
    return collect(tmp_path_factory.mktemp("data"), "papers", settings, TEXTS)


def decide(collection: Collection, judge: str, question: str, preset: str = "balanced") -> Decision:
    with Searcher([collection]) as searcher:
        evidence = gather_evidence(searcher, QueryRequest(question))
        return open_judge(judge, [collection]).judge(evidence, preset)  # type: ignore[arg-type]


@pytest.mark.parametrize("judge", ["calibrated", "heuristic"])
def test_a_question_that_the_documents_answer_scores_above_one_that_they_do_not(papers: Collection, judge: str) -> None:
    near, far = decide(papers, judge, ON_TOPIC), decide(papers, judge, OFF_TOPIC)
    assert near.score > far.score
    assert (near.judge, far.judge) == (judge, judge)
    assert not far.passed
    assert set(far.reasons) <= {"LOW_TOP_SCORE", "LOW_COVERAGE", "NO_MARGIN", "NO_CONSENSUS", "NO_EVIDENCE"}
    assert far.explanation.endswith(".")
    assert 0.0 <= far.score <= near.score <= 1.0


@pytest.mark.parametrize("question", ["the of and", "a", "why?", "\u200b a", "😀😀", "What is it, and how?"])
def test_a_question_without_a_word_that_tells_its_subject_is_not_answerable(papers: Collection, question: str) -> None:
    decision = decide(papers, "calibrated", question, "lenient")
    assert (decision.passed, decision.score, decision.reasons) == (False, 0.0, ("LOW_COVERAGE",))
    assert decision.explanation == "The question has no word that says what it is about."


def test_presets_change_the_threshold_and_nothing_else(papers: Collection) -> None:
    found = [decide(papers, "calibrated", ON_TOPIC, preset) for preset in ("strict", "balanced", "lenient")]
    assert len({each.score for each in found}) == 1
    assert [each.threshold for each in found] == sorted({each.threshold for each in found}, reverse=True)
    assert all(each.passed == (each.score >= each.threshold) for each in found)
    assert [each.reasons == ("PASS",) for each in found] == [each.passed for each in found]


def test_the_hand_set_weights_are_those_of_the_gate_they_come_from(papers: Collection) -> None:
    decision = decide(papers, "heuristic", ON_TOPIC)
    features = decision.features
    weighed = 0.35 * features["top_score"] + 0.30 * features["coverage"]
    assert decision.score == pytest.approx(weighed + 0.20 * features["margin"] + 0.15 * features["support"])
    # The best passage has half for being first, 0.3 for the words and 0.2 for a pair of them side by side.
    assert features["top_score"] == pytest.approx(0.5 + 0.3 * 4 / 5 + 0.2)
    assert decision.threshold == 0.55


def test_how_the_hits_were_found_does_not_change_what_is_thought_of_them(papers: Collection) -> None:
    with Searcher([papers]) as searcher:
        judge = open_judge("calibrated", [papers])
        scores = set()
        for request in (
            QueryRequest(ON_TOPIC),
            QueryRequest(ON_TOPIC, pipeline="bm25", top=1),
            QueryRequest(f"{ON_TOPIC} throat throat throat", expansion=(("throat", 3.0),)),
        ):
            scores.add(round(judge.judge(gather_evidence(searcher, request, question=ON_TOPIC)).score, 9))
    assert len(scores) == 1


def test_a_hit_outside_the_pool_joins_it(papers: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.grounding.sufficiency.pool_statistics.JUDGED_CANDIDATES", 2)
    with Searcher([papers]) as searcher:
        request = QueryRequest(ON_TOPIC, top=12, reranker="late")
        hits = searcher.query(request).hits
        (narrow,) = measure_pools(searcher, request, ON_TOPIC)
        (wide,) = measure_pools(searcher, request, ON_TOPIC, hits)
    assert len(narrow) < len(wide) == len(hits)
    assert wide.vectors is not None
    assert wide.vectors.matches.shape == (len(wide), len(wide.vectors.weights))


@pytest.mark.parametrize("with_encoder", [True, False])
def test_a_collection_of_one_passage_can_answer_a_question_too(
    encoder_folder: Path, tmp_path: Path, with_encoder: bool
) -> None:
    settings = CollectionSettings(encoder=str(encoder_folder) if with_encoder else "none")
    one = collect(tmp_path, "one", settings, {"worm": TEXTS["worm"]})
    assert decide(one, "calibrated", "does a wormhole need negative energy in its throat").passed
    assert not decide(one, "calibrated", OFF_TOPIC).passed
    with Searcher([one]) as searcher:
        degraded = gather_evidence(searcher, QueryRequest(ON_TOPIC)).degraded
    assert degraded is not None
    assert "only one passage" in degraded


def test_a_collection_without_an_encoder_is_judged_by_words(tmp_path: Path) -> None:
    bare = collect(tmp_path, "bare", CollectionSettings(encoder="none"), TEXTS)
    with Searcher([bare]) as searcher:
        evidence = gather_evidence(searcher, QueryRequest(ON_TOPIC))
        decision = open_judge("calibrated", [bare]).judge(evidence)
    assert "dense_top" not in decision.features
    assert evidence.degraded is not None
    assert "bare" in evidence.degraded
    nothing = decide(bare, "calibrated", OFF_TOPIC)
    assert (nothing.passed, nothing.score, nothing.reasons) == (False, 0.0, ("NO_EVIDENCE",))


def test_without_kept_token_vectors_passages_are_encoded_and_measure_much_the_same(
    papers: Collection, encoder_folder: Path, tmp_path: Path
) -> None:
    settings = CollectionSettings(encoder=str(encoder_folder), token_vectors="none")
    without = collect(tmp_path, "without", settings, TEXTS)
    measured = []
    for collection in (papers, without):
        with Searcher([collection]) as searcher:
            (pool,) = measure_pools(searcher, QueryRequest(ON_TOPIC), ON_TOPIC)
            measured.append(features_of(pool))
    kept, encoded = measured
    assert kept.keys() == encoded.keys()
    assert kept["dense_top"] == pytest.approx(encoded["dense_top"], abs=0.02)
    assert kept["late_top"] == pytest.approx(encoded["late_top"], abs=0.02)


def test_several_collections_are_as_sure_as_the_surest(
    papers: Collection, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tiny_encoder(tmp_path_factory.mktemp("models") / "another", seed=9)
    texts = {key: text for key, text in TEXTS.items() if key not in ("worm", "energy")}
    second = collect(tmp_path, "second", CollectionSettings(encoder=str(other)), texts)
    alone = decide(papers, "calibrated", ON_TOPIC)
    with Searcher([second, papers]) as searcher:
        both = open_judge("calibrated", [second, papers]).judge(gather_evidence(searcher, QueryRequest(ON_TOPIC)))
    assert both.score >= alone.score - 1e-9


def test_an_empty_collection_has_no_evidence(tmp_path: Path) -> None:
    empty = Collection.create(tmp_path, "empty", CollectionSettings(encoder="none"))
    for judge in ("calibrated", "heuristic"):
        decision = decide(empty, judge, ON_TOPIC)
        assert (decision.passed, decision.reasons) == (False, ("NO_EVIDENCE",))


def test_a_judge_that_there_is_not_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'oracle'.*calibrated, heuristic"):
        open_judge("oracle", [])


# Models


def observations(count: int = 60, seed: int = 3) -> list[LabelledFeatures]:
    random = np.random.default_rng(seed)
    made = []
    for group in range(count):
        label = ("answerable", "hard", "easy")[group % 3]
        height = {"answerable": 2.0, "hard": 1.5, "easy": 0.0}[label]
        step = {"answerable": 1.0, "hard": 0.0, "easy": 0.0}[label]
        features = {
            "late_top": height + random.normal() * 0.5,
            "fused_ahead5": step + random.normal() * 0.5,
            "always": 1.0,
        }
        made.append(LabelledFeatures(features, label, group))  # type: ignore[arg-type]
    return made


def test_a_model_gives_the_probabilities_that_scikit_learn_gives() -> None:
    from sklearn.linear_model import LogisticRegression

    seen = observations()
    truth = np.asarray([each.answerable for each in seen])
    model = fit_logistic([each.features for each in seen], truth, ["late_top", "fused_ahead5", "always"], 0.3)
    assert [term.name for term in model.terms] == ["late_top", "fused_ahead5"]
    table = np.asarray([[each.features["late_top"], each.features["fused_ahead5"]] for each in seen])
    scaled = np.clip((table - table[truth].mean(axis=0)) / table.std(axis=0), -4, 4)
    expected = LogisticRegression(C=0.3, max_iter=3000).fit(scaled, truth).predict_proba(scaled)[:, 1]
    assert [model.probability(each.features) for each in seen] == pytest.approx(expected.tolist(), abs=1e-6)


def test_two_models_tell_what_is_off_the_subject_from_what_is_missing() -> None:
    fitted = fit_default_calibration(observations(), "vectors")
    by_label = {
        label: np.mean([p for p, each in zip(fitted.probabilities, observations(), strict=True) if each.label == label])
        for label in ("answerable", "hard", "easy")
    }
    assert by_label["answerable"] > by_label["hard"] > by_label["easy"]
    calibration = fitted.calibration
    assert calibration.topic.probability({"late_top": 1.8, "fused_ahead5": 0.0}) > 0.8
    assert calibration.fact.probability({"late_top": 1.8, "fused_ahead5": 0.0}) < 0.5


def test_a_model_that_each_sort_of_stranger_takes_in_is_less_sure_of_the_next() -> None:
    # Strangers of one sort are low in the one measure, those of the other in the other: each sort alone teaches
    # nothing of the other, and that is what a third may do.
    random = np.random.default_rng(5)
    told, untold = [], []
    for at, each in enumerate(observations(120)):
        sort = ("", "high", "wide")[0 if each.label != "easy" else 1 + at % 2]
        features = {
            "late_top": random.normal() * 0.5 + (0.0 if sort == "high" else 2.0),
            "dense_top": random.normal() * 0.5 + (0.0 if sort == "wide" else 2.0),
            "fused_ahead5": each.features["fused_ahead5"],
        }
        told.append(replace(each, features=features, sort=sort))
        untold.append(replace(each, features=features))
    stranger = {"late_top": 1.2, "dense_top": 1.2, "fused_ahead5": 0.0}
    of_one_sort, of_two = (fit_default_calibration(each, "vectors").calibration.topic for each in (untold, told))
    subject = {"late_top": 2.0, "dense_top": 2.0, "fused_ahead5": 0.0}
    assert of_one_sort.logit(subject) - of_one_sort.logit(stranger) > 2 * (
        of_two.logit(subject) - of_two.logit(stranger)
    )


def test_a_calibration_survives_writing_and_reading() -> None:
    own = fit_collection_calibration(
        fit_default_calibration(observations(), "vectors").calibration, observations(seed=4), encoder="f" * 64
    )
    assert decode_calibration(encode_calibration(own.calibration)) == own.calibration
    assert own.calibration.own is not None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1}', "null", '{"format": 99, "kind": "vectors"}', "[" * 100_000]
)
def test_what_is_no_calibration_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(CollectionError, match="--calibrate-gate"):
        decode_calibration(text)


def test_numbers_that_are_none_are_refused() -> None:
    whole = json.loads(encode_calibration(default_calibration("vectors")))
    for wrong in (float("nan"), float("inf"), "much", None):
        with pytest.raises(CollectionError):
            decode_calibration(json.dumps({**whole, "topic": {**whole["topic"], "intercept": wrong}}))
    for beyond in ('{"questions": 1e999}', '{"topic": {"intercept": 1' + "0" * 400 + ', "terms": []}}'):
        with pytest.raises(CollectionError):
            decode_calibration(json.dumps({**whole, **json.loads(beyond)}))
    with pytest.raises(CollectionError):
        decode_calibration(json.dumps({**whole, "thresholds": {"strict": 0.5}}))


def test_the_shipped_calibrations_know_every_feature_there_is(papers: Collection, tmp_path: Path) -> None:
    with Searcher([papers]) as searcher:
        (pool,) = measure_pools(searcher, QueryRequest(ON_TOPIC), ON_TOPIC)
    for kind, measured in (
        ("vectors", features_of(pool)),
        ("words", features_of(replace(pool, vectors=None))),
    ):
        calibration = default_calibration(kind)  # type: ignore[arg-type]
        names = {term.name for model in (calibration.topic, calibration.fact) for term in model.terms}
        assert names <= measured.keys()
        assert calibration.thresholds["strict"] > calibration.thresholds["balanced"] > calibration.thresholds["lenient"]


def test_no_feature_however_far_out_outweighs_the_rest() -> None:
    model = Logistic((Term("a", 0.0, 1.0, 1.0), Term("b", 0.0, 1.0, 1.0)), 0.0)
    assert model.logit({"a": 1e9, "b": -3.0}) == 1.0
    assert model.probability({"a": -1e9, "b": -1e9}) > 0.0
