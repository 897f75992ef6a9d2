"""Where the search starts: a few small documents of each kind, and the words their formats are made of.

PDFs are written by hand, with nothing compressed, so that a change to their bytes is a change to the document; a few
made by libraries bring what those don't have: compression, object streams, encryption.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence

_PROSE = (
    "A traversable wormhole needs a negative average null energy. Two boundaries are coupled for a short time, and the "
    "coupling supplies that energy. The signal comes out late if the coupling is weak."
)


def pdf_file(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF of these objects, numbered from 1, of which the first is the catalogue."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R %s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, table)
    return bytes(out)


def stream(content: bytes, entries: bytes = b"") -> bytes:
    """A stream object."""
    return b"<< /Length %d %s>>\nstream\n%s\nendstream" % (len(content), entries, content)


def _shown(lines: Sequence[str], *, font: str = "F1", size: int = 10, x: int = 72, y: int = 700) -> bytes:
    shown = " T* ".join(f"({line}) Tj" for line in lines)
    return f"BT /{font} {size} Tf {size + 2} TL {x} {y} Td {shown} ET".encode("latin-1")


_FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding /WinAnsiEncoding >>"
_BOLD = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>"
_PAGE = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font <<%s>> %s>> %s>>"
_FONTS = b" /F1 3 0 R /F2 4 0 R "


def _pages(
    contents: Sequence[bytes],
    *,
    catalogue: bytes = b"",
    page: bytes = b"",
    fonts: bytes = b"",
    resources: bytes = b"",
    more: Sequence[bytes] = (),
) -> bytes:
    """A PDF with these pages; `more` are objects 5 and following, and the others what the dictionaries have besides."""
    first = 5 + len(more)
    kids = b" ".join(b"%d 0 R" % (first + 2 * number) for number in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R %s>>" % catalogue,
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(contents)),
        _FONT,
        _BOLD,
        *more,
    ]
    for number, content in enumerate(contents):
        objects += [_PAGE % (first + 2 * number + 1, _FONTS + fonts, resources, page), stream(content)]
    return pdf_file(objects)


def _pdfs() -> list[bytes]:
    words = _PROSE.split()
    lines = [" ".join(words[start : start + 6]) for start in range(0, len(words), 6)]
    paper = b"\n".join(
        (
            _shown(["Wormholes in Brief"], size=9, y=760),
            _shown(["1 Introduction"], font="F2", size=14, y=730),
            _shown([*lines, "which is recom\\255", "mended for high-", "latency links"]),
            _shown(["2 Methods"], font="F2", size=14, y=500),
            _shown(lines, y=480),
            _shown(["1"], x=300, y=30),
        )
    )
    outline = [
        b"<< /Type /Outlines /First 6 0 R /Last 7 0 R /Count 2 >>",
        b"<< /Title (1 Introduction) /Parent 5 0 R /Next 7 0 R /Dest [8 0 R /XYZ 0 700 0] >>",
        b"<< /Title <FEFF0032> /Parent 5 0 R /Prev 6 0 R /Dest [10 0 R /Fit] >>",
    ]
    columns = b"\n".join((_shown(lines, x=60), _shown(lines, x=330)))
    rows = b"\n".join(
        _shown([line], x=x, y=700 - 14 * row) for row, line in enumerate([*lines, *lines]) for x in (60, 330)
    )
    turned = b"BT /F1 10 Tf 0 1 -1 0 300 100 Tm (Up the margin) Tj 1 0 0 1 72 700 Tm (Plain words) Tj ET"
    spaced = b"BT /F1 10 Tf 72 700 Td [(A) 120 (W) -300 (ord) -2000 (far away)] TJ 3 Tr (hidden) Tj 5 Tc (wide) Tj ET"
    to_unicode = stream(
        b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <FF> endcodespacerange "
        b"2 beginbfchar <41> <D83DDE00> <42> <D800> endbfchar 1 beginbfrange <43> <50> <0041> endbfrange endcmap end"
    )
    mapped = b"<< /Type /Font /Subtype /Type1 /BaseFont /ABCDEF+CMR10 /ToUnicode 5 0 R >>"
    form = stream(_shown(lines), b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] ")
    labels = b"/PageLabels << /Nums [0 << /S /r >> 1 << /S /D /St 117 /P (A-) >>] >> "
    return [
        _pages([_shown(["Hello."])]),
        _pages([paper, _shown(["3 More"], font="F2", size=14)], catalogue=b"/Outlines 5 0 R " + labels, more=outline),
        _pages([columns]),
        _pages([rows], page=b"/Rotate 90 "),
        _pages([turned, spaced, b""]),
        _pages([b"BT /F3 10 Tf 72 700 Td (ABCDEF) Tj ET"], more=[to_unicode, mapped], fonts=b"/F3 6 0 R "),
        _pages([b"/X1 Do q 1 0 0 1 0 0 cm /X1 Do Q"], more=[form], resources=b"/XObject << /X1 5 0 R >> "),
        *_made_by_pypdf(_pages([paper])),
    ]


def _made_by_pypdf(data: bytes) -> list[bytes]:
    from pypdf import PdfReader, PdfWriter

    made = []
    for encrypted in (False, True):
        writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
        writer.add_metadata({"/Title": "Wormholes in Brief", "/Author": "A. Writer; B. Writer"})
        for page in writer.pages:
            page.compress_content_streams()
        if encrypted:
            writer.encrypt("", "owner", algorithm="RC4-128")
        out = io.BytesIO()
        writer.write(out)
        made.append(out.getvalue())
    return made


def _htmls() -> list[bytes]:
    pages = (
        "<!doctype html><html><head><title>Worm\u00adholes</title><meta charset=utf-8>"
        '<meta name="citation_author" content="A. Writer"><meta name="dc.date" content="2021-05-03">'
        '<meta name=keywords content="energy; time"></head>'
        f"<body><nav>Menu</nav><h1>Worm\u00adholes</h1><p>{_PROSE}</p><h2>Methods <em>and</em> means</h2>"
        "<ol><li>One<ul><li><p>Inner</p></li></ul></li><li>Two</li></ol><pre>code\n  line\n</pre></body></html>",
        "<table><caption>C</caption><tr><th>a<td>b<tr><td colspan=2>c</table><dl><dt>t<dd>d</dl><br>x<hr>y",
        "<h1><div>Outer<h2>Inner</h2></div></h1><h3></h3><details><summary>S</summary>D</details>",
        '<p>one <b>two</b><!-- c --><img alt="pic"><a href=x>three</a><?php ?>',
        "<svg><text>no</text></svg><math><mi>x</mi></math>",
        "<script>no()</script><template><p>no</p></template><p aria-hidden=true>no</p><p>&amp;&#173;&#xD800;&nbsp;e",
    )
    return [
        *(page.encode() for page in pages),
        pages[0].encode("utf-16"),
        "<meta charset=cp1252><p>caf\xe9".encode("cp1252"),
    ]


def _markdowns() -> list[bytes]:
    texts = (
        "---\ntitle: Wormholes\nauthors: [A, B]\ndate: 2021-05-03\ntags: x, y\nn: 1e3\n---\n"
        f"\n# One\n\n{_PROSE}\n\n## Two *b*\n",
        '+++\ntitle = "T"\ndate = 2021-05-03\nn = 0x10\n[a]\nb = [1, "x"]\n+++\nText\n\nSetext\n======\n\nSub\n---\n',
        "# A {#a}\n\n```python\ncode\n```\n\n    indented\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n~~~\nopen\n",
        '> # quoted\n> text\n\n- item\n  - # inner\n\n1. one\n\n<div>\n\n# not\n\n</div>\n\n[l]: http://x "t"\n\n'
        "![p](u) soft\u00adhyphen\n",
        "---\na: &a [1, 2]\nb: *a\nc: !!timestamp 2001-12-14\nd: 12:30:45\ne: ~\nf: .inf\n? x\n: |\n  block\n...\n"
        "Text\r\nmore\rend",
    )
    return [text.encode() for text in texts]


def _texts() -> list[bytes]:
    words = f"{_PROSE}\n\nCaf\xe9 – na\xefve “quotes” soft\u00adhyphen ﬁn.\r\nLine\rend\n"
    return [
        b"",
        _PROSE.encode(),
        words.encode(),
        *(
            words.encode(encoding, "replace")
            for encoding in ("utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be")
        ),
        *(words.encode(encoding, "replace") for encoding in ("cp1252", "latin-1", "mac-roman", "cp1251")),
        "Черные дыры и кротовые норы в общей теории относительности".encode("koi8-r"),
        "ワームホールは時空の二点を結ぶ".encode("shift-jis"),
        "虫洞连接时空的两点".encode("gb18030"),
    ]


def _jsonls() -> list[bytes]:
    records: list[object] = [
        {"id": "a", "title": "Worm\u00adholes", "text": _PROSE, "year": 2021, "authors": ["A", "B"]},
        {"_id": 7, "text": "x", "metadata": {"n": 1.5, "deep": {"a": [1, None]}}, "tags": "a; b", "flag": True},
        {"text": "\ud83d\ude00 caf\xe9"},
        {"title": "only", "text": None},
    ]
    lines = [json.dumps(record) for record in records]
    broken = [
        '{"text": "\\ud800 \\u0000"}',
        "[1]",
        "",
        '{"text": 1}',
        '{"a": NaN, "text": "t", "b": 1e999}',
        "{",
        "null",
    ]
    return [
        *(line.encode() for line in lines),
        "\n".join([*lines, *broken]).encode(),
        ("\ufeff" + "\r\n".join(broken + lines)).encode(),
    ]


def _configs() -> list[bytes]:
    texts = (
        'data_dir = "~/data"\n[defaults]\nexclude = ["drafts/*"]\nchunk_size = 800\noverlap = 100\n'
        '[collections.papers]\npaths = ["~/papers", "x"]\npdf_engine = "pypdf"\nparse_timeout = 2.5\nocr = true\n'
        '[models]\nengine = "onnx"\n[query]\ntop = 8\nreranker = "late"\nmax_per_source = 2\n',
        "[query]\ntop = 0\n",
        '[collections."a b"]\n',
        "query.pool = 1_000 # c\ndefaults = { overlap = 9, chunk_size = 50, context = 'title' }\n",
        '[[collections]]\nx = """\nmulti\n"""\n[collections.a]\nencoder = "./model"\n\\u0041 = 1979-05-27T07:32:00Z\n',
    )
    return [text.encode() for text in texts]


def _evaluations() -> list[bytes]:
    texts = (
        "<top>\n<num> Number: 301\n<title> wormholes\n<desc> Description:\nwhat are they\n</top>\n"
        "<top>\n<num>2</num>\n<title>b</title>\n</top>\n",
        "q1\twhat is a wormhole\nq2\twhy\n",
        "301 0 d1 1\n301 0 d2 0\n302 0 d1 -1\n",
        "query-id\tcorpus-id\tscore\nq1\td 1\t2\n",
        "301 Q0 d1 1 12.5 tag\n301 Q0 d2 2 1e-3 tag\n302 Q0 d1 1 -inf tag\n",
        '{"query": "what", "relevant_ids": ["a.pdf", 7]}\n{"query": "who", "answerable": false}\n'
        '{"id": "x", "query": "\\ud83d\\ude00", "relevant_ids": ["b"], "nonrelevant_ids": ["c"]}\n',
        '{"_id": "1", "text": "what"}\n{"id": 2, "text": "who"}\n',
        "\ufeffwhat is it\n# no\n\nwho\n",
    )
    return [text.encode() for text in texts]


SEEDS: Mapping[str, Callable[[], list[bytes]]] = {
    "pdf": _pdfs,
    "pypdf": _pdfs,
    "html": _htmls,
    "markdown": _markdowns,
    "text": _texts,
    "jsonl": _jsonls,
    "config": _configs,
    "evaluation": _evaluations,
}
"""Makes a target's first inputs."""

