"""Measures every pipeline on public test collections and writes the tables into QUALITY.md.

    scripts/bench/quality BEIR_FOLDER… [--compare SPECS] [--out FILE] [--data-dir DIR]

Each folder has the layout of BEIR and is judged by its test split. The tables stand between two marker lines in
the file, so that what is written around them by hand stays. Nothing is tuned here: the pipelines are run as they
are, by `ragcli eval`, which anyone can call in the same way.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
START = "<!-- measured by scripts/bench/quality: start -->"
END = "<!-- measured by scripts/bench/quality: end -->"
BASELINES = ("tfidf", "bm25", "dense", "classic:reranker=late", "hybrid:reranker=none", "hybrid:reranker=late")
# What was tried around the default, one change at a time, the failures too.
ATTEMPTS = tuple(
    f"hybrid:reranker=late,{change}"
    for change in (
        "feedback=0",
        "window=0",
        "titles=0",
        "pool=30",
        "pool=50",
        "pool=100",
        "rocchio=0.7,feedback=0",
        "fusion=minmax",
        "fusion=rrf,feedback=0",
        "bm25=0.7,dense=1.5,window=0,feedback=0",
    )
)
PIPELINES = ",".join((*BASELINES, *ATTEMPTS))
MEASURES = ("nDCG@10", "R@10", "R@100", "RR@10")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write, and say where the tables are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="BEIR_FOLDER")
    parser.add_argument("--compare", default=PIPELINES, metavar="SPECS", help="the pipelines")
    parser.add_argument("--out", type=Path, default=HERE / "QUALITY.md", metavar="FILE")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where the ingested corpora are kept")
    given = parser.parse_args(arguments)
    reports = [evaluate(folder, given.compare, given.data_dir) for folder in given.folders]
    text = given.out.read_text(encoding="utf-8") if given.out.exists() else "# How well the pipelines rank\n"
    given.out.write_text(with_tables(text, tables(reports)), encoding="utf-8")
    print(f"wrote {given.out}")
    return 0


def evaluate(folder: Path, compare: str, data_dir: Path | None) -> dict[str, Any]:
    """What `ragcli eval --json` says of the pipelines on one folder."""
    command = [sys.executable, "-m", "ragcli", "eval", str(folder), "--compare", compare, "--json"]
    for measure in MEASURES:
        command += ["--metric", measure]
    if data_dir is not None:
        command += ["--data-dir", str(data_dir)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def with_tables(text: str, measured: str) -> str:
    """The text with the tables between its markers, which are added at its end if it has none."""
    if START not in text or END not in text:
        return f"{text.rstrip()}\n\n{START}\n{measured}{END}\n"
    before, after = text.index(START) + len(START), text.index(END)
    return f"{text[:before]}\n{measured}{text[after:]}"


def tables(reports: Sequence[dict[str, Any]]) -> str:
    """One table a collection. A raised letter names a row that the value is significantly better than."""
    parts = []
    for report in reports:
        data = report["data"]
        parts.append(f"\n## {data['name']}, {data['queries']} queries ({data['split']})\n")
        parts.append("| | pipeline | " + " | ".join(MEASURES) + " |")
        parts.append("|---|---|" + "--:|" * len(MEASURES))
        letters = {row["label"]: row["letter"] for row in report["pipelines"]}
        for row in report["pipelines"]:
            cells = []
            for measure in MEASURES:
                marks = "".join(letters[label] for label in row["better_than"][measure])
                cells.append(f"{row['measures'][measure]:.4f}" + (f"<sup>{marks}</sup>" if marks else ""))
            parts.append(f"| {row['letter']} | `{row['label']}` | " + " | ".join(cells) + " |")
    test = reports[0]["significance"]
    parts.append(
        f"\nA raised letter names a row that is beaten by more than luck: {test['test']} test, "
        f"{test['permutations']:,} permutations, p ≤ {test['alpha']:g} after correction by {test['correction']}.\n"
    )
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
