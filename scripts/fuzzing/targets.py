"""What is fuzzed: one function for each reader, which reads the bytes and checks what comes of them.

A target returns when all is well, and also when the reader refuses the bytes in the way it may: with a DocumentError,
a ConfigError, an InputError. Anything else it raises is a finding.
"""

from __future__ import annotations

import atexit
import io
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from scripts.fuzzing.checks import Broken, check_document, check_words, holds

from ragcli.config import load_config
from ragcli.documents.character_repair import sanitize_text
from ragcli.documents.formats.html_parser import read_html
from ragcli.documents.formats.jsonl_parser import read_jsonl
from ragcli.documents.formats.markdown_parser import read_markdown
from ragcli.documents.formats.plain_text_parser import decode_text, read_plain_text
from ragcli.documents.parse_options import ReadOptions
from ragcli.documents.pdf.pdf_parser import read_pdf
from ragcli.errors import ConfigError, DocumentError, InputError, RagcliError
from ragcli.evaluation.dataset_loader import read_topics_of_format
from ragcli.evaluation.relevance_labels import format_labelled_questions, read_labelled_questions
from ragcli.evaluation.trec_format import format_qrels, format_run, read_qrels, read_run
from ragcli.types import Document, Failure

_TOLD = re.compile(r", line (\d+): (?:(?:\w+\.)*(\w+) (?!not UTF-8))?", re.ASCII)
_MARKED = ("utf-8-sig", "utf-16", "utf-32")


def check_text(data: bytes) -> None:
    """Plain text: UTF-8 and whatever has a byte order mark come out as they went in."""
    try:
        document = read_plain_text(data, Path("fuzz.txt"))
    except DocumentError as error:
        _check_refusal(error, "fuzz.txt")
        return
    check_document(document)
    try:
        told = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    if b"\x00" not in data and not data.startswith(b"\xef\xbb\xbf"):
        holds(document.text == sanitize_text(told)[0], "UTF-8 is read as it is")
    if told and told[0] not in "\x00\ufeff":
        for encoding in _MARKED:
            again = read_plain_text(told.encode(encoding), Path("fuzz.txt"))
            holds(again.text == sanitize_text(told)[0], f"marked {encoding} is read as it is")


def check_markdown(data: bytes) -> None:
    """Markdown: the text is the file's own but for its front matter, and blocks begin where lines do."""
    try:
        document = read_markdown(data, Path("fuzz.md"))
    except DocumentError as error:
        _check_refusal(error, "fuzz.md")
        return
    check_document(document)
    whole = sanitize_text(decode_text(data, "fuzz.md"))[0]
    holds(whole.endswith(document.text), "markdown is kept word for word")
    for start in (*(heading.start for heading in document.headings), *(span[0] for span in document.spans)):
        holds(start == 0 or document.text[start - 1] == "\n", "markdown's blocks begin where lines do")


def check_html(data: bytes) -> None:
    """A web page: its headings stand where they say."""
    try:
        document = read_html(data, Path("fuzz.html"))
    except DocumentError as error:
        _check_refusal(error, "fuzz.html")
        return
    check_document(document)
    for heading in document.headings:
        holds(document.text.startswith(heading.title.split()[0], heading.start), "a heading stands where it says")


def check_jsonl(data: bytes) -> None:
    """JSON lines: each line that isn't blank gives a document or a failure that names it, in order."""
    name = "fuzz.jsonl"
    lines = list(io.BytesIO(data))
    items = list(read_jsonl(lines, name))
    if lines and lines[0].startswith(b"\xef\xbb\xbf"):
        lines[0] = lines[0][3:]
    numbers = [number for number, line in enumerate(lines, start=1) if line.strip()]
    holds(len(items) == len(numbers), "each line gives one thing")
    for number, item in zip(numbers, items, strict=True):
        if isinstance(item, Failure):
            holds(item.source == f"{name}:{number}", "a failure says on which line")
            holds(f"line {number}" in item.reason, "a failure's reason says on which line")
            check_words(item.reason, "a reason")
        else:
            _check_record(item, lines[number - 1], f"{name}:{number}")


