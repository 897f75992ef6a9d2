"""`ragcli collections`: list, show, rename, delete and verify collections."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.commands import transfer_command
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.common_options import CollectionArgument, Json, complete_collection
from ragcli.cli.option_groups.table_parameters import table_command
from ragcli.cli.render.rich_table import counted
from ragcli.cli.terminal import note, safe_line, write
from ragcli.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INTERRUPTED, CollectionBusy, CollectionError
from ragcli.options import OptionError, OptionValues
from ragcli.options.command_options import FORCE, JSON, NEW_NAME, REPAIR, WAIT, YES
from ragcli.serialize import collection_record

if TYPE_CHECKING:
    from ragcli.collection import Collection, CollectionInfo


app = new_app(
    epilog=examples(
        "ragcli collections",
        "ragcli collections show papers",
        "ragcli collections rename papers reading",
        "ragcli collections verify",
        "ragcli collections export papers /media/stick",
    )
)
table_command(
    app,
    FORCE,
    JSON,
    name="export",
    epilog=examples(
        "ragcli collections export papers",
        "ragcli collections export papers - | ssh other ragcli collections import -",
    ),
)(transfer_command.export)
table_command(
    app,
    NEW_NAME,
    JSON,
    name="import",
    epilog=examples(
        "ragcli collections import papers.ragcli.tar",
        "zstd -dc papers.ragcli.tar.zst | ragcli collections import - --name reading",
    ),
)(transfer_command.import_archive)


@app.callback(invoke_without_command=True)
def collections(ctx: typer.Context, as_json: Json = False) -> int:
    """List collections; show, rename, delete, verify, export or import one."""
    return _list(CommandContext(ctx), as_json=as_json) if ctx.invoked_subcommand is None else EXIT_DONE


@table_command(app, JSON, name="list", epilog=examples("ragcli collections list --json | jq -r '.[].name'"))
def list_all(here: CommandContext, values: OptionValues) -> int:
    """List every collection: documents, chunks, size, model, last ingest."""
    return _list(here, as_json=values.json)


@table_command(app, JSON, name="show", epilog=examples("ragcli collections show papers"))
def show(here: CommandContext, values: OptionValues, name: CollectionArgument) -> int:
    """Show one collection: its settings, its size, and the documents that failed."""
    collection = here.collection(name)
    from ragcli.cli.render.evaluation_report import calibration_text

    info, failures, gate = collection.info(), collection.failures(), calibration_text(collection)
    if values.json:
        from ragcli.cli.render.json_output import write_json

        told = [{"source": each.source, "reason": each.reason} for each in failures]
        write_json(collection_record(info) | {"path": str(collection.path), "gate": gate, "failed": told})
        return EXIT_DONE

    from ragcli.cli.render.rich_table import Column, size_text, table, time_text

    settings = info.settings
    rows = [
        ("documents", _count_text(info.documents)),
        ("chunks", _count_text(info.chunks)),
        ("failed", _count_text(info.failures)),
        ("size", size_text(info.bytes)),
        ("last ingest", time_text(info.last_ingest)),
        ("generation", str(info.generation)),
        ("chunk size", f"{settings.chunk_size} characters, {settings.overlap} of them repeated by the next"),
        ("encoder", settings.encoder),
        ("token vectors", settings.token_vectors),
        ("context", settings.context),
        *([("gate", gate)] if gate is not None else []),
        *([("tenants", f"by {settings.tenant_key}")] if settings.tenant_key is not None else []),
        ("folder", str(collection.path)),
    ]
    width = max(len(label) for label, _ in rows)
    write(f"{safe_line(info.name)}\n" + "".join(f"  {label:<{width}}  {safe_line(value)}\n" for label, value in rows))
    if failures:
        cells = [(each.source, each.reason) for each in failures]
        write("\n" + table(here.screen, (Column("Failed"), Column("Reason")), cells))
    return EXIT_DONE


@table_command(app, WAIT, name="rename", epilog=examples("ragcli collections rename papers reading"))
def rename(
    here: CommandContext,
    values: OptionValues,
    name: CollectionArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name it shall have.")],
) -> int:
    """Rename a collection."""
    here.collection(name).rename(new, wait=values.wait, notify=note)
    return EXIT_DONE


@table_command(app, YES, WAIT, name="delete", epilog=examples("ragcli collections delete papers --yes"))
def delete(here: CommandContext, values: OptionValues, name: CollectionArgument) -> int:
    """Delete a collection. The files it was made from are not touched."""
    from ragcli.collection import Collection

    collection = Collection.open(here.data_dir, name)
    if not values.yes:
        if not sys.stdin.isatty():
            raise OptionError("To delete '{given}' without being asked, add {yes}.", given=name)
        sys.stderr.write(f"Delete '{name}' with {_contents_text(collection)}? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            note("nothing was deleted.")
            return EXIT_INTERRUPTED
    collection.delete(wait=values.wait, notify=note)
    return EXIT_DONE


def _contents_text(collection: Collection) -> str:
    try:
        info = collection.info()
    except CollectionError:
        return "contents that cannot be read"
    if info.documents is None or info.chunks is None:
        return "the documents of all its tenants"
    return f"{counted(info.documents, 'document')} and {counted(info.chunks, 'chunk')}"


@table_command(
    app,
    REPAIR,
    WAIT,
    JSON,
    name="verify",
    epilog=examples("ragcli collections verify", "ragcli collections verify papers --repair"),
)
def verify(
    here: CommandContext,
    values: OptionValues,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Without one, all.", autocompletion=complete_collection),
    ] = None,
) -> int:
    """Check every checksum, count and cross-reference, and name what is damaged.

    Exits 3 if anything is damaged, or with --repair, still is.
    """
    mend = values.repair
    results = [_verify_named(each, here, mend=mend, wait=values.wait) for each in _names_to_verify(names, here)]
    if values.json:
        from ragcli.cli.render.json_output import write_json

        write_json(
            [
                {"collection": each.name, "problems": each.problems} | ({"repaired": each.done} if mend else {})
                for each in results
            ]
        )
    else:
        for each in results:
            lines = [*each.done, *each.problems]
            state = counted(len(each.problems), "problem") if each.problems else "whole"
            write(f"{safe_line(each.name)}: {state}\n" + "".join(f"  {safe_line(line)}\n" for line in lines))
    return EXIT_BAD_INPUT if any(each.problems for each in results) else EXIT_DONE


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """What is wrong with a collection, and what was done about it."""

    name: str
    problems: tuple[str, ...]
    done: tuple[str, ...] = ()


def _names_to_verify(names: list[str] | None, here: CommandContext) -> list[str]:
    """The collections named, or all. Not as other commands have it: what cannot be read is what is looked for."""
    from ragcli.collection import Collection, list_collections

    if names:
        return [Collection.open(here.data_dir, name).name for name in dict.fromkeys(names)]
    found = list(list_collections(here.data_dir))
    return found or [each.name for each in here.collections(None)]


def _verify_named(name: str, here: CommandContext, *, mend: bool, wait: bool) -> VerificationResult:
    try:
        return _verify(here.collection(name), here, mend=mend, wait=wait)
    except CollectionBusy:
        raise
    except CollectionError as error:
        return VerificationResult(name, (str(error),))


def _verify(collection: Collection, here: CommandContext, *, mend: bool, wait: bool) -> VerificationResult:
    problems = collection.verify()
    if not problems or not mend:
        return VerificationResult(collection.name, problems)
    from ragcli.cli.render.progress_bar import ingest_progress
    from ragcli.collection import repair

    with ingest_progress(here.stderr_screen) as watch:
        load = here.encoder_loader(lambda: collection.settings.encoder, watch.notify, download=False)
        done = repair(collection, load, watch.listen, wait=wait, notify=watch.notify)
    return VerificationResult(collection.name, collection.verify(), done)


def _count_text(number: int | None) -> str:
    """A number, or what stands for one that is not to be told."""
    return "–" if number is None else f"{number:,}"


def _readable_info(name: str, here: CommandContext) -> CollectionInfo | None:
    """What a list shows of a collection; one that cannot be read is told, and the others are shown."""
    try:
        return here.collection(name).info()
    except CollectionError as error:
        note(str(error))
        return None


def _list(here: CommandContext, *, as_json: bool) -> int:
    from ragcli.collection import list_collections

    names = list_collections(here.data_dir)
    infos = [info for name in names if (info := _readable_info(name, here)) is not None]
    if as_json:
        from ragcli.cli.render.json_output import write_json

        write_json([collection_record(info) for info in infos])
        return EXIT_DONE
    if not names:
        note(f"there is no collection in {here.data_dir} yet; `ragcli ingest PATH` makes one.")
        return EXIT_DONE

    from ragcli.cli.render.rich_table import Column, size_text, table, time_text

    columns = (
        Column("Collection"),
        Column("Documents", number=True),
        Column("Chunks", number=True),
        Column("Size", number=True),
        Column("Model"),
        Column("Last ingest", whole=True),
    )
    rows = [
        (
            info.name,
            _count_text(info.documents) + (f" (+{info.failures} failed)" if info.failures else ""),
            _count_text(info.chunks),
            size_text(info.bytes),
            info.settings.encoder.removeprefix("sentence-transformers/"),
            time_text(info.last_ingest),
        )
        for info in infos
    ]
    write(table(here.screen, columns, rows))
    return EXIT_DONE
