"""Write the files of the demo into a folder: `python scripts/make_papers.py FOLDER`.

FOLDER/papers gets a few small papers, PDF and markdown; beside it lie a draft that cites them and questions with known
answers, for `ragcli check` and `ragcli eval`. The examples of the README and the manual use these files.

The words are our own, and the PDFs are written byte by byte, so that this needs nothing but Python. Two files
from the same words are the same to the byte, so a second demo finds nothing new to ingest.
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

LINES_A_PAGE = 46
CHARACTERS_A_LINE = 84


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper to set as a PDF: (heading, paragraphs) pairs, each section on a page of its own."""

    file: str
    title: str
    author: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]


WORMHOLE = Paper(
    "wormhole.pdf",
    "How a Wormhole Becomes Traversable",
    "A. Writer",
    (
        (
            "1 Two boundaries and a bridge",
            (
                "An eternal black hole has two outsides. Each has a boundary of its own, and between them lies "
                "an Einstein-Rosen bridge that no signal can cross: whoever jumps in on one side meets the "
                "singularity before the other side comes into view. The bridge is there, but it is longer than "
                "any lifetime.",
                "In this note we ask what it would take to shorten it. The answer has been known in outline for "
                "some years. If the two boundaries are coupled for a short while, quantum fields near the "
                "horizon can be pushed into a state whose energy, summed along a light ray, is below zero.",
            ),
        ),
        (
            "2 Negative energy along the horizon",
            (
                "Classical matter obeys the average null energy condition: along any complete light ray the "
                "energy that the ray meets adds up to zero or more. Under that condition a theorem forbids any "
                "shortcut between the two sides. A coupling of the boundaries breaks it. With the right sign "
                "the coupling produces a negative average null energy on the horizon, and the geometry answers "
                "as it must: the horizon shrinks a little, and a probe that entered early enough comes out.",
                "The window is small. A probe that is sent too late sees no opening, and a probe that carries "
                "too much energy closes the opening by its own weight. Within the window, though, information "
                "does leak from one side to the other. Seen from the boundaries this is no magic: the two "
                "quantum systems were entangled, and the coupling lets them teleport.",
                "The amount of negative average null energy grows with the strength of the coupling and falls "
                "with the time one waits. No energy is gained on the whole, and nothing moves faster than light "
                "in the space outside.",
            ),
        ),
    ),
)

MITIGATION = Paper(
    "error-mitigation.pdf",
    "Living with Noise: Error Mitigation in Short-Depth Circuits",
    "B. Writer",
    (
        (
            "1 Why not correct the errors",
            (
                "Error correction spends thousands of physical qubits on a single good one. Machines that have "
                "a hundred qubits cannot pay that price. What they can do is run circuits of short depth many "
                "times, and repair the averages afterwards. This is called error mitigation.",
            ),
        ),
        (
            "2 Extrapolation to zero noise",
            (
                "The simplest method measures an expectation value at the noise the machine has, then at noise "
                "made stronger on purpose, for instance by stretching every pulse. The values lie on a curve, "
                "and the curve is followed back to where the noise would be zero. No extra qubits are needed. "
                "The price is paid in samples: each order of the extrapolation makes the answer more exact and "
                "its variance larger.",
                "For circuits of short depth the curve is nearly straight, and two or three points suffice. As "
                "the depth grows the signal drowns, and no curve through it means anything.",
            ),
        ),
        (
            "3 Cancelling by probability",
            (
                "A second method undoes the noise on average. If the noise of each gate is known, its inverse "
                "can be written as a mixture of gates that the machine does have, some of them with a negative "
                "weight. Drawing circuits from that mixture and keeping track of signs gives an estimate "
                "without bias. The number of samples grows exponentially with the number of gates, which again "
                "confines the method to short circuits.",
            ),
        ),
    ),
)

COUNTING = Paper(
    "counting-distinct.pdf",
    "Counting Distinct Visitors with a Kilobyte",
    "C. Writer",
    (
        (
            "1 The trick",
            (
                "To count how many different visitors came by, it seems one must remember them all. It is "
                "enough to remember how surprising the most surprising one was. Hash every visitor to a string "
                "of random bits and note the longest run of zeros at its start. A run of twenty zeros is seen "
                "about once in a million strings, so whoever has seen one has probably seen a million.",
            ),
        ),
        (
            "2 Many registers",
            (
                "One register is a poor witness, because a single lucky string misleads it. A sketch therefore "
                "splits the strings over a thousand small registers and averages what they say, with a mean "
                "that lets no single register shout. A kilobyte of memory then estimates the number of distinct "
                "values to within a few percent, however many there are, and two sketches merge by taking the "
                "larger of each pair of registers.",
            ),
        ),
    ),
)

