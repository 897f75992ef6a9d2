"""RM3 pseudo-relevance feedback: weighted expansion terms from the first hits."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.retrieval.fusion import z_scores
from ragcli.retrieval.pipelines import PIPELINES
from ragcli.text.stop_words import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ragcli.retrieval.request import QueryRequest, QueryResult
    from ragcli.retrieval.search_session import SearchSession
    from ragcli.types import Hit

RM3_TERMS: Final = 30
"""How many words a question is expanded by."""
RM3_CHUNKS: Final = 10
"""How many of the best chunks they are taken from, where a result has so many."""
RM3_QUERY_SHARE: Final = 0.7
"""The question's part in the mixture."""

WeightedTerms = tuple[tuple[str, float], ...]

_WORD: Final = re.compile(r"[^\W\d_][^\W_]*")
_SHORTEST: Final = 3
_COMMON_SHARE: Final = 0.1
# In a handful of chunks a tenth is less than one.
_SHARPNESS: Final = 2.0
_NEVER_COMMON: Final = 5


def rm3_expansion(
    session: SearchSession,
    request: QueryRequest,
    result: QueryResult,
    *,
    words: int = RM3_TERMS,
    chunks: int = RM3_CHUNKS,
    share: float = RM3_QUERY_SHARE,
) -> WeightedTerms:
    """The words of the relevance model, the weightiest first, each with its weight against 1 for a question's word.

    A word of the question may be among them and then counts that much more. `result` is what `request` found; its
    first `chunks` hits are used, so ask for that many. `share` (above 0, at most 1) is the question's part. Without
    a hit, or a telling word in the hits, there is nothing to add: an empty tuple.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must lie above 0 and be at most 1, not {share}")
    terms_of = _analysis()
    model, shown = _relevance_model(result.hits[:chunks], terms_of)
    total = sum(reader.chunk_count for reader in session.readers)
    most = max(_COMMON_SHARE * total, _NEVER_COMMON)
    chosen: dict[str, float] = {}
    for term, weight in sorted(model.items(), key=lambda item: (-item[1], item[0])):
        if len(chosen) == words:
            break
        if sum(int(each.document_frequency([term])[0]) for each in session.readers if each.chunk_count) <= most:
            chosen[term] = weight
    asked = {term for word in _content_terms(request.text) for term in terms_of(word)}
    mass = sum(chosen.values())
    if not mass:
        return ()
    # Each of the question's n words has share / n of the mixture; the expansion's words share the rest.
    scale = (1.0 - share) / share * max(len(asked), 1) / mass
    return tuple((shown[term], scale * weight) for term, weight in chosen.items())


def expand_request(request: QueryRequest, words: WeightedTerms) -> QueryRequest:
    """The request with the words added, as BM25 takes them; a pipeline without BM25 gets them behind the question."""
    if "bm25" in PIPELINES[request.pipeline].stages:
        return replace(request, expansion=(*request.expansion, *words))
    new = new_terms(request, words)
    return replace(request, text=f"{request.text} {' '.join(new)}") if new else request


def new_terms(request: QueryRequest, words: WeightedTerms) -> tuple[str, ...]:
    """Those of the words that the question and its expansion have not got already, in whatever form."""
    terms_of = _analysis()
    there = " ".join([request.text, *(word for word, _ in request.expansion)])
    known = {term for word in there.split() for term in terms_of(word)}
    return tuple(word for word, _ in words if not known.issuperset(terms_of(word)))


def _relevance_model(
    hits: Sequence[Hit], terms_of: Callable[[str], list[str]]
) -> tuple[dict[str, float], dict[str, str]]:
    """P(term | relevance), not normalised, and for each term the word that stands for it most often."""
    model: defaultdict[str, float] = defaultdict(float)
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    if not hits:
        return {}, {}
    belief = np.exp(_SHARPNESS * z_scores([hit.score for hit in hits]))
    for hit, weight in zip(hits, (belief / belief.sum()).tolist(), strict=True):
        counts: Counter[str] = Counter()
        for word, count in Counter(_content_terms(hit.chunk.text)).items():
            terms = terms_of(word)
            for term in terms:
                counts[term] += count
                # A run of Chinese is many terms; each is its own word.
                forms[term][word if len(terms) == 1 else term] += count
        length = sum(counts.values())
        for term, count in counts.items():
            model[term] += weight * count / length
    return model, {term: min(found, key=lambda word: (-found[word], word)) for term, found in forms.items()}


def _content_terms(text: str) -> Iterator[str]:
    for found in _WORD.finditer(text.lower()):
        word = found.group()
        if (len(word) >= _SHORTEST or not word.isascii()) and word not in STOP_WORDS:
            yield word


def _analysis() -> Callable[[str], list[str]]:
    from ragcli.index.term_analysis import pretokenize, tantivy_analyzer

    analysis = tantivy_analyzer()
    return lambda word: list(analysis.analyze(pretokenize(word, query=True)))
