"""`ragcli collections export` and `import`: write a collection to an archive and read one back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.option_groups.common_options import CollectionArgument
from ragcli.cli.render.rich_table import counted, size_text
from ragcli.cli.terminal import note, safe_line, write
from ragcli.errors import EXIT_DONE, InputError, UsageError
from ragcli.options import OptionError, OptionValues

if TYPE_CHECKING:
    from ragcli.collection import TransferReport

ARCHIVE_SUFFIX = ".ragcli.tar"


def export(
    here: CommandContext,
    values: OptionValues,
    name: CollectionArgument,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help=f"Where to; a folder gets NAME{ARCHIVE_SUFFIX}, as does the current one without it; - is stdout.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Write a collection into one archive, to import it elsewhere.

    The collection is checked first, and the archive holds the state of one moment, though another process may be
    writing. The files it was made from are not in it.
    """
    from ragcli.cli.render.progress_bar import byte_progress
    from ragcli.collection import export_collection

    collection = here.collection(name)
    place = _archive_path(file, name)
    if place is None and values.json:
        raise OptionError("{json} and - both want stdout; name a file for the archive.")
    with byte_progress(here.stderr_screen) as watch, _open_output(place, force=values.force) as stream:
        done = export_collection(collection, stream, watch)
    if place is None:
        note(_transfer_text(done, "stdout"))
    else:
        _write_transfer(done, str(place), as_json=values.json)
    return EXIT_DONE


def import_archive(
    here: CommandContext,
    values: OptionValues,
    file: Annotated[str, typer.Argument(metavar="FILE", help="An archive that export has made; - reads stdin.")],
) -> int:
    """Make a collection of an archive.

    Everything in it is checked before the collection is to be seen. One that is there already is never replaced.
    """
    from ragcli.cli.render.progress_bar import byte_progress
    from ragcli.collection import check_name, import_collection

    if values.new_name is not None:
        check_name(values.new_name)
    called = "The archive on stdin" if file == "-" else file
    with _open_input(file) as stream, byte_progress(here.stderr_screen) as watch:
        done = import_collection(here.data_dir, stream, name=values.new_name, called=called, watch=watch)
    _write_transfer(done, "stdin" if file == "-" else file, as_json=values.json)
    return EXIT_DONE


def _archive_path(file: str | None, name: str) -> Path | None:
    """Where the archive goes; None for stdout."""
    if file == "-":
        if sys.stdout.isatty():
            raise UsageError("An archive is nothing for a terminal; name a file, or pipe it somewhere.")
        return None
    if file == "" or (file is not None and "\0" in file):
        raise UsageError(f"{file!r} is not a path; name a file or a folder.")
    place = Path(file or ".").expanduser()
    return place / f"{name}{ARCHIVE_SUFFIX}" if place.is_dir() else place


@contextmanager
def _open_output(place: Path | None, *, force: bool) -> Iterator[IO[bytes]]:
    from ragcli.atomic_files import atomic_file

    if place is None:
        yield sys.stdout.buffer
        return
    # A file is put there whole, by renaming; a pipe or a device would be lost to it.
    if place.exists() and not place.is_file():
        raise InputError(f"{place} is not a file; - writes the archive to stdout, for a pipe or a device.")
    try:
        with atomic_file(place, replace=force) as stream:
            yield stream
    except FileExistsError:
        raise InputError(f"{place} is there already; --force replaces it.") from None
    except OSError as error:
        raise InputError(f"{place} cannot be written: {error.strerror or error}. Nothing was left there.") from error


@contextmanager
def _open_input(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        if sys.stdin.isatty():
            raise UsageError("- reads an archive from stdin, and stdin is a terminal; name a file, or pipe one in.")
        yield sys.stdin.buffer
        return
    if not file or "\0" in file:
        raise UsageError(f"{file!r} is not a path; name an archive.")
    try:
        stream = Path(file).expanduser().open("rb")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}.") from error
    with stream:
        yield stream


def _write_transfer(done: TransferReport, where: str, *, as_json: bool) -> None:
    if as_json:
        from ragcli.cli.render.json_output import write_json

        write_json(
            {
                "collection": done.collection,
                "file": where,
                "bytes": done.bytes,
                "documents": done.documents,
                "chunks": done.chunks,
                "generation": done.generation,
            }
        )
        return
    write(safe_line(_transfer_text(done, where)) + "\n")


def _transfer_text(done: TransferReport, where: str) -> str:
    held = f"{counted(done.documents, 'document')}, {counted(done.chunks, 'chunk')}"
    return f"{done.collection}: {held} ({where}, {size_text(done.bytes)})."