_PDF_WORDS = (
    "/Type /Page /Pages /Catalog /Kids /Count /Parent /MediaBox /Contents /Resources /Font /XObject /Length /Filter "
    "/FlateDecode /ASCIIHexDecode /ASCII85Decode /LZWDecode /DecodeParms /Predictor /Subtype /Type1 /Type0 /Type3 "
    "/TrueType /Encoding /Identity-H /ToUnicode /DescendantFonts /FontDescriptor /FontMatrix /CharProcs /Widths /W "
    "/Differences /BaseFont /Outlines /First /Last /Next /Prev /Title /Dest /A /GoTo /D /PageLabels /Nums /S /St /P "
    "/Rotate /UserUnit /CropBox /Encrypt /ID /Info /Names /Root /Size /XRefStm /ObjStm /XRef /N /Index /Inherit "
    "obj endobj stream endstream xref trailer startxref BT ET Tf Td TD Tm T* Tj TJ ' \" Tc Tw Tz TL Tr Ts q Q cm Do "
    "BI ID EI BDC BMC EMC begincmap endcmap beginbfchar endbfchar beginbfrange << >> [ ] ( ) < > null true R"
)
_HTML_WORDS = (
    "<p> </p> <h1> </h1> <h2> </h2> <h6> <div> </div> <ul> <ol> <li> </li> </ul> </ol> <pre> </pre> <table> <tr> <td> "
    "<th> </table> <caption> <dl> <dt> <dd> <br> <hr> <img> <a> </a> <b> </b> <i> <em> <svg> </svg> <math> <mi> "
    "<template> </template> <select> <option> <noscript> <plaintext> <textarea> <title> </title> <frameset> <body> "
    "<html> <head> <base> <form> <button> <details> <summary> <foreignObject> <annotation-xml> <![CDATA[ ]]> <!-- --> "
    "&amp; &lt; &#x0; &#173; &shy; &nbsp; &#xD800; &#x1F600; &NotEqualTilde; <meta charset= name= content= property= "
    "citation_author aria-hidden=true alt= utf-16 utf-7 hz shift_jis idna punycode zlib hex base64 rot13 undefined"
)
_MARKDOWN_WORDS = (
    "--- ... +++ === # ## ###### ``` ~~~ > - * + 1. 1) | |---| : [a] (b) ![ ](u) <div> </div> <!-- --> ** __ ` ~~ "
    "title: author: authors: tags: date: year: doi: !!timestamp !!bool !!int !!float !!binary !!set !!omap !!pairs "
    "!!python/name:os.system !!null !!str &a *a << | > ? ~ .inf .nan 0x 0o 0b 1_0 12:30:45 2001-12-14 2021-05-03 "
    "%YAML %TAG {#a} \\ [[ ]] = ' \" ''' \"\"\""
)
_JSON_WORDS = (
    '{ } [ ] : , " \\ "id" "_id" "text" "title" "metadata" "authors" "tags" "date" "year" "keywords" null true false '
    'NaN Infinity -Infinity 1e999 1e5 -0 \\u0000 \\ud800 \\udc00 \\ud83d\\ude00 \\u00ad \\n \\" "a": "a" {"text":"a"}'
)
_TOML_WORDS = (
    "[ ] [[ ]] { } = . , # \" ' \"\"\" ''' true false inf nan 0x 0o 0b 1_0 1e5 1979-05-27 07:32:00 \\u0041 \\ "
    "[defaults] [models] [query] [collections.a] collections data_dir paths include exclude pdf_engine ocr engine "
    "parse_timeout chunk_size overlap encoder token_vectors context top pipeline pool reranker max_per_source ~ ~x ../"
)
_EVALUATION_WORDS = (
    "<top> </top> <num> <title> <desc> <narr> Number: query-id corpus-id score Q0 0 1 -1 nan inf 1e999 # "
    '{"query": "relevant_ids": "nonrelevant_ids": "answerable": "_id": "text": [] ["a"] true false null \\ud800'
)
_STRANGE = tuple(
    character.encode("utf-8", "surrogatepass")
    for character in "\u00ad\u200d\u0301\ufeff\u2028\x85\x00\x0b\x1c\ufb01\u0130\U0001f600\ud800\r"
)
_SPACES = (b" ", b"\n", b"\n\n", b"\r\n", b"\t")


def _words(text: str) -> tuple[bytes, ...]:
    return (*(word.encode() for word in text.split()), *_SPACES, *_STRANGE)


WORDS: Mapping[str, tuple[bytes, ...]] = {
    "pdf": _words(_PDF_WORDS),
    "pypdf": _words(_PDF_WORDS),
    "html": _words(_HTML_WORDS),
    "markdown": _words(_MARKDOWN_WORDS),
    "text": (
        *_words("a the. 。 e.g. -"),
        b"\xff\xfe",
        b"\xfe\xff",
        b"\xff\xfe\x00\x00",
        b"%PDF-",
        b"\x80",
        b"\xe9",
        b"\x93",
    ),
    "jsonl": _words(_JSON_WORDS),
    "config": _words(_TOML_WORDS),
    "evaluation": _words(_EVALUATION_WORDS),
}
"""What a target's inputs are made of, for changes word by word."""
