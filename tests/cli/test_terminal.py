"""What documents may hold and terminals may not see, and JSON that is JSON whatever comes."""

from __future__ import annotations

import io
import json
import os
import pty
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ragcli import serialize
from ragcli.__main__ import main
from ragcli.cli import terminal
from ragcli.cli.render import json_output
from ragcli.cli.render.rich_table import Column, table
from ragcli.types import GrepHit, Hit, StoredChunk

any_text = st.text(st.characters(codec=None), max_size=60)
nasty = st.text(st.sampled_from("ab é漢👍\u0301 \n\t\r\x1b\x07\x9b\x7f\u202e\u2066\u2028\ud800[]()"), max_size=30)


def screen(width: int = 80, *, colour: bool = False, interactive: bool = False) -> terminal.Screen:
    return terminal.Screen(width, interactive, colour)


def chunk(**changes: object) -> StoredChunk:
    values: dict[str, object] = {
        "number": 1,
        "chunk_id": "d1:0",
        "document_id": "d1",
        "collection": "c",
        "source": "a.pdf",
        "path": "/x/a.pdf",
        "title": None,
        "text": "some text",
        "ordinal": 0,
        "start": 0,
        "end": 9,
        "page_start": 1,
        "page_end": 1,
        "heading": None,
    }
    return StoredChunk(**(values | changes))  # type: ignore[arg-type]


def hit(**changes: object) -> Hit:
    values: dict[str, object] = {
        "rank": 1,
        "chunk": chunk(),
        "score": 0.5,
        "score_type": "fused",
        "cosine": 0.1,
        "reranker": "late",
        "scores": {"bm25": 1.0, "dense": None},
    }
    return Hit(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b31m", "�31m"),
        ("invoice\u202efdp.exe", "invoice�fdp.exe"),
        ("\u2066a\u2069", "�a�"),
        ("a\x00b\x7f", "a␀b␡"),
        ("lone \ud83d half", "lone � half"),
        ("in\u00advi\u200bsi\u3164ble\U000e0041\U000e0101", "in�vi�si�ble��"),
        ("葛\U000e0100城 ❤\ufe0f", "葛\U000e0100城 ❤\ufe0f"),
        ("[bold red]markup[/bold red]", "[bold red]markup[/bold red]"),
        (":smile: हिन्दी عربي\u200c می e\u0301 漢字 👩‍🔬", ":smile: हिन्दी عربي\u200c می e\u0301 漢字 👩‍🔬"),
    ],
)
def test_what_a_terminal_would_act_on_is_shown_as_a_picture_of_itself(raw: str, shown: str) -> None:
    assert terminal.safe(raw) == shown
    assert terminal.safe_line(raw) == shown


@settings(max_examples=200, deadline=None)
@given(any_text | nasty)
def test_nothing_that_acts_on_a_terminal_survives(text: str) -> None:
    for shown in (terminal.safe(text).replace("\n", ""), terminal.safe_line(text)):
        assert all(unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") for character in shown)
        assert all(unicodedata.bidirectional(c) not in ("LRE", "RLE", "LRO", "RLO", "LRI", "RLI", "FSI") for c in shown)
    assert "\n" not in terminal.safe_line(text)
    assert terminal.safe(terminal.safe(text)) == terminal.safe(text)


@settings(max_examples=100, deadline=None)
@given(any_text | nasty)
def test_rich_shows_text_and_never_reads_it_as_markup(text: str) -> None:
    from rich.text import Text

    shown = terminal.safe_line(text)
    rendered = terminal.render(screen(4 * len(shown) + 20), Text(shown))
    assert rendered.strip() == shown.rstrip().lstrip() or not shown.strip()
    assert "\x1b" not in rendered


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("ab漢字 é"), max_size=80), st.integers(4, 20))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, width: int) -> None:
    lines = terminal.wrap(text, width)
    assert "".join(text[low:high] for low, high in lines).replace(" ", "") == text.replace(" ", "")
    for low, high in lines:
        assert sum(2 if c in "漢字" else 1 for c in text[low:high]) <= width


def test_a_name_for_a_script_is_as_it_is_but_on_one_line() -> None:
    assert terminal.name_line("/x/a \x1b[2J  b\n/etc\r", screen()) == "/x/a \x1b[2J  b␊/etc␍"
    assert terminal.name_line("/x/a \x1b[2J  b\n\t", screen(interactive=True)) == "/x/a ␛[2J  b␊␉"


