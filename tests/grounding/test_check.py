"""`ragcli check`: what a draft claims, held against the documents it cites, as a person or a script calls it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_calls import Ragcli, caller
from tests.support.llm_server import Fault, llm_server
from tests.support.terminals import run
from tests.support.tiny_models import tiny_encoder

from ragcli.grounding.check.citation_parser import DraftCitation, citations_of, without_citation_marks
from ragcli.grounding.check.draft_parser import read_draft

ZETA = """---
title: The Zeta Protocol for Electing Leaders
author: [Ada Quist, Bo Lind]
year: 2014
doi: 10.1234/zeta.1
---
# The Zeta Protocol for Electing Leaders

Each leader sends a heartbeat to all followers every 50 ms. A follower that hears nothing for 300 ms starts an
election. The protocol does not need a lock.

## Results

Zeta served 1,800 requests in each second on four machines. Latency was higher in Dublin than in Seattle.
"""
OMEGA = """---
title: Omega Counts Distinct Values
author: Cleo Marsh
year: 2007
---
# Omega Counts Distinct Values

Omega estimates the number of distinct values in a stream with 2 percent error. It uses a sketch of 1024 registers,
and merges sketches without loss.
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    (folder / "notes").mkdir()
    (folder / "notes" / "zeta.md").write_text(ZETA, encoding="utf-8")
    (folder / "notes" / "marsh2007omega.md").write_text(OMEGA, encoding="utf-8")
    encoder = tiny_encoder(folder / "encoder")
    done = run(folder / "data", "ingest", str(folder / "notes"), "-c", "notes", "--encoder", str(encoder))
    assert done.returncode == 0, done.stderr
    return folder / "data"


