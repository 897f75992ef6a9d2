"""`ragcli show`: print a chunk with its neighbours, or a whole document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.table_parameters import table_command
from ragcli.cli.terminal import DIM, SOURCE, safe, safe_line, wrap, write
from ragcli.errors import EXIT_DONE, MissingCollection
from ragcli.options import OptionValues
from ragcli.options.command_options import AROUND, JSON
from ragcli.options.query_options import COLLECTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.terminal import Screen
    from ragcli.collection import DocumentRow
    from ragcli.types import StoredChunk

app = new_app()


@dataclass(frozen=True, slots=True)
class ChunkInContext:
    """A chunk with the text that stands before and after it; overlaps between chunks appear once."""

    chunk: StoredChunk
    before: str
    after: str


@table_command(
    app,
    COLLECTIONS,
    AROUND,
    JSON,
    epilog=examples("ragcli show d1a2b3c4d5:7 --around 1", "ragcli show d1a2b3c4d5 | less"),
)
def show(
    here: CommandContext,
    values: OptionValues,
    identity: Annotated[
        str, typer.Argument(metavar="CHUNK_ID|DOCUMENT_ID", help="As query, grep and documents print them.")
    ],
) -> int:
    """Read a chunk in its place, or a whole document.

    A document may also be named by its source or its path.
    """
    from ragcli.engines import open_reader

    for each in here.collections(values.collections):
        with open_reader(each) as reader:
            chunk = reader.find_chunk(identity)
            if chunk is not None:
                passage = _chunk_in_context(chunk, reader.neighbours(chunk, values.around))
                _write_chunk(passage, here.screen, as_json=values.json)
                return EXIT_DONE
            try:
                row = reader.document(identity)
            except MissingCollection:
                continue
            text = join_overlapping(reader.document_chunks(row.document_id))
            _write_document(each.name, row, text, here.screen, as_json=values.json)
            return EXIT_DONE
    where = f"collection {', '.join(values.collections)}" if values.collections else "any collection"
    raise MissingCollection(f"There is no chunk or document '{identity}' in {where}; `ragcli documents` lists them.")


def join_overlapping(chunks: Sequence[StoredChunk]) -> str:
    """The text that chunks in reading order cover, each place once."""
    parts, reached = [], 0
    for chunk in chunks:
        parts.append(chunk.text[max(reached - chunk.start, 0) :])
        reached = max(reached, chunk.end)
    return "".join(parts)


def _chunk_in_context(chunk: StoredChunk, neighbours: Sequence[StoredChunk]) -> ChunkInContext:
    whole = join_overlapping(neighbours)
    begin = chunk.start - neighbours[0].start
    return ChunkInContext(chunk, whole[:begin], whole[begin + len(chunk.text) :])


def _write_chunk(passage: ChunkInContext, screen: Screen, *, as_json: bool) -> None:
    chunk = passage.chunk
    if as_json:
        from ragcli.cli.render.json_output import write_json

        write_json(
            {
                "source": chunk.source,
                "text": chunk.text,
                "before": passage.before,
                "after": passage.after,
                "collection": chunk.collection,
                "document_id": chunk.document_id,
                "chunk_id": chunk.chunk_id,
                "page_start": chunk.page_start,
                "page_end": chunk.page_end,
                "heading": chunk.heading,
                "title": chunk.title,
                "path": chunk.path,
                "start": chunk.start,
                "end": chunk.end,
                "metadata": chunk.metadata,
            }
        )
        return
    from ragcli.cli.render.hit_table import location_text

    place = location_text(chunk.source, chunk.page_start, chunk.page_end)
    write(_heading(place, chunk.collection, chunk.chunk_id, [chunk.title, chunk.heading], screen))
    # A bar marks the chunk among what is around it; alone it needs none.
    marked = "| " if passage.before or passage.after else ""
    indent = " " * len(marked)
    for text, margin, style in ((passage.before, indent, DIM), (chunk.text, marked, ""), (passage.after, indent, DIM)):
        write(_paragraphs(text, margin, style, screen))


def _write_document(collection: str, row: DocumentRow, text: str, screen: Screen, *, as_json: bool) -> None:
    if as_json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import document_record

        write_json({**document_record(collection, row), "text": text})
        return
    pages = f"{row.pages} pages" if row.pages > 1 else ""
    write(_heading(safe_line(row.source), collection, row.document_id, [row.title, pages, *row.warnings], screen))
    write(_paragraphs(text, "", "", screen))


def _heading(place: str, collection: str, identity: str, lines: Sequence[str | None], screen: Screen) -> str:
    first = screen.style(place, SOURCE) + screen.style(f" [{safe_line(collection)}]  {safe_line(identity)}", DIM)
    others = [screen.style(safe_line(line), DIM) for line in lines if line]
    return "\n".join((first, *others)) + "\n\n"


def _paragraphs(text: str, margin: str, style: str, screen: Screen) -> str:
    if not text.strip():
        return ""
    shown = []
    for line in safe(text).strip("\n").split("\n"):
        spans = wrap(line, max(screen.width - len(margin), 20)) if screen.interactive else [(0, len(line))]
        shown += [margin + (screen.style(line[low:high], style) if style else line[low:high]) for low, high in spans]
    return "\n".join(shown) + "\n"
