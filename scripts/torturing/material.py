"""The collections that are tortured, and everything that can be asked of one.

Every document says "marker" and its version, so one search shows the whole collection. Searches are asked for more
hits than there are chunks and compared as sets, because BM25's scores may shift with what lies uncommitted in the
lexical index, and a model's in the fourth decimal with the batch. What must be exact is which passages there are, and
that each stands where it is said to.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from scripts.torturing.answers import PIPELINES, as_set, ask
from scripts.torturing.children import Answer, command

from ragcli.collection import Collection, list_collections
from ragcli.errors import RagcliError

NAME: Final = "papers"
_WORDS: Final = [
    "paper",
    "model",
    "method",
    "result",
    "data",
    "set",
    "test",
    "value",
    "number",
    "mean",
    "error",
    "bound",
    "time",
    "space",
    "memory",
    "query",
    "search",
    "index",
    "rank",
    "document",
    "passage",
    "wormhole",
    "energy",
    "quantum",
    "field",
    "gravity",
    "light",
    "star",
    "galaxy",
    "black",
    "hole",
    "matter",
    "leader",
    "election",
    "log",
    "term",
    "server",
    "cluster",
    "vote",
    "count",
    "estimate",
    "sketch",
    "register",
    "stream",
    "network",
    "latency",
    "protein",
    "cell",
    "gene",
    "cancer",
    "mouse",
    "drug",
    "dose",
]
_RECORDS: Final = 24
_NOTES: Final = 6
_EVERYTHING: Final = ("query", "marker wormhole", "--top", "9999", "--pipeline")
_RANKING: Final = ("collection", "rank", "score", "cosine", "scores", "truncated", "ingested_at")

QUESTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "documents": ("documents",),
    "grep": ("grep", "-E", r"marker v\d", "--all", "--max-hits", "9999"),
    "word": ("grep", "unique7word"),
    "show": ("show", "r7:0"),
    **{pipeline: (*_EVERYTHING, pipeline) for pipeline in PIPELINES},
    "first by bm25": ("query", "unique7word", "--top", "1", "--pipeline", "bm25"),
    "first by tfidf": ("query", "unique19word", "--top", "1", "--pipeline", "tfidf"),
}
"""What is asked of a collection. The whole of it is seen by each search."""

State = dict[str, Any]


def prose(seed: int, version: int, words: int) -> str:
    """Sentences that depend on seed and version alone."""
    dice = random.Random(seed * 1000 + version)
    lines = [" ".join(dice.choices(_WORDS, k=9)).capitalize() + "." for _ in range(max(1, words // 9))]
    return " ".join(lines) + f" Unique{seed}word, marker v{version}."


def write_records(path: Path, versions: Mapping[int, int]) -> None:
    """JSON lines with these records, each in its version. Every eighth is long enough for some chunks."""
    lines = (
        {
            "id": f"r{n}",
            "title": f"Record {n}",
            "text": prose(n, version, 40 if n % 8 else 900),
            "year": 1990 + n,
        }
        for n, version in versions.items()
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_note(folder: Path, number: int, version: int) -> None:
    """A note in markdown with headings."""
    parts = [f"# Note {number}\n\n{prose(100 + number, version, 120)}\n"]
    parts += [f"## Part {part}\n\n{prose(200 + 10 * number + part, version, 120)}\n" for part in (1, 2)]
    (folder / f"note{number}.md").write_text("\n".join(parts), encoding="utf-8")


def write_sidecar(folder: Path, number: int, topic: str) -> None:
    """What somebody says of a note."""
    (folder / f"note{number}.md.meta.toml").write_text(f"topic = '{topic}'\nread = 2024-05-01\n", encoding="utf-8")


def make_folder(folder: Path) -> Path:
    """The folder itself, made."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_first(folder: Path) -> None:
    """What is taken in first."""
    write_records(make_folder(folder) / "corpus.jsonl", dict.fromkeys(range(_RECORDS), 0))
    for number in range(_NOTES):
        write_note(folder, number, 0)
    for number in (0, 2, 4):
        write_sidecar(folder, number, "first")


def write_second(folder: Path) -> None:
    """What is there later: some of it changed, new, moved, gone and described anew."""
    write_records(folder / "corpus.jsonl", {n: n % 3 % 2 for n in range(4, _RECORDS + 5)})
    write_note(folder, 0, 1)
    write_note(folder, 1, 1)
    (folder / "note2.md").rename(folder / "moved.md")
    (folder / "note3.md").unlink()
    write_note(folder, _NOTES, 1)
    for number in (4, 5):
        write_sidecar(folder, number, "second")


def write_first_records(folder: Path) -> None:
    """Records alone, which are read in one order only."""
    write_records(make_folder(folder) / "corpus.jsonl", dict.fromkeys(range(_RECORDS), 0))
    write_records(folder / "old.jsonl", dict.fromkeys(range(50, 60), 0))


def write_second_records(folder: Path) -> None:
    """The records later: some of them changed, new and gone, and a file of them gone."""
    write_records(folder / "corpus.jsonl", {n: n % 3 % 2 for n in range(4, _RECORDS + 5)})
    (folder / "old.jsonl").unlink()


def ingest_call(folder: Path, model: str, *more: str) -> list[str]:
    """The call that takes a folder in."""
    return ["ingest", str(folder), "-c", NAME, "--encoder", model, "--json", *more]


