"""`ragcli ingest`: read files and folders into a collection, or update configured collections."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.collection_options import (
    asked_settings,
    configured_collection,
    open_or_create_collection,
)
from ragcli.cli.option_groups.table_parameters import table_command
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
from ragcli.options import OptionValues
from ragcli.options.command_options import CHUNKING, INGEST, JSON, PARSING, TENANT_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ragcli.collection import IngestOptions, IngestReport, MetadataPatch
    from ragcli.config import CollectionConfig, KeyPath

DEFAULT_COLLECTION = "default"

app = new_app()


@dataclass(frozen=True, slots=True)
class IngestJob:
    """One collection to bring up to date, and from what. No roots means those that the configuration names."""

    name: str
    roots: tuple[Path, ...] = ()
    stdin: bool = False


@table_command(
    app,
    INGEST,
    PARSING,
    CHUNKING,
    TENANT_KEY,
    JSON,
    epilog=examples(
        "ragcli ingest ~/papers -c papers",
        "ragcli ingest ~/papers -c papers --prune --exclude 'drafts/*'",
        "ragcli ingest ~/papers/qec -c papers --meta topic=codes --meta read=true",
        "zcat corpus.jsonl.gz | ragcli ingest - -c corpus",
        "ragcli ingest                  # every collection in collections.toml",
    ),
)
def ingest(
    here: CommandContext,
    values: OptionValues,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...", help="Files and folders; - reads JSON lines from stdin.", show_default=False
        ),
    ] = None,
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

    said = parse_assignments(values.meta)
    asked = asked_settings(values)
    worst = EXIT_DONE
    reports = []
    jobs = _jobs(paths or (), values.collection, here)
    for job in jobs:
        try:
            config = _config_for(job, here, values.encoder)
            options = _ingest_options(config, values, said)
            report = _run_ingest(job, config, options, asked, here)
        except (InputError, CollectionError, UntrustedConfig) as error:
            if len(jobs) == 1:
                raise
            # A disk that is not mounted is no reason to leave the other collections as they are.
            note(f"{job.name}: {error}")
            worst = EXIT_BAD_INPUT
            continue
        reports.append(report)
        if not values.json:
            from ragcli.cli.render.ingest_report import write_report

            write_report(report, here)
        if report.interrupted:
            worst = EXIT_INTERRUPTED
            break
        if report.failures and worst == EXIT_DONE:
            worst = EXIT_SOME_FAILED
    if values.json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import ingest_report_record

        records = [ingest_report_record(report) for report in reports]
        write_json(records[0] if paths or values.collection else records)
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


def _ingest_options(config: CollectionConfig, values: OptionValues, said: MetadataPatch) -> IngestOptions:
    from ragcli.collection import IngestOptions
    from ragcli.documents.parse_options import ReadOptions

    read = ReadOptions(
        pdf_engine=values.pdf_engine or config.pdf_engine,
        ocr="on" if values.ocr or config.ocr else "off",
        passwords=values.password,
    )
    timeout = values.parse_timeout or config.parse_timeout
    return IngestOptions(
        prune=values.prune,
        refresh=values.refresh,
        dry_run=values.dry_run,
        include=config.include if values.include is None else values.include,
        exclude=config.exclude if values.exclude is None else values.exclude,
        read=read if timeout is None else replace(read, timeout=timeout),
        wait=values.wait,
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
        load = here.encoder_loader(
            lambda: collection.settings.encoder,
            watch.notify,
            download="encoder" in asked or "encoder" in config.asked,
        )
        options = replace(options, notify=watch.notify)
        if job.stdin:
            return ingest_jsonl(collection, sys.stdin.buffer, load, options, watch.listen)
        return ingest(collection, job.roots or config.paths, load, options, watch.listen)
