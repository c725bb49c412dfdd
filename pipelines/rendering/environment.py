"""The Jinja environment of the reports: everything is escaped, undefined values are errors; the frame of a page."""

import base64
import csv
import functools
import hashlib
import io
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.clean_text import MARK, clean, counted, one_line

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


ANSWER_LIMIT = 4_000  # characters of one text of an example; the predictions hold the full text
ITEMS: Final = "items.html"  # the page of items behind the tables
_SUMMARY_LENGTH = 100


@functools.cache
def environment(package: str = "pipelines.rendering") -> Environment:
    """Return the environment of a package's templates and shared ones; values but markup are cleaned and escaped."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(name, "templates") for name in (package, "pipelines.rendering")]),
        autoescape=True,
        finalize=lambda value: clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["brief"] = lambda text: textwrap.shorten(
        one_line(text), _SUMMARY_LENGTH, placeholder=" \N{HORIZONTAL ELLIPSIS}"
    )
    templates.globals["viewer_mark"] = viewer_mark
    templates.filters["counted"] = counted
    templates.filters["bounded"] = lambda text: shorten(clean(text), ANSWER_LIMIT)
    return templates


def inline_file(name: str, package: str = "pipelines.rendering") -> tuple[Markup, str]:
    """Return a style or script of a package's templates, and the source by which a policy allows it alone."""
    text = files(package).joinpath("templates", name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"'sha256-{digest}'"  # noqa: S704 - a file of a package


def render_page(
    template: str, path: str, title: str, subtitle: str, links: Sequence[Mapping[str, str]], **content: Any
) -> str:
    """Return one page: its frame, and the template's content."""
    frame = {**page_head("report.css", "report.js", images="'self'"), "title": title, "lead": subtitle}
    return environment().get_template(template).render(**frame, links=links, current=path, **content)


def page_head(
    style: str, script: str = "", package: str = "pipelines.rendering", *, images: str = ""
) -> dict[str, str]:
    """Return style, script and policy of a page that holds both: nothing else may be loaded but images of a source."""
    css, css_source = inline_file(style, package)
    code, code_source = inline_file(script, package) if script else ("", "")
    sources = {"img-src": images, "style-src": css_source, "script-src": code_source}
    allowed = "".join(f"{kind} {source}; " for kind, source in sources.items() if source)
    policy = f"default-src 'none'; {allowed}base-uri 'none'; form-action 'none'"
    return {"policy": policy, "css": css, "script": code}


VIEW_MARK: Final = re.compile(r"<!-- view\?(?P<query>[^ <>]*) -->")


def viewer_mark(**query: str) -> Markup:
    """Return the mark of a sample (with `sample_id`), of a model's answers (with `model`), or of all of them."""
    text = urlencode({name: value for name, value in query.items() if value}, errors="replace")
    return Markup(f"<!-- view?{text} -->")  # noqa: S704 - `urlencode` leaves no character that ends a comment
