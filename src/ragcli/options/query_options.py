"""The options of a search: what is asked for, among which documents, how it is ranked and by which techniques."""

from __future__ import annotations

from typing import Final

from ragcli.options.option_model import Conflict, Option, OptionGroup
from ragcli.options.value_readers import (
    FUSION_STAGES,
    parse_collection_weights,
    parse_diversity,
    parse_half_life,
    parse_identity,
    parse_stage_weights,
)

PIPELINE_NAMES: Final = ("classic", "hybrid", "bm25", "tfidf", "dense")
FUSIONS: Final = ("zscore", "minmax", "rrf", "convex")
MAX_HYPOTHETICAL_PASSAGES: Final = 8
"""Hypothetical passages that may be asked for; the paper (Gao et al., ACL 2023) takes as many."""
MAX_COUNT: Final = 1_000_000
"""Hits, candidates or passages that may be asked for: more than one machine's collections are worth."""
MAX_WEIGHT: Final = 1_000_000.0

COLLECTIONS: Final = Option(
    name="collections",
    kind="texts",
    flag="--collection",
    short="-c",
    metavar="NAME",
    help="Search this collection; may be repeated. Without it, all of them.",
)

SEARCH: Final = OptionGroup(
    "Search",
    (
        COLLECTIONS,
        Option(
            name="top",
            kind="whole number",
            short="-n",
            help="How many hits",
            default=5,
            least=1,
            most=MAX_COUNT,
            request=True,
            section="query",
        ),
        Option(
            name="pipeline",
            choices=PIPELINE_NAMES,
            metavar="P",
            help=f"One of {', '.join(PIPELINE_NAMES)}",
            default="hybrid",
            refusal="There is no pipeline '{given}'; choose one of {choices}.",
            request=True,
            section="query",
        ),
        Option(
            name="pool",
            kind="whole number",
            help="Candidates from each first stage, to be reranked",
            least=1,
            most=MAX_COUNT,
            request=True,
            section="query",
            spec=True,
        ),
        Option(
            name="reranker",
            metavar="auto|late|none|MODEL",
            help="What orders the pool: late interaction, a cross-encoder by name or folder, or one elsewhere: "
            "cohere:MODEL, jina:MODEL, or the address of a /rerank endpoint",
            default="auto",
            request=True,
            section="query",
            spec=True,
            guard="model",
            free=("auto", "late", "none"),
        ),
        Option(
            name="reranker_key_env",
            metavar="VARIABLE",
            help="The environment variable with that one's key",
            request=True,
            section="query",
            spec=True,
            guard="secret",
        ),
        Option(name="no_rerank", kind="yes or no", default=False, help="Show the first stage's own order"),
        Option(
            name="like",
            metavar="ID|FILE",
            help="In place of TEXT: find what is like this chunk, document or file",
            request=True,
        ),
    ),
)

FILTERS: Final = OptionGroup(
    "Filters",
    (
        Option(
            name="where",
            kind="texts",
            metavar="FILTER",
            help="Keep to documents whose metadata say so, as in 'year >= 2017 and tag in [\"noise\"]'; "
            "may be repeated, and then all must hold",
        ),
        Option(name="filter", metavar="JSON", help='The same in the operator form, as in \'{"year": {"$gte": 2017}}\''),
        Option(name="since", metavar="TIME", help="Keep to documents from then on: 2024, 2024-05-01, 90d, 6m, 2y"),
        Option(name="until", metavar="TIME", help="Keep to documents up to then, the day or year included"),
    ),
)

