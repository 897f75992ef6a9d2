"""What it costs that papers lie in ten collections and not in one.

    scripts/bench/many --papers DIR [--work DIR] [--times N] [--questions N]

The files of the folder are dealt out to ten folders, each its own collection; an eleventh collection has them all.
A question to the ten is timed beside the same question to the one, cold by the command line and warm in a living
process, taking turns, so that whatever else the machine does is fair to both. Leaves with 1 when the ten take 1.5
times as long or longer. What is made stays in the work folder, and every text is embedded once for both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from processes import ask, cold, machine

COLLECTIONS = 10
LIMIT = 1.5
SUFFIXES = (".pdf", ".md", ".txt", ".html")
WHOLE = "whole"


def part(number: int) -> str:
    """The name of one of the ten."""
    return f"part{number}"


def deal(papers: Path, folder: Path) -> list[Path]:
    """The ten folders, with the papers dealt out to them by size, so that they hold about as much each."""
    files = [path for path in papers.rglob("*") if path.suffix.lower() in SUFFIXES]
    files.sort(key=lambda path: (-path.stat().st_size, path.name))
    folders = [folder / part(number) for number in range(COLLECTIONS)]
    for each in folders:
        each.mkdir(parents=True)
    for turn, path in enumerate(files):
        place = turn % (2 * COLLECTIONS)
        # There and back, so that nobody always gets the larger one.
        shutil.copyfile(path, folders[min(place, 2 * COLLECTIONS - 1 - place)] / f"{turn}-{path.name}")
    return folders


def make(papers: Path, work: Path) -> None:
    """Make the eleven collections, if they are not there."""
    data, dealt = work / "data", work / "dealt"
    if (work / "made").exists():
        return
    shutil.rmtree(data, ignore_errors=True)
    shutil.rmtree(dealt, ignore_errors=True)
    from ragcli.collection import Collection, ingest
    from ragcli.models import DEFAULT_ENCODER, Encoder, Encoding, load_encoder

    real = load_encoder(DEFAULT_ENCODER)
    known: dict[str, Encoding] = {}

    class Once:
        """The encoder, with every text embedded once."""

        name, engine, fingerprint = real.name, real.engine, real.fingerprint
        dimension, vocabulary_size = real.dimension, real.vocabulary_size

        def encode(self, texts: Sequence[str]) -> object:
            return real.encode(texts)

        def encode_tokens(self, texts: Sequence[str]) -> list[Encoding]:
            missing = [text for text in dict.fromkeys(texts) if text not in known]
            known.update(zip(missing, real.encode_tokens(missing), strict=True))
            return [known[text] for text in texts]

    def encoder() -> Encoder:
        return Once()  # type: ignore[return-value]

    folders = deal(papers, dealt)
    for name, roots in [(WHOLE, folders), *((folder.name, [folder]) for folder in folders)]:
        print(f"==> making the collection '{name}'", file=sys.stderr, flush=True)
        ingest(Collection.create(data, name), roots, encoder)
    (work / "made").touch()


def questions(data: Path, count: int) -> list[str]:
    """Headings of the papers, spread evenly, which is the nearest to a question that any folder has."""
    from ragcli.collection import Collection

    with Collection.open(data, WHOLE).snapshot() as snapshot:
        found = [
            chunk.heading.rpartition(" › ")[2]
            for document in snapshot.documents()
            for chunk in snapshot.document_chunks(document.document_id)
            if chunk.heading and len(chunk.heading.split()) > 1
        ]
    found = list(dict.fromkeys(found)) or ["what is measured here"]
    return found[:: max(1, len(found) // count)][:count]


def warm(data: Path, count: int) -> dict[str, float]:
    """Medians in milliseconds, and how often both ways find the same first passage."""
    from ragcli.collection import Collection
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.searcher import Searcher

    asked = questions(data, count)
    seconds: dict[str, list[float]] = {"one": [], "ten": []}
    same = []
    with (
        Searcher([Collection.open(data, WHOLE)]) as one,
        Searcher([Collection.open(data, part(number)) for number in range(COLLECTIONS)]) as ten,
    ):
        for turn, question in enumerate([*asked[:3], *asked]):
            first = []
            for name, searcher in (("one", one), ("ten", ten)):
                started = time.perf_counter()
                hits = searcher.query(QueryRequest(question)).hits
                if turn >= 3:  # the first pay for models and files
                    seconds[name].append(time.perf_counter() - started)
                first.append(hits[0].chunk.text if hits else "")
            same.append(first[0] == first[1])
    return {name: 1e3 * statistics.median(each) for name, each in seconds.items()} | {"same": statistics.mean(same)}


def main() -> int:
    """Make, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--papers", type=Path, required=True, metavar="DIR", help="folder of papers")
    parser.add_argument(
        "--work", type=Path, default=Path("bench-many"), metavar="DIR", help="what is made is kept here"
    )
    parser.add_argument("--times", type=int, default=9, metavar="N", help="cold processes of each kind (9)")
    parser.add_argument("--questions", type=int, default=60, metavar="N", help="warm questions (60)")
    asked = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    data = asked.work.absolute() / "data"
    make(asked.papers.absolute(), asked.work.absolute())
    here = machine()
    print(f"{here['cores']} cores of {here['cpu']}, Python {here['python']}, load {here['load']} at the start\n")
    ragcli = [str(Path(sys.executable).parent / "ragcli"), "--data-dir", str(data), "query", questions(data, 1)[0]]
    calls = {
        "one": [*ragcli, "-c", WHOLE],
        "ten": [*ragcli, *(f"-c{part(number)}" for number in range(COLLECTIONS))],
    }
    turns: dict[str, list[tuple[float, float]]] = {"one": [], "ten": []}
    for _ in range(asked.times):
        for name, call in calls.items():
            cost = cold(call, 1)
            turns[name].append((cost.seconds, cost.cpu_seconds))
    rows = {
        "cold `ragcli query`, ms": {
            name: 1e3 * statistics.median(wall for wall, _ in each) for name, each in turns.items()
        },
        "its CPU time, ms": {name: 1e3 * statistics.median(cpu for _, cpu in each) for name, each in turns.items()},
    }
    living = ask("many.py", "warm", str(data), str(asked.questions))
    rows["a living process, ms"] = living
    print("| | one collection | ten collections | ratio |\n|---|--:|--:|--:|")
    for title, row in rows.items():
        print(f"| {title} | {row['one']:.1f} | {row['ten']:.1f} | {row['ten'] / row['one']:.2f} |")
    print(f"\nThe first passage is the same for {living['same']:.0%} of the questions.")
    return 0 if all(row["ten"] < LIMIT * row["one"] for row in rows.values()) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["warm"]:
        print(json.dumps(warm(Path(sys.argv[2]), int(sys.argv[3]))))
        sys.exit()
    sys.exit(main())
