"""Small PDFs for the tests, made as they are needed.

Most are laid out line by line with fpdf2, so that a test says where each word stands. Text is our own.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from fpdf import FPDF

LEADING = 14.0
BODY = 11.0

SENTENCES = (
    "A traversable wormhole needs a negative average null energy along some of its rays.",
    "Two boundaries are coupled for a short time, and the coupling supplies that energy.",
    "The signal comes out late if the coupling is weak, and not at all if it has the wrong sign.",
    "Nothing here violates causality, since the coupling is itself a channel between the two sides.",
    "We compute the delay to first order and compare it with a numerical solution of the equations.",
)


def new_pdf() -> FPDF:
    """A letter page measured in points, set in Helvetica."""
    pdf = FPDF(unit="pt", format="letter")
    pdf.set_auto_page_break(auto=False)
    pdf.set_font("Helvetica", size=BODY)
    return pdf


def put(
    pdf: FPDF, x: float, y: float, text: str, *, size: float = BODY, style: str = "", font: str = "Helvetica"
) -> None:
    """One line of text with its baseline `y` points below the page's top."""
    pdf.set_font(font, style=style, size=size)
    pdf.text(x, y, text)


def put_lines(pdf: FPDF, x: float, y: float, lines: Sequence[str], *, size: float = BODY) -> float:
    """Lines under one another; the baseline of the line that would follow."""
    for line in lines:
        put(pdf, x, y, line, size=size)
        y += LEADING
    return y


def wrapped(pdf: FPDF, text: str, width: float, *, size: float = BODY) -> list[str]:
    """The text broken into lines of at most `width` points."""
    pdf.set_font("Helvetica", size=size)
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if pdf.get_string_width(longer) > width and line:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line]


def prose(seed: int, sentences: int) -> str:
    """Plain sentences, different for each seed, that can be told apart by their numbers."""
    return " ".join(
        f"{SENTENCES[(seed + index) % len(SENTENCES)][:-1]} (case {seed}.{index})." for index in range(sentences)
    )


def write(pdf: FPDF, path: Path) -> Path:
    pdf.output(str(path))
    return path


def paper(path: Path, *, pages: int = 4, head: str = "Wormholes in Brief", numbers: bool = True) -> Path:
    """A one-column paper with a running head and page numbers; each page's text runs on to the next."""
    pdf = new_pdf()
    lines = wrapped(pdf, prose(1, 30 * pages), 440)
    per_page = len(lines) // pages
    for number in range(pages):
        pdf.add_page()
        if head:
            put(pdf, 72, 40, f"{head}", size=9)
        if numbers:
            put(pdf, 300, 760, str(number + 1), size=9)
        put_lines(pdf, 72, 90, lines[number * per_page : (number + 1) * per_page][:45])
    return write(pdf, path)


def two_columns(path: Path, *, row_by_row: bool) -> tuple[Path, list[str], list[str]]:
    """A page in two columns, written column by column or line by line; its left and its right column's lines."""
    pdf = new_pdf()
    pdf.add_page()
    left = wrapped(pdf, prose(3, 12), 220)
    right = wrapped(pdf, prose(8, 12), 220)[: len(left)]
    left = left[: len(right)]
    places = [(72.0, 90 + LEADING * row, line) for row, line in enumerate(left)]
    others = [(320.0, 90 + LEADING * row, line) for row, line in enumerate(right)]
    order = [spot for pair in zip(places, others, strict=True) for spot in pair] if row_by_row else places + others
    for x, y, line in order:
        put(pdf, x, y, line)
    return write(pdf, path), left, right


def scanned(path: Path, *, pages: int = 1, with_text: Sequence[int] = ()) -> Path:
    """Pages that are pictures, but for the numbers in `with_text`, counted from 0."""
    pdf = new_pdf()
    for number in range(pages):
        pdf.add_page()
        if number in with_text:
            put_lines(pdf, 72, 90, wrapped(pdf, prose(number, 6), 440))
        else:
            pdf.image(io.BytesIO(picture()), x=72, y=72, w=400)
    return write(pdf, path)


def picture() -> bytes:
    """A grey picture."""
    from PIL import Image

    out = io.BytesIO()
    Image.new("L", (40, 40), 200).save(out, "PNG")
    return out.getvalue()


def encrypted(path: Path, *, user_password: str) -> Path:
    """A locked paper. An empty user password only asks programs not to change it."""
    pdf = new_pdf()
    pdf.add_page()
    put(pdf, 72, 90, "The secret of the wormhole is written here.")
    pdf.set_encryption(owner_password="owner", user_password=user_password)
    return write(pdf, path)


def raw_pdf(
    path: Path, content: str, *, encoding: str = "/WinAnsiEncoding", font: str = "", more: Sequence[bytes] = ()
) -> Path:
    """A one-page PDF with this content stream, for what fpdf2 doesn't write.

    F1 is Times; `font` is added to its dictionary, `more` to the objects, which then begin with number 6.
    """
    stream = content.encode("latin-1")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding %s %s >>"
        % (encoding.encode(), font.encode()),
        *more,
    ]
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    path.write_bytes(bytes(out))
    return path
