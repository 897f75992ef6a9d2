"""Convert a LaTeX draft to markdown, line for line.

pylatexenc parses the draft and knows accents, symbols and ligatures. It is loaded for LaTeX drafts only: 65 ms to
import, and 70 ms for a page of 2,600 characters. Its own conversion to text is of no use here: it prints `<cit.>` for
citations, numbers items, and moves lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_WHOLE: Final = re.compile(r"^[ \t]*\\(?:documentclass\b|begin\{document\})", re.MULTILINE)
_PART: Final = re.compile(
    r"^[ \t]*\\(?:(?:sub)*section\*?\{|chapter\*?\{|begin\{(?:abstract|itemize|enumerate|thebibliography)\})",
    re.MULTILINE,
)
_MARKDOWN: Final = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_OUTSIDE: Final = re.compile(r"\A.*?\\begin\{document\}|\\end\{document\}.*\Z", re.DOTALL)
# Not parsed, since what stands in them need not be LaTeX.
_RAW: Final = re.compile(r"\\begin\{(lstlisting|verbatim|minted|comment)(\*?)\}.*?\\end\{\1\2\}", re.DOTALL)
_OMITTED_ENVIRONMENTS: Final = re.compile(
    r"(?:equation|align|alignat|flalign|gather|multline|eqnarray|displaymath|math|tabularx?|longtable|array|"
    r"algorithm|algorithmic|tikzpicture)\*?"
)
_HEADINGS: Final = frozenset({"chapter", "section", "subsection", "subsubsection"})
_OMITTED_COMMANDS: Final = (
    "label ref eqref autoref cref Cref pageref nameref footnote footnotetext thanks includegraphics input include "
    "bibliography bibliographystyle addbibresource vspace hspace pagestyle index todo nocite setlength addtolength"
)
_ARGUMENTS: Final = {
    **dict.fromkeys(_OMITTED_COMMANDS.split(), "*[{"),
    "setlength": "{{",
    "addtolength": "{{",
    "includegraphics": "*[[{",
    "href": "{{",
    "textcolor": "[{{",
    "colorbox": "[{{",
    "bibitem": "[{",
}
_LAST_ARGUMENT_ONLY: Final = frozenset({"href", "textcolor", "colorbox"})
_CITING: Final = re.compile(r"[a-zA-Z]{0,20}[cC]ite[a-zA-Z]{0,20}")
_WITH_OPTION: Final = re.compile(r"\\([a-zA-Z]+)\*?\[[^\]\n]{0,200}\]\{")
# Markdown writes them with a backslash too.
_ESCAPED: Final = frozenset("#$%&_{}")
_LABEL: Final = re.compile(r"^[ \t]*(\[[^\]\n]*\]: )[ \t]*\n", re.MULTILINE)


def is_latex(text: str) -> bool:
    """Is the draft, or the part of one, written in LaTeX? Markdown may have some in it, and is none."""
    return _WHOLE.search(text) is not None or (_PART.search(text) is not None and not _MARKDOWN.search(text))


def as_markdown(text: str) -> str:
    """The draft as markdown with as many lines, each with what stood on it.

    Citations and formulas within a line stay as they are written. Comments, displayed formulas, tables, footnotes,
    cross-references and figures' files leave no words. A draft whose groups are nested too deeply for the parser, or
    never close, comes back unchanged.
    """
    from pylatexenc.latex2text import LatexNodes2Text
    from pylatexenc.latexwalker import LatexWalker

    for outside in (_OUTSIDE, _RAW):
        text = outside.sub(lambda found: "\n" * found[0].count("\n"), text)
    walker = LatexWalker(text, latex_context=_grammar(text), tolerant_parsing=True)
    try:
        markdown = _Converter(LatexNodes2Text()).of_all(_nodes(walker))
    except RecursionError:
        return text
    # A reference begins on the line of its label. What is indented by four would be code.
    return "\n".join(line.strip() for line in _LABEL.sub(r"\n\1", markdown).split("\n"))


def _nodes(walker: Any) -> Iterator[Any]:
    position = 0
    while position < len(walker.s):
        nodes, _, length = walker.get_latex_nodes(position)
        yield from nodes
        # The parser stops before a brace that closes nothing.
        position += length or 1


def _grammar(text: str) -> Any:
    """pylatexenc's table of commands and their arguments, with those that the draft uses in addition."""
    from pylatexenc.latexwalker import get_default_latex_context_db
    from pylatexenc.macrospec import EnvironmentSpec, MacroSpec

    commands = dict.fromkeys(_WITH_OPTION.findall(text), "*[{") | _ARGUMENTS
    commands |= dict.fromkeys(re.findall(rf"\\({_CITING.pattern})\b", text), "*[[{")
    grammar = get_default_latex_context_db()
    grammar.add_context_category(
        "draft",
        prepend=True,
        macros=[MacroSpec(name, arguments) for name, arguments in commands.items()],
        environments=[EnvironmentSpec("thebibliography", "{")],
    )
    return grammar


@dataclass(frozen=True, slots=True)
class _Converter:
    """Converts pylatexenc's nodes. `symbols` is its own conversion, for accents, symbols and ligatures."""

    symbols: Any

    def of_all(self, nodes: Any) -> str:
        return "".join(self._of(node) for node in nodes if node is not None)

    def _of(self, node: Any) -> str:
        """A node as markdown, with as many line ends as it has in the draft."""
        markdown: str
        match type(node).__name__:
            case "LatexCharsNode":
                return str(node.chars)
            case "LatexGroupNode":
                markdown = self.of_all(node.nodelist)
            case "LatexMathNode" if node.displaytype == "inline":
                markdown = node.latex_verbatim()
            case "LatexMacroNode":
                markdown = self._of_command(node)
            case "LatexEnvironmentNode":
                markdown = self._of_environment(node)
            case "LatexSpecialsNode":
                markdown = " " if node.specials_chars == "~" else self.symbols.node_to_text(node)
            case _:
                markdown = ""
        return markdown + "\n" * (str(node.latex_verbatim()).count("\n") - markdown.count("\n"))

    def _of_environment(self, node: Any) -> str:
        name = node.environmentname
        if _OMITTED_ENVIRONMENTS.fullmatch(name):
            return ""
        return ("# References" if name == "thebibliography" else "") + self.of_all(node.nodelist)

    def _of_command(self, node: Any) -> str:
        name = node.macroname
        arguments = node.nodeargd.argnlist if node.nodeargd else ()
        groups = [each for each in arguments if type(each).__name__ == "LatexGroupNode" and each.delimiters[0] == "{"]
        if name in _OMITTED_COMMANDS.split():
            return ""
        if _CITING.fullmatch(name) or name in _ESCAPED:
            return str(node.latex_verbatim()).rstrip()
        if name == "item":
            return "- "
        if name == "bibitem":
            return f"[{self.of_all(groups)}]: "
        if name in _HEADINGS:
            return f"# {self.of_all(groups)}"
        if name == "\\" or name.isspace():
            return " "
        if name == "verb":
            return str(node.nodeargd.verbatim_text or "")
        if groups and name.isalpha() and len(name) > 1:
            return self.of_all(groups[-1:] if name in _LAST_ARGUMENT_ONLY else groups)
        return str(self.symbols.node_to_text(node)).replace("\n", " ")
