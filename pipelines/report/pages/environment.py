"""The one Jinja environment of the reports: everything is escaped, nothing may be left undefined."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipelines.report.tables.escaping import clean, one_line, shorten

ANSWER_LIMIT = 4_000
"""Characters of one text of an example; the whole is in the predictions."""
_BRIEF = 100


@functools.cache
def environment() -> Environment:
    """Templates of this package. A value is cleaned first and escaped then; only CSS and our own markup pass as is."""
    made = Environment(
        loader=PackageLoader("pipelines.report.pages", "templates"),
        autoescape=True,
        finalize=_cleaned,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["brief"] = lambda text: textwrap.shorten(
        one_line(text), _BRIEF, placeholder=" \N{HORIZONTAL ELLIPSIS}"
    )
    made.filters["bounded"] = lambda text: shorten(clean(text), ANSWER_LIMIT)
    return made


def _cleaned(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
