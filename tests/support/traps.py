"""Bombs and traps: files made to break a reader, each written here from nothing.

A trap is a file, or what only looks like one, and what an ingest of it must come to: `read` if its words are found,
else what the failure says. Sizes are parameters: the quick suite takes small ones, the slow one those of the real
thing.
"""

from __future__ import annotations

import os
import socket
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WORD = "wormhole"
"""Stands in every trap that has any text."""


def objects_pdf(
    objects: Mapping[int, bytes], *, root: int = 1, trailer: bytes = b"", head: bytes = b"%PDF-1.4\n"
) -> bytes:
    """A PDF of these objects, with its cross-reference table."""
    out = bytearray(head)
    places: dict[int, int] = {}
    for number, body in objects.items():
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    size = max(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        out += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 00000 f \n"
    out += b"trailer\n<< /Size %d /Root %d 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, root, trailer, table)
    return bytes(out)


def stream(data: bytes, extra: bytes = b"") -> bytes:
    """A stream object."""
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), extra, data)


def words(text: str) -> bytes:
    """A page's content that prints the text."""
    return b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % text.encode("latin-1")


FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
PAGE = (
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> %s >>"
)
TEXT = f"This page says {WORD} and says it plainly in one line."


def one_page(
    content: bytes = b"",
    *,
    page: bytes = b"",
    catalog: bytes = b"",
    more: Mapping[int, bytes] | None = None,
    **rest: bytes,
) -> bytes:
    """A PDF of one page with a line of text."""
    return objects_pdf(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalog,
            2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            3: PAGE % page,
            4: content or stream(words(TEXT)),
            5: FONT,
            **(more or {}),
        },
        **rest,
    )


def page_tree_cycle() -> bytes:
    """A page tree whose node is its own child, next to a page."""
    return objects_pdf(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R >>",
            2: b"<< /Type /Pages /Kids [2 0 R 6 0 R 3 0 R] /Count 3 >>",
            3: PAGE % b"",
            4: stream(words(TEXT)),
            5: FONT,
            6: b"<< /Type /Pages /Parent 2 0 R /Kids [2 0 R 6 0 R] /Count 2 >>",
        }
    )


def empty_pages(count: int) -> bytes:
    """So many pages with nothing on them, all children of one node."""
    kids = b" ".join(b"%d 0 R" % number for number in range(3, 3 + count))
    pages = dict.fromkeys(range(3, 3 + count), b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>")
    return objects_pdf(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R >>",
            2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
            **pages,
        }
    )


def lying_count(count: int) -> bytes:
    """One page that claims to be so many."""
    return one_page().replace(b"/Count 1 ", b"/Count %d " % count)


