"""`ragcli reindex`: a collection made anew from the texts it holds, with another model or chunking if asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragcli.cli.gating import has_calibration
from ragcli.cli.lean import LeanCommand, examples, new_app
from ragcli.cli.options import Json, Surroundings, Wait, complete_collection
from ragcli.cli.settings import ChunkSize, Context, EncoderName, Overlap, TokenVectors, absolute_model
from ragcli.cli.terminal import note
from ragcli.errors import EXIT_DONE, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from ragcli.models import Encoder

app = new_app()


@app.command(
    cls=LeanCommand,
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
    from ragcli.cli.progress import watched
    from ragcli.collection import reindex as run_reindex

    here = Surroundings(ctx)
    target = here.collection(collection)
    asked: dict[str, Any] = {
        "chunk_size": chunk_size,
        "overlap": overlap,
        "encoder": absolute_model(encoder),
        "token_vectors": token_vectors,
        "context": context,
    }
    settings = replace(target.settings, **{field: value for field, value in asked.items() if value is not None})
    with watched(here.side_screen) as watch:

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
        from ragcli.cli.output import write_json
        from ragcli.cli.reports import report_record

        write_json(report_record(report))
    else:
        from ragcli.cli.reports import show_report

        show_report(report, here, idle="rebuilt")
    return EXIT_INTERRUPTED if report.interrupted else EXIT_DONE