NOTES = {
    "reranking.md": """\
---
title: Why search in two stages
author: D. Writer
tags: [retrieval, notes]
---

# Why search in two stages

## The first stage is wide

A first stage has to look at everything, so it must be cheap. Word statistics find the passages that share the
question's rare words. Sentence vectors find those that say the same in other words. Neither is right alone, and
their mistakes differ, so the pool takes the best of both.

## The second stage is careful

A reranker reads only the pool, a few dozen passages, and so it can afford to look closely. A cross-encoder puts
question and passage side by side through one network. Late interaction compares every word of the question with
every word of the passage and keeps the best match of each; its passage side can be prepared in advance.

```python
pool = first_stage(question, wide=True)
answers = sorted(pool, key=lambda passage: reranker(question, passage), reverse=True)
```
""",
    "leader-election.md": """\
# Notes on electing a leader

## Terms

Time is cut into terms. In each term there is at most one leader. A server that has heard from no leader for a
while raises its term, votes for itself and asks the others for their votes.

## Votes

A server gives one vote a term, to the first candidate that asks and whose log is at least as long as its own. A
majority of votes makes a leader, and two majorities always share a server, so there are never two leaders in one
term. Random waiting times make it rare that two candidates split the vote.
""",
}


SIDECAR = """\
topic = "black holes"
tags = ["gravity", "information"]
read = 2026-11-30
"""

DRAFT = """\
The amount of negative average null energy grows with the strength of the coupling (wormhole.pdf).
With the right sign the coupling produces a positive average null energy on the horizon [1].

[1]: How a Wormhole Becomes Traversable
"""

QUESTIONS = """\
{"query": "does information leak through a wormhole", "relevant_ids": ["wormhole.pdf"]}
{"query": "how is noise undone in short circuits", "relevant_ids": ["error-mitigation.pdf"]}
{"query": "estimate how many different values there are", "relevant_ids": ["counting-distinct.pdf"]}
{"query": "when does a server stand for election", "relevant_ids": ["leader-election.md"]}
{"query": "why rerank a pool of candidates", "relevant_ids": ["reranking.md"]}
{"query": "what colour is the fourth funnel of the Titanic", "answerable": false}
{"query": "how long must the dough rest before baking", "answerable": false}
"""


def pdf_of(paper: Paper) -> bytes:
    """The paper as a PDF: a title, then each section on its own page, Helvetica, letter size."""
    pages = [_page_stream(paper, number) for number in range(len(paper.sections))]
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode("ascii"),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< /Title {_literal(paper.title)} /Author {_literal(paper.author)} >>".encode("ascii"),
    ]
    for number, stream in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {6 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode("ascii")
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n".encode("ascii") + stream + b"\nendstream")
    return _assemble(objects)


def _page_stream(paper: Paper, number: int) -> bytes:
    heading, paragraphs = paper.sections[number]
    lines = [(18, paper.title), (11, paper.author), (11, "")] if number == 0 else []
    lines += [(14, heading), (11, "")]
    for paragraph in paragraphs:
        lines += [(11, line) for line in textwrap.wrap(paragraph, CHARACTERS_A_LINE)] + [(11, "")]
    if len(lines) > LINES_A_PAGE:
        raise ValueError(f"{paper.file}: section {heading!r} does not fit on its page")
    drawn = ["BT", "15 TL", "72 720 Td"]
    drawn += [f"/F1 {size} Tf {_literal(line)} Tj T*" if line else "T*" for size, line in lines]
    drawn += [f"/F1 9 Tf 1 0 0 1 300 40 Tm {_literal(str(number + 1))} Tj", "ET"]
    return "\n".join(drawn).encode("ascii")


def _literal(text: str) -> str:
    return "(" + text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") + ")"


def _assemble(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode("ascii") + content + b"\nendobj\n"
    table = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode("ascii")
    out += b"".join(f"{place:010d} 00000 n \n".encode("ascii") for place in places)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R >>\nstartxref\n{table}\n%%EOF\n".encode(
        "ascii"
    )
    return bytes(out)


def write_papers(folder: Path) -> list[Path]:
    """Write every paper into the folder, made if need be, and give the files in order."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {paper.file: pdf_of(paper) for paper in (WORMHOLE, MITIGATION, COUNTING)}
    contents |= {name: text.encode("utf-8") for name, text in NOTES.items()}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in sorted(contents)]


def write_demo(folder: Path) -> list[Path]:
    """Write `folder/papers` with a sidecar, the draft and the questions beside it, and give the files in order."""
    written = write_papers(folder / "papers")
    texts = {"papers/wormhole.pdf.meta.toml": SIDECAR, "draft.md": DRAFT, "questions.jsonl": QUESTIONS}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [*written, *(folder / name for name in texts)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} FOLDER")
    for path in write_demo(Path(sys.argv[1])):
        print(f"  {path}")
