"""`ragcli reindex`: rebuild a collection from its stored texts with new settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.option_groups.collection_options import (
    ChunkSize,
    Context,
    EncoderName,
    Overlap,
    TokenVectors,
    absolute_model,
)
from ragcli.cli.option_groups.common_options import Json, Wait, complete_collection
from ragcli.cli.render.evaluation_report import has_calibration
from ragcli.cli.terminal import note
from ragcli.errors import EXIT_DONE, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from ragcli.models import Encoder

app = new_app()


@app.command(
    cls=FastCommand,
    epilog=examples(
        "ragcli reindex -c papers --chunk-size 800",
        "ragcli reindex -c papers --encoder BAAI/bge-small-en-v1.5",
    ),
)
def reindex(
    ctx: typer.Context,
    collection: Annotated[
        str,
        typer.Option("-c", "--collection", metavar="NAME", help="The collection.", autocompletion=complete_collection),
    ],
    chunk_size: ChunkSize = None,
    overlap: Overlap = None,
    encoder: EncoderName = None,
    token_vectors: TokenVectors = None,
    context: Context = None,
    wait: Wait = False,
    as_json: Json = False,
) -> int:
    """Rebuild a collection from the texts it holds, with another model or chunking if asked.

    The files are not read again, and the collection answers queries from its old state until the new one is
    whole.
    """
    from ragcli.cli.render.progress_bar import ingest_progress
    from ragcli.collection import reindex as run_reindex

    here = CommandContext(ctx)
    target = here.collection(collection)
    asked: dict[str, Any] = {
        "chunk_size": chunk_size,
        "overlap": overlap,
        "encoder": absolute_model(encoder),
        "token_vectors": token_vectors,
        "context": context,
    }
    settings = replace(target.settings, **{field: value for field, value in asked.items() if value is not None})
    with ingest_progress(here.stderr_screen) as watch:

        def load() -> Encoder:
            from ragcli.models import load_encoder

            return load_encoder(
                settings.encoder,
                engine=here.config.engine,
                bulk=True,
                notify=watch.notify,
                # What the collection itself names may be a stranger's choice, if it was copied.
                download=encoder is not None,
            )

        learned = has_calibration(target)
        report = run_reindex(target, settings, load, watch.listen, wait=wait, notify=watch.notify)
    if learned and not has_calibration(target):
        note("the gate's calibration went with the old model; `ragcli eval --calibrate-gate` makes a new one.")
    if as_json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import ingest_report_record

        write_json(ingest_report_record(report))
    else:
        from ragcli.cli.render.ingest_report import write_report

        write_report(report, here, idle="rebuilt")
    return EXIT_INTERRUPTED if report.interrupted else EXIT_DONE
