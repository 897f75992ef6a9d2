"""`ragcli documents --fields`: the keys that documents' metadata have."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from ragcli.cli.terminal import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.options import Surroundings
    from ragcli.collection import Field
    from ragcli.records import MetadataValue

_LONGEST: Final = 30


def write_fields(fields: Sequence[tuple[str, Field]], here: Surroundings, *, as_json: bool) -> None:
    """Write the keys of each collection, as (collection, field), as a table or as JSON."""
    if as_json:
        from ragcli.cli.output import write_json

        write_json([_record(name, field) for name, field in fields])
        return
    from ragcli.cli.tables import Column, table

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
            ", ".join(map(_shown, field.examples)),
        )
        for name, field in fields
    ]
    write(table(here.screen, columns, rows))


def _record(collection: str, field: Field) -> dict[str, object]:
    return {
        "collection": collection,
        "key": field.key,
        "types": field.types,
        "documents": field.documents,
        "examples": field.examples,
    }


def _shown(value: MetadataValue) -> str:
    """A value as one would write it, cut if it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    text = value.isoformat() if isinstance(value, date) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
