"""Convert a LaTeX draft to markdown, line for line."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from ragcli.text.unicode import normalised

_WHOLE: Final = re.compile(r"^[ \t]*\\(?:documentclass\b|begin\{document\})", re.MULTILINE)
_PART: Final = re.compile(
    r"^[ \t]*\\(?:(?:sub)*section\*?\{|chapter\*?\{|begin\{(?:abstract|itemize|enumerate|thebibliography)\})",
    re.MULTILINE,
)
_MARKDOWN: Final = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)%.*")
_PREAMBLE: Final = re.compile(r"\A.*?\\begin\{document\}", re.DOTALL)
_END: Final = re.compile(r"\\end\{document\}.*\Z", re.DOTALL)
_UNREAD: Final = re.compile(
    r"\\begin\{(equation|align|alignat|gather|multline|eqnarray|displaymath|math|tabularx?|longtable|array|lstlisting|"
    r"verbatim|minted|algorithm|algorithmic|tikzpicture|comment)(\*?)\}(?:(?!\\begin\{\1\2\}).)*?\\end\{\1\2\}",
    re.DOTALL,
)
_KEPT: Final = re.compile(
    r"~?\\[a-zA-Z]{0,20}cite[a-zA-Z]{0,20}\*?(?:\[[^\]]{0,200}\]){0,2}\{[^}]{0,2000}\}|(?<!\\)\$[^$\n]{1,200}\$|\\\(.{1,200}?\\\)"
)
_HEADING: Final = re.compile(r"^[ \t]*\\(?:chapter|(?:sub)*section)\*?(?:\[[^\]]{0,200}\])?\{(.*)\}", re.MULTILINE)
_BIBLIOGRAPHY: Final = re.compile(r"\\begin\{thebibliography\}(?:\{[^}]{0,200}\})?")
_ENTRY: Final = re.compile(r"^[ \t]*\\bibitem(?:\[[^\]]{0,200}\])?\{([^}]{0,200})\}[ \t]*(\n?)", re.MULTILINE)
_ITEM: Final = re.compile(r"^[ \t]*\\item\b(?:\[[^\]]{0,200}\])?", re.MULTILINE)
_ENVIRONMENT: Final = re.compile(r"\\(?:begin|end)\{[^}]{0,200}\}(?:\[[^\]\n]{0,200}\])?(?:\{[^}\n]{0,200}\})?")
_ACCENT: Final = re.compile(r"\\(['`^\"~=.])\s*\{?\\?([a-zA-Z])\}?|\\([cvuHk])\{([a-zA-Z])\}")
_ACCENTS: Final = MappingProxyType(
    dict(zip("'`^\"~=.cvuHk", "\u0301\u0300\u0302\u0308\u0303\u0304\u0307\u0327\u030c\u0306\u030b\u0328", strict=True))
)
_SYMBOLS: Final = (
    "ss ß o ø O Ø ae æ AE Æ aa å AA Å oe œ OE Œ l ł L Ł i ı S § ldots … dots … textendash – textemdash — quad \u2003"
)
_LETTERS: Final = MappingProxyType(dict(zip(_SYMBOLS.split(" ")[::2], _SYMBOLS.split(" ")[1::2], strict=True)))
_LETTER: Final = re.compile(r"\\([a-zA-Z]+)(?![a-zA-Z])[ \t]?(?:\{\})?")
_SAYS_NOTHING: Final = (
    "label ref eqref autoref cref Cref pageref nameref footnote footnotetext thanks includegraphics input include "
    "bibliography bibliographystyle addbibresource vspace hspace setlength pagestyle index todo nocite"
)
_DROPPED: Final = re.compile(
    rf"[~ ]?\\(?:{_SAYS_NOTHING.replace(' ', '|')})\*?(?:\[[^\]]{0, 200}\])?(?:\{{[^{{}}]*\}})+"
)
_LINKED: Final = re.compile(r"\\href\{[^{}]*\}\{([^{}]*)\}")
_COMMAND: Final = re.compile(r"\\[a-zA-Z]+\*?(?:\[[^\]]{0,200}\])?\{([^{}]*)\}")
_SPACE: Final = re.compile(r"\\[,;: ]|(?<!\\)~|\\\\(?:\[[^\]]{0,200}\])?")
_DEEPEST: Final = 8


def is_latex(text: str) -> bool:
    """Is the draft, or the part of one, written in LaTeX? Markdown may have some in it, and is none."""
    return _WHOLE.search(text) is not None or (_PART.search(text) is not None and not _MARKDOWN.search(text))


def as_markdown(text: str) -> str:
    """The draft as markdown with as many lines, each with what stood on it."""
    text = _COMMENT.sub(r"\1", text)
    for unread in (_PREAMBLE, _END, _UNREAD):
        text = unread.sub(_lines, text)
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\x00{len(kept) - 1}\x00"

    text = _KEPT.sub(keep, text.replace("\x00", ""))
    text = _ENTRY.sub(r"\2[\1]: ", text)
    text = _BIBLIOGRAPHY.sub("# References", text)
    text = _HEADING.sub(r"# \1", text)
    text = _ITEM.sub("- ", text)
    text = _ENVIRONMENT.sub("", text)
    text = _SPACE.sub(" ", text.replace("\\!", "").replace("\\-", "").replace("\\/", ""))
    text = _ACCENT.sub(lambda found: normalised("NFC", (found[2] or found[4]) + _ACCENTS[found[1] or found[3]]), text)
    for _ in range(_DEEPEST):
        plainer = _COMMAND.sub(r"\1", _LINKED.sub(r"\1", _DROPPED.sub(_lines, text)))
        if plainer == text:
            break
        text = plainer
    text = _LETTER.sub(lambda found: _LETTERS.get(found[1], ""), text)
    text = re.sub(r"(?<!\\)[{}]", "", text).replace("---", "—").replace("--", "–").replace("``", "“").replace("''", "”")
    # What is indented by four would be code.
    text = "\n".join(line.strip() for line in text.split("\n"))
    return re.sub("\x00(\\d+)\x00", lambda found: kept[int(found[1])], text)


def _lines(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
