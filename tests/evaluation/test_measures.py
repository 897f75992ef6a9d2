"""Figures are ir-measures' own; names it does not know are refused with a sentence."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.errors import InputError, MissingExtra, RagcliError, UsageError
from ragcli.evaluation.ir_metrics import DEFAULT_MEASURES, check_measures, recall_curve, score_metrics
from ragcli.evaluation.topics_qrels_runs import Qrels, Run, best_first
from ragcli.evaluation.trec_format import write_run

QRELS = Qrels({"1": {"a": 2, "b": 1, "c": 0}, "2": {"d": 1}, "3": {"e": 1}})
RUN = Run(
    "some",
    {
        "1": best_first([("c", 3.0), ("a", 2.0), ("x", 1.0), ("b", 0.5)]),
        "2": best_first([("d", 9.0)]),
        "9": best_first([("a", 1.0)]),
    },
)


def test_values_worked_out_by_hand() -> None:
    scores = score_metrics(RUN, QRELS, ["nDCG@10", "R@1", "R@3", "RR@10", "AP", "P@5"])
    ideal = 2 / math.log2(2) + 1 / math.log2(3)
    gained = 2 / math.log2(3) + 1 / math.log2(5)
    assert scores.per_query["nDCG@10"] == pytest.approx({"1": gained / ideal, "2": 1.0, "3": 0.0})
    assert scores.per_query["RR@10"] == {"1": 0.5, "2": 1.0, "3": 0.0}
    assert scores.per_query["R@3"] == {"1": 0.5, "2": 1.0, "3": 0.0}
    assert scores.per_query["AP"]["1"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert scores.means["P@5"] == pytest.approx((0.4 + 0.2 + 0.0) / 3)


def test_a_judged_query_without_ranking_counts_as_nothing_found_and_an_unjudged_one_not_at_all() -> None:
    scores = score_metrics(RUN, QRELS, ["R@1"])
    assert set(scores.per_query["R@1"]) == {"1", "2", "3"}
    assert scores.means["R@1"] == pytest.approx(1 / 3)


def test_figures_equal_ir_measures_run_by_hand_on_the_written_files(tmp_path: Path) -> None:
    write_run(tmp_path / "run", RUN)
    (tmp_path / "qrels").write_text("1 0 a 2\n1 0 b 1\n1 0 c 0\n2 0 d 1\n3 0 e 1\n")
    measures = [ir_measures.parse_measure(name) for name in DEFAULT_MEASURES]
    by_hand = ir_measures.calc_aggregate(
        measures,
        list(ir_measures.read_trec_qrels(str(tmp_path / "qrels"))),
        list(ir_measures.read_trec_run(str(tmp_path / "run"))),
    )
    means = score_metrics(RUN, QRELS, DEFAULT_MEASURES).means
    assert means == {str(measure): value for measure, value in by_hand.items()}


items = st.integers(0, 9).map(lambda number: f"d{number}")


@given(
    st.dictionaries(st.sampled_from("abc"), st.dictionaries(items, st.integers(-1, 2), min_size=1), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.tuples(items, st.sampled_from([0.0, 1.0, 2.0])), max_size=9)),
)
@settings(max_examples=40)
def test_figures_lie_between_nothing_and_all_and_no_input_breaks_them(
    judgements: dict[str, dict[str, int]], rankings: dict[str, list[tuple[str, float]]]
) -> None:
    run = Run("r", {query: best_first(found) for query, found in rankings.items()})
    scores = score_metrics(run, Qrels(judgements), DEFAULT_MEASURES)
    for name in DEFAULT_MEASURES:
        assert set(scores.per_query[name]) == set(judgements)
        assert all(0.0 <= value <= 1.0 + 1e-9 for value in scores.per_query[name].values())


def test_ties_do_not_reorder_what_the_system_gave() -> None:
    qrels = Qrels({"1": {"a": 1}})
    first = Run("r", {"1": best_first([("a", 1.0), ("z", 1.0)])})
    last = Run("r", {"1": best_first([("z", 1.0), ("a", 1.0)])})
    names = ["RR", "RR@10", "nDCG@10", "P@1"]
    assert set(score_metrics(first, qrels, names).means.values()) == {1.0}
    assert score_metrics(last, qrels, ["RR", "RR@10"]).means == {"RR": 0.5, "RR@10": 0.5}


@pytest.mark.parametrize("name", ["nDCG@10", "R(rel=2)@5", "Success@1", "Bpref", "Rprec", "NumRel"])
def test_names_of_ir_measures_are_taken(name: str) -> None:
    assert check_measures([name, name]) == (name,)


def test_names_of_trec_eval_are_taken() -> None:
    assert check_measures(["ndcg_cut.10", "map", "P.5,10"]) == ("nDCG@10", "AP", "P@5", "P@10")


@pytest.mark.parametrize("name", ["nDGC@10", "R", "nDCG@ten", "", "__import__('os')", "R@5 + P@5", "foo@3", "P@0.5"])
def test_other_names_are_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_measures([name])
    assert f"'{name}'" in str(raised.value)
    assert "0x" not in str(raised.value)


def test_a_measure_that_needs_another_library_names_it() -> None:
    with pytest.raises(RagcliError) as raised:
        check_measures(["alpha_nDCG@10"])
    assert isinstance(raised.value, MissingExtra)
    assert "ir-measures[pyndeval]" in str(raised.value)


def test_recall_grows_with_depth() -> None:
    curve = recall_curve(RUN, QRELS, (1, 2, 4, 100))
    assert list(curve) == [1, 2, 4, 100]
    assert curve[1] == pytest.approx(1 / 3)
    assert curve[2] == pytest.approx((0.5 + 1.0) / 3)
    assert curve[4] == curve[100] == pytest.approx(2 / 3)


@pytest.mark.skipif(shutil.which("perl") is None, reason="ir-measures computes ERR by a Perl program")
def test_measures_that_are_computed_by_programs_take_any_ids() -> None:
    qrels = Qrels({"q one": {"a paper.pdf": 2}, "two": {"x": 1}})
    run = Run("r", {"q one": best_first([("a paper.pdf", 1.0)])})
    assert check_measures(["ERR@10"]) == ("ERR@10",)
    assert score_metrics(run, qrels, ["ERR@10", "RR"]).per_query == {
        "ERR@10": {"q one": pytest.approx(3 / 16), "two": 0.0},
        "RR": {"q one": 1.0, "two": 0.0},
    }


def test_judgements_that_a_measure_cannot_take_are_a_sentence() -> None:
    qrels = Qrels({"1": {"a": 99}})
    with pytest.raises(InputError, match=r"cannot compute ERR@10 on these judgements"):
        score_metrics(Run("r", {"1": best_first([("a", 1.0)])}), qrels, ["ERR@10"])
