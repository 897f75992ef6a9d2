"""Whatever is asked, in whatever script and at whatever length: an answer or a sentence, and soon."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.terminals import environment
from tests.support.tiny_models import tiny_encoder

from ragcli.__main__ import main
from ragcli.collection import Collection
from ragcli.retrieval.request import MAX_QUESTION_CHARS, PIPELINE_NAMES, QueryRequest
from ragcli.retrieval.searcher import Searcher

TEXTS = {
    "english": "A wormhole becomes traversable where negative energy holds its throat open.",
    "chinese": "我们提出了一种新的检索方法，用于在大型文档集合中查找段落。",
    "japanese": "情報検索システムは、利用者の質問に答える文書を見つける。",
    "korean": "정보 검색 시스템은 사용자의 질문에 답하는 문서를 찾는다.",
    "thai": "ระบบค้นหาข้อมูลช่วยให้นักวิจัยพบเอกสารที่ตอบคำถามได้อย่างรวดเร็ว",
    "arabic": "نظام البحث عن المعلومات يساعد الباحثين على إيجاد الوثائق بسرعة.",
    "hindi": "सूचना खोज प्रणाली शोधकर्ताओं को दस्तावेज़ जल्दी ढूँढने में मदद करती है।",
    "french": "Le théorème général s'énonce très simplement à l'été.",
    "greek": "Το σύστημα αναζήτησης βρίσκει τα έγγραφα.",
    "hebrew": "מערכת אחזור המידע מוצאת מסמכים.",
}
ASKED = {
    "english": "traversable wormhole",
    "chinese": "检索方法",
    "japanese": "検索システム",
    "korean": "검색 시스템",
    "thai": "ข้อมูล",
    "arabic": "البَحْث",
    "hindi": "दस्तावेज़",
    "french": "théorème",
    "greek": "έγγραφα",
    "hebrew": "מסמכים",
}
ODD = [
    *("a", "?", "。", "the of and to", "🎉", "👩‍🔬🏳️‍🌈🎉", "\x00", "\x1b[31m", "\u202e", "\ufeff", "\u200b"),
    *("\udcff\udc80x", "\ud800", "-", "--", "-x", "--json", "@", "*", '"', "'", "\\", "(", "[bold]", "AND OR NOT"),
    *("title:x^9", "~", "%s%n", "检", "ب", "ह", "é", "e\u0301", "\u0301", "ｆｕｌｌ", "ﷺ" * 50, "\n\t\r a"),
    *("x" * MAX_QUESTION_CHARS, "word " * 4_000, "e" + "\u0301" * 5_000, "\u0e4e" * 500, "1" * 5_000, "- " * 5_000),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two collections, one with vectors and one without."""
    folder = tmp_path_factory.mktemp("odd")
    encoder = tiny_encoder(folder / "encoder")
    lines = [json.dumps({"id": name, "text": text}, ensure_ascii=False) for name, text in TEXTS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "long.txt").write_text("é " + "a" * 100_000 + "!", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder / "data").items():
            patch.setenv(name, value)
        patch.chdir(folder)
        assert main(["ingest", "corpus.jsonl", "-c", "scripts", "--encoder", str(encoder)]) == 0
        assert main(["ingest", "long.txt", "-c", "long", "--encoder", "none"]) == 0
        yield folder


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what was written, of a call that must not be a bug."""
    capsys.readouterr()
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert code in (0, 1, 2, 3, 5), (arguments, err)
    assert "Traceback" not in err
    assert "bug in ragcli" not in err
    if code > 1:
        assert err.startswith("ragcli: ")
        assert err.count("\n") == 1, err
    return code, out, err


@pytest.mark.parametrize("pipeline", PIPELINE_NAMES)
def test_any_question_is_answered_by_every_pipeline(home: Path, pipeline: str) -> None:
    with Searcher([Collection.open(home / "data", "scripts")]) as searcher:
        for text in ODD:
            if text.strip():
                assert len(searcher.query(QueryRequest(text, pipeline=pipeline, reranker="late")).hits) <= 5


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("text", ["", " \n", *ODD])
def test_any_question_gets_an_answer_or_a_sentence(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "query", "--json", "-c", "scripts", "--", text)
    if code == 0:
        assert isinstance(json.loads(out), list)
    assert (code == 0) == bool(text.strip()) or text == "-"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "options", [[], ["-E"], *(pytest.param(more, marks=pytest.mark.slow) for more in (["-w"], ["-E", "-i", "-w"]))]
)
def test_any_pattern_gets_an_answer_or_a_sentence(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    long = ["x" * 1_000_000, "(" * 5_000, "[" * 5_000, "a" * 9_000 + "*", "(?P<a>" * 200, "\\" * 9_999, "[x]" * 6_000]
    started = time.process_time()
    for text in ["", *ODD, *long]:
        code, out, _ = called(capsys, "grep", "--json", *options, "--", text)
        if code < 2:
            assert isinstance(json.loads(out), list)
    assert time.process_time() - started < 20


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "arguments",
    [
        *(["query", "x", "-c", name] for name in ("", "..", "a/b", "\x00", "\udcff", "x" * 100_000, "🎉", "-")),
        *(["query", "x", "--pipeline", name] for name in ("", "\x00", "x" * 100_000, "\udcff")),
        *(["query", "x", "--reranker", name] for name in ("", "\x00", "x" * 10_000, "\udcff")),
        *(["query", "x", "--top", number] for number in ("0", "-1", "1" * 5_000, "nan", "9" * 18)),
        *(["query", "x", "--pool", number] for number in ("0", "9" * 18, "9" * 30)),
        *(["grep", "x", "--context", number] for number in ("-1", "9" * 30)),
        *(["show", name] for name in ("", "\x00", "\udcff", "x" * 100_000, ":", "d:9" + "9" * 30, "x:-1")),
        *(
            ["ingest", "corpus.jsonl", "-c", "new", "--dry-run", option, glob]
            for option in ("--include", "--exclude")
            for glob in ("", "[", "[z-a]", "\x00", "\udcff", "*a" * 5_000, "**/" * 5_000, "x" * 300_000, "{a,b}", "(")
        ),
        *(["ingest", name, "-c", "new", "--dry-run"] for name in ("", "\x00", "\udcff", "x" * 5_000, "/dev/null")),
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-2]} {arguments[-1][:10]!a}",
)
def test_any_option_gets_an_answer_or_a_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    called(capsys, *arguments)


def test_a_glob_of_many_stars_does_not_stall(tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path) -> None:
    (tmp_path / ("a" * 240 + ".md")).write_text("text", encoding="utf-8")
    started = time.process_time()
    called(capsys, "ingest", str(tmp_path), "-c", "new", "--dry-run", "--exclude", "*a" * 30 + "b")
    assert time.process_time() - started < 2


@pytest.mark.parametrize("pipeline", ["bm25", "tfidf", "dense", "classic", "hybrid"])
def test_a_megabyte_is_no_question_for_the_encoder(home: Path, pipeline: str) -> None:
    text = "traversable wormhole " + "what is the measure of an unknown quantity? " * 25_000
    started = time.process_time()
    with Searcher([Collection.open(home / "data", "scripts")]) as searcher:
        result = searcher.query(QueryRequest(text, pipeline=pipeline, reranker="late"))
    assert time.process_time() - started < 3
    assert result.hits
    assert "only the first" in result.warnings[0]


@pytest.mark.usefixtures("home")
def test_a_megabyte_on_stdin_is_told_to_be_too_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"long question " * 75_000)))
    code, _, err = called(capsys, "query", "-")
    assert code == 3
    assert err == "ragcli: The question has more than 20,000 characters; ask it in fewer words.\n"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("script", TEXTS)
def test_words_are_found_in_every_script(home: Path, script: str, form: str) -> None:
    asked = unicodedata.normalize(form, ASKED[script])  # type: ignore[arg-type]
    with Searcher([Collection.open(home / "data", "scripts")]) as searcher:
        hits = searcher.query(QueryRequest(asked, pipeline="bm25")).hits
    assert hits[0].chunk.source == script


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("script", TEXTS)
def test_phrases_are_found_in_every_script(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    word = TEXTS[script][3:12].strip()
    for form in ("NFC", "NFD"):
        _, out, _ = called(capsys, "grep", "--json", "--", unicodedata.normalize(form, word))  # type: ignore[arg-type]
        assert script in {hit["source"] for hit in json.loads(out)}


@pytest.mark.parametrize("pattern", ["(a+)+$", pytest.param(r"(?=(a|aa)+\1$).", marks=pytest.mark.slow)])
def test_a_pathological_expression_is_given_up_within_two_seconds(home: Path, pattern: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ragcli", "grep", "-E", "-c", "long", "--", pattern],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, out) == (3, "")
    assert "takes too long on this text" in err
    assert err.count("\n") == 1
    # From the program's start to its end, of the processor's time: the tests' machine may have others to serve.
    assert usage.ru_utime + usage.ru_stime < 2.0
