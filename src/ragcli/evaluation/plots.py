"""Plot quality against latency, recall by depth, and gate reliability, with matplotlib.

matplotlib comes with the extra `plot`; this is the one part of an evaluation that needs it.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragcli.atomic_files import write_output_file
from ragcli.errors import MissingExtra, UsageError
from ragcli.evaluation.ir_metrics import recall_curve
from ragcli.evaluation.run_comparison import RunComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ragcli.evaluation.gate_evaluation import GateReport

RECALL_DEPTHS: Final = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
PLOT_SUFFIXES: Final = (".svg", ".html", ".png")

_COLOURS: Final = ("#3b6fb6", "#c8553d", "#2f8f6b", "#8a5fb0", "#b58b1b", "#4d4d4d", "#d077a6", "#1f9bb4")
_MARKERS: Final = "osD^vPX*"

# Times and salts in the file would make each drawing differ from the last.
_SETTINGS: Final = {"svg.hashsalt": "ragcli", "svg.fonttype": "none", "font.size": 10.0, "axes.titlesize": 11.0}


def check_plot(path: Path) -> None:
    """Refuse early what could only fail after the work. Raises UsageError or MissingExtra."""
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise UsageError(f"--plot draws {', '.join(PLOT_SUFFIXES)}; '{path.name}' ends in none of them.")
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise MissingExtra("--plot needs matplotlib; `pip install 'ragcli[plot]'` brings it.") from None


def write_plot(path: Path, comparison: RunComparison) -> None:
    """Draw the comparison into an .svg, .png or self-contained .html file, whole or not at all."""
    title = f"{comparison.given.name}: {', '.join(result.label for result in comparison.results)}"
    _write_figure(path, lambda: _comparison_figure(comparison), title)


def write_reliability(path: Path, reports: Sequence[GateReport], name: str) -> None:
    """Draw what became of the gates' probabilities; as `write_plot`."""
    _write_figure(path, lambda: _reliability_figure(reports), f"{name}: reliability of the gate")


def _write_figure(path: Path, draw: Callable[[], Figure], title: str) -> None:
    check_plot(path)
    import matplotlib as mpl

    settings: Any = dict(_SETTINGS)
    with mpl.rc_context(settings):
        drawing = draw()
        suffix = path.suffix.lower()
        data = _rendered(drawing, "png" if suffix == ".png" else "svg")
    if suffix == ".html":
        data = _html_page(data.decode("utf-8"), title).encode("utf-8")
    write_output_file(path, data)


def _reliability_figure(reports: Sequence[GateReport]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
    for at, report in enumerate(reports):
        bins = report.bins or ()
        axes.plot(
            [each.expected for each in bins],
            [each.found for each in bins],
            color=_series_colour(at),
            marker=_MARKERS[at % len(_MARKERS)],
            markersize=6,
            label=_escape_mathtext(report.judge if report.ece is None else f"{report.judge} (error {report.ece:.3f})"),
        )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("probability given")
    axes.set_ylabel("share that could be answered")
    axes.set_title("Reliability of the gate")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="upper left", fontsize=9)
    return figure


def _comparison_figure(comparison: RunComparison) -> Figure:
    from matplotlib.figure import Figure

    timed = any(result.cost for result in comparison.results)
    figure = Figure(figsize=(11 if timed else 6, 4.6), layout="constrained")
    axes = figure.subplots(1, 2 if timed else 1, squeeze=False)[0]
    if timed:
        _draw_quality(axes[0], comparison)
    _draw_recall(axes[-1], comparison)
    return figure


def _draw_quality(axes: Axes, comparison: RunComparison) -> None:
    measure = comparison.measures[0]
    timed = [(at, result, result.cost) for at, result in enumerate(comparison.results) if result.cost]
    middle = math.sqrt(min(cost.p50 for *_, cost in timed) * max(cost.p95 for *_, cost in timed))
    for at, result, cost in timed:
        value = result.scores.means[measure]
        axes.errorbar(
            cost.p50,
            value,
            xerr=[[0.0], [max(cost.p95 - cost.p50, 0.0)]],
            color=_series_colour(at),
            marker=_MARKERS[at % len(_MARKERS)],
            markersize=8,
            elinewidth=1,
            capsize=2,
        )
        # Names run towards the middle, so that none leaves the drawing.
        right = cost.p50 > middle
        axes.annotate(
            _escape_mathtext(result.label),
            (cost.p50, value),
            textcoords="offset points",
            xytext=(-7, 6) if right else (7, 6),
            ha="right" if right else "left",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("latency of a query in ms: median, and bar to the 95th percentile")
    axes.set_ylabel(_escape_mathtext(measure))
    axes.set_title("Quality against latency")
    axes.margins(x=0.2, y=0.15)
    axes.grid(visible=True, alpha=0.3)


def _draw_recall(axes: Axes, comparison: RunComparison) -> None:
    reach = max((len(ranking) for result in comparison.results for ranking in result.run.rankings.values()), default=1)
    depths = [depth for depth in RECALL_DEPTHS if depth <= max(reach, 10)]
    for at, result in enumerate(comparison.results):
        curve = recall_curve(result.run, comparison.given.qrels, depths)
        axes.plot(
            list(curve),
            list(curve.values()),
            color=_series_colour(at),
            marker=_MARKERS[at % len(_MARKERS)],
            markersize=4,
            label=_escape_mathtext(result.label),
        )
    axes.set_xscale("log")
    ticks = [depth for depth in (1, 3, 5, 10, 30, 100) if depth <= depths[-1]]
    axes.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(f"depth in {comparison.given.level}s")
    axes.set_ylabel("recall")
    axes.set_title("Recall against depth")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="lower right", fontsize=9)


def _rendered(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    settings: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 160}
    figure.savefig(buffer, format=kind, **settings)
    return buffer.getvalue()


def _html_page(svg: str, title: str) -> str:
    title = html.escape(title)
    drawing = svg[svg.index("<svg") :]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{margin:2rem auto;max-width:72rem;font-family:sans-serif}svg{width:100%;height:auto}</style>\n"
        f"</head><body>\n<h1>{title}</h1>\n{drawing}\n</body></html>\n"
    )


def _escape_mathtext(text: str) -> str:
    # matplotlib reads dollar signs as mathematics, and SVG has no control characters.
    return "".join(each if each.isprintable() else "\ufffd" for each in text).replace("$", r"\$")


def _series_colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]
