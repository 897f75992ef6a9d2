"""The fuzzer itself: its seeds are good, its changes can be repeated, and what it finds is kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.fuzzing.catalogue import TARGETS
from scripts.fuzzing.checks import Broken, check_document
from scripts.fuzzing.child import Findings, kind_of
from scripts.fuzzing.mutations import mutated, tamed
from scripts.fuzzing.run import Tally, main, table
from scripts.fuzzing.seeds import SEEDS, WORDS
from scripts.fuzzing.targets import CHECKS

from ragcli.types import Document, Heading, PageSpan

ROOT = Path(__file__).parents[2]


def test_every_target_has_seeds_words_and_checks() -> None:
    assert set(TARGETS) == set(SEEDS) == set(WORDS) == set(CHECKS)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_nothing_is_wrong_with_the_seeds_nor_with_what_is_first_made_of_them(target: str) -> None:
    for number, seed in enumerate(SEEDS[target]()):
        assert len(seed) <= TARGETS[target].longest
        CHECKS[target](seed)
        CHECKS[target](tamed(mutated(seed, WORDS[target], TARGETS[target].longest, number)))


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 1 << 32), st.integers(1, 300))
def test_a_change_is_the_same_for_the_same_seed_and_never_too_long(data: bytes, seed: int, most: int) -> None:
    changed = mutated(data, WORDS["html"], most, seed)
    assert changed == mutated(data, WORDS["html"], most, seed)
    assert len(changed) <= most


def test_a_pdf_that_claims_thousands_of_pages_claims_fewer() -> None:
    assert tamed(b"<< /Count 99999 /Type /Pages >>") == b"<< /Count 300 /Type /Pages >>"
    assert tamed(b"<< /Count 12 >>") == b"<< /Count 12 >>"


@pytest.mark.parametrize(
    "document",
    [
        Document("a\ud800", "text"),
        Document("a\x00", "text"),
        Document("a\rb", "text"),
        Document("ab", "text", joins=(1, 1)),
        Document("ab", "text", joins=(2,)),
        Document("ab", "text", headings=(Heading(1, "b", 1), Heading(1, "a", 0))),
        Document("ab", "text", headings=(Heading(1, "c", 9),)),
        Document("ab", "text", headings=(Heading(1, "two\nlines", 0),)),
        Document("ab", "text", spans=((0, 2), (1, 2))),
        Document("ab", "pdf"),
        Document("ab", "pdf", pages=(PageSpan(1, None, 0, 1),)),
        Document("ab", "pdf", pages=(PageSpan(2, None, 0, 2),)),
        Document("ab", "text", title=" "),
        Document("ab", "text", metadata={"a": "\ud800"}),
        Document("ab", "text", metadata={"a": 1 << 63}),
        Document("ab", "text", metadata={"a": float("nan")}),
    ],
)
def test_a_document_that_breaks_a_promise_is_a_finding(document: Document) -> None:
    with pytest.raises(Broken):
        check_document(document)


def test_of_every_kind_of_finding_the_shortest_input_is_kept(tmp_path: Path) -> None:
    def caught(text: str) -> Exception:
        try:
            int(text)
        except ValueError as error:
            return error
        raise AssertionError

    findings = Findings("html", tmp_path)
    same = kind_of(caught("x"))
    for data in (b"a longer input", b"short", b"not so short"):
        findings.note(data, caught(data.decode()))
    findings.note(b"other", Broken("another promise"))
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("*.input")}
    assert kept == {
        f"html-{same}.input": b"short",
        f"html-{kind_of(Broken('another promise'))}.input": b"other",
    }
    assert "ValueError" in (tmp_path / f"html-{same}.txt").read_text()
    Findings("html", tmp_path).note(b"too long to be kept", caught("y"))
    assert (tmp_path / f"html-{same}.input").read_bytes() == b"short"


def test_a_kind_of_finding_is_told_of_in_every_run_and_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        findings = Findings("html", tmp_path)
        findings.note(b"some input", Broken("a promise"))
        findings.note(b"some other", Broken("a promise"))
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 1
        assert told[0].startswith(f"FINDING html-{kind_of(Broken('a promise'))}.input Broken: ")


def test_one_input_can_be_looked_at_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    file.write_bytes(b"<p>fine")
    assert main(["--target", "html", "--input", str(file)]) == 0
    assert "nothing wrong" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        main(["--target", "docx"])
    assert left.value.code == 2


def test_the_table_has_a_line_for_each_target() -> None:
    shown = table(
        [Tally("pdf", 1200.0, 30_000, 900, 1200, 1, ["pdf-1.input"]), Tally("html", 1200.0, 60_000, 300, 480)]
    )
    _, pdf, html = shown.splitlines()
    assert pdf.split() == ["pdf", "1200", "30,000", "25", "900→1200", "1", "1"]
    assert html.split() == ["html", "1200", "60,000", "50", "300→480", "0", "0"]


@pytest.mark.slow
def test_a_short_run_tries_inputs_and_tells_of_them(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    command = [sys.executable, "-m", "scripts.fuzzing.run", "--target", "jsonl", "--seconds", "6", "--json"]
    done = subprocess.run([*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    (tally,) = json.loads(done.stdout)
    assert tally["executions"] > 100
    assert tally["paths"] >= tally["first_paths"] > 0
    assert done.returncode == bool(tally["findings"])
    assert any((tmp_path / "corpus" / "jsonl").iterdir())