def deflated(piece: bytes, size: int) -> bytes:
    """`piece` repeated to about so many bytes and compressed.

    After a full flush a compressor starts anew, so the same megabyte gives the same bytes every time.
    """
    block = piece * ((1 << 20) // len(piece))
    count = -(-size // len(block))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    total = 1
    for _ in range(count):
        total = zlib.adler32(block, total)
    return b"\x78\xda" + packed * count + packer.flush() + total.to_bytes(4, "big")


def flate_bomb(size: int, piece: bytes = b"BT /F1 12 Tf 72 700 Td (a) Tj ET\n") -> bytes:
    """A page whose content unpacks to so many bytes."""
    return one_page(stream(deflated(piece, size), b"/Filter /FlateDecode"))


def nested_flate_bomb(size: int) -> bytes:
    """The same, packed twice: a few hundred bytes for a gigabyte."""
    packed = zlib.compress(deflated(b" ", size), 9)
    return one_page(stream(packed, b"/Filter [/FlateDecode /FlateDecode]"))


def nested_array(depth: int) -> bytes:
    """An array in an array, and so on, as a page's entry and in its content."""
    deep = b"[" * depth + b"]" * depth
    return one_page(stream(deep + b" TJ " + words(TEXT)), page=b"/Deep %s" % deep)


def nested_dictionaries(depth: int) -> bytes:
    """A dictionary in a dictionary, and so on."""
    return one_page(page=b"/Deep " + b"<< /A " * depth + b"1" + b" >>" * depth)


def xref_loop() -> bytes:
    """Cross-reference tables that each call the other the earlier one."""
    data = one_page()
    first = data.rindex(b"xref\n0 ")
    second = len(data)
    data = data.replace(b"/Root 1 0 R ", b"/Root 1 0 R /Prev %010d " % 0)
    second = len(data)
    data = data.replace(b"/Prev 0000000000", b"/Prev %010d" % second)
    return (
        data
        + b"xref\n0 1\n0000000000 65535 f \ntrailer\n<< /Size 6 /Root 1 0 R /Prev %d >>\nstartxref\n%d\n%%%%EOF\n"
        % (
            first,
            second,
        )
    )


def truncated_tail() -> bytes:
    """A PDF that ends before its cross-reference table."""
    data = one_page()
    return data[: data.rindex(b"xref\n0 ") - 20]


def garbage_before_header(size: int) -> bytes:
    """Other bytes before the header, as a mail program or a web server may leave them."""
    return (b"X-Garbage: yes\r\n" * (size // 16 + 1))[:size] + one_page()


def wrong_startxref() -> bytes:
    """A PDF that points to the middle of nowhere for its table."""
    data = one_page()
    place = data.rindex(b"startxref\n") + len(b"startxref\n")
    return data[:place] + b"123456789\n%%EOF\n"


def javascript() -> bytes:
    """A PDF that wants to run a program when it is opened, and when its page is."""
    script = b"<< /S /JavaScript /JS (while \\(true\\) app.alert\\('owned'\\);) >>"
    return one_page(catalog=b"/OpenAction %s" % script, page=b"/AA << /O %s >>" % script)


def embedded_files(count: int) -> bytes:
    """A PDF with files in it, one of them a program."""
    names = b" ".join(b"(f%d.exe) %d 0 R" % (number, 10 + 2 * number) for number in range(count))
    more: dict[int, bytes] = {}
    for number in range(count):
        more[10 + 2 * number] = b"<< /Type /Filespec /F (../../f%d.exe) /EF << /F %d 0 R >> >>" % (
            number,
            11 + 2 * number,
        )
        more[11 + 2 * number] = stream(b"MZ hidden embedded words", b"/Type /EmbeddedFile")
    return one_page(catalog=b"/Names << /EmbeddedFiles << /Names [%s] >> >>" % names, more=more)


def one_line(size: int) -> bytes:
    """Text without a line end: so many bytes in one line, the telling word at its very end."""
    return (b"prose without an end " * (size // 21 + 1))[: size - len(WORD) - 1] + b" " + WORD.encode()


JSON_OUTCOMES: Mapping[int, str | None] = {
    1: None,
    2: "bytes and was passed over",
    3: "not UTF-8",
    4: "cannot be read as JSON",
    5: None,
    6: "which line 1 took already",
    7: "nested too deeply",
    8: "a number that is too long",
    9: "not a JSON object",
    10: "cannot be read as JSON: Unterminated string",
    11: None,
}
"""What becomes of each line below: None if it is taken in, else what its failure says."""


def json_lines(long_line: int) -> bytes:
    """Records of which nearly each is a trap; `long_line` bytes are one line's."""
    lines = [
        b'{"id": "first", "text": "The first record says wormhole."}',
        b'{"id": "long", "text": "' + b"x" * long_line + b'"}',
        b'{"id": "latin", "text": "caf\xe9"}',
        b'{"id": "nul", "text": "a raw \x00 byte"}',
        b'{"id": "escaped", "text": "wormhole \\u0000 and half a character \\ud800 here"}',
        b'{"id": "first", "text": "The same id again."}',
        b'{"id": "deep", "text": "x", "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"id": "number", "text": "x", "n": ' + b"9" * 10_000 + b"}",
        b'["no", "object"]',
        b'{"id": "cut", "text": "no end',
        b'{"id": "last", "text": "The last record says wormhole too."}',
    ]
    return b"\n".join(lines) + b"\n"


def zipped() -> bytes:
    """A zip archive."""
    import io

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("paper.txt", WORD * 1000)
    return out.getvalue()


def nested_html(depth: int) -> bytes:
    """Elements in elements, and so on."""
    return b"<div>" * depth + WORD.encode() + b"</div>" * depth


def heading_bomb(size: int) -> bytes:
    """A heading on which expressions for markup take the square of its length."""
    return b"# " + WORD.encode() + b" " + b"*a " * (size // 6) + b"[b" * (size // 4) + b"\n\nSome text.\n"


def self_multiplying_front_matter() -> bytes:
    """Front matter of a dozen lines that stands for a thousand million words."""
    lines = ["a0: &a0 [" + ", ".join(["lol"] * 9) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, 10)]
    return ("---\n" + "\n".join(lines) + f"\n---\nThe text says {WORD}.\n").encode()


@dataclass(frozen=True)
class Trap:
    """A file, and what comes of it: None if its word is found, else an expression for what the failure says."""

    name: bytes
    make: Callable[[], bytes]
    failure: str | None = None


@dataclass(frozen=True)
class Sizes:
    """How large the traps are."""

    pages: int
    unpacked: int
    depth: int
    line: int
    elements: int
    elements_failure: str | None


SMALL = Sizes(2_000, 60_000_000, 20_000, 1_000_000, elements=5_000, elements_failure=None)
FULL = Sizes(100_000, 1 << 30, 1_000_000, 50_000_000, elements=1_000_000, elements_failure="took longer than")
LONG_JSON_LINE = 100_000_000


def file_traps(sizes: Sizes) -> list[Trap]:
    """Every trap that is a file by itself."""
    return [
        Trap(b"page-tree-cycle.pdf", page_tree_cycle, "none of its 3 pages has text"),
        Trap(b"empty-pages.pdf", lambda: empty_pages(sizes.pages), f"none of its {sizes.pages} pages has text"),
        Trap(b"lying-count.pdf", lambda: lying_count(2_000_000_000)),
        Trap(b"flate-bomb.pdf", lambda: flate_bomb(sizes.unpacked), "took longer than|needs more than the 2048 MB"),
        Trap(
            b"blank-flate-bomb.pdf",
            lambda: flate_bomb(sizes.unpacked, b" "),
            "its one page has no text|needs more than the 2048 MB",
        ),
        Trap(
            b"nested-flate-bomb.pdf",
            lambda: nested_flate_bomb(sizes.unpacked),
            "its one page has no text|needs more than the 2048 MB",
        ),
        Trap(b"nested-array.pdf", lambda: nested_array(sizes.depth)),
        Trap(b"nested-dictionaries.pdf", lambda: nested_dictionaries(sizes.depth)),
        Trap(b"xref-loop.pdf", xref_loop),
        Trap(b"truncated.pdf", truncated_tail, "cannot be read as a PDF"),
        Trap(b"garbage-before.pdf", lambda: garbage_before_header(1_000)),
        Trap(b"much-garbage-before.pdf", lambda: garbage_before_header(100_000), "is not a PDF"),
        Trap(b"wrong-startxref.pdf", wrong_startxref),
        Trap(b"javascript.pdf", javascript),
        Trap(b"embedded-files.pdf", lambda: embedded_files(50)),
        Trap(b"zip.pdf", zipped, "is not a PDF"),
        Trap(b"zip.md", zipped, "is not text"),
        Trap(b"pdf.md", one_page, "is a PDF by its content"),
        Trap(b"empty.pdf", bytes, "is not a PDF: it is empty"),
        Trap(b"empty.md", bytes, "no text"),
        Trap(b"one-line.md", lambda: one_line(sizes.line)),
        Trap(b"one-line.txt", lambda: one_line(sizes.line // 10)),
        Trap(b"heading.md", lambda: heading_bomb(400_000)),
        Trap(b"front-matter.md", self_multiplying_front_matter),
        Trap(b"nested.html", lambda: nested_html(sizes.elements), sizes.elements_failure),
        *(Trap(name, lambda: f"A plain note that says {WORD}.".encode()) for name in strange_names()),
    ]


def strange_names() -> list[bytes]:
    """Names of files that are allowed, and that few programs are ready for."""
    names = [
        b"new\nline.md",
        b"\"double\" and 'single' quotes.md",
        "emoji 🎉👩‍🔬.md".encode(),
        b"-c.md",
        b"[bold]markup.md",
        b"escape \x1b[31m and bell \x07.md",
        "right to left \u202e override.md".encode(),
        b"%s %n $(touch owned) `touch owned`.md",
        b" .md",
        b"n" * 252 + b".md",
    ]
    return [*names, b"not utf-8 \xff\xfe.md"] if os.name == "posix" and os.uname().sysname == "Linux" else names


def put(folder: Path, trap: Trap) -> Path:
    """Write the trap into a folder."""
    path = folder / os.fsdecode(trap.name)
    path.write_bytes(trap.make())
    return path


def what_is_no_file(folder: Path) -> Sequence[socket.socket]:
    """A pipe, a socket and links that lead nowhere or round in circles, all named like documents."""
    os.mkfifo(folder / "pipe.pdf")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(folder)  # a socket's path may have a hundred bytes
    try:
        listener.bind("socket.md")
    finally:
        os.chdir(here)
    (folder / "loop.pdf").symlink_to("loop.pdf")
    (folder / "there.md").symlink_to("back.md")
    (folder / "back.md").symlink_to("there.md")
    (folder / "gone.txt").symlink_to("nowhere.txt")
    (folder / "round").mkdir()
    (folder / "round" / "and-round").symlink_to("..", target_is_directory=True)
    return [listener]