@pytest.fixture
def ragcli(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ragcli:
    return caller(made, tmp_path, monkeypatch, capsys)


def checked(ragcli: Ragcli, draft: str, *arguments: str) -> Any:
    called = ragcli("check", "-", *arguments, "--json", stdin=draft.encode())
    assert called.code in (0, 6), called.err
    assert (called.code == 6) == any(each["verdict"] != "supported" for each in called.json["sentences"])
    return called.json


def verdicts(ragcli: Ragcli, draft: str, *arguments: str) -> list[str]:
    return [each["verdict"] for each in checked(ragcli, draft, *arguments)["sentences"]]


def test_a_draft_that_the_documents_support_exits_0(ragcli: Ragcli, tmp_path: Path) -> None:
    draft = tmp_path / "draft.md"
    draft.write_text("# Mine\n\nThe protocol does not need a lock. A follower starts an election after 300 ms.\n")
    called = ragcli("check", str(draft), "-c", "notes")
    assert called.code == 0, called.out
    assert "2 sentences checked by 'semantic': 2 supported, 0 not supported." in called.out
    assert "zeta.md" in called.out


def test_a_changed_fact_exits_6_and_is_named_with_the_nearest_passage(ragcli: Ragcli) -> None:
    called = ragcli(
        "check", "-", stdin=b"The protocol does not need a lock.\nEach leader sends a heartbeat every 70 ms."
    )
    assert called.code == 6
    assert "not found: 70 ms" in called.out
    assert "1 supported, 1 not supported" in called.out
    only = ragcli("check", "-", "--unsupported", stdin=b"The protocol does not need a lock. It needs 9 locks per node.")
    assert "9 locks" in only.out
    assert "does not need a lock." not in only.out.split("nearest")[0]


@pytest.mark.parametrize(
    ("cited", "references"),
    [
        ("[1]", "\n## References\n\n1. Quist, A. and Lind, B. The Zeta protocol for electing leaders. 2014.\n"),
        ("[1]", "\n## References\n\n[1] Quist and Lind, 2014. Some paper.\n[2] Marsh 2007.\n"),
        ("[1]", "\n[1]: notes/zeta.md\n"),
        ("[^z]", "\n[^z]: The Zeta Protocol for Electing Leaders, 2014.\n"),
        ("[@quist2014zeta]", ""),
        ("[@zeta]", ""),
        ("[see @quist2014, p. 3; @marsh2007omega]", ""),
        (r"\cite{quist2014}", ""),
        ("(Quist 2014)", ""),
        ("(see Quist and Lind, 2014; Marsh 2007)", ""),
        ("(zeta.md)", ""),
        ("(doi:10.1234/zeta.1)", ""),
        ("[the paper](zeta.md)", ""),
    ],
)
def test_every_style_of_citation_leads_to_the_document(ragcli: Ragcli, cited: str, references: str) -> None:
    found = checked(ragcli, f"The protocol does not need a lock {cited}.\n{references}")
    (sentence,) = found["sentences"]
    assert sentence["verdict"] == "supported"
    assert not sentence["searched"]
    assert sentence["unknown_citations"] == []
    assert sentence["passage"]["source"] == "zeta.md"
    assert "does not need a lock" in sentence["passage"]["text"]


def test_an_author_in_the_sentence_is_cited_by_it(ragcli: Ragcli) -> None:
    found = checked(ragcli, "Quist et al. (2014) say that the protocol does not need a lock.")
    assert found["sentences"][0]["citations"] == ["Quist 2014"]
    assert found["sentences"][0]["passage"]["source"] == "zeta.md"


def test_a_right_claim_with_a_wrong_citation_is_told_as_such(ragcli: Ragcli) -> None:
    (sentence,) = checked(ragcli, "The protocol does not need a lock [@marsh2007omega].")["sentences"]
    assert sentence["verdict"] == "elsewhere"
    assert sentence["passage"]["source"] == "zeta.md"
    called = ragcli("check", "-", stdin=b"The protocol does not need a lock [@marsh2007omega].")
    assert called.code == 6
    assert "not in what it cites, but in zeta.md" in called.out


def test_a_citation_of_nothing_here_is_told_and_the_search_decides(ragcli: Ragcli) -> None:
    (sentence,) = checked(ragcli, "The protocol does not need a lock [7].")["sentences"]
    assert (sentence["verdict"], sentence["searched"], sentence["unknown_citations"]) == ("supported", True, ["[7]"])


def test_what_claims_nothing_is_not_checked(ragcli: Ragcli) -> None:
    draft = """---
title: front matter says what is not so
---
# A heading that claims the moon is made of cheese

Is the moon made of green cheese?

```
the moon is made of green cheese in this code
```

| cell | cell |
|------|------|
| the moon is made | of green cheese |

$$ moon = cheese + green + made $$

<div>the moon is made of green cheese</div>

Too short.
"""
    called = ragcli("check", "-", stdin=draft.encode())
    assert (called.code, called.out) == (0, "There is no sentence here that claims anything.\n")


def test_lists_and_quotations_are_checked_and_lines_are_told(ragcli: Ragcli) -> None:
    draft = "Intro comes first:\n\n- The protocol does not need a lock.\n- It uses *seven* locks in each node.\n\n"
    draft += "> Latency was higher in Dublin\n> than in Seattle.\n"
    found = checked(ragcli, draft)["sentences"]
    assert [(each["line"], each["verdict"]) for each in found] == [
        (3, "supported"),
        (4, "unsupported"),
        (6, "supported"),
    ]


def test_the_heuristic_judge_can_be_chosen(ragcli: Ragcli) -> None:
    assert checked(ragcli, "The protocol does not need a lock.", "--judge", "heuristic")["judge"] == "heuristic"


def llm(base_url: str) -> tuple[str, ...]:
    return ("--judge", "llm", "--llm-base-url", base_url, "--llm-model", "test")


def test_a_language_model_can_judge_and_its_prompt_be_replaced(ragcli: Ragcli, tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "faithfulness.txt").write_text("MINE $sentence | $passages")
    config = tmp_path / "own.toml"
    config.write_text('[llm]\nprompts = "prompts"\n')
    with llm_server(json.dumps({"supported": False, "missing": ["a lock"]})) as server:
        found = checked(ragcli, "The protocol does not need a lock.", *llm(server.base_url), "--config", str(config))
    assert found["sentences"][0]["missing"] == ["a lock"]
    assert server.prompts[0].startswith("MINE The protocol does not need a lock.")


def test_when_the_language_model_fails_the_semantic_judge_goes_on_with_one_warning(ragcli: Ragcli) -> None:
    draft = b"The protocol does not need a lock. Latency was higher in Dublin than in Seattle."
    with llm_server(Fault(status=400)) as server:
        called = ragcli("check", "-", *llm(server.base_url), "--json", stdin=draft)
    assert called.code == 0, called.err
    assert called.err.count("From here on the judge is 'semantic'") == 1
    assert len(server.requests) == 1


def test_the_number_of_calls_is_kept_and_answers_are_remembered(ragcli: Ragcli) -> None:
    draft = b"Omega estimates distinct values in a stream. It uses a sketch of 1024 registers."
    with llm_server('{"supported": true}') as server:
        assert ragcli("check", "-", *llm(server.base_url), "--max-llm-calls", "1", stdin=draft).code == 0
        assert len(server.requests) == 1
        again = ragcli("check", "-", *llm(server.base_url), "--max-llm-calls", "1", stdin=draft)
        assert (again.code, len(server.requests)) == (0, 2)


def test_a_configured_model_in_a_strangers_file_is_not_asked(ragcli: Ragcli, tmp_path: Path) -> None:
    with llm_server('{"supported": true}') as server:
        (tmp_path / "collections.toml").write_text(f'[llm]\nbase_url = "{server.base_url}"\nmodel = "m"\n')
        called = ragcli("check", "-", "--judge", "llm", stdin=b"The protocol does not need a lock.")
        assert called.code == 3
        assert "llm.base_url sends texts to" in called.err
        assert not server.requests


def test_the_key_configured_for_one_endpoint_is_not_sent_to_another(
    ragcli: Ragcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret")
    config = tmp_path / "own.toml"
    with llm_server('{"supported": true}') as server:
        config.write_text(f'[llm]\nbase_url = "{server.base_url}"\nmodel = "m"\napi_key_env = "MY_KEY"\n')
        ragcli("check", "-", "--judge", "llm", "--config", str(config), stdin=b"The protocol does not need a lock.")
    with llm_server('{"supported": true}') as other:
        arguments = ("--judge", "llm", "--config", str(config), "--llm-base-url", other.base_url)
        assert ragcli("check", "-", *arguments, stdin=b"The protocol does not need a lock.").code == 0
    assert server.requests[0].headers["Authorization"] == "Bearer s3cret"
    assert "Authorization" not in other.requests[0].headers


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.md",), "cannot be read"),
        (("-", "--judge", "oracle"), "takes one of semantic, heuristic, llm"),
        (("-", "--judge", "llm"), "needs a language model"),
        (("-", "--llm-model", "m"), "is for --judge llm"),
        (("-", "--max-llm-calls", "3"), "--max-llm-calls is for --judge llm"),
        (("-", "--judge", "llm", "--llm-model", "m"), "--llm-base-url or [llm] base_url is missing"),
        (("-", "--top", "0"), "at least 1"),
        (("-", "-c", "nowhere"), "nowhere"),
    ],
)
def test_a_call_that_makes_no_sense_is_told_in_a_sentence(
    ragcli: Ragcli, arguments: tuple[str, ...], said: str
) -> None:
    called = ragcli("check", *arguments, stdin=b"The protocol does not need a lock.")
    assert called.code in (2, 3)
    assert said in called.err
    assert "bug" not in called.err