def state(data: Path) -> State:
    """All that a reader can see of the one collection in the data directory, in a form that compares.

    `ids` are its documents', and `bugs` the answers that a person would take for a bug.
    """
    names = list_collections(data)
    if not names:
        return {"ids": [], "bugs": []}
    told = ask(data / names[0])
    bugs = [f"{kind}: {each['bug']}" for kind, each in told.items() if "bug" in each]
    ids: list[str] = []
    with suppress(RagcliError), Collection(data / names[0]).snapshot() as snapshot:
        ids = [each.document_id for each in snapshot.documents()]
    return {kind: as_set(each) for kind, each in told.items()} | {"ids": ids, "bugs": bugs}


def answer_to(question: str, name: str) -> tuple[Any, str | None]:
    """The answer to one of the questions, asked of a collection by its command; and what a person would call a bug."""
    answer = command(*QUESTIONS[question], "-c", name, "--json")
    return told_by(question, answer.code, answer.out, answer.err)


def told_by(question: str, code: int, out: str, err: str) -> tuple[Any, str | None]:
    """As `answer_to`, of what a command gave."""
    answer = Answer(code, out, err)
    bug = f"`ragcli {' '.join(QUESTIONS[question])}`: {err.strip()}" if answer.is_bug else None
    if code not in (0, 1):
        # Without the names that a collection may go by.
        return f"{code}: {err.strip()}", bug
    told = answer.json or []
    if isinstance(told, dict):
        return _without(told, *_RANKING), bug
    if question == "documents":
        return {each["document_id"]: _without(each, "ingested_at", "collection") for each in told}, bug
    return sorted(json.dumps(_without(each, *_RANKING), sort_keys=True) for each in told), bug


def differences(found: State, expected: list[State]) -> str | None:
    """Where a state agrees with none of the expected ones; None if it is one of them."""
    if found in expected:
        return None
    parts = [sorted(key for key in {*found, *each} if found.get(key) != each.get(key)) for each in expected]
    nearest = min(range(len(expected)), key=lambda at: len(parts[at]))
    part = parts[nearest][0]
    return (
        f"{', '.join(parts[nearest])} of no state that was committed (nearest: {nearest + 1} of {len(expected)});"
        f" {part}: {json.dumps(found.get(part))[:300]} for {json.dumps(expected[nearest].get(part))[:300]}"
    )


def lost_documents(found: State, expected: list[State]) -> int:
    """How many documents are missing that every expected state has."""
    always = set.intersection(*({*each["ids"]} for each in expected))
    return len(always - {*found["ids"]})


def _without(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in keys}


def watch_commits(observe: Callable[[], None]) -> None:
    """From here on, `observe` is called after every commit of a store in this process."""

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            done = super().execute(sql, *values)
            if sql == "COMMIT":
                observe()
            return done

    connect = sqlite3.connect

    def watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
        writes = "mode=rw" in str(arguments[0])
        made: sqlite3.Connection = connect(*arguments, **(options | {"factory": Watched} if writes else options))
        return made

    sqlite3.connect = watched  # type: ignore[assignment]


def committed_inputs(data: Path) -> set[str]:
    """Digests of all embedding inputs that have a committed row, shown or not."""
    found: set[str] = set()
    for name in list_collections(data):
        address = f"file:{data / name / 'store.db'}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            for table in ("chunks", "next_chunks", "uncommitted_rows"):
                found |= {row[0] for row in connection.execute(f"SELECT hex(input_hash) FROM {table}")}  # noqa: S608
    return found


def strays(data: Path) -> list[str]:
    """Files in the data directory that nothing names any more."""
    names = list_collections(data)
    found = [entry.name for entry in data.iterdir() if entry.name not in names]
    for name in names:
        entries = sorted(entry.name for entry in (data / name).iterdir())
        derived = [
            each for each in entries if not each.startswith(("store.db", "manifest.json")) and ".lock" not in each
        ]
        stems = [_stem(each) for each in derived]
        found += [f"{name}/{each}" for each in derived if stems.count(_stem(each)) > 1]
        found += [f"{name}/{each}" for each in entries if each.endswith((".new", ".old", ".part"))]
        for lexical in (data / name).glob("lexical*"):
            found += [f"{name}/{lexical.name}/{each}" for each in _unknown(lexical)]
    return sorted(found)


def _unknown(lexical: Path) -> list[str]:
    """Files of a lexical index that are of none of its segments."""
    known = {"meta.json", ".managed.json", "checksums.json", ".tantivy-writer.lock", ".tantivy-meta.lock"}
    segments: list[dict[str, str]] = []
    with suppress(OSError, ValueError):
        segments = json.loads((lexical / "meta.json").read_bytes())["segments"]
    ids = {each["segment_id"].replace("-", "") for each in segments}
    # Half-written checksums lie there until the index is next written to, which may be never.
    entries = [entry.name for entry in lexical.iterdir() if not entry.name.startswith(".checksums.json.")]
    return [each for each in entries if each not in known and each.partition(".")[0] not in ids]


def _stem(entry: str) -> str:
    """The name of an array or index without the number of its edition."""
    stem, dot, suffix = entry.partition(".")
    return stem.partition("-")[0] + dot + suffix
