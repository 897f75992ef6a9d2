"""One folder of hostile files, and every command of ragcli on what comes of it.

`make` writes the files; `on_terminal` and `on_pipes` list the commands. Run as a program, with the folder as its
argument, this carries them all out in one process: first on the terminal that it has, then with files for stdout and
stderr.

Readers drop the worst of what a document holds, so an index taken over from another program, whose texts are kept to
the letter, stands for the collection that a stranger has made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ragcli.documents.character_repair import sanitize_text

# What no line of output may hold: colours of theirs, a new window title, a link, C1 controls, a bell, a backspace,
# overrides and isolates of direction, characters that are not to be seen, tags, and markup that Rich would read.
EVIL = (
    "\x1b[95mX\x1b]0;pwned\x07\x1b]8;;http://evil\x1b\\\x9b95m\x08\x7f\u202e\u2066\u200b\u2060\u2028\xad\u3164"
    "\U000e0041\U000e0101[bold red]m[/bold red]"
)
EVIL_LINES = EVIL + "\r\nsecond\x0bthird\x85"
WORD = "wormhole"


def make(place: Path) -> None:
    """Write everything that is to be taken in, and what configurations, questions and judgements need."""
    notes = place / f"no{EVIL}tes".replace("/", "")
    notes.mkdir(parents=True)
    name = EVIL.replace("/", "")
    (notes / f"{name}\n\t.md").write_text(f"# Head {EVIL} ing\n\n{WORD} {EVIL_LINES} here\n" * 30)
    (notes / f"ti{name}tle.html").write_text(f"<title>T {EVIL}</title><p>{WORD} {EVIL_LINES}</p>")
    (notes / f"broken {name}.pdf").write_bytes(b"%PDF-1.7 \x1b[95m nothing")
    (notes / f"other.do\x1b[95m\u202e{WORD}").write_text("x")
    with open(os.fsencode(notes) + b"/bytes \xff\xfe.md", "wb") as file:  # noqa: PTH123
        file.write(f"{WORD} in a file whose name is no text\n".encode())
    records = [
        {"id": f"r{EVIL_LINES}{number}", "title": EVIL_LINES, "text": f"{WORD} {EVIL_LINES} \ud800 \0 {number} " * 20}
        | {
            f"key {EVIL_LINES}": EVIL_LINES,
            "lone": "\ud83d",
            "list": [EVIL_LINES, "\udc00"],
            "huge": 10**40,
            "nul": "\0",
        }
        for number in range(4)
    ]
    lines = [json.dumps(record) for record in records]
    lines += [f'{{"id": "{WORD}", "text": 3}}', "{" + EVIL, json.dumps({"id": EVIL, "text": ""})]
    (notes / "records.jsonl").write_text("\n".join(lines) + "\n")

    corpus = place / "corpus"
    (corpus / "qrels").mkdir(parents=True)
    ids = [f"id{sanitize_text(EVIL)[0]}{number}" for number in range(4)]
    (corpus / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": each, "title": EVIL, "text": f"{WORD} {EVIL_LINES}"}) + "\n" for each in ids)
    )
    (corpus / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{each}", "text": f"{WORD} {EVIL_LINES}"}) + "\n" for each in ids)
    )
    (corpus / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"q{each}\t{each}\t1\n" for each in ids) + f"gone{EVIL}\tno{EVIL}\t1\n"
    )
    tag = "".join(EVIL.split())
    (place / "theirs.run").write_text(f"q{tag} Q0 {tag} 1 0.5 {tag}\n")
    (place / "theirs.qrels").write_text(f"q{tag} 0 {tag} 1\n")
    (place / "bad.qrels").write_text(f"q {tag} {tag}\n")
    (place / "questions.txt").write_text(f"{WORD} {EVIL}\n")

    (place / "old").mkdir()
    (place / "old" / "chunks.json").write_text(
        json.dumps([{"text": f"{WORD} {EVIL_LINES} {n}", "source": f"{n}{EVIL_LINES}"} for n in range(3)])
    )
    escaped = "".join(f"\\U{ord(character):08x}" for character in EVIL)
    (place / "collections.toml").write_text(
        f'data_dir = "/{escaped}"\n[query]\nreranker = "{escaped}"\n[collections.a]\npaths = ["/{escaped}"]\n'
    )
    (place / "good.toml").write_text("")
    (place / "bad.toml").write_text(f'[query]\n"{escaped}" = 3\n')
    (place / "worse.toml").write_text(f'[defaults]\nencoder = 3\ncontext = "{escaped}"\n')


FINE = ["--config", "good.toml"]
NONE = [*FINE, "--encoder", "none"]
BM25 = [*FINE, "--pipeline", "bm25"]
MARK = "@@@ call"


def on_terminal(place: Path) -> list[list[str]]:
    """Every command, in forms enough to pass every place where it writes. ID and OLD stand for documents' ids."""
    notes = next(str(each) for each in place.iterdir() if each.name.startswith("no"))
    archive = f"out {EVIL}.archive".replace("/", "")
    return [
        ["import-index", "old", "-c", "old", "--token-vectors", "none", *NONE],
        ["import-index", EVIL, "-c", "x", *NONE],
        ["ingest", notes, "-c", "planned", "--dry-run", *NONE],
        ["ingest", notes, "-c", "c", *NONE],
        ["ingest", EVIL, *NONE],
        ["ingest", "-", EVIL, *NONE],
        ["ingest", notes, "-c", EVIL, *NONE],
        ["ingest", notes, "--pdf-engine", EVIL, *NONE],
        ["ingest", notes, "--include", f"[{EVIL}", *NONE],
        *on_pipes(),
        ["query", WORD, "--pipeline", EVIL, *FINE],
        ["query", WORD, "--reranker", EVIL, *BM25],
        ["query", WORD, "-c", EVIL, *BM25],
        ["query", WORD, "--weight", f"{EVIL}=2", *BM25],
        ["query", WORD, "--weight", EVIL, *BM25],
        ["query", WORD, "--identity", EVIL, *BM25],
        ["query", WORD, "--group", "--keep-duplicates", *BM25],
        ["query", "--like", EVIL, *BM25],
        ["query", "--like", notes, *BM25],
        ["ask", WORD, "--extract", *BM25],
        ["ask", WORD, "--preset", EVIL, *BM25],
        ["ask", EVIL, "--explain", *BM25],
        ["check", notes, *FINE],
        ["check", EVIL, *FINE],
        ["grep", f"({EVIL}", "-E", *FINE],
        ["show", EVIL, *FINE],
        ["collections", "rename", "planned", EVIL, *FINE],
        ["collections", "rename", "c", "d", *FINE],
        ["collections", "delete", "d", *FINE],
        ["collections", "rename", "d", "c", *FINE],
        ["collections", "export", "old", archive, *FINE],
        ["collections", "export", "c", EVIL, *FINE],
        ["collections", "import", archive, "--name", "again", *FINE],
        ["collections", "import", "theirs.run", *FINE],
        ["reindex", "-c", "c", "--chunk-size", "300", *FINE],
        ["reindex", "-c", "c", "--context", EVIL, *FINE],
        ["eval", "corpus", "--compare", "bm25,bm25:pool=40", "--baseline", "bm25", "--per-query", "--p-values", *NONE],
        ["eval", "--run", "theirs.run", "--qrels", "theirs.qrels", "--per-query", *FINE],
        ["eval", "--run", "theirs.run", "--qrels", "bad.qrels", *FINE],
        ["eval", "--run", EVIL, "--metric", EVIL, *FINE],
        ["eval", "--make-qrels", "questions.txt", "-c", "c", "--compare", "bm25", "--qrels-out", "l.qrels", *FINE],
        ["plugins", *FINE],
        ["help", EVIL],
        ["models", "path", EVIL, *FINE],
        ["models", "pull", EVIL, *FINE],
        ["ingest", "-c", "a"],
        ["ingest", "-c", "a", "--config", "bad.toml"],
        ["ingest", "-c", "a", "--config", "worse.toml"],
        ["query", WORD],
        ["trust"],
        ["trust", "--list"],
        ["trust", EVIL],
        [EVIL],
        ["collections", EVIL],
        ["grep", WORD, f"--{EVIL}"],
        ["grep", WORD, "--max-hits", EVIL],
    ]


