"""The Jinja environment of the reports: everything is escaped, undefined values are errors."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipelines.report.tables.escaping import clean, one_line, shorten

ANSWER_LIMIT = 4_000
"""Characters of one text of an example; the predictions hold the full text."""
_SUMMARY_LENGTH = 100


@functools.cache
def environment(package: str = "pipelines.report.pages") -> Environment:
    """Return the environment of a package's templates: values are cleaned, then escaped, except for our markup."""
    templates = Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        finalize=_clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["brief"] = lambda text: textwrap.shorten(
        one_line(text), _SUMMARY_LENGTH, placeholder=" \N{HORIZONTAL ELLIPSIS}"
    )
    templates.filters["bounded"] = lambda text: shorten(clean(text), ANSWER_LIMIT)
    return templates


def _clean(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
