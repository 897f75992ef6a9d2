"""Text files read and written so that a mistake in one is named by file and line, and none is left half-written.

Test collections are edited by hand and passed around; a reader that skips what it does not understand gives
figures that are wrong in silence. So every line must be what its format says, or the reader stops and says
where.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ragcli.errors import InputError

_HALF: Final = re.compile("[\ud800-\udfff]")


def numbered_lines(path: Path, *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers from 1, without line ends.

    Blank lines at the end of the file are passed over. One before that is an error, unless `blank` allows it;
    then it is passed over too. Raises InputError.
    """
    pending: int | None = None
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                line = _decoded(raw, path, number).rstrip("\r\n")
                if not line.strip():
                    pending = pending or number
                    continue
                if pending is not None and not blank:
                    raise at_line(path, pending, "the line is empty")
                yield number, line
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, where a file is needed.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def at_line(path: Path, number: int, what: str) -> InputError:
    """The error to raise for something wrong on one line."""
    return InputError(f"{path}, line {number}: {what}.")


def json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """The JSON object that a line must be. Halves of characters become U+FFFD, as they do in documents."""
    try:
        value = json.loads(line)
        if "\\u" in line:
            value = json.loads(_HALF.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    except json.JSONDecodeError as error:
        raise at_line(path, number, f"not valid JSON ({error.msg} at column {error.colno})") from None
    except ValueError:
        raise at_line(path, number, "the JSON has a number that is too long") from None
    except RecursionError:
        raise at_line(path, number, "the JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise at_line(path, number, "a JSON object in braces is needed")
    return value


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file in one step: after a crash or a full disk there is the old file or the new, never a part.

    Raises InputError when the place cannot be written to.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    place = path.resolve()
    temporary: str | None = None
    # The renaming below would put a file in the place of a device or a pipe.
    if place.exists() and not place.is_file():
        raise InputError(f"{path} cannot be written: it is not a file.")
    try:
        descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".part")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for the owner alone; a result is a file like any other.
        Path(temporary).chmod(place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask())
        Path(temporary).replace(place)
        temporary = None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()


def _decoded(raw: bytes, path: Path, number: int) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise at_line(path, number, f"byte {error.start + 1} is not UTF-8") from None


def _umask() -> int:
    # The only portable way to read the mask is to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
