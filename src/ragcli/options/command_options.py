"""The options of single commands, and those that every command or many have."""

from __future__ import annotations

from typing import Final

from ragcli.options.option_model import Conflict, Option, OptionGroup, options_by_name
from ragcli.options.query_options import MAX_COUNT, QUERY_GROUPS

COLOR_MODES: Final = ("auto", "always", "never")
PRESETS: Final = ("strict", "balanced", "lenient")
SUFFICIENCY_JUDGES: Final = ("calibrated", "heuristic")
FAITHFULNESS_JUDGES: Final = ("semantic", "heuristic", "llm")
TOPIC_FORMATS: Final = ("beir", "trec", "tsv", "queries", "jsonl", "lines")
TOPIC_FIELDS: Final = ("title", "desc", "narr")
LEVELS: Final = ("auto", "document", "chunk")
PDF_ENGINES: Final = ("pdfium", "pypdf")
DEFAULT_ENCODER: Final = "sentence-transformers/all-MiniLM-L6-v2"


def flag(name: str, text: str, **more: object) -> Option:
    """An option that is given or not."""
    return Option(name=name, kind="yes or no", default=False, help=text, **more)  # type: ignore[arg-type]


GLOBAL: Final = OptionGroup(
    "General",
    (
        Option(name="data_dir", metavar="DIR", help="Folder of the collections", section="top", guard="collections"),
        Option(name="config", metavar="FILE", help="The collections.toml to read"),
        Option(name="color", choices=COLOR_MODES, help="Colours"),
        Option(name="tenant", metavar="NAME", help="Whose documents to read, of collections that have tenants"),
    ),
)
"""What every command takes, before its name or after it."""

COLLECTION: Final = Option(name="collection", short="-c", metavar="NAME", help="The collection")
JSON: Final = flag("json", "Print JSON")
WAIT: Final = flag("wait", "Wait while another process writes to the collection")
ENCODER: Final = Option(
    name="encoder",
    metavar="MODEL",
    help="Makes vectors of texts: a name on the hub, or a folder",
    section="collection",
    guard="model",
    free=("none", DEFAULT_ENCODER),
)
TOKEN_VECTORS: Final = Option(
    name="token_vectors",
    choices=("bits", "none"),
    help="Keep token vectors for reranking, or make them anew",
    section="collection",
)

CHUNKING: Final = OptionGroup(
    "Chunks and vectors",
    (
        Option(
            name="chunk_size",
            kind="whole number",
            help="Characters in a chunk",
            default_text="1200",
            least=50,
            section="collection",
        ),
        Option(
            name="overlap",
            kind="whole number",
            help="Characters that the next chunk repeats",
            default_text="200",
            least=0,
            section="collection",
        ),
        ENCODER,
        TOKEN_VECTORS,
        Option(
            name="embedding_context",
            flag="--context",
            key="context",
            choices=("none", "title", "heading"),
            help="What is embedded before a chunk's text",
            default_text="heading",
            section="collection",
        ),
    ),
)

INGEST: Final = OptionGroup(
    "Files",
    (
        COLLECTION,
        Option(
            name="include",
            kind="texts",
            metavar="GLOB",
            help="Take only files that match; may be repeated",
            section="collection",
        ),
        Option(
            name="exclude",
            kind="texts",
            metavar="GLOB",
            help="Leave out files that match; may be repeated",
            section="collection",
        ),
        Option(name="paths", kind="texts", cli=False, section="collection only", guard="path"),
        flag("prune", "Drop documents whose file is gone"),
        flag("refresh", "Read anew what an older version of its parser has read"),
        flag("dry_run", "Say what would happen, and change nothing"),
        WAIT,
        Option(
            name="meta",
            kind="texts",
            default=(),
            metavar="KEY=VALUE",
            help="Say this of every document found; KEY= takes a key away; may be repeated",
        ),
    ),
)
PARSING: Final = OptionGroup(
    "Parsing",
    (
        Option(
            name="pdf_engine",
            choices=PDF_ENGINES,
            help="What reads PDFs",
            default_text="pdfium",
            section="collection",
        ),
        flag("ocr", "Read pages without text by OCR", section="collection"),
        Option(
            name="password",
            kind="texts",
            default=(),
            metavar="TEXT",
            help="Try this on encrypted PDFs; may be repeated",
        ),
        Option(
            name="parse_timeout",
            kind="number",
            metavar="SECONDS",
            help="Give a document up after so long, and 1 s a page",
            default_text="60",
            above=0,
            section="collection",
        ),
    ),
)
TENANT_KEY: Final = Option(
    name="tenant_key",
    metavar="KEY",
    help="Let everybody read only documents whose metadata say so under this key. For a new collection",
    section="collection only",
)
ENGINE: Final = Option(name="engine", choices=("auto", "onnx", "torch"), default="auto", cli=False, section="models")

