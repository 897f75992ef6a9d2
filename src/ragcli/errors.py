"""Exceptions with their messages and exit codes.

Every error carries one plain sentence: what is wrong, with which file, and what to do about it. The command line
prints that sentence and leaves with the class's exit code; a library caller catches `RagcliError`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from ragcli.text.display_width import column_width

EXIT_DONE: Final = 0
EXIT_NO_MATCH: Final = 1
EXIT_USAGE: Final = 2
EXIT_BAD_INPUT: Final = 3
EXIT_SOME_FAILED: Final = 4
EXIT_NO_MODEL: Final = 5
EXIT_INSUFFICIENT: Final = 6
EXIT_INTERRUPTED: Final = 130


class RagcliError(Exception):
    """Base of every error ragcli raises on purpose. `str(error)` is the sentence to show."""

    exit_code: ClassVar[int] = EXIT_BAD_INPUT
    picture: tuple[str, ...] = ()
    """Lines that are shown below the sentence as they stand."""

    @property
    def sentence(self) -> str:
        """What is wrong, without the picture."""
        return str(self)

    def caret_display(self, width: int) -> tuple[str, ...]:  # noqa: ARG002
        """The picture for a screen of so many cells."""
        return self.picture


class UsageError(RagcliError):
    """The call itself makes no sense: a bad option, name or combination."""

    exit_code = EXIT_USAGE


class RoleError(UsageError, TypeError):
    """A part given to the search agent came back with what its role cannot give; the sentence names the part."""


class FilterError(UsageError):
    """A filter cannot be read. Its text shows the expression too, with a caret under the fault."""

    def __init__(self, sentence: str, *, expression: str | None = None, at: int = 0) -> None:
        super().__init__(sentence)
        self._expression, self._at = expression, at
        self.picture = () if expression is None else caret_lines(expression, at)

    @property
    def sentence(self) -> str:
        """What is wrong, without the expression."""
        return super().__str__()

    def caret_display(self, width: int) -> tuple[str, ...]:
        """The expression around the fault, and the caret, on one line each of a screen of so many cells."""
        return () if self._expression is None else caret_lines(self._expression, self._at, width)

    def __str__(self) -> str:
        return "\n".join((self.sentence, *self.picture))


class InputError(RagcliError):
    """Something given as input (file, folder, pattern, question) cannot be used."""


class ConfigError(RagcliError):
    """A `collections.toml` is wrong. The sentence names file, key and line."""


class UntrustedConfig(ConfigError):
    """A `collections.toml` found in the current folder asks for what it may not without the user's trust."""


class CollectionError(RagcliError):
    """A collection is damaged, busy, or asked for what it cannot do."""


class MissingCollection(CollectionError):
    """No collection of that name, or no such document or chunk in it."""


class CollectionBusy(CollectionError):
    """Another process is writing to the collection; the sentence names its process id."""


class TenantNeeded(CollectionError):
    """The collection is divided among tenants, and the call does not say whose documents it may read."""

    exit_code = EXIT_USAGE


class DocumentError(RagcliError):
    """One document cannot be read. It costs that document only and ends up in the failures."""


class PasswordNeeded(DocumentError):
    """The document is encrypted and none of the given passwords opens it."""


class ModelUnavailable(RagcliError):
    """A model's weights are not here and may not, or cannot, be fetched."""

    exit_code = EXIT_NO_MODEL


class LanguageModelError(RagcliError):
    """A language model gave no usable answer: unreachable, too slow, over its budget, or not understood."""

    exit_code = EXIT_NO_MODEL


class LanguageModelAway(LanguageModelError):
    """A language model is not there for now: unreachable, too slow, or it refuses. Another question would not help."""


class RerankerUnavailable(ModelUnavailable):
    """A reranker elsewhere gave no scores. A search goes on without it."""


class MissingExtra(RagcliError, ImportError):
    """An optional dependency is not installed; the sentence names the extra that brings it."""

    exit_code = EXIT_NO_MODEL


_CARET_CONTEXT_CHARS: Final = 60


def caret_lines(text: str, at: int, width: int | None = None) -> tuple[str, str]:
    """The text on one line and a caret under character `at`; of a long text, what stands around it.

    Neither line takes more than `width` cells: a terminal would break them, and the caret would point elsewhere.
    """
    start, stop = max(0, at - _CARET_CONTEXT_CHARS), min(len(text), at + _CARET_CONTEXT_CHARS)
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
