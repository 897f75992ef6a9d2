"""`ragcli documents`: what a collection holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.filtering import FilterJson, Since, Until, Where, filter_from, note_unknown_keys
from ragcli.cli.lean import LeanCommand, examples, new_app
from ragcli.cli.options import CollectionNames, Json, Surroundings
from ragcli.cli.terminal import write
from ragcli.errors import EXIT_DONE, UsageError

if TYPE_CHECKING:
    from ragcli.collection import DocumentRow, Field

app = new_app()


@app.command(
    cls=LeanCommand,
    epilog=examples(
        "ragcli documents -c papers",
        "ragcli documents -c papers --fields",
        "ragcli documents -c papers --where 'year >= 2017 and author ~ \"Temme\"'",
        "ragcli documents -c papers --json | jq -r '.[] | [.document_id, .title] | @tsv'",
    ),
)
def documents(
    ctx: typer.Context,
    collection: CollectionNames = None,
    fields: Annotated[
        bool, typer.Option("--fields", help="List the keys of the documents' metadata instead, with their types.")
    ] = False,
    where: Where = None,
    filter_json: FilterJson = None,
    since: Since = None,
    until: Until = None,
    as_json: Json = False,
) -> int:
    """List the documents of a collection; without -c, of all of them."""
    here = Surroundings(ctx)
    condition = filter_from(where, filter_json, since, until)
    if fields and condition is not None:
        raise UsageError("--fields lists the keys of all documents; leave the filter out.")
    if fields:
        from ragcli.cli.fields import write_fields

        found: list[tuple[str, Field]] = []
        for each in here.collections(collection):
            with each.snapshot() as snapshot:
                found.extend((each.name, field) for field in snapshot.fields())
        write_fields(found, here, as_json=as_json)
        return EXIT_DONE
    rows: list[tuple[str, DocumentRow]] = []
    collections = here.collections(collection)
    note_unknown_keys(collections, where, filter_json)
    for each in collections:
        with each.snapshot() as snapshot:
            rows.extend((each.name, row) for row in snapshot.documents(condition))
    if as_json:
        from ragcli.cli.output import write_json

        write_json([document_record(name, row) for name, row in rows])
        return EXIT_DONE

    from ragcli.cli.tables import Column, counted, table

    several = len({name for name, _ in rows}) > 1
    columns = [
        *([Column("Collection")] if several else []),
        Column("Id", whole=True),
        Column("Source"),
        Column("Title"),
        Column("Pages", number=True),
        Column("Chunks", number=True),
    ]
    cells = [
        (
            *([name] if several else []),
            row.document_id,
            row.source,
            row.title or "",
            str(row.pages) if row.pages else "",
            f"{row.chunks:,}",
        )
        for name, row in rows
    ]
    write(table(here.screen, columns, cells) + f"{counted(len(rows), 'document')}\n")
    return EXIT_DONE


def document_record(collection: str, row: DocumentRow) -> dict[str, object]:
    """A document as JSON has it."""
    return {
        "collection": collection,
        "document_id": row.document_id,
        "source": row.source,
        "path": row.path,
        "kind": row.kind,
        "title": row.title,
        "pages": row.pages or None,
        "chunks": row.chunks,
        "characters": row.characters,
        "ingested_at": row.ingested_at,
        "warnings": row.warnings,
        "metadata": row.metadata,
    }
