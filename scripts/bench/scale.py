"""Measures what ragcli costs as a collection grows, and writes SCALE.md and its plot.

    scripts/bench/scale [--sizes 10000,100000,1000000] [--work DIR] [--out DIR] [--again LIST]

Each collection is made by `synthetic` if it is not in the work folder, its ingest measured, and then queried and
searched: cold by the command line, warm through the Python API. A million chunks take some 8 GB of disk and, on two
cores, about a quarter of an hour. What was measured is kept as JSON in the work folder, so that one size can be
measured again alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from processes import HERE, ask, cold, machine

BUDGETS = {"cold_query": 2.0, "warm_p50": 0.150, "recall_planted": 0.98, "query_peak": 1.5e9, "cold_grep": 0.5}

ROWS = [
    ("cold `ragcli query`", "cold_query", "s"),
    ("its peak memory", "query_peak", "MB"),
    ("warm query, p50", "warm_p50", "ms"),
    ("warm query, p95", "warm_p95", "ms"),
    ("cold `ragcli grep` of a rare word", "cold_grep", "s"),
    ("its peak memory", "grep_peak", "MB"),
    ("recall@10 of planted questions against the exact scan", "recall_planted", ""),
    ("recall@10 of other vectors against the exact scan", "recall_others", ""),
    ("ingest, without the encoder, CPU time", "ingest_cpu", "s"),
    ("its peak memory", "ingest_peak", "MB"),
    ("disk", "disk", "MB"),
    ("of it the store", "disk_store", "MB"),
    ("of the store the sieves of exact search", "disk_sieves", "MB"),
    ("vectors and their signs", "disk_vectors", "MB"),
    ("token vectors", "disk_tokens", "MB"),
    ("word index", "disk_lexical", "MB"),
]
FACTORS = {"s": 1.0, "ms": 1e3, "MB": 1e-6, "": 1.0}
DIGITS = {"s": 2, "ms": 1, "MB": 0, "": 3}
PLOTTED = [
    ("cold_query", "cold query, s"),
    ("warm_p50", "warm query, s"),
    ("query_peak", "peak memory, GB"),
    ("disk", "disk, GB"),
    ("ingest_cpu", "ingest, CPU min"),
]
PLOT_FACTORS = {"query_peak": 1e-9, "disk": 1e-9, "ingest_cpu": 1 / 60}

Figures = dict[str, float]


def measure(work: Path, size: int, times: int) -> Figures:
    """Make the collection if it is not there, and measure everything about it."""
    name, data, kept = f"s{size}", work / "data", work / f"build-{size}.json"
    if not (data / name / "manifest.json").exists() or not kept.exists():
        tell(f"making {size:,} chunks")
        call = ["--chunks", str(size), "--data-dir", str(data), "-c", name]
        made = subprocess.run([sys.executable, str(HERE / "synthetic.py"), *call], stdout=subprocess.PIPE, check=True)
        kept.write_bytes(made.stdout.strip().splitlines()[-1])
    build: dict[str, Any] = json.loads(kept.read_text("utf-8"))
    tell(f"measuring {build['chunks']:,} chunks")
    ragcli = [str(Path(sys.executable).parent / "ragcli"), "--data-dir", str(data)]
    words = ask("probe.py", "words", str(data), name)
    query = cold([*ragcli, "query", words["question"], "-c", name], times)
    grep = cold([*ragcli, "grep", words["word"], "-c", name], times)
    warm, recall, disk = (ask("probe.py", job, str(data), name) for job in ("warm", "recall", "disk"))
    return {
        "chunks": build["chunks"],
        "cold_query": query.seconds,
        "query_peak": query.peak,
        "cold_grep": grep.seconds,
        "grep_peak": grep.peak,
        "warm_p50": warm["p50"],
        "warm_p95": warm["p95"],
        "recall_planted": recall["planted"],
        "recall_others": recall["others"],
        "ingest_seconds": build["seconds"],
        "ingest_cpu": build["cpu_seconds"],
        "ingest_peak": build["peak"],
        "disk": build["disk"],
    } | {f"disk_{kind}": value for kind, value in disk.items()}


def slope(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The exponent b of the power law a·nᵇ that fits best: 0 for a cost that does not grow, 1 for one in step."""
    points = [(math.log(n), math.log(v)) for n, v in zip(sizes, values, strict=True) if v > 0]
    if len(points) < 2:
        return None
    x, y = (sum(column) / len(points) for column in zip(*points, strict=True))
    fitted: float = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
    return fitted