ARRANGEMENT: Final = OptionGroup(
    "Arrangement of hits",
    (
        Option(
            name="max_per_source",
            kind="whole number",
            help="At most N hits from one document",
            least=1,
            most=MAX_COUNT,
            request=True,
            section="query",
        ),
        Option(
            name="group",
            kind="yes or no",
            default=False,
            help="Show each document once, with its other passages under the best one",
            request=True,
        ),
        Option(
            name="keep_duplicates",
            kind="yes or no",
            default=False,
            help="Show passages also that say the same as one before them",
            request=True,
        ),
        Option(
            name="identity",
            metavar="content|path|none|KEY",
            help="What makes documents of several collections the same, KEY being one of their metadata",
            default="content",
            reader=parse_identity,
            takes="content, path, none, or a key of the metadata",
            request=True,
        ),
        Option(
            name="weights",
            kind="texts",
            flag="--weight",
            metavar="NAME=W",
            help="Let a collection count W times as much; may be repeated",
            reader=parse_collection_weights,
            takes="a collection and a number, like papers=2",
            default=(),
            request=True,
        ),
        Option(
            name="diversity",
            kind="number",
            metavar="mmr=X",
            help="Prefer hits unlike those before them: maximal marginal relevance, X from 0 (no matter) to 1",
            least=0,
            most=1,
            reader=parse_diversity,
            takes="mmr=X with X from 0 to 1",
            request=True,
            section="query",
            spec=True,
        ),
        Option(
            name="recency",
            kind="number",
            help="How much a document's newness counts, from 0 to 1",
            default_text="0",
            least=0,
            most=1,
            request=True,
            section="query",
            spec=True,
        ),
        Option(
            name="half_life",
            kind="number",
            metavar="AGE",
            help="The age at which newness is half gone: 90d, 6m, 2y",
            default=365.0,
            default_text="365d",
            above=0,
            reader=parse_half_life,
            takes="an age such as 12h, 90d, 6w, 6m or 2y",
            refusal="A half-life is an age such as 12h, 90d, 6w, 6m or 2y, not '{given}'.",
            request=True,
            section="query",
            config_kind="text",
            spec=True,
            requires=(
                Conflict(
                    "recency",
                    "{half_life} says how fast newness is lost; give {recency}, how much it counts, as well.",
                ),
            ),
        ),
    ),
)

FUSION: Final = OptionGroup(
    "Fusion of the stages",
    (
        Option(
            name="fusion",
            choices=FUSIONS,
            help="How the stages' scores become one: z-scores, min-max scores, reciprocal ranks, or BM25 and dense "
            "alone in a convex combination",
            default="zscore",
            request=True,
            section="query",
            spec=True,
        ),
        Option(
            name="rrf_k",
            kind="whole number",
            metavar="K",
            help="With rrf: a rank r counts 1/(K + r)",
            requires=(Conflict("fusion", "{rrf_k} is for {fusion} rrf; give both.", value="rrf"),),
            default=60,
            least=1,
            most=MAX_COUNT,
            request=True,
            section="query",
            spec=True,
        ),
        Option(
            name="alpha",
            kind="number",
            help="With convex: the share of dense, from 0 to 1",
            requires=(Conflict("fusion", "{alpha} is for {fusion} convex; give both.", value="convex"),),
            default=0.5,
            least=0,
            most=1,
            request=True,
            section="query",
            spec=True,
        ),
        Option(
            name="stage_weights",
            flag="--weights",
            metavar="STAGE=W,…",
            help=f"Weights in the fusion, as in bm25=0.7,dense=1.5; the stages are {', '.join(FUSION_STAGES)}",
            reader=parse_stage_weights,
            takes=f"weights like bm25=0.7,dense=1.5, of the stages {', '.join(FUSION_STAGES)}",
            fields=FUSION_STAGES,
            section="query",
            key="weights",
        ),
        *(
            Option(name=stage, kind="number", least=0, most=MAX_WEIGHT, cli=False, request=True, spec=True)
            for stage in FUSION_STAGES
        ),
        Option(
            name="feedback",
            kind="number",
            metavar="W",
            help="Weight of the likeness to the best candidates, after the fusion",
            least=0,
            most=MAX_WEIGHT,
            request=True,
            section="query",
            spec=True,
        ),
        Option(
            name="titles",
            kind="number",
            metavar="W",
            help="How much a word in a title or heading counts in BM25, against 1 in the text",
            least=0,
            most=MAX_WEIGHT,
            request=True,
            section="query",
            spec=True,
        ),
        Option(
            name="rocchio",
            kind="number",
            help="Share of the question in a dense query moved towards its first hits, from 0 to 1",
            least=0,
            most=1,
            request=True,
            section="query",
            spec=True,
        ),
    ),
)

