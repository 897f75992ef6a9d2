"""`ragcli reindex`: rebuild a collection from its stored texts with new settings."""

from __future__ import annotations

from dataclasses import replace

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.collection_options import asked_settings
from ragcli.cli.option_groups.table_parameters import table_command
from ragcli.cli.render.evaluation_report import has_calibration
from ragcli.cli.terminal import note
from ragcli.errors import EXIT_DONE, EXIT_INTERRUPTED
from ragcli.options import OptionValues
from ragcli.options.command_options import CHUNKING, COLLECTION, JSON, WAIT

app = new_app()


@table_command(
    app,
    COLLECTION,
    CHUNKING,
    WAIT,
    JSON,
    required=("collection",),
    epilog=examples(
        "ragcli reindex -c papers --chunk-size 800",
        "ragcli reindex -c papers --encoder BAAI/bge-small-en-v1.5",
    ),
)
def reindex(
    here: CommandContext,
    values: OptionValues,
) -> int:
    """Rebuild a collection from the texts it holds, with another model or chunking if asked.

    The files are not read again, and the collection answers queries from its old state until the new one is
    whole.
    """
    from ragcli.cli.render.progress_bar import ingest_progress
    from ragcli.collection import reindex as run_reindex

    target = here.collection(values.collection)
    settings = replace(target.settings, **asked_settings(values))
    with ingest_progress(here.stderr_screen) as watch:
        load = here.encoder_loader(lambda: settings.encoder, watch.notify, download="encoder" in values.stated)
        learned = has_calibration(target)
        report = run_reindex(target, settings, load, watch.listen, wait=values.wait, notify=watch.notify)
    if learned and not has_calibration(target):
        note("the gate's calibration went with the old model; `ragcli eval --calibrate-gate` makes a new one.")
    if values.json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import ingest_report_record

        write_json(ingest_report_record(report))
    else:
        from ragcli.cli.render.ingest_report import write_report

        write_report(report, here, idle="rebuilt")
    return EXIT_INTERRUPTED if report.interrupted else EXIT_DONE
