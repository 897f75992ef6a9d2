"""Progress bars on stderr for ingest, archives, evaluation queries and checked sentences.

An ingest's time left is reckoned in chunks, since embedding them is most of the work; how many there will be is
estimated from the files read so far. (Rich's own estimate starts over whenever the total changes.) Where stderr is no
terminal nothing is shown, and the listener given does nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from ragcli.cli.terminal import can_animate, note, rich_console, safe_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ragcli.cli.terminal import Screen
    from ragcli.collection.ingest_events import IngestEvent


Item = TypeVar("Item")

_PHASES: Final = (
    ("checking", "Looking for changes"),
    ("reading", "Reading and embedding"),
    ("fitting", "Fitting TF-IDF"),
    ("compacting", "Tidying up"),
)
_STAGES: Final = (
    ("checking", "Checking"),
    ("copying", "Copying"),
    ("indexing", "Indexing words"),
)


@dataclass(slots=True)
class IngestProgress:
    """What the events so far add up to."""

    phase: str = "checking"
    to_read: int = 0
    files: int = 0
    pages: int = 0
    chunks: int = 0
    done: int = 0
    embedded: int = 0
    since: float = field(default_factory=time.monotonic)

    def take(self, event: IngestEvent) -> None:
        """Add one event."""
        from ragcli.collection import ingest_events

        match event:
            case ingest_events.PhaseStarted(phase):
                self.phase = phase
                if phase == "reading":
                    self.since = time.monotonic()
            case ingest_events.FilesPlanned(_, to_read):
                self.to_read = to_read
            case ingest_events.FileRead(_, _, pages, chunks, _):
                self.files += 1
                self.pages += pages
                self.chunks += chunks
            case ingest_events.ChunksEmbedded(embedded, reused):
                self.embedded += embedded
                self.done += embedded + reused
            case _:
                pass

    @property
    def expected(self) -> int | None:
        """How many chunks there will be, as far as can be told; None before the first file is read."""
        if not self.files or not self.chunks:
            return None
        return max(round(self.chunks * max(self.to_read, self.files) / self.files), self.done)

    def counts(self, now: float) -> str:
        """Files, pages, chunks, chunks a second and the time left, on one line."""
        parts = [f"{self.files}/{self.to_read} files"]
        if self.pages:
            parts.append(f"{self.pages:,} pages")
        parts.append(f"{self.done:,} chunks")
        if self.embedded and now > self.since:
            parts.append(f"{self.embedded / (now - self.since):.0f}/s")
        if self.done and self.expected is not None and now > self.since:
            left = (self.expected - self.done) * (now - self.since) / self.done
            parts.append(f"{duration(left)} left")
        return " · ".join(parts)


def duration(seconds: float) -> str:
    """Seconds as minutes and seconds, or as hours and minutes."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


@dataclass(frozen=True, slots=True)
class ProgressListener:
    """What a long piece of work tells: `listen` takes its events, `notify` its remarks."""

    listen: Callable[[IngestEvent], None]
    notify: Callable[[str], None]


@contextmanager
def ingest_progress(screen: Screen) -> Iterator[ProgressListener]:
    """Show progress on stderr while the body runs, if stderr is a terminal that can."""
    if not can_animate(sys.stderr):
        yield ProgressListener(lambda _event: None, note)
        return
    tally = IngestProgress()
    with _new_bar(screen) as progress:
        task = progress.add_task(_description(tally), total=None, counts="")

        def listen(event: IngestEvent) -> None:
            tally.take(event)
            _update_bar(progress, task, tally)

        say = progress.console.print
        yield ProgressListener(listen, lambda sentence: say(f"ragcli: {safe_line(sentence)}", soft_wrap=True))


@contextmanager
def byte_progress(screen: Screen) -> Iterator[Callable[[str, int, int], None]]:
    """Show on stderr, if it is a terminal that can, how far an archive is: it is told phase, bytes done, and all."""
    if not can_animate(sys.stderr):
        yield lambda _phase, _done, _total: None
        return
    from ragcli.cli.render.rich_table import size_text

    with _new_bar(screen) as progress:
        task = progress.add_task("", total=None, counts="")

        def moved(phase: str, done: int, total: int) -> None:
            counts = f"{size_text(done)} of {size_text(total)}" if total else ""
            progress.update(task, description=dict(_STAGES)[phase], counts=counts, completed=done, total=total or None)

        yield moved


def _new_bar(screen: Screen) -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[counts]}", markup=False),
        console=rich_console(sys.stderr, screen, animated=True),
        transient=True,
        expand=True,
    )


def _update_bar(progress: Progress, task: TaskID, tally: IngestProgress) -> None:
    reading = tally.phase == "reading"
    progress.update(
        task,
        description=_description(tally),
        counts=tally.counts(time.monotonic()) if reading and tally.to_read else "",
        completed=tally.done if reading else 0,
        total=tally.expected if reading else None,
    )


def _description(tally: IngestProgress) -> str:
    return dict(_PHASES).get(tally.phase, tally.phase)


def track_items(items: Iterable[Item], total: int, what: str, screen: Screen) -> Iterator[Item]:
    """The items as they come, with a line that counts them where a person watches."""
    if not can_animate(sys.stderr) or total < 2:
        yield from items
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = rich_console(sys.stderr, screen, animated=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        for item in items:
            yield item
            progress.advance(task)


@contextmanager
def query_progress(screen: Screen) -> Iterator[Callable[[str, int, int], None]]:
    """Show on stderr how many queries each pipeline has answered, where a person watches."""
    if not can_animate(sys.stderr):
        yield lambda _label, _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=rich_console(sys.stderr, screen, animated=True),
        transient=True,
        expand=True,
    )
    with progress:
        task = progress.add_task("Loading", total=None)
        yield lambda label, done, total: progress.update(
            task, description=safe_line(label), completed=done, total=total
        )
