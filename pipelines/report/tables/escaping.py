"""Foreign text made inert: model names, answers and notes may hold anything, and none of it may act in a report.

`clean` comes first in every format: what no reader can show, or what turns text around, becomes a visible mark. The
escapers of the formats stand beside it: a new format is one more function here. HTML is escaped by the templates.
"""

from __future__ import annotations

import re
import unicodedata

_MARK = "\N{REPLACEMENT CHARACTER}"
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Embedding, override and isolate controls: they let a text be read in another order than it is stored."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$#^]|:(?=//)|(?<=www)\.)")
"""What Markdown and its common additions act upon inside a line, tables, formulas and bare addresses among them."""
_LINE_START = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$))|(?==)|(?=[-+](?:[-\s]|$)))(.)")
"""What makes a list, a rule or a heading's underline, at the start of a line only."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",
    "`": r"{\char96}",
    # After the end of a row an optional argument or a star would be read as the row end's own.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{MINUS SIGN}": "$-$",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{GREEK CAPITAL LETTER DELTA}": r"$\Delta$",
    "\N{UPWARDS ARROW}": r"$\uparrow$",
    "\N{DOWNWARDS ARROW}": r"$\downarrow$",
    "\N{RIGHTWARDS ARROW}": r"$\rightarrow$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{MIDDLE DOT}": r"$\cdot$",
    "\N{CHECK MARK}": r"$\surd$",
    "\N{LESS-THAN OR EQUAL TO}": r"$\leq$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    _MARK: "{?}",
}


def clean(text: str) -> str:
    """Text that every format can hold: lone surrogates, control and turning characters become U+FFFD.

    Line feeds and tabs stay; CR LF and CR become line feeds.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_MARK if _bad(char) else char for char in text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """Cleaned text in one line, runs of blanks as one; a former line end is shown as a return arrow."""
    lines = (" ".join(line.split()) for line in clean(text).splitlines())
    return " \N{DOWNWARDS ARROW WITH CORNER LEFTWARDS} ".join(line for line in lines if line)


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters; what is cut off is said."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\N{HORIZONTAL ELLIPSIS} [{len(text) - limit} more characters]"


def markdown(text: str) -> str:
    """One line of text for Markdown, also inside a pipe table: no HTML, link, emphasis, formula or list comes of it."""
    escaped = "".join(_ENTITIES.get(char, char) for char in one_line(text))
    escaped = _MARKDOWN.sub(r"\\\1", escaped)
    return _LINE_START.sub(r"\1\\\2", escaped)


def latex(text: str) -> str:
    """One line of text for LaTeX; every character that LaTeX would act upon is spelt out."""
    arrow = " \N{DOWNWARDS ARROW WITH CORNER LEFTWARDS} "
    escaped = "".join(_LATEX.get(char, char) for char in re.sub("-(?=-)", "-\0", one_line(text).replace(arrow, " / ")))
    return escaped.replace("\0", "{}")


def csv_cell(text: str) -> str:
    """A text cell that no spreadsheet takes for a formula; quoting is the CSV writer's business."""
    cleaned = clean(text)
    if _NUMBER.fullmatch(cleaned):
        return cleaned
    # Where a comma is a decimal mark, spreadsheets part lines at semicolons and then see no quotes around a cell.
    first, *others = re.split(r"(?<=[;\t\n])", cleaned)
    return "".join(["'" * (_acts(first) or first[:1] in ("\t", "\n")), first, *("'" * _acts(o) + o for o in others)])


def _acts(field: str) -> bool:
    # What is not seen is skipped: some programs drop it before they look for a formula. So are quotes.
    seen = (char for char in unicodedata.normalize("NFKC", field) if not _unseen(char) and char != '"')
    return next(seen, "") in tuple("=+-@")


def _unseen(char: str) -> bool:
    return char.isspace() or not char.isprintable()


def _bad(char: str) -> bool:
    if char in "\n\t":
        return False
    return char in _TURNING or unicodedata.category(char) in ("Cc", "Cs") or ord(char) & 0xFFFE == 0xFFFE
