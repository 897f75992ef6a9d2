"""`ragcli ingest`: read files and folders into a collection, or update configured collections."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.option_groups.collection_options import (
    ChunkSize,
    Context,
    EncoderName,
    Overlap,
    TenantKey,
    TokenVectors,
    absolute_model,
    configured_collection,
    open_or_create_collection,
)
from ragcli.cli.option_groups.common_options import CollectionName, Json, Wait
from ragcli.cli.terminal import note
from ragcli.errors import (
    EXIT_BAD_INPUT,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    CollectionError,
    InputError,
    UntrustedConfig,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ragcli.collection import IngestOptions, IngestReport, MetadataPatch
    from ragcli.config import CollectionConfig, KeyPath
    from ragcli.documents.parse_options import ReadOptions
    from ragcli.models import Encoder

DEFAULT_COLLECTION = "default"

app = new_app()


@dataclass(frozen=True, slots=True)
class IngestJob:
    """One collection to bring up to date, and from what. No roots means those that the configuration names."""

    name: str
    roots: tuple[Path, ...] = ()
    stdin: bool = False


@app.command(
    cls=FastCommand,
    epilog=examples(
        "ragcli ingest ~/papers -c papers",
        "ragcli ingest ~/papers -c papers --prune --exclude 'drafts/*'",
        "ragcli ingest ~/papers/qec -c papers --meta topic=codes --meta read=true",
        "zcat corpus.jsonl.gz | ragcli ingest - -c corpus",
        "ragcli ingest                  # every collection in collections.toml",
    ),
)
def ingest(
    ctx: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...", help="Files and folders; - reads JSON lines from stdin.", show_default=False
        ),
    ] = None,
    collection: CollectionName = None,
    include: Annotated[
        list[str] | None, typer.Option("--include", metavar="GLOB", help="Take only files that match; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Leave out files that match; may be repeated.")
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Drop documents whose file is gone.")] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read anew what an older version of its parser has read.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")] = False,
    wait: Wait = False,
    pdf_engine: Annotated[
        str | None, typer.Option("--pdf-engine", metavar="pdfium|pypdf", help="What reads PDFs (pdfium).")
    ] = None,
    ocr: Annotated[bool, typer.Option("--ocr", help="Read pages without text by OCR.")] = False,
    password: Annotated[
        list[str] | None,
        typer.Option("--password", metavar="TEXT", help="Try this on encrypted PDFs; may be repeated."),
    ] = None,
    parse_timeout: Annotated[
        float | None,
        typer.Option(
            "--parse-timeout", metavar="SECONDS", help="Give a document up after so long, and 1 s a page (60)."
        ),
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option(
            "--meta",
            metavar="KEY=VALUE",
            help="Say this of every document found; KEY= takes a key away; may be repeated.",
        ),
    ] = None,
    chunk_size: ChunkSize = None,
    overlap: Overlap = None,
    encoder: EncoderName = None,
    token_vectors: TokenVectors = None,
    context: Context = None,
    tenant_key: TenantKey = None,
    as_json: Json = False,
) -> int:
    """Take files and folders into a collection.

    Reads PDF, markdown, plain text, HTML and JSON lines. A second run reads only what changed. Without -c the
    collection is called "default"; without PATH, the collections in collections.toml are brought up to date from
    the paths given there.

    A document's metadata are what its file's place says, over it what the document says itself, over that what a
    sidecar beside it says (NAME.meta.toml or NAME.meta.json), over that --meta. A change of a sidecar or of --meta
    costs neither parsing nor embedding.

    Chunking and models are settled when a collection is made; `ragcli reindex` changes them.
    """
    from ragcli.documents.metadata_normalization import parse_assignments

    here = CommandContext(ctx)
    said = parse_assignments(meta or ())
    asked = {
        "chunk_size": chunk_size,
        "overlap": overlap,
        "encoder": absolute_model(encoder),
        "token_vectors": token_vectors,
        "context": context,
        "tenant_key": tenant_key,
    }
    worst = EXIT_DONE
    reports = []
    jobs = _jobs(paths or (), collection, here)
    for job in jobs:
        try:
            config = _config_for(job, here, encoder)
            read = _read_options(
                config, pdf_engine=pdf_engine, ocr=ocr, passwords=password or (), parse_timeout=parse_timeout
            )
            options = _ingest_options(
                config, read, said, include=include, exclude=exclude, prune=prune, dry_run=dry_run, wait=wait
            )
            report = _run_ingest(job, config, replace(options, refresh=refresh), asked, here)
        except (InputError, CollectionError, UntrustedConfig) as error:
            if len(jobs) == 1:
                raise
            # A disk that is not mounted is no reason to leave the other collections as they are.
            note(f"{job.name}: {error}")
            worst = EXIT_BAD_INPUT
            continue
        reports.append(report)
        if not as_json:
            from ragcli.cli.render.ingest_report import write_report

            write_report(report, here)
        if report.interrupted:
            worst = EXIT_INTERRUPTED
            break
        if report.failures and worst == EXIT_DONE:
            worst = EXIT_SOME_FAILED
    if as_json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import ingest_report_record

        records = [ingest_report_record(report) for report in reports]
        write_json(records[0] if paths or collection else records)
    return worst


def _jobs(paths: Sequence[str], collection: str | None, here: CommandContext) -> list[IngestJob]:
    if paths:
        name = collection if collection is not None else DEFAULT_COLLECTION
        if "-" in paths and len(paths) > 1:
            raise UsageError("- reads stdin and cannot be mixed with other paths; give it alone.")
        return [
            IngestJob(name, stdin=True) if list(paths) == ["-"] else IngestJob(name, tuple(map(_checked_path, paths)))
        ]
    config = here.config
    withheld = {each.key for each in config.withheld}
    named = [name for name, each in config.collections.items() if each.paths or _paths_key(name) in withheld]
    if collection is not None:
        if collection not in named:
            where = f"{config.file} gives no paths for it" if config.file else "there is no collections.toml"
            raise UsageError(f"Say what to ingest into '{collection}': {where}, and no PATH was given.")
        return [IngestJob(collection)]
    if not named:
        raise UsageError("Say what to ingest: a file, a folder, or - for JSON lines on stdin.")
    return [IngestJob(name) for name in named]


def _paths_key(name: str) -> KeyPath:
    return "collections", name, "paths"


def _config_for(job: IngestJob, here: CommandContext, encoder: str | None) -> CollectionConfig:
    if not job.roots and not job.stdin:
        here.allow(_paths_key(job.name))
    return configured_collection(job.name, here, encoder=encoder)


def _read_options(
    config: CollectionConfig,
    *,
    pdf_engine: str | None,
    ocr: bool,
    passwords: Sequence[str],
    parse_timeout: float | None,
) -> ReadOptions:
    from ragcli.documents.parse_options import ReadOptions

    engine = pdf_engine if pdf_engine is not None else config.pdf_engine
    if engine not in ("pdfium", "pypdf"):
        raise UsageError(f"--pdf-engine takes pdfium or pypdf, not '{engine}'.")
    timeout = parse_timeout if parse_timeout is not None else config.parse_timeout
    if timeout is not None and not 0 < timeout < float("inf"):
        raise UsageError(f"--parse-timeout takes a number of seconds above 0, not {timeout}.")
    options = ReadOptions(
        pdf_engine="pypdf" if engine == "pypdf" else "pdfium",
        ocr="on" if ocr or config.ocr else "off",
        passwords=tuple(passwords),
    )
    return options if timeout is None else replace(options, timeout=timeout)


def _ingest_options(
    config: CollectionConfig,
    read: ReadOptions,
    said: MetadataPatch,
    *,
    include: Sequence[str] | None,
    exclude: Sequence[str] | None,
    prune: bool,
    dry_run: bool,
    wait: bool,
) -> IngestOptions:
    from ragcli.collection import IngestOptions

    return IngestOptions(
        prune=prune,
        dry_run=dry_run,
        include=tuple(include) if include is not None else config.include,
        exclude=tuple(exclude) if exclude is not None else config.exclude,
        read=read,
        wait=wait,
        meta=said,
    )


def _checked_path(path: str) -> Path:
    """The path as it was named. Checked before a collection is made for it."""
    if not path or "\0" in path:
        raise UsageError(f"'{path}' is not a path; name a file or a folder.")
    root = Path(path).expanduser()
    if not root.exists():
        raise InputError(f"{path}: there is no such file or folder.")
    return root


def _run_ingest(
    job: IngestJob, config: CollectionConfig, options: IngestOptions, asked: Mapping[str, object], here: CommandContext
) -> IngestReport:
    from ragcli.cli.render.progress_bar import ingest_progress
    from ragcli.collection import ingest, ingest_jsonl

    target = open_or_create_collection(job.name, config, asked, here, dry_run=options.dry_run)
    with target as collection, ingest_progress(here.stderr_screen) as watch:

        def load() -> Encoder:
            from ragcli.models import load_encoder

            return load_encoder(
                collection.settings.encoder,
                engine=here.config.engine,
                bulk=True,
                notify=watch.notify,
                # What the collection itself names may be a stranger's choice, if it was copied.
                download=asked["encoder"] is not None or "encoder" in config.asked,
            )

        options = replace(options, notify=watch.notify)
        if job.stdin:
            return ingest_jsonl(collection, sys.stdin.buffer, load, options, watch.listen)
        return ingest(collection, job.roots or config.paths, load, options, watch.listen)
