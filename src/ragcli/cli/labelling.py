"""Labelling at the terminal: a passage on the screen, one key, the next passage.

Keys are read one by one from a terminal, without the return key; from a pipe they are read as they come, so that
a session can be scripted. Everything is shown on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from ragcli.cli.terminal import BOLD, DIM, SOURCE, note, safe, safe_line, wrap

if TYPE_CHECKING:
    from ragcli.cli.options import Surroundings
    from ragcli.cli.terminal import Screen
    from ragcli.collection import Collection
    from ragcli.evaluation.judgements import Topic
    from ragcli.evaluation.labelling import Key, Passage, Question
    from ragcli.evaluation.specs import PipelineSpec
    from ragcli.records import StoredChunk

_PROMPT: Final = "relevant? [y]es [n]o [u]nsure [b]ack [q]uit "
_ENDS: Final = ("", "\x03", "\x04")


def label_by_hand(
    collection: Collection,
    topics: Sequence[Topic],
    specs: Sequence[PipelineSpec],
    out: Path,
    depth: int,
    here: Surroundings,
    keys: TextIO,
) -> None:
    """Pool what the pipelines find for each topic, and ask about every passage that `out` has no judgement of."""
    from ragcli.cli.comparison import counting
    from ragcli.cli.techniques import model_in_use
    from ragcli.evaluation.asking import Asker
    from ragcli.evaluation.labelling import QrelsFile, label
    from ragcli.evaluation.labelling import pool as pooled
    from ragcli.retrieval.query import Searcher

    qrels = QrelsFile(out, topics)
    model = model_in_use(here, [spec.techniques for spec in specs])
    pools: list[tuple[Topic, tuple[Passage, ...]]] = []
    with (
        Searcher([collection], engine=here.config.engine, notify=note) as searcher,
        counting(here.side_screen) as progress,
    ):
        askers = [Asker(searcher, spec, model) for spec in specs]
        for done, topic in enumerate(topics, 1):
            rankings = [[_passage(hit.chunk) for hit in asker.query(topic, depth).hits] for asker in askers]
            pools.append((topic, pooled(rankings)))
            progress("Looking for passages", done, len(topics))
    with _key_reader(keys) as read_key:

        def ask(question: Question) -> Key:
            sys.stderr.write(_shown(question, here.side_screen))
            sys.stderr.flush()
            return _answer(read_key)

        outcome = label(pools, qrels, ask)
    note(
        f"{outcome.relevant} relevant, {outcome.not_relevant} not, {outcome.unsure} unsure; "
        f"{outcome.remaining} passages are left to judge; {out} has the judgements."
    )


def _answer(read_key: Callable[[], str]) -> Key:
    from ragcli.evaluation.labelling import KEYS

    while True:
        pressed = read_key()
        if pressed in _ENDS:
            sys.stderr.write("\n")
            return "q"
        for key, word in KEYS.items():
            if pressed.lower() == key:
                sys.stderr.write(word + "\n")
                return key
        if not pressed.isspace():
            sys.stderr.write(f"(y, n, u, b or q, not {safe_line(pressed)!r}) ")
            sys.stderr.flush()


@contextmanager
def _key_reader(stream: TextIO) -> Iterator[Callable[[], str]]:
    """A function that waits for one key and gives it; "" when there are no more."""
    try:
        import termios
        import tty

        descriptor = stream.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError):
        # Not a terminal. termios.error is an OSError on some systems and not on others.
        yield lambda: stream.read(1)
        return
    except Exception as error:
        if type(error).__name__ != "error":
            raise
        yield lambda: stream.read(1)
        return
    try:
        # This throws away what was typed before the first passage was to be seen.
        tty.setcbreak(descriptor)
        yield _typed_keys(descriptor).__next__
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _typed_keys(descriptor: int) -> Iterator[str]:
    """Keys as they are pressed. What an arrow or function key sends begins with ESC and is one key."""
    import os

    while True:
        typed = os.read(descriptor, 64).decode("utf-8", errors="replace")
        if typed.startswith("\x1b") or not typed:
            yield typed
        else:
            yield from typed


def _shown(question: Question, screen: Screen) -> str:
    passage = question.passage
    lines = [
        "",
        screen.style(f"{question.number} of {question.total}", DIM)
        + "  "
        + screen.style(safe_line(question.topic.text), BOLD),
        screen.style(safe_line(f"{passage.source}{', ' + passage.place if passage.place else ''}"), SOURCE),
    ]
    for paragraph in safe(passage.text).split("\n"):
        text = " ".join(paragraph.split())
        if text:
            lines += [text[start:end] for start, end in wrap(text, screen.width)]
    return "\n".join(lines) + "\n" + _PROMPT


def _passage(chunk: StoredChunk) -> Passage:
    from ragcli.evaluation.labelling import Passage

    pages = f"page {chunk.page_start}" if chunk.page_start is not None else ""
    place = ", ".join(part for part in (pages, chunk.heading or "") if part)
    return Passage(chunk.chunk_id, chunk.document_id, chunk.source, place, chunk.text)
