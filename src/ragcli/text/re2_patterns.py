"""Compile regular expressions by RE2, whose searches take time linear in the text."""

from __future__ import annotations

from typing import Any


def compile_re2(
    pattern: str | bytes, *, ignore_case: bool = False, dot_all: bool = False, max_memory: int | None = None
) -> Any:
    """RE2's form of the expression, for texts of its type: str, or UTF-8 as bytes, which is faster.

    `dot_all` lets a dot match a line end; `max_memory` bounds the compiled program, in bytes. Raises ValueError with
    RE2's reason.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.dot_nl = dot_all
    if max_memory is not None:
        options.max_mem = max_memory
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it is none"
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
