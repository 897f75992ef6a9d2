"""Grep beside a slow, plain reference: the same places, whatever is looked for and wherever it stands.

The reference for literals normalises the whole text in one go, as Unicode defines it; the one for collections looks
through every document with `str.find` or `re`, and through every chunk of it.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.collection_builders import new_collection, take_in, write_files

from ragcli.collection import Collection
from ragcli.errors import UsageError
from ragcli.index.pattern_matching import compile_pattern
from ragcli.retrieval.exact_search import GrepRequest, count, grep
from ragcli.types import GrepHit

ALIKE = {
    **dict.fromkeys("`´‘’‚‛′ʼ＇", "'"),
    **dict.fromkeys("“”„‟″«»＂", '"'),
    **dict.fromkeys("‐‑‒–—―−⁃﹘﹣－", "-"),
}
INVISIBLE = "\u180e\u200b\u200c\u200d\u2060\ufeff"
ODD = "aAbéÉeEﬁﬀfi\u0301\u0323\u0308\u200b\u200d-–’'“\"` \u00a0\u3000ßẞsİıſkK½²Ωσςか\u3099ｶﾞ한\u1112\u1161\u11ab中Ａ1_"
TEXTS = st.text(alphabet=ODD, max_size=30)


def slow_fold(text: str, *, keep_case: bool) -> str:
    """The whole text as it is compared: alike signs equal, nothing invisible, NFKC_Casefold, single spaces."""
    text = "".join(ALIKE.get(character, character) for character in text if character not in INVISIBLE)
    text = unicodedata.normalize("NFKD", text)
    if not keep_case:
        text = unicodedata.normalize("NFKC", text.casefold()).casefold()
    text = unicodedata.normalize("NFKC", text)
    return re.sub(r"\s+", " ", "".join(ALIKE.get(character, character) for character in text))


def stands_in(pattern: str, text: str, *, keep_case: bool, word: bool) -> bool:
    wanted, whole = slow_fold(pattern, keep_case=keep_case), slow_fold(text, keep_case=keep_case)
    return any(
        not word or not (re.match(r"\w", whole[place - 1 : place]) or re.match(r"\w", whole[place + len(wanted) :]))
        for place in range(len(whole))
        if whole.startswith(wanted, place)
    )


@settings(max_examples=200, deadline=None)
@given(st.data(), TEXTS, st.booleans(), st.booleans())
def test_a_literal_is_found_where_the_whole_text_s_normal_form_has_it(
    data: st.DataObject, text: str, keep_case: bool, word: bool
) -> None:
    if data.draw(st.booleans()) and text:
        start = data.draw(st.integers(0, len(text) - 1))
        pattern = text[start : start + data.draw(st.integers(1, 6))].swapcase()
    else:
        pattern = data.draw(st.text(alphabet=ODD, min_size=1, max_size=3))
    try:
        matcher = compile_pattern(pattern, ignore_case=not keep_case, word=word)
    except UsageError:
        assert not slow_fold(pattern, keep_case=keep_case)
        return
    spans = list(matcher.find_all(text))
    assert bool(spans) == stands_in(pattern, text, keep_case=keep_case, word=word), (pattern, text)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for start, end in spans:
        assert slow_fold(pattern, keep_case=keep_case) in slow_fold(text[start:end], keep_case=keep_case)


WORDS = ("fish", "fishing", "Fish", "chips", "and", "the", "sea", "a", "unfished", "x")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Documents of a few words, cut into chunks so small that most places lie in two of them or across a cut."""
    folder = tmp_path_factory.mktemp("reference")
    chance = random.Random(7)
    texts = {f"{number:02}.txt": " ".join(chance.choices(WORDS, k=chance.randint(1, 60))) + "." for number in range(24)}
    made = new_collection(folder, chunk_size=60, overlap=25)
    assert not take_in(made, write_files(folder / "texts", texts)).failures
    return made


