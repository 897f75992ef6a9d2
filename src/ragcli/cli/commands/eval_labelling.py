"""`ragcli eval --make-qrels`: judge pooled passages at the terminal, one key each.

Keys are read one by one from a terminal, without the return key; from a pipe they are read as they come, so that a
session can be scripted. Everything is shown on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from ragcli.cli.terminal import BOLD, DIM, SOURCE, note, safe, safe_line, wrap

if TYPE_CHECKING:
    from ragcli.cli.command_context import CommandContext
    from ragcli.cli.terminal import Screen
    from ragcli.collection import Collection
    from ragcli.evaluation.pipeline_spec import PipelineSpec
    from ragcli.evaluation.relevance_labels import LabelKey, LabelPassage, LabelQuestion
    from ragcli.evaluation.topics_qrels_runs import Topic
    from ragcli.options import OptionValues
    from ragcli.types import StoredChunk

_PROMPT: Final = "relevant? [y]es [n]o [u]nsure [b]ack [q]uit "
_ENDS: Final = ("", "\x03", "\x04")


def label_by_hand(
    collection: Collection,
    topics: Sequence[Topic],
    specs: Sequence[PipelineSpec],
    out: Path,
    depth: int,
    here: CommandContext,
    values: OptionValues,
    keys: TextIO,
) -> None:
    """Pool what the pipelines find for each topic, and ask about every passage that `out` has no judgement of."""
    from ragcli.cli.option_groups.llm_options import technique_model
    from ragcli.cli.render.progress_bar import query_progress
    from ragcli.evaluation.pipeline_runner import MODEL_FAILURES
    from ragcli.evaluation.relevance_labels import QrelsFile, label_passages
    from ragcli.evaluation.relevance_labels import pool_passages as pooled
    from ragcli.llm.chat_model import CircuitBreaker
    from ragcli.retrieval.searcher import Searcher

    qrels = QrelsFile(out, topics)
    model, prompts = technique_model(here, values, [spec.request("?", 1) for spec in specs])
    steady = CircuitBreaker(model, MODEL_FAILURES) if model is not None else None
    pools: list[tuple[Topic, tuple[LabelPassage, ...]]] = []
    with (
        Searcher(
            [collection], engine=here.config.engine, notify=note, language_model=steady, prompts=prompts
        ) as searcher,
        query_progress(here.stderr_screen) as progress,
    ):
        for done, topic in enumerate(topics, 1):
            requests = [spec.request(topic.text, depth, topic.history) for spec in specs]
            rankings = [[_passage_of(hit.chunk) for hit in searcher.query(request).hits] for request in requests]
            pools.append((topic, pooled(rankings)))
            progress("Looking for passages", done, len(topics))
    with _key_reader(keys) as read_key:

        def ask(question: LabelQuestion) -> LabelKey:
            sys.stderr.write(_question_text(question, here.stderr_screen))
            sys.stderr.flush()
            return _read_answer(read_key)

        outcome = label_passages(pools, qrels, ask)
    note(
        f"{outcome.relevant} relevant, {outcome.not_relevant} not, {outcome.unsure} unsure; "
        f"{outcome.remaining} passages are left to judge; {out} has the judgements."
    )


def _read_answer(read_key: Callable[[], str]) -> LabelKey:
    from ragcli.evaluation.relevance_labels import LABEL_KEYS

    while True:
        pressed = read_key()
        if pressed in _ENDS:
            sys.stderr.write("\n")
            return "q"
        for key, word in LABEL_KEYS.items():
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


def _question_text(question: LabelQuestion, screen: Screen) -> str:
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


def _passage_of(chunk: StoredChunk) -> LabelPassage:
    from ragcli.evaluation.relevance_labels import LabelPassage

    pages = f"page {chunk.page_start}" if chunk.page_start is not None else ""
    place = ", ".join(part for part in (pages, chunk.heading or "") if part)
    return LabelPassage(chunk.chunk_id, chunk.document_id, chunk.source, place, chunk.text)