@pytest.mark.parametrize(
    "draft", ["", "\x00\xff", "- [ \n" * 200, ">" * 3000 + " deep", "[1]" * 2000, "*" * 4000, "`" * 4000]
)
def test_odd_drafts_are_read(ragcli: Ragcli, draft: str) -> None:
    assert ragcli("check", "-", stdin=draft.encode("latin-1")).code in (0, 6)


@pytest.mark.parametrize("repeated", ["\\[", "[", "\\cite[", "\\begin{align}", "\\emph{", "**a ", "$x"])
@pytest.mark.parametrize("kind", ["", "\\section{A}\n"])
def test_brackets_that_never_close_are_read_in_no_time(kind: str, repeated: str) -> None:
    started = time.process_time()
    read_draft(kind + repeated * 10_000)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
def test_a_draft_is_read_in_whatever_encoding_it_is_written(ragcli: Ragcli, encoding: str) -> None:
    draft = "The protocol needs a lock, says Café Müller in Zürich, and never without it."
    called = ragcli("check", "-", "--json", stdin=draft.encode(encoding))
    assert called.code == 6, called.err
    assert called.json["sentences"][0]["sentence"] == draft


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + b"1 0 obj << >> endobj\n" * 20, "draft.md: is a PDF; check its text"),
        (b"PK\x03\x04\x14\x00\x06\x00" * 40, "draft.md is not text"),
    ],
)
def test_what_is_no_text_is_refused_and_not_found_to_be_right(
    ragcli: Ragcli, tmp_path: Path, data: bytes, said: str
) -> None:
    (tmp_path / "draft.md").write_bytes(data)
    called = ragcli("check", "draft.md")
    assert called.code == 3
    assert said in called.err


