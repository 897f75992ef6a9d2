"""`ragcli import-index`: an index that `ia_utils.rag.save_index` wrote becomes a collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.lean import LeanCommand, examples, new_app
from ragcli.cli.options import Json, Surroundings, complete_collection
from ragcli.cli.settings import EncoderName, TokenVectors, absolute_model, collection_for, configured
from ragcli.errors import EXIT_DONE, InputError

if TYPE_CHECKING:
    from ragcli.models import Encoder

app = new_app()


@app.command(
    cls=LeanCommand,
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
    from ragcli.cli.progress import watched
    from ragcli.collection import import_index as run_import

    here = Surroundings(ctx)
    source = Path(folder).expanduser()
    if not source.is_dir():
        raise InputError(f"{folder}: there is no such folder.")
    # That index embedded chunks as they stand, so vectors of questions and of later chunks must be made alike.
    asked = {"encoder": absolute_model(encoder), "token_vectors": token_vectors, "context": "none"}
    config = configured(collection, here, encoder=encoder)
    target = collection_for(collection, config, asked, here)
    with target as made, watched(here.side_screen) as watch:

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
        from ragcli.cli.output import write_json
        from ragcli.cli.reports import report_record

        write_json(report_record(report))
    else:
        from ragcli.cli.reports import show_report

        show_report(report, here)
    return EXIT_DONE