def on_pipes() -> list[list[str]]:
    """What scripts read: each command that prints what a collection holds, in each of its forms."""
    return [
        ["query", f"{WORD} {EVIL}", "-n", "9", "--explain", *BM25],
        ["query", f"{WORD} \udcff", "-n", "9", "--json", *BM25],
        ["query", WORD, "-n", "9", "--jsonl", *BM25],
        ["query", WORD, "-n", "9", "--paths", *BM25],
        ["grep", WORD, "-c", "c", *FINE],
        ["grep", f"{WORD}.*", "-E", "--all", "--context", "5", *FINE],
        ["grep", WORD, "-l", *FINE],
        ["grep", WORD, "--count", *FINE],
        ["grep", WORD, "--all", "--json", *FINE],
        ["grep", WORD, "-l", "--json", *FINE],
        ["show", "ID", "-c", "c", *FINE],
        ["show", "ID:0", "-c", "c", "--around", "2", *FINE],
        ["show", "ID:0", "-c", "c", "--json", *FINE],
        ["show", "OLD", *FINE],
        ["show", "OLD", "--json", *FINE],
        ["documents", *FINE],
        ["documents", "--json", *FINE],
        ["collections", *FINE],
        ["collections", "list", "--json", *FINE],
        ["collections", "show", "c", *FINE],
        ["collections", "show", "c", "--json", *FINE],
        ["collections", "verify", *FINE],
        ["collections", "verify", "--json", *FINE],
        ["eval", "corpus", "--compare", "bm25", "--per-query", "--json", *NONE],
        ["eval", "corpus", "--compare", "bm25", "--markdown", *NONE],
        ["eval", "--run", "theirs.run", "--qrels", "theirs.qrels", "--markdown", *FINE],
        ["eval", "--run", "theirs.run", "--qrels", "theirs.qrels", "--latex", *FINE],
        ["models", *FINE],
        ["models", "--json", *FINE],
        ["ingest", "corpus", "-c", "c", "--dry-run", "--json", *NONE],
    ]