@pytest.mark.parametrize(
    ("sentence", "cited", "claim"),
    [
        ("It works [1, 3-5].", ["[1]", "[3]", "[4]", "[5]"], "It works."),
        ("It works [@a; @b-c:d, p. 2].", ["[a]", "[b-c:d]"], "It works."),
        ("It works~\\citep[p.~3]{a,b}.", ["[a]", "[b]"], "It works."),
        ("It works (van Dam & Ito 2003; Shor, 1997a).", ["Shor 1997"], "It works."),
        ("Shor et al. (1997) factor.", ["Shor 1997"], "Shor factor."),
        ("It works (shor.pdf, p. 4).", ["shor.pdf"], "It works."),
        ("It grew (from 3 to 1990) there.", [], "It grew (from 3 to 1990) there."),
        ("Write to a@b.org about arXiv:1704.05333.", ["1704.05333"], "Write to a@b.org about arXiv:1704.05333."),
        ("It works (see Fig. 2).", [], "It works."),
        ("It works (§ 5.1 and Table 3a), cf. Shor et al. (1997).", ["Shor 1997"], "It works."),
        ("It grew (Table 3 has 40 rows).", [], "It grew (Table 3 has 40 rows)."),
        ("It grew (see Fig.) (A) there.", [], "It grew (A) there."),
        ("Read d01234567:7 there.", [], "Read d01234567:7 there."),
        ("Read d0123456789:7 there.", ["d0123456789:7"], "Read there."),
    ],
)
def test_citations_are_told_from_the_claim(sentence: str, cited: list[str], claim: str) -> None:
    assert [each.written for each in citations_of(sentence)] == cited
    assert without_citation_marks(sentence) == claim


def test_a_page_is_read_with_a_files_name() -> None:
    assert citations_of("It works (papers/shor.pdf, pp. 4-5).") == (DraftCitation("source", "papers/shor.pdf", page=4),)


def test_maths_between_dollars_does_not_break_a_sentence() -> None:
    draft = read_draft("The error of $\\epsilon^2$ is bounded by $n$ in every case. It costs $5 or so a month, or $7.")
    assert [each.claim for each in draft.sentences] == [
        "The error of is bounded by n in every case.",
        "It costs $5 or so a month, or $7.",
    ]


LATEX = r"""\documentclass[a4paper]{article}
\title{A note that no passage supports}
\begin{document}
\section{Leaders}\label{sec:leaders}
% Zeta needs seven locks, says this comment.
    The protocol does \emph{not need a \textbf{lock}}~\cite{zeta}.
Omega estimates distinct values with 2\% error \citep[p.~3]{marsh2007omega},\footnote{Or \emph{less} \cite{zeta}.}
as Fig.~\ref{fig:one} of \"Ozg\"ur shows\ldots
\begin{itemize}
  \item[a)] A follower that hears nothing for 300\,ms starts an election.
\end{itemize}
\begin{equation} no \, passage \quad says = this \end{equation}
\begin{table}\caption{Latency was higher in Dublin than in Seattle.}
\begin{tabular}{ll} nothing & in here is read \\ \end{tabular}
\end{table}

\begin{thebibliography}{9}
\bibitem{zeta}
A.~Quist.
\newblock The Zeta Protocol for Electing Leaders, 2014.
\end{thebibliography}
\end{document}
"""


