"""`ragcli documents`: list documents, or with `--fields` the keys of their metadata."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.filter_options import filter_from, note_unknown_keys
from ragcli.cli.option_groups.table_parameters import table_command
from ragcli.cli.terminal import write
from ragcli.errors import EXIT_DONE
from ragcli.options import OptionError, OptionValues
from ragcli.options.command_options import FIELDS, JSON
from ragcli.options.query_options import COLLECTIONS, FILTERS
from ragcli.serialize import document_record, field_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.collection import DocumentRow, MetadataField
    from ragcli.types import MetadataValue


app = new_app()


@table_command(
    app,
    COLLECTIONS,
    FIELDS,
    FILTERS,
    JSON,
    epilog=examples(
        "ragcli documents -c papers",
        "ragcli documents -c papers --fields",
        "ragcli documents -c papers --where 'year >= 2017 and author ~ \"Temme\"'",
        "ragcli documents -c papers --json | jq -r '.[] | [.document_id, .title] | @tsv'",
    ),
)
def documents(
    here: CommandContext,
    values: OptionValues,
) -> int:
    """List the documents of a collection; without -c, of all of them."""
    from ragcli.engines import open_reader

    condition = filter_from(values)
    if values.fields and condition is not None:
        raise OptionError("{fields} lists the keys of all documents; leave the filter out.")
    if values.fields:
        found: list[tuple[str, MetadataField]] = []
        for each in here.collections(values.collections):
            with open_reader(each) as reader:
                found.extend((each.name, field) for field in reader.fields())
        write_fields(found, here, as_json=values.json)
        return EXIT_DONE
    rows: list[tuple[str, DocumentRow]] = []
    collections = here.collections(values.collections)
    note_unknown_keys(collections, values)
    for each in collections:
        with open_reader(each) as reader:
            rows.extend((each.name, row) for row in reader.documents(condition))
    if values.json:
        from ragcli.cli.render.json_output import write_json

        write_json([document_record(name, row) for name, row in rows])
        return EXIT_DONE

    from ragcli.cli.render.rich_table import Column, counted, table

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


_MAX_VALUE_CHARACTERS: Final = 30


def write_fields(fields: Sequence[tuple[str, MetadataField]], here: CommandContext, *, as_json: bool) -> None:
    """Write the keys of each collection, as (collection, field), as a table or as JSON."""
    if as_json:
        from ragcli.cli.render.json_output import write_json

        write_json([field_record(name, field) for name, field in fields])
        return
    from ragcli.cli.render.rich_table import Column, table

    several = len({name for name, _ in fields}) > 1
    columns = [
        *([Column("Collection")] if several else []),
        Column("Key"),
        Column("Type"),
        Column("Documents", number=True),
        Column("Most often"),
    ]
    rows = [
        (
            *([name] if several else []),
            field.key,
            ", ".join(field.types),
            f"{field.documents:,}",
            ", ".join(map(_metadata_value_text, field.examples)),
        )
        for name, field in fields
    ]
    write(table(here.screen, columns, rows))


def _metadata_value_text(value: MetadataValue) -> str:
    """A value as one would write it, cut if it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    text = value.isoformat() if isinstance(value, date) else str(value)
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[: _MAX_VALUE_CHARACTERS - 1]}…"
