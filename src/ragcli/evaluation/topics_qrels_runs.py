"""Topics, qrels and runs, as TREC defines them.

A topic is a question with an id. Qrels say which items answer it, and how well. A run is what a system gave for each
topic, best first. The item judged is a document or a chunk, and `Level` says which. They are plain values: reading,
scoring and comparing them is done elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ragcli.llm.chat_model import Message

Level = Literal["document", "chunk"]
Judgements = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Topic:
    """A question. `answerable` is the label of the JSONL form, None where the file does not say.

    `history` is what was said before, for a question that leans on it.
    """

    query_id: str
    text: str
    answerable: bool | None = None
    history: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Qrels:
    """For each query id, the judged items and their grade: 0 is judged and not relevant."""

    judgements: Judgements

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The judged queries, in the order of the file."""
        return tuple(self.judgements)

    @property
    def count(self) -> int:
        """How many judgements there are in all."""
        return sum(len(items) for items in self.judgements.values())

    def items(self) -> frozenset[str]:
        """Every item that is judged for some query."""
        return frozenset(item for items in self.judgements.values() for item in items)

    def relevant(self, query_id: str) -> tuple[str, ...]:
        """The items of one query with a grade above 0, best grade first."""
        items = self.judgements.get(query_id, {})
        return tuple(sorted((item for item in items if items[item] > 0), key=lambda item: -items[item]))

    def only(self, query_ids: Iterable[str]) -> Qrels:
        """The judgements of these queries alone."""
        wanted = frozenset(query_ids)
        return Qrels({query: items for query, items in self.judgements.items() if query in wanted})

    def renamed(self, names: Mapping[str, str]) -> Qrels:
        """The same judgements with items renamed. Of two that become one, the better grade stays."""
        judgements: dict[str, dict[str, int]] = {}
        for query, items in self.judgements.items():
            kept = judgements.setdefault(query, {})
            for item, grade in items.items():
                name = names.get(item, item)
                kept[name] = max(grade, kept.get(name, grade))
        return Qrels(judgements)


@dataclass(frozen=True, slots=True)
class RankedItem:
    """A document or chunk as a system ranked it."""

    item: str
    score: float


@dataclass(frozen=True, slots=True)
class Run:
    """What one system gave: for each query id its items, best first, scores strictly falling."""

    name: str
    rankings: Mapping[str, tuple[RankedItem, ...]]

    def items(self, query_id: str) -> tuple[str, ...]:
        """The items of one query, best first; none if the run has no such query."""
        return tuple(ranked.item for ranked in self.rankings.get(query_id, ()))


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Topics with their qrels, and what had to be left out of them.

    `topics` are those that are judged. `unjudged` counts topics without a judgement and `without_topic` lists
    judged queries of which the words are not known; neither takes part, as in trec_eval. `unknown` lists judged
    items that the collection does not have: they stay in the qrels, out of reach for every pipeline alike.
    """

    name: str
    format: str
    level: Level
    topics: tuple[Topic, ...]
    qrels: Qrels
    split: str | None = None
    unjudged: tuple[Topic, ...] = ()
    without_topic: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


def join_topics(
    topics: Sequence[Topic], qrels: Qrels
) -> tuple[tuple[Topic, ...], tuple[Topic, ...], tuple[str, ...], Qrels]:
    """Judged topics, topics without a judgement, judged queries without a topic, and the qrels that remain."""
    known = {topic.query_id for topic in topics}
    judged = tuple(topic for topic in topics if qrels.judgements.get(topic.query_id))
    unjudged = tuple(topic for topic in topics if not qrels.judgements.get(topic.query_id))
    without_topic = tuple(query for query in qrels.query_ids if query not in known)
    return judged, unjudged, without_topic, qrels.only(topic.query_id for topic in judged)


def best_first(items: Iterable[tuple[str, float]]) -> tuple[RankedItem, ...]:
    """A ranking in the order given, each item at its first place, with scores that fall strictly.

    Scoring tools order a run by its scores, as 32-bit floats, and break ties in ways of their own. So that they
    see the order the system gave, a score that does not fall is set to the next lower 32-bit float.
    """
    import numpy as np

    ranking: dict[str, float] = {}
    last = np.float32(np.inf)
    for item, score in items:
        if item in ranking:
            continue
        value = np.float32(score)
        if not value < last:
            value = np.nextafter(last, np.float32(-np.inf)) if np.isfinite(last) else np.float32(0)
        ranking[item] = float(value)
        last = value
    return tuple(RankedItem(item, score) for item, score in ranking.items())