def test_a_draft_in_latex_is_read_as_it_is_printed() -> None:
    draft = read_draft(LATEX)
    assert [(each.line, each.claim, [cited.name for cited in each.citations]) for each in draft.sentences] == [
        (6, "The protocol does not need a lock.", ["zeta"]),
        (7, "Omega estimates distinct values with 2% error, as Fig. of Özgür shows…", ["marsh2007omega"]),
        (10, "A follower that hears nothing for 300 ms starts an election.", []),
        (13, "Latency was higher in Dublin than in Seattle.", []),
    ]
    assert draft.references == {"zeta": "A. Quist. The Zeta Protocol for Electing Leaders, 2014."}


@pytest.mark.parametrize(
    ("latex", "claims"),
    [
        (
            r"The curve \includegraphics[width=3cm]{fig1.png} falls with every step.",
            ["The curve falls with every step."],
        ),
        (r"The curve \includegraphics*[1,2][3,4]{a} falls with every step.", ["The curve falls with every step."]),
        (r"It costs \$5 of a\_b and \verb|x{y| more.", ["It costs $5 of a_b and x{y more."]),
        (r"Read \href{http://a.org}{this page} about \textcolor{red}{the sea}.", ["Read this page about the sea."]),
        (r"So it was \[ a = b \] in \L{}\'od\'z all along.", ["So it was in Łódź all along."]),
        (
            r"One brace } too many here. Another { was never closed.",
            ["One brace too many here.", "Another was never closed."],
        ),
    ],
)
def test_latex_leaves_the_words_that_are_printed(latex: str, claims: list[str]) -> None:
    draft = read_draft("\\section{A}\n" + latex)
    assert [(each.line, each.claim) for each in draft.sentences] == [(2, claim) for claim in claims]


def test_markdown_with_some_latex_in_it_is_read_as_markdown() -> None:
    draft = read_draft(
        "# Costs\n\n\\begin{itemize}\n\nIt fell by 50% in all of the cases.\n\n    code is not read here\n"
    )
    assert [each.claim for each in draft.sentences] == ["It fell by 50% in all of the cases."]


def test_what_a_draft_in_latex_says_is_held_against_what_it_cites(ragcli: Ragcli) -> None:
    found = checked(ragcli, LATEX.replace("300", "400"), "--judge", "heuristic")
    assert [each["citations"] for each in found["sentences"][:2]] == [["[zeta]"], ["[marsh2007omega]"]]
    assert [each["passage"]["source"].rpartition("/")[2] for each in found["sentences"][:2]] == [
        "zeta.md",
        "marsh2007omega.md",
    ]
    assert checked(ragcli, LATEX.replace("300", "400"))["sentences"][2]["missing"] == ["400 ms"]


def test_what_pandoc_escapes_is_read_as_it_was_meant() -> None:
    draft = read_draft("Zeta\\'s cost fell by 40\\% \\[1, 2\\].\n\n\\[x^2 = y\\]\n\nIt takes 64\\ MB of a \\$5 disk.\n")
    assert [each.claim for each in draft.sentences] == ["Zeta's cost fell by 40%.", "It takes 64 MB of a $5 disk."]
    assert [cited.name for cited in draft.sentences[0].citations] == ["1", "2"]


@pytest.mark.parametrize("heading", ["## References\n\n", "References\n\n"])
def test_an_entry_of_the_references_may_take_several_lines(heading: str) -> None:
    entries = (
        "[1] A. Quist and B. Lind.\n    The Zeta Protocol for Electing Leaders.\n[2] C. Marsh.\nOmega Counts, 2007."
    )
    draft = read_draft(f"Zeta needs no lock at all [1].\n\n{heading}{entries}\n")
    assert [each.claim for each in draft.sentences] == ["Zeta needs no lock at all."]
    assert draft.references == {
        "1": "A. Quist and B. Lind. The Zeta Protocol for Electing Leaders.",
        "2": "C. Marsh. Omega Counts, 2007.",
    }


def test_a_line_that_begins_with_what_it_cites_is_no_entry_of_the_references() -> None:
    draft = read_draft("The timers are as told in\n[1] and the protocol needs no lock.\n\n[2] shows that it needs one.")
    assert [each.line for each in draft.sentences] == [1, 4]
    assert draft.references == {}