def slow_grep(collection: Collection, request: GrepRequest) -> Iterator[tuple[str, int, int, int]]:
    """(source, chunk, start, end) of each hit, the offsets those in the document."""
    with collection.snapshot() as snapshot:
        documents = sorted(snapshot.texts(), key=lambda document: document.source)
    pattern = request.pattern if request.regex else re.escape(request.pattern)
    if request.word:
        pattern = rf"(?<!\w)(?:{pattern})(?!\w)"
    ignore_case = not request.regex if request.ignore_case is None else request.ignore_case
    for document in documents:
        seen = set()
        for match in re.finditer(pattern, document.text, re.IGNORECASE if ignore_case else 0):
            if not match.group():
                continue
            chunks = [chunk for chunk in document.chunks if chunk.start <= match.start() < chunk.end]
            chunk = next((chunk for chunk in chunks if match.end() <= chunk.end), chunks[0])
            if request.every or chunk.ordinal not in seen:
                yield document.source, chunk.ordinal, match.start(), match.end()
            seen.add(chunk.ordinal)


def places(collection: Collection, hits: tuple[GrepHit, ...]) -> list[tuple[str, int, int, int]]:
    with collection.snapshot() as snapshot:
        documents = {document.source: document for document in snapshot.texts()}
    found = []
    for hit in hits:
        document = documents[hit.source]
        begin = document.chunks[hit.chunk_index].start
        assert document.text[begin + hit.start : begin + hit.end] == hit.match
        assert hit.match in hit.snippet
        found.append((hit.source, hit.chunk_index, begin + hit.start, begin + hit.end))
    return found


PHRASES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
PARTS = (
    st.tuples(PHRASES, st.integers(0, 3), st.integers(1, 9)).map(lambda p: p[0][p[1] : p[1] + p[2]]).filter(str.strip)
)
EXPRESSIONS = st.sampled_from(
    (r"fish\w*", r"(fish|sea) (and|a)", r"[fs]\w+a", r"\bthe\b", r"a.*x", r"(a|b)+", r"$", r"x?")
)


@settings(max_examples=40, deadline=None)
@given(PHRASES | PARTS, st.sampled_from([None, True, False]), st.booleans(), st.booleans())
@example("fish and", None, True, False)
def test_every_place_of_a_phrase_in_a_collection_is_reported_once(
    collection: Collection, pattern: str, ignore_case: bool | None, word: bool, every: bool
) -> None:
    request = GrepRequest(pattern, ignore_case=ignore_case, word=word, every=every, max_hits=None, context=5)
    _agree(collection, request)


@settings(max_examples=20, deadline=None)
@given(EXPRESSIONS, st.sampled_from([None, True, False]), st.booleans(), st.booleans())
def test_every_match_of_an_expression_in_a_collection_is_reported_once(
    collection: Collection, pattern: str, ignore_case: bool | None, word: bool, every: bool
) -> None:
    request = GrepRequest(pattern, regex=True, ignore_case=ignore_case, word=word, every=every, max_hits=None)
    _agree(collection, request)


@settings(max_examples=20, deadline=None)
@given(PHRASES, st.integers(1, 12))
def test_no_more_hits_than_asked_for_and_the_last_says_if_there_are_more(
    collection: Collection, pattern: str, most: int
) -> None:
    expected = list(slow_grep(collection, GrepRequest(pattern)))
    hits = grep([collection], GrepRequest(pattern, max_hits=most))
    assert places(collection, hits) == expected[:most]
    assert [hit.truncated for hit in hits[:-1]] == [False] * (len(hits) - 1) if hits else not expected
    assert not hits or hits[-1].truncated == (len(expected) > most)


def _agree(collection: Collection, request: GrepRequest) -> None:
    expected = list(slow_grep(collection, request))
    assert places(collection, grep([collection], request)) == expected
    counts = {each.source: each.count for each in count([collection], request)}
    assert counts == {source: sum(1 for place in expected if place[0] == source) for source, *_ in expected}


def test_the_reference_finds_something(collection: Collection) -> None:
    assert len(list(slow_grep(collection, GrepRequest("fish and", every=True)))) > 3
