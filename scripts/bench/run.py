"""Measures every budget of ragcli beside the reference pipeline, in one go, on this machine.

    scripts/bench/run --reference DIR --beir DIR --papers DIR [--work DIR] [--rows help,grep,…] [--json]

`--reference` is the folder with reference.py, `--beir` a corpus in BEIR's layout, `--papers` a folder of PDFs. The
collections to measure on are made in `--work` when they are missing, which takes some minutes the first time. Every
cold figure is the median of processes started one after another with a warm file cache; the reference is run in the
same way in the same run. Leaves with 1 when a budget is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from processes import HERE, Cost, ask, cold, environment, machine

PHRASE = "gene expression"
QUESTION = "does vitamin D deficiency raise the risk of multiple sclerosis"
LARGE = 100_000
EMBEDDED = 768


@dataclass(frozen=True, slots=True)
class Row:
    """One budget. `better` says which way is good; `reference` is None where the reference has nothing like it."""

    name: str
    budget: float
    measured: float
    unit: str
    reference: float | None = None
    better: str = "lower"
    note: str = ""

    @property
    def kept(self) -> bool:
        """Is the budget kept?"""
        return self.measured <= self.budget if self.better == "lower" else self.measured >= self.budget

    @property
    def ratio(self) -> float | None:
        """How many times better than the reference."""
        if not self.reference or not self.measured:
            return None
        return self.reference / self.measured if self.better == "lower" else self.measured / self.reference


@dataclass
class Bench:
    """Where everything is. Collections and the reference's index are made when a row first needs them."""

    reference: Path
    beir: Path
    papers: Path
    work: Path
    times: int
    ready: set[str] = field(default_factory=set)

    @property
    def script(self) -> Path:
        """The reference pipeline."""
        return self.reference / "reference.py"

    @property
    def data(self) -> Path:
        """The data directory of the collections measured on."""
        return self.work / "data"

    @property
    def corpus(self) -> str:
        """The name of the corpus's collection."""
        return self.beir.name

    @property
    def index(self) -> Path:
        """The reference's index of the corpus."""
        return self.work / "reference" / self.beir.name

    def ragcli(self, *arguments: str) -> list[str]:
        """A call as a shell user makes it."""
        return [str(Path(sys.executable).parent / "ragcli"), *arguments]

    def collection(self, name: str, *sources: Path) -> str:
        """The collection of that name, made from the sources if it is not there."""
        if not (self.data / name / "store.db").exists():
            tell(f"making the collection '{name}'")
            call = ["--data-dir", str(self.data), "ingest", *map(str, sources), "-c", name]
            # 4: some of the papers are scans, which are told of and left out.
            if subprocess.run(self.ragcli(*call), stdout=sys.stderr, check=False).returncode not in (0, 4):
                raise SystemExit(f"the collection '{name}' could not be made")
        return name

    def scientific(self) -> str:
        """The corpus as a collection."""
        return self.collection(self.corpus, self.beir / "corpus.jsonl")

    def reference_index(self) -> Path:
        """The reference's index of the corpus, made if it is not there."""
        if not (self.index / "cross-encoder").exists():
            tell("making the reference's index, which takes minutes")
            call = [sys.executable, str(self.script), "build", "--corpus", str(self.beir), "--index", str(self.index)]
            subprocess.run(call, stdout=sys.stderr, check=True)
        return self.index

    def reference_query(self) -> Cost:
        """One cold query of the reference."""
        call = [sys.executable, str(self.script), "query", "--index", str(self.reference_index()), QUESTION]
        return cold(call, max(1, self.times // 3), {"HF_HUB_OFFLINE": "1"})


def helped(bench: Bench) -> Iterator[Row]:
    """`ragcli --help`."""
    yield Row("ragcli --help", 0.15, cold(bench.ragcli("--help"), bench.times).seconds, "s")


def grepped(bench: Bench) -> Iterator[Row]:
    """`ragcli grep`, beside pdfgrep where it is installed."""
    name = bench.scientific()
    call = bench.ragcli("--data-dir", str(bench.data), "grep", PHRASE, "-c", name)
    rival, note = None, "pdfgrep is not installed here"
    if shutil.which("pdfgrep"):
        rival = cold(["pdfgrep", "-r", "-i", PHRASE, str(bench.papers)], 1, accept=(0, 1)).seconds
        note = "pdfgrep over the papers' PDFs"
    yield Row("ragcli grep PHRASE", 0.20, cold(call, bench.times).seconds, "s", rival, note=note)


def queried(bench: Bench) -> Iterator[Row]:
    """A cold `ragcli query`, its time and memory."""
    name = bench.scientific()
    mine = cold(bench.ragcli("--data-dir", str(bench.data), "query", QUESTION, "-c", name), bench.times)
    libraries = cold([sys.executable, "-c", "import numpy, onnxruntime, tantivy, typer, rich.table"], bench.times)
    theirs = bench.reference_query()
    note = f"floor: Python and the libraries' imports alone, {libraries.seconds:.2f} s"
    yield Row("ragcli query, cold", 0.50, mine.seconds, "s", theirs.seconds, note=note)
    yield Row("ragcli query, cold, peak memory", 250, mine.peak / 1e6, "MB", theirs.peak / 1e6)


def warmed(bench: Bench) -> Iterator[Row]:
    """Questions in a living process."""
    mine = ask("worker.py", "warm", str(bench.data), bench.scientific(), str(bench.beir))
    theirs = ask("worker.py", "warm-reference", str(bench.script), str(bench.reference_index()), str(bench.beir))
    spent = ", ".join(
        f"{name.removeprefix('stage_')} {1e3 * seconds:.1f}"
        for name, seconds in mine.items()
        if name.startswith("stage_") and seconds > 1e-4
    )
    note = f"floor: encoding the question and reading vectors and tokens once, {1e3 * mine['floor']:.1f} ms; {spent}"
    yield Row("query in a living process, p50", 15, 1e3 * mine["p50"], "ms", 1e3 * theirs["p50"], note=note)
    yield Row("query in a living process, p95", 40, 1e3 * mine["p95"], "ms", 1e3 * theirs["p95"])


def embedded(bench: Bench) -> Iterator[Row]:
    """The embedding stage of an ingest, and what its quickness costs in quality."""
    sides: dict[str, list[float]] = {"embed": [], "embed-reference": []}
    for _ in range(2):
        for job, rates in sides.items():
            rates.append(ask("worker.py", job, str(bench.beir), str(bench.script), str(EMBEDDED))["per_second"])
    mine, theirs = (statistics.median(rates) for rates in sides.values())
    yield Row(
        "ingest, embedding", 2.5 * theirs, mine, "chunks/s", theirs, "higher", "the budget is 2.5 times the reference"
    )
    where = (str(bench.data), bench.scientific(), str(bench.beir), str(bench.reference_index()))
    found = ask("worker.py", "quality", *where)
    yield Row("nDCG@10 of the vectors", found["reference"] - 0.005, found["ours"], "", found["reference"], "higher")


def parsed(bench: Bench) -> Iterator[Row]:
    """The parsing stage of an ingest."""
    runs = [ask("worker.py", "parse", str(bench.papers)) for _ in range(3)]
    mine = sorted(runs, key=lambda run: run["per_second"])[1]
    theirs, floor = (ask("worker.py", job, str(bench.papers)) for job in ("parse-reference", "parse-floor"))
    note = (
        f"{mine['pages']:.0f} pages, {mine['per_cpu_second']:.0f} pages a second of a core's time; PDFium alone gives a"
        f" page's bare text at {floor['per_cpu_second']:.0f}; the reference is pypdf"
    )
    yield Row("ingest, parsing PDFs", 300, mine["per_second"], "pages/s", theirs["per_second"], "higher", note)


def repeated(bench: Bench) -> Iterator[Row]:
    """An ingest that finds nothing new."""
    name = bench.collection("papers", bench.papers)
    call = bench.ragcli("--data-dir", str(bench.data), "ingest", str(bench.papers), "-c", name)
    yield Row("ingest, nothing changed", 1.0, cold(call, max(3, bench.times // 2), accept=(0, 4)).seconds, "s")


def added(bench: Bench) -> Iterator[Row]:
    """One paper more in a large collection, beside a process that reads and embeds the same paper and keeps nothing.

    An empty collection is no measure of what the paper costs by itself: TF-IDF is fitted anew there.
    """
    if not (bench.data / "large" / "store.db").exists():
        tell(f"making a synthetic collection of {LARGE:,} chunks")
        call = ["--chunks", str(LARGE), "--data-dir", str(bench.data), "-c", "large"]
        subprocess.run([sys.executable, str(HERE / "synthetic.py"), *call], stdout=sys.stderr, check=True)
    folder = bench.work / "added"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ingest = bench.ragcli("--data-dir", str(bench.data), "ingest", str(folder), "-c", "large", "--prune", "--json")
    once(ingest)  # drops what an earlier run may have left
    more: list[float] = []
    alone: list[float] = []
    chunks: list[int] = []
    for paper in sorted(bench.papers.rglob("*.pdf"))[:9:2]:
        shutil.copyfile(paper, folder / paper.name)
        alone.append(once([sys.executable, str(HERE / "worker.py"), "paper", str(folder / paper.name)])[0])
        seconds, said = once(ingest)
        report = json.loads(said)
        if not report["added"] or report["reused"]:
            raise SystemExit(f"{paper.name} was not embedded anew, so it is no measure: {said}")
        more.append(seconds)
        chunks.append(report["embedded"])
        (folder / paper.name).unlink()
        once(ingest)
    extra = statistics.median(large - small for large, small in zip(more, alone, strict=True))
    note = (
        f"medians of {len(more)} papers: in all {statistics.median(more):.2f} s; reading and embedding alone, a paper"
        f" of {statistics.median(chunks):.0f} chunks takes {statistics.median(alone):.2f} s"
    )
    yield Row(f"a paper more in {LARGE:,} chunks", 3.0, extra, "s more", note=note)


def once(command: list[str]) -> tuple[float, str]:
    """Seconds of a call that cannot be repeated, and what it printed."""
    import time

    started = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), check=False)
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 4):
        raise SystemExit(f"{' '.join(command)} left with code {done.returncode}")
    return seconds, done.stdout.decode()


ROWS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "help": helped,
    "grep": grepped,
    "query": queried,
    "warm": warmed,
    "embed": embedded,
    "parse": parsed,
    "again": repeated,
    "added": added,
}


def tell(text: str) -> None:
    """Say what is being done, beside the result."""
    print(f"==> {text}", file=sys.stderr, flush=True)


def table(rows: list[Row]) -> str:
    """The rows as lines of a Markdown table."""
    lines = ["| what | budget | measured | reference | ratio | verdict |", "|---|---|---|---|---|---|"]
    for row in rows:
        sign = "≤" if row.better == "lower" else "≥"
        reference = "" if row.reference is None else f"{row.reference:.3g} {row.unit}"
        ratio = "" if row.ratio is None else f"{row.ratio:.1f} ×"
        verdict = ("kept" if row.kept else "MISSED") + (f" ({row.note})" if row.note else "")
        lines.append(
            f"| {row.name} | {sign} {row.budget:.3g} {row.unit} | {row.measured:.3g} {row.unit} | {reference}"
            f" | {ratio} | {verdict} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, required=True, metavar="DIR", help="folder of reference.py")
    parser.add_argument("--beir", type=Path, required=True, metavar="DIR", help="corpus in BEIR's layout (SciFact)")
    parser.add_argument("--papers", type=Path, required=True, metavar="DIR", help="folder of PDFs")
    parser.add_argument(
        "--work", type=Path, default=Path("bench-work"), metavar="DIR", help="what is made is kept here"
    )
    parser.add_argument("--times", type=int, default=10, metavar="N", help="cold processes a figure (10)")
    parser.add_argument("--rows", default=",".join(ROWS), metavar="LIST", help=f"some of {','.join(ROWS)}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    chosen = asked.rows.split(",")
    if unknown := [name for name in chosen if name not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    os.environ["HF_HUB_OFFLINE"] = "1"
    bench = Bench(asked.reference.absolute(), asked.beir.absolute(), asked.papers.absolute(), asked.work, asked.times)
    here = machine()
    tell(f"{here['cores']} cores of {here['cpu']}, Python {here['python']}, load {here['load']} at the start")
    if float(here["load"]) > 0.5:
        tell("something else is running: times will be too long")
    tell(f"corpus {bench.beir}, papers {bench.papers}, reference {bench.script}")
    rows: list[Row] = []
    for name in chosen:
        tell(name)
        rows += ROWS[name](bench)
    given = {"corpus": str(bench.beir), "papers": str(bench.papers), "reference": str(bench.script)}
    if asked.json:
        told = [asdict(row) | {"ratio": row.ratio, "kept": row.kept} for row in rows]
        print(json.dumps({"machine": here, "given": given, "times": bench.times, "rows": told}, indent=2))
    else:
        print(f"{here['cores']} cores of {here['cpu']}, Python {here['python']}, medians of {bench.times} processes\n")
        print(table(rows))
    return 0 if all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
