"""Query techniques on the command line: the options that `query` and `ask` share, and the search that comes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ragcli.cli.options import Surroundings
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.techniques import ModelInUse, TechniqueResult, Techniques

Expand = Annotated[
    str | None,
    typer.Option("--expand", metavar="rm3|llm", help="Add words of the best passages, or ask in other words as well."),
]
Rewrite = Annotated[
    bool, typer.Option("--rewrite", help="Let a language model make the question stand alone; see --history.")
]
History = Annotated[
    str | None,
    typer.Option("--history", metavar="FILE", help="What was said before: JSON, JSON lines, or user:/assistant: text."),
]
Hyde = Annotated[
    int | None,
    typer.Option("--hyde", metavar="[N]", help="Look for what resembles N answers that a language model imagines (1)."),
]
Decompose = Annotated[
    bool, typer.Option("--decompose", help="Take the question apart, by a language model or by its words.")
]
Compress = Annotated[
    str | None,
    typer.Option("--compress", metavar="extractive|llm", help="Cut each passage to the sentences that answer."),
]


def techniques_of(
    *,
    expand: str | None,
    rewrite: bool,
    history: str | None,
    hyde: int | None,
    decompose: bool,
    compress: str | None,
) -> Techniques | None:
    """The techniques that these options ask for; None where they ask for none. Raises UsageError or InputError."""
    if expand is None and not rewrite and history is None and hyde is None and not decompose and compress is None:
        return None
    if hyde is not None and hyde < 1:
        raise UsageError(f"--hyde takes a number of passages, not {hyde}.")
    from ragcli.retrieval.techniques import Techniques, read_history

    if history is not None and not rewrite:
        raise UsageError("--history is for --rewrite, which makes the question stand alone; give both.")
    return Techniques(
        expand=expand,  # type: ignore[arg-type]  # checked there
        rewrite=rewrite,
        history=read_history(Path(history).expanduser()) if history is not None else (),
        hyde=hyde or 0,
        decompose=decompose,
        compress=compress,  # type: ignore[arg-type]
    )


def search_by(
    here: Surroundings,
    techniques: Techniques,
    *,
    base_url: str | None = None,
    model: str | None = None,
    key_env: str | None = None,
    max_calls: int | None = None,
) -> Callable[[Searcher, QueryRequest], TechniqueResult]:
    """A search by these techniques, with the language model that options or the configuration name, if it needs one.

    Where there is none the search goes on without it, and says so. Raises UsageError when only half of it is known,
    UntrustedConfig when the configuration may not name one.
    """
    from ragcli.retrieval.techniques import search

    in_use = model_in_use(here, [techniques], base_url=base_url, model=model, key_env=key_env, max_calls=max_calls)
    return lambda searcher, request: search(
        searcher, request, techniques, in_use.model, prompts=in_use.prompts, no_model=in_use.why_not
    )


def model_in_use(
    here: Surroundings,
    techniques: Iterable[Techniques],
    *,
    base_url: str | None = None,
    model: str | None = None,
    key_env: str | None = None,
    max_calls: int | None = None,
) -> ModelInUse:
    """The language model for these techniques, if one of them asks any; errors as for `search_by`."""
    from ragcli.retrieval.techniques import ModelInUse
    from ragcli.retrieval.techniques.asking import NO_MODEL

    if not any(each.ask_a_model for each in techniques):
        refuse_unused(llm_base_url=base_url, llm_model=model, llm_key_env=key_env, max_llm_calls=max_calls)
        return ModelInUse(why_not=NO_MODEL)
    from ragcli.cli.language import language_model, prompts_folder

    try:
        found = language_model(here, base_url=base_url, model=model, key_env=key_env, max_calls=max_calls)
    except MissingExtra as error:
        return ModelInUse(why_not=str(error))
    return ModelInUse(found, prompts_folder(here) if found is not None else None, NO_MODEL)


def refuse_unused(**options: object) -> None:
    """Raise UsageError for an option about a language model where nothing asks one."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is for a language model, and nothing here asks one "
                "(--expand llm, --rewrite, --hyde, --decompose and --compress llm do)."
            )
