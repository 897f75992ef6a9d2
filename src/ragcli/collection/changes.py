"""Whether the files behind some passages are still what they were when they were taken in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from stat import S_ISREG

from ragcli.collection.collection import Collection
from ragcli.collection.files import find_file, hash_file, is_gone, stamp_of
from ragcli.records import StoredChunk


def changed_sources(collections: Sequence[Collection], chunks: Iterable[StoredChunk]) -> tuple[str, ...]:
    """Sources of those chunks whose file has changed or gone since ingest, each once, in the order of the chunks.

    A file is only read when its size or time differs from what was recorded. Records from standard input have no
    file and never change; a file that may not be read now is taken as unchanged, because nothing is known of it.
    """
    by_name = {collection.name: collection for collection in collections}
    sources: dict[tuple[str, str], list[str]] = {}
    for chunk in chunks:
        if chunk.path is not None and chunk.collection in by_name:
            told = sources.setdefault((chunk.collection, chunk.path), [])
            if chunk.source not in told:
                told.append(chunk.source)
    stale: list[str] = []
    for name in by_name:
        paths = [path for collection, path in sources if collection == name]
        if not paths:
            continue
        with by_name[name].store() as connection:
            for path in paths:
                known = find_file(connection, Path(path))
                if known is not None and _has_changed(path, known.size, known.mtime_ns, known.hash):
                    stale += sources[name, path]
    return tuple(dict.fromkeys(stale))


def _has_changed(path: str, size: int | None, mtime_ns: int | None, content: bytes | None) -> bool:
    if is_gone(path):
        return True
    try:
        state = Path(path).stat()
        if not S_ISREG(state.st_mode):
            # Reading a pipe or a device could go on for ever.
            return True
        if stamp_of(state)[:2] == (size, mtime_ns):
            return False
        return state.st_size != size or hash_file(Path(path)) != content
    except OSError:
        return False