TECHNIQUES: Final = OptionGroup(
    "Query techniques",
    (
        Option(
            name="expand",
            choices=("rm3", "llm"),
            help="Add words of the best passages, or ask in other words as well",
            request=True,
            spec=True,
        ),
        Option(
            name="rewrite",
            kind="yes or no",
            default=False,
            help="Let a language model make the question stand alone; see --history",
            request=True,
            spec=True,
        ),
        Option(
            name="history",
            metavar="FILE",
            help="What was said before: JSON, JSON lines, or user:/assistant: text",
            default=(),
            request=True,
            requires=(
                Conflict("rewrite", "{history} is for {rewrite}, which makes the question stand alone; give both."),
            ),
        ),
        Option(
            name="hyde",
            kind="whole number",
            metavar="[N]",
            bare="1",
            help="Look for what resembles N answers that a language model imagines (1)",
            default=0,
            default_text="",
            least=1,
            most=MAX_HYPOTHETICAL_PASSAGES,
            request=True,
            spec=True,
        ),
        Option(
            name="decompose",
            kind="yes or no",
            default=False,
            help="Take the question apart, by a language model or by its words",
            request=True,
            spec=True,
        ),
        Option(
            name="compress",
            choices=("extractive", "llm"),
            help="Cut each passage to the sentences that answer",
            request=True,
            spec=True,
        ),
    ),
)

LANGUAGE_MODEL: Final = OptionGroup(
    "Language model",
    (
        Option(
            name="llm_base_url",
            metavar="URL",
            help="An OpenAI-compatible endpoint, such as http://localhost:11434/v1",
            section="llm",
            key="base_url",
            guard="endpoint",
        ),
        Option(
            name="llm_model",
            metavar="NAME",
            help="The language model, as the endpoint knows it",
            section="llm",
            key="model",
        ),
        Option(
            name="llm_key_env",
            metavar="VARIABLE",
            help="The environment variable that holds the key",
            section="llm",
            key="api_key_env",
            guard="secret",
        ),
        Option(
            name="max_llm_calls",
            kind="whole number",
            help="Ask the language model at most N times",
            default=1000,
            least=0,
            section="llm",
            key="max_calls",
        ),
        Option(name="llm_timeout", kind="number", default=60.0, least=0.1, cli=False, section="llm", key="timeout"),
        Option(name="max_total_tokens", kind="whole number", least=0, cli=False, section="llm", key="max_total_tokens"),
        Option(name="price_in", kind="number", default=0.0, least=0, cli=False, section="llm"),
        Option(name="price_out", kind="number", default=0.0, least=0, cli=False, section="llm"),
        Option(name="max_cost", kind="number", least=0, cli=False, section="llm"),
        Option(name="llm_cache", kind="yes or no", default=True, cli=False, section="llm", key="cache"),
        Option(name="prompts", cli=False, section="llm", guard="path"),
    ),
)

QUERY_GROUPS: Final = (SEARCH, FILTERS, ARRANGEMENT, FUSION, TECHNIQUES, LANGUAGE_MODEL)
"""What every command has that asks a question."""
REQUEST_OPTIONS: Final = {option.name: option for group in QUERY_GROUPS for option in group.options if option.request}
"""The fields of a QueryRequest, less the question, the filter and what a technique puts there."""
SPEC_OPTIONS: Final = {option.name: option for option in REQUEST_OPTIONS.values() if option.spec}
"""What a pipeline of `ragcli eval` may carry."""
