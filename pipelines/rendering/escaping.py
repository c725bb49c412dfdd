"""Escaping of foreign text: model names, answers and notes may contain anything.

`clean` comes first in every format: characters that cannot be shown, or that reorder text, become a visible mark. Each
format has one more function here. HTML is escaped by the templates.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.clean_text import MARK, clean, one_line

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$#^]|:(?=//)|(?<=www)\.)")
"""Characters with a meaning in Markdown and its common extensions: tables, formulas and bare addresses included."""
_LINE_START = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$))|(?==)|(?=[-+](?:[-\s]|$)))(.)")
"""Starts of a list, a rule or a heading's underline."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LATEX: Final[dict[str, str]] = {**load_yaml("pipelines.rendering", "latex.yaml"), MARK: "{?}"}


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters and the number of those that were cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\N{HORIZONTAL ELLIPSIS} [{len(text) - limit} more characters]"


def markdown(text: str) -> str:
    """Escape one line of text for Markdown, also inside a pipe table."""
    escaped = "".join(_ENTITIES.get(char, char) for char in one_line(text))
    escaped = _MARKDOWN.sub(r"\\\1", escaped)
    return _LINE_START.sub(r"\1\\\2", escaped)


def latex(text: str) -> str:
    """Escape one line of text for LaTeX."""
    arrow = " \N{DOWNWARDS ARROW WITH CORNER LEFTWARDS} "
    escaped = "".join(_LATEX.get(char, char) for char in re.sub("-(?=-)", "-\0", one_line(text).replace(arrow, " / ")))
    return escaped.replace("\0", "{}")


def csv_cell(text: str) -> str:
    """Escape a CSV text cell, so that no spreadsheet runs it as a formula; the CSV writer quotes it."""
    cleaned = clean(text)
    if _NUMBER.fullmatch(cleaned):
        return cleaned
    # Where a comma is the decimal mark, spreadsheets split lines at semicolons and then ignore quotes.
    first, *rest = re.split(r"(?<=[;\t\n])", cleaned)
    return "".join(
        [
            "'" * (_is_formula(first) or first[:1] in ("\t", "\n")),
            first,
            *("'" * _is_formula(field) + field for field in rest),
        ]
    )


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a CSV file with escaped cells; those of None are empty."""
    text = io.StringIO()
    cells = (["" if cell is None else csv_cell(str(cell)) for cell in row] for row in (heads, *rows))
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()


def _is_formula(field: str) -> bool:
    # Some programs drop invisible characters and quotes before they look for a formula.
    normal = unicodedata.normalize("NFKC", field)
    visible = (char for char in normal if char.isprintable() and not char.isspace() and char != '"')
    return next(visible, "") in tuple("=+-@")