PRESET: Final = Option(
    name="preset", choices=PRESETS, help="How much evidence it takes", default="balanced", section="ask"
)
ASK: Final = OptionGroup(
    "Verdict and answer",
    (
        PRESET,
        Option(
            name="sufficiency_judge",
            flag="--judge",
            key="judge",
            choices=SUFFICIENCY_JUDGES,
            choice_prefix="plugin:",
            help="What weighs the evidence",
            default="calibrated",
            section="ask",
        ),
        Option(
            name="retries",
            kind="whole number",
            help="Search at most N times more, in other words",
            default=2,
            least=0,
            section="ask",
            excludes=(Conflict("agent", "{retries} and {agent} exclude each other; the agent has {rounds}."),),
        ),
        flag("override", "Let the question through whatever the judge says, and record that"),
        flag(
            "extract",
            "Answer with the best sentences, word for word and cited",
            excludes=(Conflict("answer", "{extract} and {answer} exclude each other; give one of them."),),
        ),
        flag("answer", "Let a language model answer from the evidence, citing it"),
        Option(
            name="sentences",
            kind="whole number",
            help="How many sentences an extract has at most",
            default_text="3",
            least=1,
            most=MAX_COUNT,
            refusal="{sentences} takes a number from 1 on, and is for {extract}.",
            requires=(Conflict("extract", "{sentences} takes a number from 1 on, and is for {extract}."),),
        ),
        Option(
            name="prompt",
            metavar="FILE",
            help="The prompt for --answer, in place of our own",
            requires=(Conflict("answer", "{prompt} is for {answer}, which asks a language model; give both."),),
        ),
        Option(
            name="check",
            choices=(*FAITHFULNESS_JUDGES, "none"),
            choice_prefix="plugin:",
            help="What holds each sentence of the model's answer against the evidence",
            default="semantic",
            requires=(
                Conflict(
                    "answer",
                    "{check} is for {answer}; what {extract} shows stands in the documents word for word.",
                ),
            ),
        ),
    ),
)
AGENT: Final = OptionGroup(
    "Agent",
    (
        flag("agent", "Search in rounds: take the question apart, judge, and look for what is still missing"),
        Option(
            name="rounds",
            kind="whole number",
            help="How many rounds the agent takes at most",
            default=3,
            least=1,
            most=MAX_COUNT,
            requires=(Conflict("agent", "{rounds} is for {agent}; give both."),),
        ),
        flag(
            "trace",
            "Show every query of the agent, what it brought, and the times",
            requires=(Conflict("agent", "{trace} is for {agent}; give both."),),
        ),
    ),
)
ASK_OUTPUT: Final = OptionGroup(
    "Output",
    (JSON, flag("explain_verdict", "Show every attempt, what the judge saw, and every stage's time", flag="--explain")),
)
QUERY_OUTPUT: Final = OptionGroup(
    "Output",
    (
        JSON,
        flag("jsonl", "Print JSON, one hit a line"),
        flag("paths_only", "Print the paths of the documents found, each once", flag="--paths"),
        flag("explain", "Show every stage's score and time"),
        flag("strict", "Fail when a hit's file has changed or gone since it was ingested"),
    ),
)
CHECK: Final = OptionGroup(
    "Check",
    (
        Option(
            name="faithfulness_judge",
            flag="--judge",
            choices=FAITHFULNESS_JUDGES,
            choice_prefix="plugin:",
            help="What holds each sentence against its passages",
            default="semantic",
        ),
        Option(
            name="passages",
            flag="--top",
            short="-n",
            kind="whole number",
            help="Hold each sentence against N passages",
            default=5,
            least=1,
            most=MAX_COUNT,
        ),
        flag("unsupported", "Show only the sentences that are not supported"),
    ),
)
GREP: Final = OptionGroup(
    "Match",
    (
        flag("regex", "PATTERN is a regular expression, case-sensitive unless -i", short="-E"),
        flag("ignore_case", "Ignore case, as literals do", short="-i"),
        flag("word", "Match whole words only", short="-w"),
        Option(
            name="max_hits",
            kind="whole number",
            help="Stop after N hits (10, or with --all no limit)",
            least=1,
            most=MAX_COUNT,
        ),
        Option(
            name="snippet_context",
            flag="--context",
            kind="whole number",
            help="Characters to show on each side",
            default=300,
            least=0,
            most=MAX_COUNT,
        ),
        flag("every", "Report every occurrence, not one a chunk", flag="--all"),
        flag("files", "Print only the paths of documents with a hit", short="-l"),
        flag("count", "Print only the number of hits in each document"),
    ),
)
AROUND: Final = Option(
    name="around",
    kind="whole number",
    help="With so many chunks before and after",
    default=0,
    least=0,
    most=MAX_COUNT,
)
FIELDS: Final = flag("fields", "List the keys of the documents' metadata instead, with their types")

