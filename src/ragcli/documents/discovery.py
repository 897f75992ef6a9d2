"""Discover the files to ingest: walk folders, apply include and exclude globs, find sidecars."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ragcli.documents.file_access import printable_path
from ragcli.documents.formats.sidecar import is_sidecar, sidecar_names
from ragcli.documents.parser_registry import kind_of
from ragcli.errors import InputError, UsageError
from ragcli.text.characters import replace_surrogates, truncate
from ragcli.text.re2_patterns import compile_re2

GlobMatcher = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read. `path` is absolute; `source` is what people see: the path within the folder they named.

    `sidecar` is the file beside it that says what the document is, if there is one.
    """

    path: Path
    source: str
    sidecar: Path | None = None


@dataclass(frozen=True, slots=True)
class Discovery:
    """The files, sorted by source, and how many were passed over, by suffix or reason (".docx", "hidden")."""

    files: tuple[FoundFile, ...]
    skipped: Mapping[str, int]


def discover(roots: Sequence[Path], *, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Discovery:
    """The readable files among `roots` and in the folders among them.

    A glob with a slash matches the whole path within its root, one without matches a name; `**` spans folders, `*`
    and `?` don't. An excluded folder is not entered. A file named by itself is taken whatever the globs say.
    Raises InputError for a root that isn't there.
    """
    chosen, refused = _compile_globs(include), _compile_globs(exclude)
    skipped: Counter[str] = Counter()
    found: dict[str, FoundFile] = {}
    for root in roots:
        absolute = Path(os.path.abspath(root))  # noqa: PTH100 (resolve() would replace the user's links by their targets)
        try:
            mode = absolute.stat().st_mode
        except OSError as error:
            raise InputError(f"{printable_path(root)} cannot be read: {error.strerror or error}.") from error
        if stat.S_ISDIR(mode):
            files: Iterator[FoundFile] = _walk(absolute, chosen if include else None, refused, skipped)
        elif not stat.S_ISREG(mode):
            raise InputError(f"{printable_path(root)} is neither a file nor a folder.")
        else:
            files = iter([FoundFile(absolute, printable_path(Path(absolute.name)), _sidecar_of(absolute))])
        for file in files:
            if kind_of(file.path) is None:
                skipped[file.path.suffix.lower() or "no suffix"] += 1
                continue
            found.setdefault(os.path.realpath(file.path), file)
    return Discovery(tuple(sorted(found.values(), key=_order)), MappingProxyType(dict(sorted(skipped.items()))))


def _sidecar_of(path: Path) -> Path | None:
    """What has the name of a sidecar of a file that was named by itself."""
    places = (path.with_name(name) for name in sidecar_names(path.name))
    return next((place for place in places if os.path.lexists(place)), None)


def _order(file: FoundFile) -> tuple[str, bytes]:
    return file.source, os.fsencode(file.path)


def _walk(root: Path, chosen: GlobMatcher | None, refused: GlobMatcher, skipped: Counter[str]) -> Iterator[FoundFile]:
    """Files under the root: each folder's own before those that it reaches by a link."""
    top = os.path.realpath(root)
    entered = {_identity(os.stat(root))}  # noqa: PTH116
    waiting: list[tuple[Path, str]] = [(root, "")]
    linked: list[tuple[Path, str]] = []
    while waiting or linked:
        folder, within = waiting.pop() if waiting else linked.pop(0)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            skipped["unreadable"] += 1
            continue
        # A link or a folder of that name is none, but must be told as one that cannot be read.
        named = [each for each in entries if is_sidecar(each.name) and not refused(f"{within}{each.name}")]
        sidecars = {entry.name for entry in named if entry.is_file(follow_symlinks=False)}
        called = {entry.name for entry in named}
        described: set[str] = set()
        for entry in entries:
            source = f"{within}{entry.name}"
            if entry.name in sidecars and not entry.name.startswith("."):
                continue
            try:
                what = entry.stat()
            except OSError:
                skipped["broken link" if entry.is_symlink() else "unreadable"] += 1
                continue
            if entry.name.startswith("."):
                skipped["hidden"] += 1
            elif refused(source):
                skipped["excluded"] += 1
            elif entry.is_symlink() and not _inside(os.path.realpath(entry.path), top):
                skipped["link out of the folder"] += 1
            elif stat.S_ISDIR(what.st_mode):
                if _identity(what) in entered:
                    skipped["linked twice"] += 1
                else:
                    entered.add(_identity(what)) if not entry.is_symlink() else None
                    (linked if entry.is_symlink() else waiting).append((Path(entry.path), f"{source}/"))
            elif not stat.S_ISREG(what.st_mode):
                skipped["not a file"] += 1
            elif chosen is not None and not chosen(source):
                skipped["not included"] += 1
            else:
                path = Path(entry.path)
                beside = next((name for name in sidecar_names(entry.name) if name in called), None)
                described.update([beside] if beside is not None and kind_of(path) is not None else ())
                yield FoundFile(
                    path, printable_path(Path(source)), path.with_name(beside) if beside is not None else None
                )
        if alone := len({name for name in sidecars if not name.startswith(".")} - described):
            skipped["sidecar without a document"] += alone


def _identity(what: os.stat_result) -> tuple[int, int]:
    return what.st_dev, what.st_ino


def _inside(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip(os.sep) + os.sep)


def _compile_globs(globs: Sequence[str]) -> GlobMatcher:
    """Whether one of the globs matches a path within its root.

    By RE2, in time linear in the path: to Python's own engine, a glob of twenty stars is a trap.
    """
    if not globs:
        return lambda _: False
    expressions = []
    for glob in globs:
        try:
            expressions.append(compile_re2(replace_surrogates(_glob_to_regex(glob)), dot_all=True))
        except ValueError as error:
            raise UsageError(f"The glob {truncate(glob, 60)!r} is not one: {error}.") from error

    def matches(source: str) -> bool:
        text = replace_surrogates(source)  # RE2 knows no lone surrogates, which stand for bytes that are not UTF-8
        return any(each.match(text) for each in expressions)

    return matches


def _glob_to_regex(glob: str) -> str:
    """A glob as a regular expression for a path within its root."""
    body = glob.strip("/").removeprefix("./")
    if not body:
        raise UsageError(f"The glob {glob!r} matches nothing.")
    anywhere = "/" not in body
    out: list[str] = []
    place = 0
    while place < len(body):
        character = body[place]
        if body.startswith("**/", place):
            out.append("(?:[^/]+/)*")
            place += 3
            continue
        if body.startswith("**", place):
            out.append(".*")
            place += 2
            continue
        if character == "*":
            out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "[" and (end := body.find("]", place + 2)) > 0:
            inside = re.sub(r"[\\\[]", r"\\\g<0>", body[place + 1 : end])
            out.append(f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]")
            place = end
        else:
            out.append(re.escape(character))
        place += 1
    pattern = "".join(out)
    return rf"(?:.*/)?{pattern}\z" if anywhere else rf"{pattern}\z"
