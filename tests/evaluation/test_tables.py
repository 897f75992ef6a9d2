"""A comparison as tables, JSON, changes per query and drawings."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ragcli.errors import MissingExtra, UsageError
from ragcli.evaluation.comparison_report import (
    comparison_record,
    comparison_table,
    format_latex,
    format_markdown,
    format_size,
    latex_escape,
    p_value_table,
)
from ragcli.evaluation.pipeline_spec import parse_specs
from ragcli.evaluation.run_comparison import RunComparison, RunCost, compare_runs, query_changes, score_run
from ragcli.evaluation.topics_qrels_runs import EvaluationSet, Qrels, Run, Topic, best_first

QUERIES = 12
MEASURES = ("RR@10", "R@1")


@pytest.fixture(scope="module")
def comparison() -> RunComparison:
    """`good` finds every answer first, `poor` second but for one query, `same` as `poor` does."""
    queries = [f"q{number:02}" for number in range(QUERIES)]
    given = EvaluationSet(
        name="tiny_set",
        format="beir",
        level="document",
        topics=tuple(Topic(query, f"question {query}") for query in queries),
        qrels=Qrels({query: {f"a{query}": 1} for query in queries}),
        split="test",
        unjudged=(Topic("u", "unjudged", answerable=False),),
        unknown=("nowhere",),
    )

    def run(name: str, *, first: bool) -> Run:
        return Run(
            name,
            {
                query: best_first(
                    [(f"a{query}", 2.0), ("x", 1.0)] if first != (query == "q00") else [("x", 2.0), (f"a{query}", 1.0)]
                )
                for query in queries
            },
        )

    results = [
        score_run(run("good", first=True), given, MEASURES, cost=RunCost(2.5, 4.0, QUERIES, 14_300_000, 0)),
        score_run(run("poor_50%", first=False), given, MEASURES, cost=RunCost(30.0, 55.0, QUERIES, 999, 90_000_000)),
        score_run(run("same", first=False), given, MEASURES, reranker="org/late"),
    ]
    return compare_runs(given, MEASURES, results, baseline="poor_50%")


def test_letters_mark_only_what_is_significantly_better(comparison: RunComparison) -> None:
    assert comparison.marks == {"good": "a", "poor_50%": "b", "same": "c"}
    assert comparison.outperformed("good", "RR@10") == ("poor_50%", "same")
    assert comparison.outperformed("poor_50%", "RR@10") == ()
    assert comparison.outperformed("same", "RR@10") == ()


def test_change_is_the_difference_to_the_baseline(comparison: RunComparison) -> None:
    good = (11 * 1.0 + 0.5) / 12
    poor = (11 * 0.5 + 1.0) / 12
    assert comparison.change("good", "RR@10") == pytest.approx(good - poor)
    assert comparison.change("same", "RR@10") == 0.0
    assert comparison.change("poor_50%", "RR@10") is None


def test_an_unknown_baseline_is_refused(comparison: RunComparison) -> None:
    with pytest.raises(UsageError, match="'nope' is not among what is compared"):
        compare_runs(comparison.given, MEASURES, comparison.results, baseline="nope")


def test_markdown_has_a_row_a_pipeline_with_marks_changes_and_costs(comparison: RunComparison) -> None:
    lines = format_markdown(comparison_table(comparison)).splitlines()
    assert lines[0] == "|  | pipeline | RR@10 | R@1 | Δ RR@10 | p50 ms | p95 ms | index | models |"
    assert lines[1].count("|") == lines[0].count("|")
    assert lines[2] == (
        "| a | good | **0.958**<sup>bc</sup> | **0.917**<sup>bc</sup> | +0.417 (+76.9%) | 2.5 | 4.0 | 14.3 MB | – |"
    )
    assert lines[3] == r"| b | poor\_50% | 0.542 | 0.083 | – | 30.0 | 55.0 | 999 B | 90.0 MB |"
    assert lines[4].startswith("| c | same (late) |")
    text = "\n".join(lines)
    assert "12 queries, 12 judgements" in text
    assert "Left out: 1 queries without judgements" in text
    assert "not in the collection: 1 ids (nowhere)" in text


def test_latex_escapes_what_it_would_act_on(comparison: RunComparison) -> None:
    text = format_latex(comparison_table(comparison))
    assert r"poor\_50\% & 0.542" in text
    assert r"\textbf{0.958}$^{bc}$" in text
    assert r"$\Delta$ RR@10" in text
    assert text.count(r"\\") == 4
    assert latex_escape("a\\b{c}^~#&$") == r"a\textbackslash{}b\{c\}\textasciicircum{}\textasciitilde{}\#\&\$"


def test_p_values_of_every_pair_are_there(comparison: RunComparison) -> None:
    table = p_value_table(comparison)
    assert len(table.rows) == 3 * len(MEASURES)
    assert [cell.text for cell in table.rows[1]][:3] == ["good − same", "RR@10", "+0.4167"]


def test_json_has_every_documented_key_and_survives_a_round_trip(comparison: RunComparison) -> None:
    value = comparison_record(comparison, {"good": parse_specs("hybrid:pool=50")[0]}, per_query=["good"])
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert set(value) == {"data", "measures", "pipelines", "significance", "baseline", "gate", "per_query"}
    good, poor, same = value["pipelines"]
    assert (good["pipeline"], good["options"]) == ("hybrid", {"pool": 50})
    assert good["better_than"]["RR@10"] == ["poor_50%", "same"]
    assert good["cost"]["latency_ms"] == {"p50": 2.5, "p95": 4.0}
    assert poor["change"] is None
    assert (same["cost"], same["reranker"]) == (None, "org/late")
    assert value["data"]["answerable"] == {"yes": 0, "no": 1, "unsaid": QUERIES}
    assert len(value["significance"]["pairs"]) == 6
    first = value["per_query"][0]["queries"][0]
    assert (first["query_id"], first["difference"], first["first_relevant"]) == ("q00", -0.5, 2)
    assert first["baseline"] == {"label": "poor_50%", "value": 1.0, "top": ["aq00", "x"], "first_relevant": 1}


def test_json_without_per_query_says_so(comparison: RunComparison) -> None:
    assert comparison_record(comparison, {})["per_query"] is None


def test_queries_come_worst_first(comparison: RunComparison) -> None:
    found = query_changes(comparison, "good", "RR@10")
    assert found[0].query_id == "q00"
    assert [each.difference for each in found] == sorted(each.difference or 0.0 for each in found)
    assert found[-1].text == "question q11"
    alone = query_changes(comparison, "poor_50%", "RR@10")
    assert all(each.baseline is None for each in alone)
    assert alone[-1].query_id == "q00"


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (999, "999 B"), (14_300_000, "14.3 MB"), (2 * 10**11, "200 GB")]
)
def test_sizes_in_words(count: int, words: str) -> None:
    assert format_size(count) == words


class TestDrawings:
    def test_an_svg_is_well_formed_names_the_pipelines_and_is_the_same_each_time(
        self, comparison: RunComparison, tmp_path: Path
    ) -> None:
        plots = pytest.importorskip("ragcli.evaluation.plots")
        pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
        for name in ("a.svg", "b.svg"):
            plots.write_plot(tmp_path / name, comparison)
        text = (tmp_path / "a.svg").read_text()
        ET.fromstring(text)  # noqa: S314
        assert "poor_50%" in text
        assert "Recall against depth" in text
        assert text == (tmp_path / "b.svg").read_text()

    def test_html_stands_alone_and_png_is_a_picture(self, comparison: RunComparison, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
        from ragcli.evaluation.plots import write_plot

        write_plot(tmp_path / "a.html", comparison)
        page = (tmp_path / "a.html").read_text()
        assert "<svg" in page
        assert not re.search(r"(?:src|href)=\"https?:", page)
        write_plot(tmp_path / "a.png", comparison)
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")

    def test_another_suffix_is_refused_before_anything_is_drawn(
        self, comparison: RunComparison, tmp_path: Path
    ) -> None:
        from ragcli.evaluation.plots import write_plot

        with pytest.raises(UsageError, match=r"\.svg, \.html, \.png"):
            write_plot(tmp_path / "a.pdf", comparison)
        assert list(tmp_path.iterdir()) == []

    def test_without_matplotlib_the_extra_is_named(
        self, comparison: RunComparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from ragcli.evaluation.plots import write_plot

        monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
        with pytest.raises(MissingExtra, match=r"ragcli\[plot\]"):
            write_plot(tmp_path / "a.svg", comparison)