def main(place: Path) -> None:
    """Carry out the commands."""
    os.chdir(place)
    _run(on_terminal(place))
    # From here on one source is not what it was when it was taken in.
    next(place.glob("no*/ti*")).unlink()
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), descriptor)
    _run(on_pipes())


def _run(calls: Sequence[Sequence[str]]) -> None:
    """Call ragcli, a line with the call's number before and after each on stdout and stderr."""
    from ragcli.__main__ import main as ragcli

    for number, arguments in enumerate(calls):
        _tell(f"{MARK} {number}\n")
        words = [_filled(word) for word in arguments]
        code = ragcli(words)
        _tell(f"\n{MARK} {number} gave {code}\n")


def _tell(line: str) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.write(line)
        stream.flush()


def _filled(word: str) -> str:
    """The word, ID and OLD at its beginning replaced by the id of a document in the collection `c` or `old`."""
    from ragcli.collection import Collection

    for start, name in (("ID", "c"), ("OLD", "old")):
        if word in (start, f"{start}:0"):
            with Collection.open(Path(os.environ["RAGCLI_DATA_DIR"]), name).snapshot() as snapshot:
                known = sorted(row.document_id for row in snapshot.documents())
            return word.replace(start, known[-1])
    return word


if __name__ == "__main__":
    main(Path(sys.argv[1]))
