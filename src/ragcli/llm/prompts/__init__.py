"""Load prompt templates from text files and fill them in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Final

from ragcli.errors import InputError

_LARGEST: Final = 100_000


def load_prompt(name: str, folder: Path | None = None) -> str:
    """The prompt of that name: from the user's folder if it is there, or from the file if `folder` is one.

    Raises InputError for a file that cannot be read.
    """
    packaged = Path(__file__).parent / f"{name}.txt"
    if folder is None:
        return packaged.read_text(encoding="utf-8")
    own = folder if folder.is_file() else folder / f"{name}.txt"
    if own.is_file():
        return _read(own)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such prompt file or folder of prompts.")
    return packaged.read_text(encoding="utf-8")


def fill(template: str, values: Mapping[str, str]) -> str:
    """The prompt with `$name` or `${name}` replaced by the value of that name, `$$` by a dollar sign."""
    return Template(template).safe_substitute(values)


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8-sig") as stream:
            text = stream.read(_LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as a prompt ({error}).") from error
    if len(text) > _LARGEST:
        raise InputError(f"{file}: has more than {_LARGEST:,} characters, which no prompt needs.")
    return text
