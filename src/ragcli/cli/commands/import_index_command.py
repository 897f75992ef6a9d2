"""`ragcli import-index`: import an index saved by `ia_utils.rag.save_index` as a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.collection_options import (
    asked_settings,
    configured_collection,
    open_or_create_collection,
)
from ragcli.cli.option_groups.table_parameters import table_command
from ragcli.errors import EXIT_DONE, InputError
from ragcli.options import OptionValues
from ragcli.options.command_options import COLLECTION, ENCODER, JSON, TOKEN_VECTORS

app = new_app()


@table_command(
    app,
    COLLECTION,
    ENCODER,
    TOKEN_VECTORS,
    JSON,
    required=("collection",),
    epilog=examples(
        "ragcli import-index old-index/ -c old",
        "ragcli import-index old-index/ -c old --token-vectors none    # needs no model",
    ),
)
def import_index(
    here: CommandContext,
    values: OptionValues,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder with chunks.json and embeddings.npy.")],
) -> int:
    """Take over an index saved by ia_utils.rag.

    Reads its chunks and its embeddings; its pickles are never opened. Documents get the chunks' texts back
    together, chunk boundaries stay.
    """
    from ragcli.cli.render.progress_bar import ingest_progress
    from ragcli.collection import import_index as run_import

    source = Path(folder).expanduser()
    if not source.is_dir():
        raise InputError(f"{folder}: there is no such folder.")
    # That index embedded chunks as they stand, so vectors of questions and of later chunks must be made alike.
    asked = asked_settings(values) | {"context": "none"}
    config = configured_collection(values.collection, here, encoder=values.encoder)
    target = open_or_create_collection(values.collection, config, asked, here)
    with target as made, ingest_progress(here.stderr_screen) as watch:
        load = here.encoder_loader(
            lambda: made.settings.encoder,
            watch.notify,
            download="encoder" in values.stated or "encoder" in config.asked,
        )
        report = run_import(source, made, load, watch.listen)
    if values.json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import ingest_report_record

        write_json(ingest_report_record(report))
    else:
        from ragcli.cli.render.ingest_report import write_report

        write_report(report, here)
    return EXIT_DONE
