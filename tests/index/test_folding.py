"""The two forms of a text that exact search compares."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragcli.text.text_folding import JOIN, fold, squeeze

ODD = (
    "aAéÉeﬁﬀ\u0301\u0323\u0308\u00ad\u200b\u200d-‐–’'“\"`´ \n\t\u00a0\u3000"
    "ßẞİıſK½²Ωσςか\u3099ｶﾞ한\u1112\u1161\u11ab中Ａ\ufdd0\u0345"
)
texts = st.text(max_size=60) | st.text(alphabet=ODD, max_size=30)


def without_spacing(folded: str) -> str:
    return "".join(c for c in folded if not c.isspace() and c not in f"-{JOIN}")


@settings(max_examples=400, deadline=None)
@given(texts)
@example("e\u00ad\u200b\u0301x")
@example("a \u0345\u0301b")
@example("x-\né")
def test_the_squeezed_text_is_the_folded_one_without_spaces_and_hyphens(text: str) -> None:
    assert squeeze(text) == without_spacing(fold(text).text)


@settings(max_examples=200, deadline=None)
@given(texts, st.lists(st.integers(0, 40), max_size=4))
@example("\u1100\u1161", [1])
def test_joins_change_nothing_but_joins_and_spacing(text: str, joins: list[int]) -> None:
    kept = "".join(c for c in text if not c.isspace() and unicodedata.combining(c) == 0)
    # No line ends within a letter that is written as several, such as a Korean syllable or a vowel of Bengali.
    places = sorted({join for join in joins if join < len(kept) and _apart(kept[:join], kept[join:])})
    assert without_spacing(fold(kept, places).text) == without_spacing(fold(kept).text)


def _apart(left: str, right: str) -> bool:
    return _composed(left) + _composed(right) == _composed(left + right)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


@settings(max_examples=300, deadline=None)
@given(texts)
def test_every_folded_character_knows_its_place(text: str) -> None:
    folded = fold(text)
    spans = [folded.span(i, i + 1) for i in range(len(folded.text))]
    for (start, end), char in zip(spans, folded.text, strict=True):
        assert 0 <= start <= end <= len(text)
        if char != JOIN:
            assert char in fold(text[start:end]).text
    assert spans == sorted(spans)


@settings(max_examples=200, deadline=None)
@given(texts)
def test_composed_and_decomposed_texts_fold_alike(text: str) -> None:
    # A soft hyphen between a letter and its accent keeps Unicode from composing them, so none here.
    text = text.replace("\u00ad", "")
    assert squeeze(unicodedata.normalize("NFC", text)) == squeeze(unicodedata.normalize("NFD", text))


@settings(max_examples=200, deadline=None)
@given(texts)
def test_the_case_sensitive_form_is_a_finer_one(text: str) -> None:
    text = text.translate(dict.fromkeys(map(ord, "\n\u00ad")))  # joins cut characters apart
    finer = fold(text, keep_case=True).text
    assert without_spacing(fold(finer).text) == without_spacing(fold(text).text)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Eﬃcient ﬁeld", "efficient field"),
        ("ＦＵＬＬ width", "full width"),
        ("“Don’t” – he said", '"don\'t" - he said'),
        ("a\u00a0 \n\tb", "a b"),
        ("zero\u200bwidth", "zerowidth"),
        ("soft\u00adhyphen", f"soft{JOIN}hyphen"),
        ("line-\n   end", f"line{JOIN}end"),
        ("dash -\nend", "dash - end"),
        ("cafe\u0301", "café"),
        ("Straße", "strasse"),
    ],
)
def test_what_the_eye_does_not_see_folds_away(text: str, folded: str) -> None:
    assert fold(text).text == folded


@pytest.mark.slow
def test_every_character_of_unicode_folds_and_squeezes_consistently() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) != "Cn"]
    for start in range(0, len(characters), 2000):
        # A letter in front shows whether the character joins what stands before it.
        text = "x".join(characters[start : start + 2000])
        assert squeeze(text) == without_spacing(fold(text).text)