def report(measured: Sequence[Figures]) -> str:
    """SCALE.md."""
    here = machine()
    sizes = [figures["chunks"] for figures in measured]
    lines = [
        "# What it costs as a collection grows",
        "",
        "Made by `scripts/bench/scale`. Synthetic collections (Zipfian text, planted answers), ingested, queried and",
        f"searched by ragcli's own code; {here['cores']} cores of {here['cpu']}, Python {here['python']}.",
        "The slope is the exponent of the power law that fits: 0 does not grow, 1 grows in step with the chunks.",
        "Synthetic chunks keep 64 token vectors each, real ones some 250 (12 KB); their number changes the disk alone.",
        "",
        f"| | {' | '.join(f'{size:,.0f} chunks' for size in sizes)} | slope | budget at a million |",
        f"|---|{'---|' * len(sizes)}---|---|",
    ]
    for label, key, unit in ROWS:
        values = [figures[key] for figures in measured]
        shown = " | ".join(f"{value * FACTORS[unit]:,.{DIGITS[unit]}f} {unit}".strip() for value in values)
        fitted = None if key.startswith("recall") else slope(sizes, values)
        budget = ""
        if key in BUDGETS:
            sign = "≥" if key.startswith("recall") else "≤"
            budget = f"{sign} {BUDGETS[key] * FACTORS[unit]:g} {unit}".strip()
        lines.append(f"| {label} | {shown} | {'' if fitted is None else f'{fitted:.2f}'} | {budget} |")
    return "\n".join([*lines, "", "![Cost against size](SCALE.svg)", ""])


def plot(measured: Sequence[Figures], path: Path) -> None:
    """Each cost against size, both on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "ragcli"
    figure, axes = plt.subplots(figsize=(7, 4.5))
    sizes = [figures["chunks"] for figures in measured]
    for key, label in PLOTTED:
        values = [figures[key] * PLOT_FACTORS.get(key, 1.0) for figures in measured]
        fitted = slope(sizes, values)
        axes.plot(sizes, values, marker="o", label=label if fitted is None else f"{label} (slope {fitted:.2f})")
    axes.set(xscale="log", yscale="log", xlabel="chunks", title="Cost against size")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def tell(text: str) -> None:
    """Say what is being done, beside the result."""
    print(f"==> {text}", file=sys.stderr, flush=True)


def kept(figures: Figures) -> bool:
    """Does a collection of a million chunks keep the budgets? Smaller ones have none."""
    if figures["chunks"] < 900_000:
        return True
    return all(
        figures[key] >= bound if key.startswith("recall") else figures[key] <= bound for key, bound in BUDGETS.items()
    )


def main() -> int:
    """Measure, write SCALE.md and SCALE.svg, and leave with 1 when a budget at a million chunks is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000,1000000", metavar="LIST")
    parser.add_argument("--work", type=Path, default=Path("bench-work"), metavar="DIR")
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR")
    parser.add_argument("--times", type=int, default=5, metavar="N", help="cold processes a figure (5)")
    parser.add_argument("--again", default="", metavar="LIST", help="sizes to measure anew; others as kept")
    asked = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    asked.work.mkdir(parents=True, exist_ok=True)
    measured = []
    for size in map(int, asked.sizes.split(",")):
        place = asked.work / f"scale-{size}.json"
        if not place.exists() or str(size) in asked.again.split(","):
            place.write_text(json.dumps(measure(asked.work, size, asked.times), indent=2), encoding="utf-8")
        measured.append(json.loads(place.read_text("utf-8")))
    text = report(measured)
    (asked.out / "SCALE.md").write_text(text, encoding="utf-8")
    plot(measured, asked.out / "SCALE.svg")
    print(text)
    return 0 if all(map(kept, measured)) else 1


if __name__ == "__main__":
    sys.exit(main())
