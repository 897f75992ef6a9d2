"""`ragcli collections`: what there is, and the few things to do with one as a whole."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.lean import LeanCommand, examples, new_app
from ragcli.cli.options import CollectionArgument, Json, Surroundings, complete_collection
from ragcli.cli.tables import counted
from ragcli.cli.terminal import note, safe_line, write
from ragcli.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INTERRUPTED, CollectionError, UsageError

if TYPE_CHECKING:
    from ragcli.collection import Collection, CollectionInfo
    from ragcli.models import Encoder

app = new_app(
    epilog=examples(
        "ragcli collections",
        "ragcli collections show papers",
        "ragcli collections rename papers reading",
        "ragcli collections verify",
    )
)


@app.callback(invoke_without_command=True)
def collections(ctx: typer.Context, as_json: Json = False) -> int:
    """List collections; show, rename, delete or verify one."""
    return _list(Surroundings(ctx), as_json=as_json) if ctx.invoked_subcommand is None else EXIT_DONE


@app.command("list", cls=LeanCommand, epilog=examples("ragcli collections list --json | jq -r '.[].name'"))
def list_all(ctx: typer.Context, as_json: Json = False) -> int:
    """List every collection: documents, chunks, size, model, last ingest."""
    return _list(Surroundings(ctx), as_json=as_json)


@app.command("show", cls=LeanCommand, epilog=examples("ragcli collections show papers"))
def show(ctx: typer.Context, name: CollectionArgument, as_json: Json = False) -> int:
    """Show one collection: its settings, its size, and the documents that failed."""
    here = Surroundings(ctx)
    collection = here.collection(name)
    info, failures = collection.info(), collection.failures()
    if as_json:
        from ragcli.cli.output import write_json

        told = [{"source": each.source, "reason": each.reason} for each in failures]
        write_json(info_record(info) | {"path": str(collection.path), "failed": told})
        return EXIT_DONE

    from ragcli.cli.tables import Column, size_text, table, time_text

    settings = info.settings
    rows = [
        ("documents", f"{info.documents:,}"),
        ("chunks", f"{info.chunks:,}"),
        ("failed", f"{info.failures:,}"),
        ("size", size_text(info.bytes)),
        ("last ingest", time_text(info.last_ingest)),
        ("generation", str(info.generation)),
        ("chunk size", f"{settings.chunk_size} characters, {settings.overlap} of them repeated by the next"),
        ("encoder", settings.encoder),
        ("token vectors", settings.token_vectors),
        ("context", settings.context),
        ("folder", str(collection.path)),
    ]
    width = max(len(label) for label, _ in rows)
    write(f"{safe_line(info.name)}\n" + "".join(f"  {label:<{width}}  {safe_line(value)}\n" for label, value in rows))
    if failures:
        cells = [(each.source, each.reason) for each in failures]
        write("\n" + table(here.screen, (Column("Failed"), Column("Reason")), cells))
    return EXIT_DONE


@app.command("rename", cls=LeanCommand, epilog=examples("ragcli collections rename papers reading"))
def rename(
    ctx: typer.Context,
    name: CollectionArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name it shall have.")],
) -> int:
    """Rename a collection."""
    Surroundings(ctx).collection(name).rename(new)
    return EXIT_DONE


@app.command("delete", cls=LeanCommand, epilog=examples("ragcli collections delete papers --yes"))
def delete(
    ctx: typer.Context,
    name: CollectionArgument,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> int:
    """Delete a collection. The files it was made from are not touched."""
    collection = Surroundings(ctx).collection(name)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"To delete '{name}' without being asked, add --yes.")
        info = collection.info()
        sys.stderr.write(f"Delete '{name}' with {info.documents:,} documents and {info.chunks:,} chunks? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            note("nothing was deleted.")
            return EXIT_INTERRUPTED
    collection.delete()
    return EXIT_DONE


@app.command(
    "verify", cls=LeanCommand, epilog=examples("ragcli collections verify", "ragcli collections verify papers --repair")
)
def verify(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Without one, all.", autocompletion=complete_collection),
    ] = None,
    mend: Annotated[
        bool, typer.Option("--repair", help="Rebuild what is damaged from the texts, then check again.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Check every checksum, count and cross-reference, and name what is damaged.

    Exits 3 if anything is damaged, or with --repair, still is.
    """
    here = Surroundings(ctx)
    results = [_verify(each, here, mend=mend) for each in here.collections(names)]
    if as_json:
        from ragcli.cli.output import write_json

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
class Verdict:
    """What is wrong with a collection, and what was done about it."""

    name: str
    problems: tuple[str, ...]
    done: tuple[str, ...] = ()


def _verify(collection: Collection, here: Surroundings, *, mend: bool) -> Verdict:
    problems = collection.verify()
    if not problems or not mend:
        return Verdict(collection.name, problems)
    from ragcli.cli.progress import watched
    from ragcli.collection import repair

    with watched(here.side_screen) as watch:

        def load() -> Encoder:
            from ragcli.models import load_encoder

            return load_encoder(collection.settings.encoder, engine=here.config.engine, bulk=True, notify=watch.notify)

        done = repair(collection, load, watch.listen, notify=watch.notify)
    return Verdict(collection.name, collection.verify(), done)


def info_record(info: CollectionInfo) -> dict[str, object]:
    """A collection as JSON has it."""
    settings = info.settings
    return {
        "name": info.name,
        "documents": info.documents,
        "chunks": info.chunks,
        "bytes": info.bytes,
        "failures": info.failures,
        "last_ingest": info.last_ingest.isoformat() if info.last_ingest is not None else None,
        "generation": info.generation,
        "settings": {
            "chunk_size": settings.chunk_size,
            "overlap": settings.overlap,
            "encoder": settings.encoder,
            "token_vectors": settings.token_vectors,
            "context": settings.context,
        },
    }


def _info(collection: Collection) -> CollectionInfo | None:
    """What a list shows of a collection; one that cannot be read is told, and the others are shown."""
    try:
        return collection.info()
    except CollectionError as error:
        note(str(error))
        return None


def _list(here: Surroundings, *, as_json: bool) -> int:
    from ragcli.collection import list_collections

    names = list_collections(here.data_dir)
    infos = [info for name in names if (info := _info(here.collection(name))) is not None]
    if as_json:
        from ragcli.cli.output import write_json

        write_json([info_record(info) for info in infos])
        return EXIT_DONE
    if not names:
        note(f"there is no collection in {here.data_dir} yet; `ragcli ingest PATH` makes one.")
        return EXIT_DONE

    from ragcli.cli.tables import Column, size_text, table, time_text

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
            f"{info.documents:,}" + (f" (+{info.failures} failed)" if info.failures else ""),
            f"{info.chunks:,}",
            size_text(info.bytes),
            info.settings.encoder.removeprefix("sentence-transformers/"),
            time_text(info.last_ingest),
        )
        for info in infos
    ]
    write(table(here.screen, columns, rows))
    return EXIT_DONE
