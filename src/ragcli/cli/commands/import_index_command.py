"""`ragcli import-index`: import an index saved by `ia_utils.rag.save_index` as a collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.option_groups.collection_options import (
    EncoderName,
    TokenVectors,
    absolute_model,
    configured_collection,
    open_or_create_collection,
)
from ragcli.cli.option_groups.common_options import Json, complete_collection
from ragcli.errors import EXIT_DONE, InputError

if TYPE_CHECKING:
    from ragcli.models import Encoder

app = new_app()


@app.command(
    cls=FastCommand,
    epilog=examples(
        "ragcli import-index old-index/ -c old",
        "ragcli import-index old-index/ -c old --token-vectors none    # needs no model",
    ),
)
def import_index(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder with chunks.json and embeddings.npy.")],
    collection: Annotated[
        str,
        typer.Option(
            "-c", "--collection", metavar="NAME", help="A collection to make.", autocompletion=complete_collection
        ),
    ],
    encoder: EncoderName = None,
    token_vectors: TokenVectors = None,
    as_json: Json = False,
) -> int:
    """Take over an index saved by ia_utils.rag.

    Reads its chunks and its embeddings; its pickles are never opened. Documents get the chunks' texts back
    together, chunk boundaries stay.
    """
    from ragcli.cli.render.progress_bar import ingest_progress
    from ragcli.collection import import_index as run_import

    here = CommandContext(ctx)
    source = Path(folder).expanduser()
    if not source.is_dir():
        raise InputError(f"{folder}: there is no such folder.")
    # That index embedded chunks as they stand, so vectors of questions and of later chunks must be made alike.
    asked = {"encoder": absolute_model(encoder), "token_vectors": token_vectors, "context": "none"}
    config = configured_collection(collection, here, encoder=encoder)
    target = open_or_create_collection(collection, config, asked, here)
    with target as made, ingest_progress(here.stderr_screen) as watch:

        def load() -> Encoder:
            from ragcli.models import load_encoder

            return load_encoder(
                made.settings.encoder,
                engine=here.config.engine,
                bulk=True,
                notify=watch.notify,
                download=encoder is not None or "encoder" in config.asked,
            )

        report = run_import(source, made, load, watch.listen)
    if as_json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import ingest_report_record

        write_json(ingest_report_record(report))
    else:
        from ragcli.cli.render.ingest_report import write_report

        write_report(report, here)
    return EXIT_DONE