EVALUATION: Final = OptionGroup(
    "Questions and pipelines",
    (
        COLLECTION,
        Option(name="qrels", metavar="FILE", help="What is relevant: TREC qrels, BEIR's, or JSONL"),
        Option(
            name="compare",
            kind="texts",
            metavar="P,P,…",
            help="Pipelines, with options if any: bm25,hybrid:pool=50,expand=rm3",
        ),
        Option(name="run", kind="texts", metavar="FILE", help="Score this TREC run; may be repeated"),
        Option(
            name="depth",
            kind="whole number",
            help="Rank so many documents a question",
            default_text="100",
            least=1,
            most=MAX_COUNT,
        ),
        Option(name="split", metavar="NAME", help="Which qrels of a BEIR folder"),
        Option(
            name="topic_format",
            flag="--format",
            choices=TOPIC_FORMATS,
            help="The form of DATA, if not detected",
        ),
        Option(name="topic_field", choices=TOPIC_FIELDS, help="The question in TREC topics", default="title"),
        Option(name="level", choices=LEVELS, help="What is ranked and judged", default="auto"),
        flag("fresh", "Ingest the BEIR folder's corpus anew"),
    ),
)
MEASURES: Final = OptionGroup(
    "Measures and comparison",
    (
        Option(
            name="metric",
            kind="texts",
            metavar="M",
            help="A measure by its name in ir-measures; may be repeated",
        ),
        Option(name="baseline", metavar="P", help="Show the change against this pipeline"),
        flag("per_query", "List wins and losses against the baseline, worst first"),
        flag("p_values", "Show the p-values of every pair"),
        Option(
            name="significance",
            flag="--alpha",
            kind="number",
            metavar="P",
            help="Mark differences with a corrected p up to this",
            default=0.05,
            above=0,
            below=1,
        ),
    ),
)
GATE_EVALUATION: Final = OptionGroup(
    "Gate of ask",
    (
        Option(
            name="gate",
            kind="texts",
            metavar="calibrated|heuristic",
            help="Measure this gate too; `calibrated` is, where a question is labelled unanswerable",
        ),
        Option(
            name="gate_preset",
            flag="--preset",
            choices=PRESETS,
            help="How much the gate asks for",
            default="balanced",
        ),
        flag("calibrate_gate", "Fit the gate to these questions and keep that with the collection"),
        flag("forget_gate", "Let go of what --calibrate-gate has kept with the collection"),
    ),
)
LABELLING: Final = OptionGroup(
    "Labelling",
    (
        Option(name="make_qrels", metavar="QUESTIONS", help="Label passages by hand for these questions"),
        Option(name="qrels_out", metavar="FILE", help="Where labels go: TREC qrels, or .jsonl"),
    ),
)
EVALUATION_OUTPUT: Final = OptionGroup(
    "Output",
    (
        JSON,
        flag("markdown", "Print the table in Markdown"),
        flag("latex", "Print the table in LaTeX"),
        Option(name="run_out", metavar="FILE", help="Write TREC runs; {name} stands for the pipeline"),
        Option(name="plot", metavar="FILE", help="Draw quality and recall: .svg, .html or .png"),
    ),
)
YES: Final = flag("yes", "Do not ask", short="-y")
REPAIR: Final = flag("repair", "Rebuild what is damaged from the texts, then check again")
FORCE: Final = flag("force", "Replace FILE if it is there")
NEW_NAME: Final = Option(name="new_name", flag="--name", metavar="NEW", help="Call it so, and not as it was called")
REVOKE: Final = flag("revoke", "Take the permission back")
LIST: Final = flag("list", "List the files that are trusted")

CONFIG_ONLY: Final = OptionGroup("Configuration", (ENGINE, TENANT_KEY))
ALL_GROUPS: Final = (
    *QUERY_GROUPS,
    GLOBAL,
    INGEST,
    PARSING,
    CHUNKING,
    ASK,
    AGENT,
    QUERY_OUTPUT,
    ASK_OUTPUT,
    CHECK,
    GREP,
    EVALUATION,
    MEASURES,
    GATE_EVALUATION,
    LABELLING,
    EVALUATION_OUTPUT,
    CONFIG_ONLY,
    OptionGroup("Other", (AROUND, FIELDS, YES, REPAIR, FORCE, NEW_NAME, REVOKE, LIST)),
)


def section_options(*sections: str) -> dict[str, Option]:
    """The options that stand in these sections of `collections.toml`, by their keys there."""
    return {
        option.config_key: option
        for option in options_by_name(*ALL_GROUPS).values()
        if option.section and option.section in sections
    }


def flag_of(name: str) -> str:
    """An option's spelling on the command line; the name itself where there is no such option."""
    option = options_by_name(*ALL_GROUPS).get(name)
    return name if option is None or not option.cli else option.long_flag
