"""Show a place in a text by a caret on the line below it."""

from __future__ import annotations

from typing import Final

from ragcli.text.characters import column_width

_CONTEXT_CHARS: Final = 60


def caret_lines(text: str, at: int, width: int | None = None) -> tuple[str, str]:
    """The text on one line and a caret under character `at`; of a long text, what stands around it.

    Neither line takes more than `width` cells: a terminal would break them, and the caret would point elsewhere.
    """
    start, stop = max(0, at - _CONTEXT_CHARS), min(len(text), at + _CONTEXT_CHARS)
    # Whatever moves the cursor would move the caret away from the fault.
    line = [character if character.isprintable() else " " for character in text[start:stop]]
    cells = [column_width(character) for character in line]
    before, after = cells[: at - start], cells[at - start :]
    if width is not None:
        while len(line) > 1 and 2 + 2 * (start > 0) + sum(before + after) + 2 * (stop < len(text)) > width:
            if sum(before) > sum(after) or len(after) < 2:
                start += 1
                del before[0], line[0]
            else:
                stop -= 1
                del after[-1], line[-1]
    opening = "… " if start else ""
    closing = " …" if stop < len(text) else ""
    return f"  {opening}{''.join(line)}{closing}", "  " + " " * (len(opening) + sum(before)) + "^"
