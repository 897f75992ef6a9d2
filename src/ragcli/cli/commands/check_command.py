"""`ragcli check`: check each sentence of a text against the documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.filter_options import filter_from, note_unknown_keys
from ragcli.cli.option_groups.llm_options import (
    prompts_folder,
    refuse_unused_llm_options,
    required_language_model,
)
from ragcli.cli.option_groups.table_parameters import table_command
from ragcli.cli.terminal import note, write
from ragcli.errors import EXIT_DONE, EXIT_INSUFFICIENT, DocumentError, InputError
from ragcli.options import OptionValues
from ragcli.options.command_options import CHECK, JSON
from ragcli.options.query_options import COLLECTIONS, FILTERS, LANGUAGE_MODEL

if TYPE_CHECKING:
    from ragcli.grounding.faithfulness.claims import FaithfulnessJudge
    from ragcli.retrieval.searcher import Searcher

_MAX_BYTES = 4_000_000
# Of so few bytes nobody can say that they are no text.
_MIN_BYTES_TO_JUDGE = 64

app = new_app()


@table_command(
    app,
    COLLECTIONS,
    CHECK,
    FILTERS,
    LANGUAGE_MODEL,
    JSON,
    epilog=examples(
        "ragcli check draft.md -c papers",
        "ragcli check draft.md -c papers --unsupported || echo 'not everything is in my papers'",
        "pandoc thesis.docx -t markdown | ragcli check - -c papers --json | jq '.sentences[] | select(.missing != [])'",
    ),
)
def check(
    here: CommandContext,
    values: OptionValues,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The text: markdown, LaTeX or plain; - reads it from stdin.")
    ],
) -> int:
    """Check what a text claims, sentence by sentence, against your documents.

    A sentence is held against the documents that it cites: by [1] with a list of references, [@key], \\cite{key},
    (Author 2017), a file's name or a DOI. One that cites nothing here is held against the passages that a search
    finds. The exit code is 6 when a sentence is not supported. Filters hold for the search, not for what is cited.
    """
    chosen = values.faithfulness_judge
    if chosen != "llm":
        refuse_unused_llm_options(values, "is for {faithfulness_judge} llm; no language model is asked otherwise.")
    text = _read_draft_text(file)
    condition = filter_from(values)
    model = prompt = None
    if chosen == "llm":
        from ragcli.llm.prompts import load_prompt

        model = required_language_model(here, values, "{faithfulness_judge} llm")
        prompt = load_prompt("faithfulness", prompts_folder(here))
    collections = here.collections(values.collections)
    note_unknown_keys(collections, values)

    from ragcli.cli.render.progress_bar import track_items
    from ragcli.grounding.check.claim_check import check_draft
    from ragcli.grounding.check.draft_parser import read_draft
    from ragcli.grounding.judge_registry import open_faithfulness_judge
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.searcher import Searcher

    draft = read_draft(text)
    with Searcher(collections, engine=here.config.engine, notify=note) as searcher:
        judging: FaithfulnessJudge = open_faithfulness_judge(chosen, searcher=searcher, model=model, prompt=prompt)
        checked = check_draft(
            searcher,
            draft,
            judging,
            passages=values.passages,
            request=QueryRequest("-", where=condition),
            fallback=_fallback(chosen, searcher),
            notify=note,
        )
        found = list(track_items(checked, len(draft.sentences), "Checking sentences", here.stderr_screen))
    wrong = [each for each in found if each.verdict != "supported"]
    shown = wrong if values.unsupported else found
    if values.json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import check_record

        write_json(check_record(shown, found, draft, chosen))
    else:
        from ragcli.cli.render.check_report import check_text

        write(check_text(shown, found, here.screen))
    return EXIT_INSUFFICIENT if wrong else EXIT_DONE


def _fallback(chosen: str, searcher: Searcher) -> FaithfulnessJudge | None:
    from ragcli.grounding.judge_registry import open_faithfulness_judge

    return open_faithfulness_judge("semantic", searcher=searcher) if chosen == "llm" else None


def _read_draft_text(file: str) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(file).expanduser().open("rb") as stream:
                data = stream.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"{file}: has more than {_MAX_BYTES // 1_000_000} MB; check it in parts.")
    return _decode_draft(data, file)


def _decode_draft(data: bytes, file: str) -> str:
    """The draft as text; what is none would pass for a draft in which nothing is wrong."""
    from ragcli.documents.formats.plain_text_parser import decode_text

    if data.startswith(b"%PDF-"):
        raise InputError(f"{file}: is a PDF; check its text, as in `pdftotext draft.pdf - | ragcli check -`.")
    try:
        return decode_text(data, file)
    except DocumentError as error:
        if len(data) < _MIN_BYTES_TO_JUDGE:
            return data.decode("utf-8", errors="replace")
        raise InputError(f"{error} A draft is markdown, LaTeX or plain text.") from error
