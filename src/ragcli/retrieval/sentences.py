"""The sentences of a text, and how well each answers a question.

A sentence ends at a full stop, a question or an exclamation mark before a blank and no small letter, unless the stop
belongs to an abbreviation or an initial; at an empty line; and before an item of a list. A citation behind the stop
still belongs to the sentence before it. Everything here works on ranges of the text itself, so that what is shown of
a document stands in it word for word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.collection import NO_ENCODER
from ragcli.config.endpoints import is_remote
from ragcli.retrieval.passages import COMMON_WORDS

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragcli.collection import Snapshot
    from ragcli.records import StoredChunk
    from ragcli.retrieval.query import Searcher

    Scores = npt.NDArray[np.float64]

_END: Final = re.compile(
    r"[.!?…]+[\"'”’»)\]]*(?P<cited>(?:\s*\[[\w\s,;:@^.–-]{1,60}\])*)[\"'”’»]*(?=\s|$)|[。！？]+[”’」』）]*|\n\s*\n"
    r"|\n(?=\s*(?:[-*•]|\d{1,3}[.)])\s)|\s+(?=[•‣▪◦]\s)"
)
_CITED_FIRST: Final = re.compile(r"(?:\[[\w\s,;:@^.–-]{1,60}\]\s*)+[.!?]?(?=\s|$)")
_SMALL_START: Final = re.compile(r"[\"'“‘(\[]*[a-zà-öø-ÿ]")
_LAST_WORD: Final = re.compile(r"([^\s()\[\]]+)\.$")
_ITEM_NUMBER: Final = re.compile(r"\(?(?:\d{1,3}|[a-z])")
_BEGINNINGS: Final = COMMON_WORDS | {"also", "although", "but", "each", "finally", "first", "here", "however", "yet"}
_ABBREVIATED: Final = (
    "al approx bros ca cf chap chaps ch col cols corp dept dr ed eds eq eqn eqs esp est etc ex fig figs ff inc jr ltd "
    "mr mrs ms no nos op p pp par pl prof ref refs resp rev sec secs sect sr st suppl tab thm viz vol vols vs i.e e.g "
    "w.r.t u.s u.k ph.d a.m p.m jan feb mar apr jun jul aug sep sept oct nov dec"
)
_ABBREVIATIONS: Final = frozenset(_ABBREVIATED.split())
# Before these, "et al." and the like may well have ended the sentence.
_OFTEN_LAST: Final = frozenset({"al", "etc", "inc", "ltd", "corp", "jr", "sr", "no", "a.m", "p.m", "u.s", "u.k", "p"})
_WORD: Final = re.compile(r"[^\W_]+")
_AT_ONCE: Final = 64


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) of each sentence, in order, without the blanks around it; all but blanks is in one."""
    spans: list[tuple[int, int]] = []
    start = 0
    for end in _END.finditer(text):
        if end.start() < start or not _ends(text, start, end):
            continue
        stop = end.end()
        if following := _CITED_FIRST.match(text, _skip_blanks(text, stop)):
            # "… were elected. [2] The others …": what is cited behind the stop is cited by what stands before it.
            stop = following.end() if "\n\n" not in text[stop : following.start()] else stop
        _add(spans, text, start, stop)
        start = stop
    _add(spans, text, start, len(text))
    return spans


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, in order."""
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_scores(
    searcher: Searcher, question: str, passages: Sequence[tuple[StoredChunk, Sequence[str]]], reranker: str | None
) -> list[Scores]:
    """How well each sentence answers the question, (n,) for each passage's n sentences; higher is better.

    A cross-encoder on this machine reads question and sentence together. Else late interaction compares their words'
    vectors, the rare words counting more, which gives at most 1; and in a collection without an encoder what counts
    is the share of the question's words that a sentence has, again by how rare they are. Only within one call and
    collections of one encoder can scores be compared.
    """
    if reranker not in (None, "late", "none", "auto") and not is_remote(str(reranker)):
        model = searcher.reranker(str(reranker))
        texts = [sentence for _, sentences in passages for sentence in sentences]
        flat = np.asarray(model.score(question, texts), np.float64) if texts else np.zeros(0)
        return np.split(flat, np.cumsum([len(sentences) for _, sentences in passages])[:-1]) if passages else []
    of_name = {snapshot.collection: snapshot for snapshot in searcher.snapshots}
    found: list[Scores] = [np.zeros(len(sentences)) for _, sentences in passages]
    by_encoder: dict[str, list[int]] = {}
    for place, (chunk, _) in enumerate(passages):
        by_encoder.setdefault(of_name[chunk.collection].settings.encoder, []).append(place)
    for encoder, places in by_encoder.items():
        snapshots = [each for each in searcher.snapshots if each.settings.encoder == encoder and each.chunk_count]
        texts = [sentence for place in places for sentence in passages[place][1]]
        if encoder == NO_ENCODER:
            flat = _by_words(snapshots, question, texts)
        else:
            flat = _by_meaning(searcher, encoder, snapshots, question, texts)
        start = 0
        for place in places:
            stop = start + len(passages[place][1])
            found[place], start = flat[start:stop], stop
    return found


def _by_meaning(
    searcher: Searcher, encoder: str, snapshots: Sequence[Snapshot], question: str, texts: Sequence[str]
) -> Scores:
    from ragcli.index.tokens import idf_weights, late_scores

    model = searcher.encoder(encoder)
    query = model.encode_tokens([question])[0]
    frequency = np.zeros(model.vocabulary_size, np.int64)
    for snapshot in snapshots:
        frequency[: len(snapshot.token_frequency)] += snapshot.token_frequency
    weights = idf_weights(query.token_ids, frequency, sum(snapshot.chunk_count for snapshot in snapshots))
    weights = weights / max(float(weights.sum()), 1e-9)
    parts = []
    for start in range(0, len(texts), _AT_ONCE):
        encoded = model.encode_tokens(texts[start : start + _AT_ONCE])
        similarities = np.concatenate([each.tokens for each in encoded]) @ query.tokens.T
        counts = np.asarray([len(each.tokens) for each in encoded])
        parts.append(late_scores(similarities, counts, weights).whole.astype(np.float64))
    return np.concatenate(parts) if parts else np.zeros(0)


def _by_words(snapshots: Sequence[Snapshot], question: str, texts: Sequence[str]) -> Scores:
    from ragcli.index.words import analyser, searchable

    analysis = analyser()

    def terms(text: str) -> set[str]:
        words = [word for word in _WORD.findall(text.lower()) if word not in COMMON_WORDS]
        return set(analysis.analyze(searchable(" ".join(words), query=True)))

    total = sum(snapshot.chunk_count for snapshot in snapshots)
    rarity = {}
    for term in terms(question):
        frequency = sum(snapshot.lexical.frequency(term) for snapshot in snapshots)
        rarity[term] = float(np.log1p((max(total - frequency, 0) + 0.5) / (frequency + 0.5)))
    whole = max(sum(rarity.values()), 1e-9)
    return np.asarray([sum(rarity[term] for term in terms(text) & rarity.keys()) / whole for text in texts])


def _ends(text: str, start: int, end: re.Match[str]) -> bool:
    """Does the sentence that began at `start` end here, or is it only a stop?"""
    if not end[0].startswith("."):
        return True
    if _ITEM_NUMBER.fullmatch(text, _skip_blanks(text, start), end.start()):
        return False
    following = _skip_blanks(text, end.end())
    if following < len(text) and "\n\n" not in text[end.end() : following] and _SMALL_START.match(text, following):
        return False
    if end[0][1:].strip():
        return True
    last = _LAST_WORD.search(text, max(0, end.start() - 40), end.start() + 1)
    if last is None:
        return True
    word = last[1].lower().lstrip("“\"'‘")
    if len(word) == 1 and word.isalpha() and last[1].isupper():
        # An initial, as in "J. Doe", unless the word behind it begins sentences, as in "… of vitamin C. The other".
        behind = _WORD.match(text, following)
        return behind is None or behind[0].lower() in _BEGINNINGS
    if word not in _ABBREVIATIONS:
        return True
    return word in _OFTEN_LAST and following < len(text) and text[following].isupper()


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _add(spans: list[tuple[int, int]], text: str, start: int, stop: int) -> None:
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    if start < stop:
        spans.append((start, stop))