def test_a_message_is_one_line_with_the_programs_name(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.note("the file \x1b[2J\nevil.pdf cannot be read.")
    captured = capsys.readouterr()
    assert captured.err == "ragcli: the file ␛[2J evil.pdf cannot be read.\n"
    assert captured.out == ""


def test_a_bug_is_told_in_one_line_and_its_traceback_shown_harmlessly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> int:
        raise ValueError("in \x1b[95m a title")

    monkeypatch.setattr("ragcli.__main__.run", broken)
    monkeypatch.delenv("RAGCLI_DEBUG", raising=False)
    assert main([]) == 70
    assert capsys.readouterr().err.startswith("ragcli: this is a bug in ragcli (ValueError: in ␛[95m a title)")
    monkeypatch.setenv("RAGCLI_DEBUG", "1")
    assert main([]) == 70
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "ValueError: in ␛[95m a title\n" in shown
    assert "\x1b" not in shown


def test_colour_is_for_terminals_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as screen_stream:
        assert terminal.screen_of(screen_stream).colour
        assert not terminal.screen_of(screen_stream, "never").colour
        monkeypatch.setenv("NO_COLOR", "1")
        assert not terminal.screen_of(screen_stream).colour
        monkeypatch.delenv("NO_COLOR")
        monkeypatch.setenv("TERM", "dumb")
        assert not terminal.screen_of(screen_stream).colour
        assert not terminal.can_animate(screen_stream)
    os.close(ours)
    assert not terminal.screen_of(io.StringIO()).colour
    assert terminal.screen_of(io.StringIO(), "always").colour


json_values = st.recursive(
    st.one_of(any_text, nasty, st.floats(), st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(any_text, inner, max_size=3)),
    max_leaves=8,
)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@settings(max_examples=200, deadline=None)
@given(json_values)
@example("\U000e0000")
@example("\x7f")
def test_json_is_valid_and_harmless_whatever_goes_in(value: object) -> None:
    text = json_output.to_json(value)
    json.loads(text, parse_constant=refuse)
    text.encode("utf-8")
    assert terminal.safe(text) == text


def test_json_keeps_text_as_it_is_but_for_lone_surrogates() -> None:
    text = 'tab\t "quoted" \u202e é 漢 👍 \x9b \x7f \U000e0041'
    assert json.loads(json_output.to_json(text)) == text
    assert json.loads(json_output.to_json("a\ud800b")) == "a\ufffdb"
    assert json.loads(json_output.to_json([float("nan"), float("inf"), 1.5])) == [None, None, 1.5]


def test_a_hit_has_exactly_the_keys_of_the_contract() -> None:
    assert set(serialize.hit_record(hit())) == {
        *("rank", "source", "text", "score", "score_type", "cosine"),
        *("collection", "document_id", "chunk_id", "page_start", "page_end", "heading", "reranker", "scores"),
        *("title", "path", "source_score", "duplicates", "others"),
    }
    assert serialize.hit_record(hit())["scores"] == {"bm25": 1.0, "dense": None}


def test_a_grep_hit_says_truncated_only_when_there_was_more() -> None:
    found = GrepHit("c", "a.pdf", None, "d1", "d1:3", 3, 2, None, "match", "a match here", 2, 7)
    record = serialize.grep_record(found)
    assert set(record) == {
        *("source", "chunk_index", "match", "snippet", "start", "end"),
        *("collection", "page", "path"),
    }
    import dataclasses

    assert serialize.grep_record(dataclasses.replace(found, truncated=True))["truncated"] is True


COLUMNS = (Column("Collection"), Column("Documents", number=True), Column("Model"), Column("Last ingest", whole=True))
ROWS = [("papers", "34 (+2 failed)", "all-MiniLM-L6-v2", "2026-11-29 22:56"), ("notes", "7", "", "never")]


@pytest.mark.parametrize("width", [20, 30, 40, 50, 60, 80, 120])
def test_a_list_keeps_every_word_however_narrow_the_screen(width: int) -> None:
    shown = table(screen(width), COLUMNS, ROWS)
    assert max(map(cell_len, shown.splitlines())) <= width
    together = "".join(shown.split())
    for row in ROWS:
        for cell in row:
            assert cell.replace(" ", "") in together or width >= 60, (cell, shown)
    assert shown.count("\n") <= 8 * (80 / width), shown


def test_a_list_too_wide_for_its_screen_is_told_row_by_row() -> None:
    assert table(screen(40), COLUMNS, ROWS).splitlines() == [
        "papers",
        "  Documents: 34 (+2 failed)",
        "  Model: all-MiniLM-L6-v2",
        "  Last ingest: 2026-11-29 22:56",
        "notes",
        "  Documents: 7",
        "  Last ingest: never",
    ]
    assert table(screen(80), COLUMNS, ROWS).startswith("Collection  ")