def _check_record(document: Document, line: bytes, otherwise: str) -> None:
    check_document(document)
    record = json.loads(line)
    holds(isinstance(record, dict), "only objects are records")
    text = sanitize_text(record.get("text") or "")[0]
    holds(document.text.endswith(text) if text else document.title, "a record's text is kept")
    given = record.get("id", record.get("_id"))
    if given is None:
        holds(document.record_id == otherwise, "a record without an id is called by its line")
    elif isinstance(given, str) and given.strip():
        holds(document.record_id == sanitize_text(given)[0], "a record keeps its id")


def check_pdf(data: bytes) -> None:
    """A PDF by PDFium, and by pypdf where PDFium refuses it."""
    _check_pdf(data, ReadOptions())


def check_pypdf(data: bytes) -> None:
    """A PDF by pypdf."""
    _check_pdf(data, ReadOptions(pdf_engine="pypdf"))


def _check_pdf(data: bytes, options: ReadOptions) -> None:
    try:
        document = read_pdf(data, Path("fuzz.pdf"), options)
    except DocumentError as error:
        _check_refusal(error, "fuzz.pdf")
        return
    check_document(document)


def check_config(data: bytes) -> None:
    """A configuration: values, or one sentence that names the file, and a line that it has."""
    file = _scratch() / "collections.toml"
    file.write_bytes(data)
    try:
        load_config(file)
    except ConfigError as error:
        _check_refusal(error, str(file))
        told = _TOLD.match(str(error).removeprefix(str(file)))
        if told is not None:
            lines = data.decode("utf-8", "replace").split("\n")
            holds(1 <= int(told[1]) <= len(lines), "the line named is one of the file's")
            holds(told[2] is None or told[2] in lines[int(told[1]) - 1], "the line named has the key")


def check_evaluation(data: bytes) -> None:
    """Topics, qrels, runs and labelled questions; what is read can be written, and is then read as the same."""
    file = _scratch() / "questions"
    file.write_bytes(data)
    for read in (_read_qrels, _read_run, _read_labelled, read_topics_of_format):
        try:
            read(file)
        except InputError as error:
            _check_refusal(error, str(file))


def _read_qrels(file: Path) -> None:
    qrels = read_qrels(file)
    copy = file.with_name("copy")
    copy.write_text(format_qrels(qrels.judgements), encoding="utf-8")
    again = read_qrels(copy)
    holds(again.count == qrels.count, "qrels keep their number when written")


def _read_run(file: Path) -> None:
    run = read_run(file)
    copy = file.with_name("copy")
    copy.write_text(format_run(run), encoding="utf-8")
    again = read_run(copy)
    holds(
        [again.items(query) for query in again.rankings] == [run.items(query) for query in run.rankings],
        "a run keeps its order when written",
    )


def _read_labelled(file: Path) -> None:
    topics, qrels = read_labelled_questions(file, keep_irrelevant=True)
    for topic in topics:
        check_words(topic.query_id, "a query's id")
        check_words(topic.text, "a query")
    if not any(qrels.judgements.get(topic.query_id) for topic in topics):
        return
    copy = file.with_name("copy")
    copy.write_text(format_labelled_questions(topics, qrels.judgements), encoding="utf-8")
    again, judged = read_labelled_questions(copy, keep_irrelevant=True)
    holds(judged.judgements == qrels.judgements, "judgements are the same when written")
    holds({topic.query_id for topic in again} <= {topic.query_id for topic in topics}, "written queries keep their ids")


def _check_refusal(error: RagcliError, name: str) -> None:
    sentence = str(error)
    holds(name in sentence, "a refusal names the file")
    holds(sentence.endswith((".", "?", "!")), "a refusal is a sentence")
    if any("\ud800" <= character <= "\udfff" for character in sentence):
        raise Broken("a refusal has no lone surrogate")


@cache
def _scratch() -> Path:
    """A folder for readers that want a file; gone when the process ends in an orderly way."""
    folder = tempfile.mkdtemp(prefix="ragcli-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


CHECKS: Mapping[str, Callable[[bytes], None]] = {
    "pdf": check_pdf,
    "pypdf": check_pypdf,
    "html": check_html,
    "markdown": check_markdown,
    "text": check_text,
    "jsonl": check_jsonl,
    "config": check_config,
    "evaluation": check_evaluation,
}
"""What is called with every input of a target."""
