"""Terminal output: control characters replaced, broken pipes handled, width and colour detected.

A document, a file name or a title may hold anything: an escape sequence that retitles the window or hides what
follows, an override that shows "fdp.exe" as "exe.pdf", markup that means something to Rich. Control characters become
control pictures (␛), directional overrides and other invisible controls become U+FFFD, and styles are applied to text
as data, never parsed out of it.

Writing stops quietly when the reader has gone (`ragcli query … | head -1`), and colour is used only where a person
will see it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from ragcli.text.characters import column_width, replace_surrogates

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PROGRAM: Final = "ragcli"

BOLD: Final = "1"
DIM: Final = "2"
MATCH: Final = "1;31"
SOURCE: Final = "36"

# What a terminal acts on, or what changes how the text around it is read, or hides in it: C0 and C1 controls, DEL,
# lone surrogates, directional embeddings, overrides and isolates, line and paragraph separators, interlinear
# annotation, deprecated format characters, tags, and what has no width or no ink: soft hyphen, grapheme joiner,
# Hangul fillers, zero-width space. The marks that Arabic, Hebrew, Indic scripts and emoji need (U+200C to U+200F,
# U+FE00 to U+FE0F) stay, and so does a variant's selector after the ideograph it selects.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    "|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)


class OutputClosedError(Exception):
    """Whoever read our output has closed it. Nothing is wrong; there is nobody left to tell."""


def safe(text: str) -> str:
    """`text` with nothing in it that a terminal would act on. Line breaks stay."""
    return _UNSAFE.sub(_control_replacement, text.replace("\r\n", "\n").replace("\t", "    "))


def safe_line(text: str) -> str:
    """`text` on one line, runs of blanks folded, with nothing in it that a terminal would act on."""
    return _UNSAFE.sub(_control_replacement, " ".join(text.split()))


def name_line(name: str, screen: Screen) -> str:
    """A path or name that stands alone on its line, for a script to use: as it is, and on a terminal safe to show.

    A line break in it would make it two, of which the second is whatever a stranger chose; it becomes a picture.
    """
    if screen.interactive:
        return _UNSAFE.sub(_control_picture, name)
    return name.replace("\n", "\u240a").replace("\r", "\u240d")


def without_surrogates(text: str) -> str:
    """`text` from an argument, whose bytes may have been no UTF-8: what could not be read becomes �."""
    return replace_surrogates(text)


def _control_replacement(found: re.Match[str]) -> str:
    return "\n" if found.group() == "\n" else _control_picture(found)


def _control_picture(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


@dataclass(frozen=True, slots=True)
class Screen:
    """What the output is shown on: its width in cells, whether a person watches it, whether colour is wanted."""

    width: int
    interactive: bool
    colour: bool

    def style(self, text: str, code: str) -> str:
        """`text`, which must be safe already, in an ANSI style where colour is wanted."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


def screen_of(stream: TextIO, colour: str = "auto") -> Screen:
    """The screen behind a stream. `colour` is auto, always or never; auto heeds NO_COLOR and TERM=dumb."""
    interactive = _is_terminal(stream)
    if colour == "auto":
        wanted = interactive and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    else:
        wanted = colour == "always"
    return Screen(_width(), interactive, wanted)


def can_animate(stream: TextIO) -> bool:
    """Whether a moving display makes sense on this stream."""
    return _is_terminal(stream) and os.environ.get("TERM") != "dumb"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _width() -> int:
    import shutil

    return max(shutil.get_terminal_size((80, 24)).columns, 20)


def stderr_width() -> int:
    """Cells of the screen behind stderr, which is a terminal also where stdout is a pipe."""
    import contextlib

    with contextlib.suppress(OSError, ValueError):
        if not os.environ.get("COLUMNS"):
            return max(os.get_terminal_size(sys.stderr.fileno()).columns, 20)
    return _width()


def write(text: str) -> None:
    """Write data to stdout. Raises OutputClosedError when nobody reads it any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosedError from None


def write_lines(lines: Sequence[str] | Iterator[str]) -> None:
    """Write each of `lines` and a line end to stdout, as they come."""
    for line in lines:
        write(line + "\n")


def note(sentence: str, picture: Sequence[str] = ()) -> None:
    """Tell the person something, in one line on stderr. A closed stderr is no reason to fail.

    The lines of `picture` come below it, their blanks as they are.
    """
    import contextlib

    lines = (f"{PROGRAM}: {safe_line(sentence)}", *(_UNSAFE.sub(_control_picture, line) for line in picture))
    with contextlib.suppress(OSError, ValueError):
        print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201


def open_closed_streams() -> None:
    """Put nothing in the place of the streams that the caller has closed (`>&-`).

    Python has None for such a stream. Worse, the next file opened gets its number, and what a library writes to
    stdout or stderr goes into that file, be it a collection's.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115
            os.set_inheritable(nothing.fileno(), True)
            setattr(sys, name, nothing)


def prepare_streams() -> None:
    """Make stdout and stderr take any text, whatever the locale: what can't be encoded is shown as `?`."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def discard_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain about a closed pipe."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def render(screen: Screen, *renderables: RenderableType) -> str:
    """What Rich makes of tables and texts on this screen, as text to write."""
    import io

    console = rich_console(io.StringIO(), screen)
    for each in renderables:
        console.print(each)
    out = console.file
    assert isinstance(out, io.StringIO)  # noqa: S101
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def rich_console(file: TextIO, screen: Screen, *, animated: bool = False) -> Console:
    """A Rich console that never reads markup, emoji codes or patterns out of the text it is given.

    `animated` is for a terminal that shows progress, which needs to move the cursor even without colour.
    """
    from rich.console import Console

    return Console(
        file=file,
        width=screen.width,
        force_terminal=screen.colour or animated,
        color_system="standard" if screen.colour else None,
        no_color=not screen.colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """The (start, end) of each line when `text`, one line without control characters, is broken at `width` cells.

    Breaks at spaces; a word wider than a line is cut. Wide characters count two cells.
    """
    lines: list[tuple[int, int]] = []
    start, cells, space = 0, 0, -1
    at = 0
    while at < len(text):
        step = column_width(text[at])
        if text[at] == " ":
            space = at
        if cells + step > width and at > start:
            if text[at] == " ":
                end, following = at, at + 1
            elif space > start:
                end, following = space, space + 1
            else:
                end, following = at, at
            lines.append((start, end))
            start = at = following
            cells, space = 0, -1
            continue
        cells += step
        at += 1
    if start < len(text) or not lines:
        lines.append((start, len(text)))
    return lines
