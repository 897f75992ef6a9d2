"""Finding literals and regular expressions, as `ragcli grep` does."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.errors import InputError, UsageError
from ragcli.index.pattern_matching import MAX_PATTERN_CHARS, compile_pattern
from ragcli.text.text_folding import squeeze


def found(pattern: str, text: str, joins: tuple[int, ...] = (), **options: bool) -> list[str]:
    matcher = compile_pattern(pattern, **options)
    spans = list(matcher.find_all(text, joins))
    if spans and matcher.prefilter is not None:
        assert matcher.prefilter in squeeze(text)
    return [text[start:end] for start, end in spans]


# A slow, plain reference. A text is a row of atoms; each atom can be written in several ways, and has one or more
# readings. A pattern matches where one of its readings is one of the text's, letter by letter.

READINGS_OF_A_BREAK = ("", "-", "- ")


@dataclass(frozen=True)
class Atom:
    reading: str
    spellings: tuple[str, ...]


LETTERS = (
    Atom("a", ("a", "A", "ａ", "a\u200b")),
    Atom("b", ("b", "B")),
    Atom("fi", ("fi", "ﬁ", "FI")),
    Atom("é", ("é", "e\u0301", "E\u0301", "É")),
    Atom("ss", ("ss", "ß", "SS")),
)
SIGNS = (
    Atom("-", ("-", "–", "—", "\u2011")),
    Atom("'", ("'", "’", "‘", "`")),
    Atom(" ", (" ", "\n", "  ", "\u00a0", " \n\t")),
)
BREAK = Atom("|", ("\u00ad", "-\n", "join", "join-"))


@st.composite
def rows_of_atoms(draw: st.DrawFn, most: int) -> list[Atom]:
    """Rows that begin and end with a letter, where no break stands beside a sign or another break."""
    row = [draw(st.sampled_from(LETTERS))]
    for _ in range(draw(st.integers(0, most))):
        if draw(st.integers(0, 3)) == 0:
            row.append(draw(st.sampled_from((*SIGNS, BREAK))))
        row.append(draw(st.sampled_from(LETTERS)))
    return row


def write(row: list[Atom], draw: st.DrawFn, *, joins_allowed: bool) -> tuple[str, tuple[int, ...], list[int]]:
    text, joins, starts = "", [], []
    for atom in row:
        starts.append(len(text))
        spelling = draw(st.sampled_from(atom.spellings if joins_allowed or atom != BREAK else BREAK.spellings[:2]))
        if spelling.startswith("join"):
            joins.append(len(text))
            spelling = spelling[4:]
        text += spelling
    return text, tuple(joins), [*starts, len(text)]


def readings(row: list[Atom]) -> set[str]:
    result = {""}
    for atom in row:
        endings = READINGS_OF_A_BREAK if atom == BREAK else (atom.reading,)
        result = {head + ending for head in result for ending in endings}
    return result


def reference_spans(pattern: list[Atom], row: list[Atom], starts: list[int]) -> list[tuple[int, int]]:
    wanted = readings(pattern)
    units = [(c, i) for i, atom in enumerate(row) for c in atom.reading]
    spans, first = [], 0
    while first < len(units):
        ends = [
            last
            for last in range(first, len(units))
            if units[first][0] != "|"
            and units[last][0] != "|"
            and wanted & readings([BREAK if c == "|" else Atom(c, ()) for c, _ in units[first : last + 1]])
        ]
        if ends:
            spans.append((starts[units[first][1]], starts[units[ends[0]][1] + 1]))
            first = ends[0] + 1
        else:
            first += 1
    # Two matches that begin inside one written character are shown as one.
    shown: list[tuple[int, int]] = []
    for start, end in spans:
        if not shown or start >= shown[-1][1]:
            shown.append((start, end))
    return shown


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_literals_match_as_the_plain_reference_says(data: st.DataObject) -> None:
    row = data.draw(rows_of_atoms(8))
    if data.draw(st.booleans()):
        first = data.draw(st.integers(0, len(row) - 1))
        part = row[first : first + data.draw(st.integers(1, 6))]
        part = part[1:] if part[0] not in LETTERS else part
        part = part[:-1] if part and part[-1] not in LETTERS else part
    else:
        part = data.draw(rows_of_atoms(2))
    if not part:
        return
    text, joins, starts = write(row, data.draw, joins_allowed=True)
    pattern, _, _ = write(part, data.draw, joins_allowed=False)
    matcher = compile_pattern(pattern)
    # Invisible characters after a match belong to nobody.
    got = [text[start:end].rstrip("\u200b") for start, end in matcher.find_all(text, joins)]
    assert got == [text[start:end].rstrip("\u200b") for start, end in reference_spans(part, row, starts)]
    if got:
        assert matcher.prefilter is not None
        assert matcher.prefilter in squeeze(text)


@settings(max_examples=300, deadline=None)
@given(st.text(min_size=1, max_size=40), st.text(max_size=10), st.booleans())
def test_any_text_finds_itself(pattern: str, around: str, ignore_case: bool) -> None:
    try:
        matcher = compile_pattern(pattern, ignore_case=ignore_case)
    except UsageError:
        return  # nothing visible in it
    text = f"{around} x{pattern}y {around}" if pattern[0].isalnum() and pattern[-1].isalnum() else pattern
    spans = list(matcher.find_all(text))
    if matcher.prefilter:
        assert spans
        assert matcher.prefilter in squeeze(text)
    for start, end in spans:
        assert 0 <= start < end <= len(text)


@pytest.mark.parametrize(
    ("pattern", "text", "joins", "match"),
    [
        ("high-latency networks", "a high-\nlatency  networks", (), "high-\nlatency  networks"),
        ("high-latency networks", "highlatency networks", (4,), "highlatency networks"),
        ("highlatency", "high-latency", (4,), "high-latency"),
        ("high-\nlatency", "high-latency", (4,), "high-latency"),
        ("recommendation based", "query recommen-\ndation based", (), "recommen-\ndation based"),
        ("recommen-dation", "a recommendation", (10,), "recommendation"),
        ("efficient", "eﬃcient", (), "eﬃcient"),
        ('don\'t "ask"', "Don’t “ask”", (), "Don’t “ask”"),
        ("pages 2-3", "pages 2–3", (), "pages 2–3"),
        ("cooperate", "co\u00adoperate", (), "co\u00adoperate"),
        ("naïve", "nai\u0308ve", (), "nai\u0308ve"),
        ("全角", "ここに全角文字", (), "全角"),
        ("x2", "x²", (), "x²"),
        ("-foo", "x-foo", (1,), "-foo"),
    ],
)
def test_a_phrase_is_found_however_it_was_set(pattern: str, text: str, joins: tuple[int, ...], match: str) -> None:
    assert found(pattern, text, joins) == [match]


def test_a_hyphen_that_is_not_at_a_line_end_counts() -> None:
    assert found("highlatency", "high-latency") == []
    assert found("high-latency", "highlatency high latency") == []


def test_an_accent_counts() -> None:
    assert found("cafe", "café cafe\u0301 cafe") == ["cafe"]


def test_case_counts_only_when_asked() -> None:
    assert found("Raft", "raft RAFT Raft") == ["raft", "RAFT", "Raft"]
    assert found("Raft", "raft RAFT Raft", ignore_case=False) == ["Raft"]


def test_words_are_whole_in_word_mode() -> None:
    assert found("cat", "cat concat cats CAT, (cat)", word=True) == ["cat", "CAT", "cat"]
    assert found("latency", "highlatency latencys", (4,), word=True) == ["latency"]
    assert found("a", "ﬁa aﬁ a", word=True) == ["a"]


def test_matches_do_not_overlap() -> None:
    assert len(found("aa", "aaaaa")) == 2


@pytest.mark.parametrize("pattern", ["", "\u200b", "\u00ad"])
def test_an_empty_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        compile_pattern(pattern)


def test_a_pattern_has_a_longest_length() -> None:
    assert found("x" * MAX_PATTERN_CHARS, "y" + "x" * MAX_PATTERN_CHARS + "\u00ad") == ["x" * MAX_PATTERN_CHARS]
    with pytest.raises(InputError, match="characters"):
        compile_pattern("x" * (MAX_PATTERN_CHARS + 1))


def test_a_regex_is_case_sensitive_and_sees_the_text_as_it_stands() -> None:
    assert found(r"R\w+", "Raft raft", regex=True) == ["Raft"]
    assert found(r"R\w+", "Raft raft", regex=True, ignore_case=True) == ["Raft", "raft"]
    assert found(r"ﬁ.d", "ﬁnd find", regex=True) == ["ﬁnd"]
    assert found(r"a-?b", "ab a-b", (1,), regex=True) == ["ab", "a-b"]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"(\w+) \1", "the the cat", ["the the"]),
        (r"(?<=v)\d+", "v12 x3", ["12"]),
        (r"\bcaf.\b", "un café, cafés", ["café"]),
        (r"[\w-]+", "ä-b, ç", ["ä-b", "ç"]),
        (r"\d+", "12 ٣٤", ["12", "٣٤"]),
        (r"\S+\s\S+", "a\u3000b", ["a\u3000b"]),
        (r"^b$", "a\nb\nc", []),
        (r"(?m)^b$", "a\nb\nc", ["b"]),
        (r"a{,2}b", "aaab", ["aab"]),
        (r"[]a]+", "x]a]", ["]a]"]),
        (r"x*", "axxb", ["xx"]),
        (r"\u00e9", "é", ["é"]),
        (r"end\Z", "end end", ["end"]),
        (r"[[a]+", "[a[", ["[a["]),
    ],
)
def test_a_regex_means_what_it_means_in_python(pattern: str, text: str, matches: list[str]) -> None:
    assert found(pattern, text, regex=True) == matches


PIECES = (
    r"\w",
    r"\d",
    r"\s",
    "a",
    "b",
    ".",
    r"\.",
    "[ab]",
    "[^a]",
    r"[\d_]",
    "é",
    "1",
    " ",
    r"\b",
    "(?:ab)",
    "^",
    r"\W",
    "$",
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(PIECES), st.sampled_from(["", "", "+", "*", "?", "{2}", "+?"])),
        min_size=1,
        max_size=5,
    ),
    st.text(alphabet="ab1é_ .\nÀ٣", max_size=25),
    st.booleans(),
)
def test_both_regex_engines_agree_with_pythons(pieces: list[tuple[str, str]], text: str, ignore_case: bool) -> None:
    pattern = "".join(piece + repeat for piece, repeat in pieces)
    try:
        expected = [m.span() for m in re.finditer(pattern, text, re.IGNORECASE if ignore_case else 0)]
    except re.error:
        return
    matcher = compile_pattern(pattern, regex=True, ignore_case=ignore_case)
    got = list(matcher.find_all(text))
    assert got == [(start, end) for start, end in expected if end > start]
    if got and matcher.prefilter:
        assert matcher.prefilter in squeeze(text)


@pytest.mark.parametrize(
    ("pattern", "prefilter"),
    [
        (r"10\.1234/\d+", "10.1234"),
        ("foo|bar", None),
        ("colou?r of", "col"),
        ("(?i)abc", None),
        ("[abc]hello", "hell"),
        ("x{3}tail", "tai"),
        (r"\w+", None),
        (r"abcd\x41bcd", None),
        (r"abc(?#comment here)d", "ab"),
        ("(?x) abc d", None),
        ("a\\ bb+cd", "ab"),
    ],
)
def test_a_regex_rules_texts_out_by_a_literal_it_needs(pattern: str, prefilter: str | None) -> None:
    assert compile_pattern(pattern, regex=True).prefilter == prefilter


@pytest.mark.parametrize(
    ("pattern", "place"),
    [("(", "character 1"), ("a{3,1}", "character 3"), ("ab[z-a]", "character 4"), ("*", "character 1")],
)
def test_an_invalid_regex_is_refused_with_its_place(pattern: str, place: str) -> None:
    with pytest.raises(UsageError, match=place):
        compile_pattern(pattern, regex=True)


def outcome(pattern: str, text: str, **options: bool) -> list[str] | str:
    """The matches, or the sentence that says why there are none."""
    try:
        return found(pattern, text, **options)
    except (UsageError, InputError) as error:
        return str(error)


@pytest.mark.parametrize("pattern", ["(" * 9000 + ")" * 9000, "a{99999999999999}", "((a{1,1000}){1,1000}){1,1000}"])
def test_a_monstrous_regex_is_a_sentence_or_finds_nothing(pattern: str) -> None:
    assert len(outcome(pattern, "b" * 100, regex=True)) < 300


@pytest.mark.parametrize(
    ("pattern", "too_long"),
    [(r"(a+)+\.", False), (r"(a+)+$", True), (r"(a|aa)+\b\.", True), (r"(?=(a+)+b)c", False)],
)
def test_a_pathological_regex_stops_within_two_seconds(pattern: str, too_long: bool) -> None:
    started = time.process_time()  # the tests' machine may have others to serve
    result = outcome(pattern, "é " + "a" * 5000 + "!", regex=True)
    assert time.process_time() - started < 2.0
    assert "too long" in result if too_long else result == []


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1, max_size=20), st.text(max_size=20), st.booleans(), st.booleans())
def test_no_pattern_crashes(pattern: str, text: str, regex: bool, word: bool) -> None:
    assert isinstance(outcome(pattern, text, regex=regex, word=word), list | str)


def test_a_literal_search_loads_neither_numpy_nor_an_engine() -> None:
    code = (
        "import sys\nfrom ragcli.index.pattern_matching import compile_pattern\n"
        "assert list(compile_pattern('b').find_all('abc'))\n"
        "print([m for m in ('numpy', 're2', 'regex', 'tantivy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
