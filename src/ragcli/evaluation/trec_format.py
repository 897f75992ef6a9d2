"""Read and write TREC topics, qrels and runs, with errors that name file and line.

Test collections are edited by hand and passed around; a reader that skips what it does not understand gives figures
that are wrong in silence. So every line must be what its format says, or the reader stops and says where.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

from ragcli.atomic_files import write_output_file
from ragcli.errors import InputError
from ragcli.evaluation.topics_qrels_runs import Qrels, RankedItem, Run, Topic
from ragcli.text.characters import replace_surrogates


def numbered_lines(path: Path, *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers from 1, without line ends.

    Blank lines at the end of the file are passed over. One before that is an error, unless `blank` allows it;
    then it is passed over too. Raises InputError.
    """
    pending: int | None = None
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                line = _decode_line(raw, path, number).rstrip("\r\n")
                if not line.strip():
                    pending = pending or number
                    continue
                if pending is not None and not blank:
                    raise line_error(path, pending, "the line is empty")
                yield number, line
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, where a file is needed.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def line_error(path: Path, number: int, what: str) -> InputError:
    """The error to raise for something wrong on one line."""
    return InputError(f"{path}, line {number}: {what}.")


def parse_json_line(path: Path, number: int, line: str) -> dict[str, Any]:
    """The JSON object that a line must be. Halves of characters become U+FFFD, as they do in documents."""
    try:
        value = json.loads(line)
        if "\\u" in line:
            value = json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))
    except json.JSONDecodeError as error:
        raise line_error(path, number, f"not valid JSON ({error.msg} at column {error.colno})") from None
    except ValueError:
        raise line_error(path, number, "the JSON has a number that is too long") from None
    except RecursionError:
        raise line_error(path, number, "the JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise line_error(path, number, "a JSON object in braces is needed")
    return value


def _decode_line(raw: bytes, path: Path, number: int) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise line_error(path, number, f"byte {error.start + 1} is not UTF-8") from None


TopicField = Literal["title", "desc", "narr"]

BEIR_HEADING: Final = ("query-id", "corpus-id", "score")

_TAG: Final = re.compile(r"<(/?)(top|num|title|desc|narr|smry|con|fac|def|dom)\s*>", re.IGNORECASE)
_LABELS: Final = re.compile(r"^\s*(Number|Topic|Description|Narrative)\s*:", re.IGNORECASE)


def read_topics(path: Path, field: TopicField = "title") -> tuple[Topic, ...]:
    """The topics of a classic TREC file. Raises InputError naming the line of a topic that is incomplete."""
    topics: dict[str, tuple[int, Topic]] = {}
    for start, fields in _topic_blocks(path):
        query_id = fields.get("num", "")
        if not query_id:
            raise line_error(path, start, "the topic that starts here has no <num>")
        text = fields.get(field, "")
        if not text:
            raise line_error(path, start, f"topic {query_id} has no <{field}>")
        _add_once(topics, path, start, Topic(query_id, text))
    if not topics:
        raise InputError(f"{path} has no <top> in it; is it a file of TREC topics?")
    return tuple(topic for _, topic in topics.values())


def read_tsv_topics(path: Path) -> tuple[Topic, ...]:
    """Topics as `id<TAB>text`, one a line."""
    topics: dict[str, tuple[int, Topic]] = {}
    for number, line in numbered_lines(path):
        query_id, tab, text = (part.strip() for part in line.partition("\t"))
        if not tab and "\t" not in line:
            raise line_error(path, number, "a topic needs its id, a tab, and its text")
        if not query_id or not text:
            raise line_error(path, number, f"the topic has no {'id' if not query_id else 'text'}")
        _add_once(topics, path, number, Topic(query_id, text))
    if not topics:
        raise InputError(f"{path} has no topics in it; it is empty.")
    return tuple(topic for _, topic in topics.values())


def read_qrels(path: Path) -> Qrels:
    """Qrels of TREC (four columns) or of BEIR (three, with a heading)."""
    judgements: dict[str, dict[str, int]] = {}
    lines_of: dict[tuple[str, str], int] = {}
    beir = False
    for number, line in numbered_lines(path):
        if number == 1 and tuple(line.strip().split("\t")) == BEIR_HEADING:
            beir = True
            continue
        query_id, item, grade = _parse_grade(path, number, line, beir=beir)
        items = judgements.setdefault(query_id, {})
        if items.get(item, grade) != grade:
            first = lines_of[query_id, item]
            raise line_error(path, number, f"{item} has grade {items[item]} for query {query_id} on line {first}")
        items[item] = grade
        lines_of.setdefault((query_id, item), number)
    if not judgements:
        raise InputError(f"{path} has no judgements in it.")
    return Qrels(judgements)


def read_run(path: Path, name: str | None = None) -> Run:
    """A run in six columns, from any system. Its name is its tag, unless another is given."""
    scores: dict[str, dict[str, float]] = {}
    tag = None
    for number, line in numbered_lines(path):
        columns = line.split()
        if len(columns) != 6:
            raise line_error(
                path, number, f"a run has six columns (query Q0 item rank score tag), this line {len(columns)}"
            )
        query_id, _, item, _, score, tag = columns
        items = scores.setdefault(query_id, {})
        if item in items:
            raise line_error(path, number, f"{item} is already ranked for query {query_id}")
        items[item] = _parse_score(path, number, score)
    if tag is None:
        raise InputError(f"{path} has no ranking in it; it is empty.")
    return Run(
        name or tag,
        {
            query: tuple(RankedItem(item, items[item]) for item in sorted(items, key=lambda item: -items[item]))
            for query, items in scores.items()
        },
    )


def format_run(run: Run) -> str:
    """A run as the six columns of TREC. Scores keep every digit of a 32-bit float."""
    tag = encode_id(run.name)
    return "".join(
        f"{encode_id(query)} Q0 {encode_id(ranked.item)} {rank} {ranked.score:.9g} {tag}\n"
        for query, ranking in run.rankings.items()
        for rank, ranked in enumerate(ranking, 1)
    )


def write_run(path: Path, run: Run) -> None:
    """Write a run file, whole or not at all."""
    write_output_file(path, format_run(run))


def format_qrels(judgements: Mapping[str, Mapping[str, int]]) -> str:
    """Judgements as the four columns of TREC."""
    return "".join(
        f"{encode_id(query)} 0 {encode_id(item)} {grade}\n"
        for query, items in judgements.items()
        for item, grade in items.items()
    )


def encode_id(text: str) -> str:
    """An id as one column: where it has white space, that and its percent signs are percent-encoded."""
    if text and not re.search(r"\s", text):
        return text
    return re.sub(r"[\s%]", lambda match: quote(match.group(), safe=""), text) or "-"


def run_file_paths(template: Path, names: Iterable[str]) -> dict[str, Path]:
    """The file for each run: the template itself for one, `{name}` filled in or the name added for several."""
    known = list(names)
    if len(known) == 1 and "{name}" not in template.name:
        return {known[0]: template}
    plain = {name: re.sub(r"[^A-Za-z0-9._=-]+", "-", name) for name in known}
    if "{name}" in template.name:
        return {name: template.with_name(template.name.replace("{name}", plain[name])) for name in known}
    return {name: template.with_name(f"{template.stem}.{plain[name]}{template.suffix}") for name in known}


def _topic_blocks(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Each <top> with the line it starts on and its fields. Old collections leave most closing tags out."""
    blocks: list[tuple[int, dict[str, str]]] = []
    fields: dict[str, list[str]] | None = None
    current: str | None = None
    for number, line in numbered_lines(path, blank=True):
        at = 0
        for tag in [*_TAG.finditer(line), None]:
            text = line[at : tag.start() if tag else len(line)]
            if text.strip():
                if fields is None:
                    raise line_error(path, number, "text stands outside of a <top>")
                if current is not None:
                    fields.setdefault(current, []).append(text)
            if tag is None:
                break
            at = tag.end()
            closing, name = bool(tag[1]), tag[2].lower()
            if name == "top" and not closing:
                if fields is not None:
                    raise line_error(path, number, f"a <top> starts before the one of line {blocks[-1][0]} has ended")
                fields, current = {}, None
                blocks.append((number, {}))
            elif name == "top":
                if fields is None:
                    raise line_error(path, number, "</top> without a <top>")
                blocks[-1] = (blocks[-1][0], {key: _field_text(parts) for key, parts in fields.items()})
                fields, current = None, None
            else:
                current = None if closing else name
    if fields is not None:
        raise line_error(path, blocks[-1][0], "the <top> that starts here has no </top>")
    return blocks


def _field_text(parts: list[str]) -> str:
    return " ".join(_LABELS.sub("", " ".join(parts)).split())


def _add_once(topics: dict[str, tuple[int, Topic]], path: Path, number: int, topic: Topic) -> None:
    if topic.query_id in topics:
        raise line_error(path, number, f"topic {topic.query_id} stands already on line {topics[topic.query_id][0]}")
    topics[topic.query_id] = (number, topic)


def _parse_grade(path: Path, number: int, line: str, *, beir: bool) -> tuple[str, str, int]:
    columns = [part.strip() for part in line.split("\t")] if beir else line.split()
    if beir and len(columns) == 3:
        query_id, item, grade = columns
    elif not beir and len(columns) == 4:
        query_id, _, item, grade = columns
    else:
        needed = "three columns (query, item, score)" if beir else "four columns (query, iteration, item, grade)"
        raise line_error(path, number, f"a judgement has {needed}, this line {len(columns)}")
    if not query_id or not item:
        raise line_error(path, number, "the query or the item is empty")
    try:
        return query_id, item, int(grade)
    except ValueError:
        raise line_error(path, number, f"the grade must be a whole number, not '{grade}'") from None


def _parse_score(path: Path, number: int, text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise line_error(path, number, f"the score must be a number, not '{text}'")
    return score
