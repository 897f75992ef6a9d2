"""Extractive answers: the best sentences of the passages, word for word, without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragcli.grounding.answers import Answer, AnswerQuote, CitedSentence
from ragcli.retrieval.fusion import min_max
from ragcli.retrieval.rerank import sentence_scores
from ragcli.text.sentences import sentence_spans

if TYPE_CHECKING:
    from ragcli.grounding.answers import AnswerWriter
    from ragcli.retrieval.searcher import Searcher
    from ragcli.types import Hit

ANSWER_SENTENCES: Final = 3
"""How many sentences an extract has at most."""

_LONGEST: Final = 700
_FEWEST_WORDS: Final = 4
_PASSAGE_WEIGHT: Final = 0.25
_ALIKE: Final = 0.6
# A sentence that answers less than this much as well as the best one is filling.
_WORTH_SHOWING: Final = 0.5
_WORD: Final = re.compile(r"[^\W_]+")
_WHOLE: Final = re.compile(r"[\"'“‘(\[]*(?:[^\W_a-zà-öø-ÿ]).*[.!。！][\"'”’)\]]*(?:\s*\[[\d\s,;–-]+\])*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Candidate:
    hit: Hit
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        return self.hit.chunk.text[self.start : self.end]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text.lower()))


def extract_answer(
    searcher: Searcher, question: str, hits: Sequence[Hit], *, most: int = ANSWER_SENTENCES
) -> Answer | None:
    """The sentences of the hits that answer best, at most `most`; None when the hits hold no sentence at all."""
    chosen = _without_duplicates(_scored(searcher, question, hits), most)
    if not chosen:
        return None
    first_of: dict[tuple[str, str], int] = {}
    for hit in hits:
        first_of.setdefault((hit.chunk.collection, hit.chunk.document_id), hit.rank)
    chosen.sort(
        key=lambda each: (
            first_of[each.hit.chunk.collection, each.hit.chunk.document_id],
            each.hit.chunk.start + each.start,
        )
    )
    readers = {reader.name: reader for reader in searcher.readers}
    sentences = tuple(
        CitedSentence(f"“{' '.join(each.text.split())}” [{each.hit.rank}]", (each.hit.rank,)) for each in chosen
    )
    quotes = tuple(
        AnswerQuote(
            each.hit.chunk.chunk_id,
            each.start,
            each.end,
            readers[each.hit.chunk.collection].page_of(each.hit.chunk, each.start),
        )
        for each in chosen
    )
    return Answer("\n".join(each.text for each in sentences), "extract", len(hits), quotes=quotes, sentences=sentences)


def extract_writer(searcher: Searcher, *, most: int = ANSWER_SENTENCES) -> AnswerWriter:
    """`extract_answer` as a writer for `ragcli.grounding.ask`, out of the whole passages."""
    return lambda result: extract_answer(searcher, result.question, result.passages, most=most)


def _scored(searcher: Searcher, question: str, hits: Sequence[Hit]) -> list[_Candidate]:
    """Every sentence worth showing, best first."""
    spans = [_sentences(hit.chunk.text) for hit in hits]
    passages = [
        (hit.chunk, [hit.chunk.text[start:end] for start, end in mine]) for hit, mine in zip(hits, spans, strict=True)
    ]
    scores = sentence_scores(searcher, question, passages, hits[0].reranker if hits else None)
    of_sentences = min_max([score for mine in scores for score in mine])
    of_passages = min_max([hit.score for hit in hits])
    found = []
    at = 0
    for hit, mine, lift in zip(hits, spans, of_passages.tolist(), strict=True):
        for start, end in mine:
            found.append(_Candidate(hit, start, end, float(of_sentences[at]) + _PASSAGE_WEIGHT * lift))
            at += 1
    return sorted(found, key=lambda each: (-each.score, each.hit.rank, each.start))


def _sentences(text: str) -> list[tuple[int, int]]:
    """Whole sentences that state something; where a passage has none, whatever it has."""
    spans = [(start, min(end, start + _LONGEST)) for start, end in sentence_spans(text)]
    whole = [
        (start, end)
        for start, end in spans
        if _WHOLE.fullmatch(text, start, end)
        and (len(_WORD.findall(text, start, end)) >= _FEWEST_WORDS or end - start > 40)
    ]
    return whole or spans


def _without_duplicates(candidates: Sequence[_Candidate], most: int) -> list[_Candidate]:
    chosen: list[_Candidate] = []
    for candidate in candidates:
        if len(chosen) == most or (chosen and candidate.score < _WORTH_SHOWING * chosen[0].score):
            break
        if not any(_near_duplicate(candidate.words, other.words) for other in chosen):
            chosen.append(candidate)
    return chosen


def _near_duplicate(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) > _ALIKE * max(min(len(one), len(other)), 1)
