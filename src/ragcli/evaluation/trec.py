"""The files of TREC: topics, qrels and runs.

Topics are read in the classic form (`<top> <num> Number: 301 <title> …`) and as `id<TAB>text`. Qrels are four
columns (query, iteration, item, grade), or the three of BEIR with their heading. Runs are six columns (query,
Q0, item, rank, score, tag); they are written so that trec_eval and ir-measures, which look at the score only,
see the very order of the run. Ids with spaces are percent-encoded there, for the columns are split at spaces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from ragcli.errors import InputError
from ragcli.evaluation.judgements import Qrels, RankedItem, Run, Topic
from ragcli.evaluation.lines import at_line, numbered_lines, write_whole

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
            raise at_line(path, start, "the topic that starts here has no <num>")
        text = fields.get(field, "")
        if not text:
            raise at_line(path, start, f"topic {query_id} has no <{field}>")
        _once(topics, path, start, Topic(query_id, text))
    if not topics:
        raise InputError(f"{path} has no <top> in it; is it a file of TREC topics?")
    return tuple(topic for _, topic in topics.values())


def read_tsv_topics(path: Path) -> tuple[Topic, ...]:
    """Topics as `id<TAB>text`, one a line."""
    topics: dict[str, tuple[int, Topic]] = {}
    for number, line in numbered_lines(path):
        query_id, tab, text = (part.strip() for part in line.partition("\t"))
        if not tab and "\t" not in line:
            raise at_line(path, number, "a topic needs its id, a tab, and its text")
        if not query_id or not text:
            raise at_line(path, number, f"the topic has no {'id' if not query_id else 'text'}")
        _once(topics, path, number, Topic(query_id, text))
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
        query_id, item, grade = _judgement(path, number, line, beir=beir)
        items = judgements.setdefault(query_id, {})
        if items.get(item, grade) != grade:
            first = lines_of[query_id, item]
            raise at_line(path, number, f"{item} has grade {items[item]} for query {query_id} on line {first}")
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
            raise at_line(
                path, number, f"a run has six columns (query Q0 item rank score tag), this line {len(columns)}"
            )
        query_id, _, item, _, score, tag = columns
        items = scores.setdefault(query_id, {})
        if item in items:
            raise at_line(path, number, f"{item} is already ranked for query {query_id}")
        items[item] = _score(path, number, score)
    if tag is None:
        raise InputError(f"{path} has no ranking in it; it is empty.")
    return Run(
        name or tag,
        {
            query: tuple(RankedItem(item, items[item]) for item in sorted(items, key=lambda item: -items[item]))
            for query, items in scores.items()
        },
    )


def run_text(run: Run) -> str:
    """A run as the six columns of TREC. Scores keep every digit of a 32-bit float."""
    tag = column(run.name)
    return "".join(
        f"{column(query)} Q0 {column(ranked.item)} {rank} {ranked.score:.9g} {tag}\n"
        for query, ranking in run.rankings.items()
        for rank, ranked in enumerate(ranking, 1)
    )


def write_run(path: Path, run: Run) -> None:
    """Write a run file, whole or not at all."""
    write_whole(path, run_text(run))


def qrels_text(judgements: Mapping[str, Mapping[str, int]]) -> str:
    """Judgements as the four columns of TREC."""
    return "".join(
        f"{column(query)} 0 {column(item)} {grade}\n"
        for query, items in judgements.items()
        for item, grade in items.items()
    )


def column(text: str) -> str:
    """An id as one column: where it has white space, that and its percent signs are percent-encoded."""
    if text and not re.search(r"\s", text):
        return text
    return re.sub(r"[\s%]", lambda match: quote(match.group(), safe=""), text) or "-"


def run_paths(template: Path, names: Iterable[str]) -> dict[str, Path]:
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
                    raise at_line(path, number, "text stands outside of a <top>")
                if current is not None:
                    fields.setdefault(current, []).append(text)
            if tag is None:
                break
            at = tag.end()
            closing, name = bool(tag[1]), tag[2].lower()
            if name == "top" and not closing:
                if fields is not None:
                    raise at_line(path, number, f"a <top> starts before the one of line {blocks[-1][0]} has ended")
                fields, current = {}, None
                blocks.append((number, {}))
            elif name == "top":
                if fields is None:
                    raise at_line(path, number, "</top> without a <top>")
                blocks[-1] = (blocks[-1][0], {key: _field_text(parts) for key, parts in fields.items()})
                fields, current = None, None
            else:
                current = None if closing else name
    if fields is not None:
        raise at_line(path, blocks[-1][0], "the <top> that starts here has no </top>")
    return blocks


def _field_text(parts: list[str]) -> str:
    return " ".join(_LABELS.sub("", " ".join(parts)).split())


def _once(topics: dict[str, tuple[int, Topic]], path: Path, number: int, topic: Topic) -> None:
    if topic.query_id in topics:
        raise at_line(path, number, f"topic {topic.query_id} stands already on line {topics[topic.query_id][0]}")
    topics[topic.query_id] = (number, topic)


def _judgement(path: Path, number: int, line: str, *, beir: bool) -> tuple[str, str, int]:
    columns = [part.strip() for part in line.split("\t")] if beir else line.split()
    if beir and len(columns) == 3:
        query_id, item, grade = columns
    elif not beir and len(columns) == 4:
        query_id, _, item, grade = columns
    else:
        needed = "three columns (query, item, score)" if beir else "four columns (query, iteration, item, grade)"
        raise at_line(path, number, f"a judgement has {needed}, this line {len(columns)}")
    if not query_id or not item:
        raise at_line(path, number, "the query or the item is empty")
    try:
        return query_id, item, int(grade)
    except ValueError:
        raise at_line(path, number, f"the grade must be a whole number, not '{grade}'") from None


def _score(path: Path, number: int, text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise at_line(path, number, f"the score must be a number, not '{text}'")
    return score
