"""Marks in a report's pages, where `vlmsweep view` puts links to samples; pages opened as files show nothing there."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

MARK: Final = re.compile(r"<!-- view\?(?P<query>[^ <>]*) -->")


def viewer_mark(**query: str) -> Markup:
    """Return the mark of a sample (with `sample_id`), of a model's answers (with `model`), or of all of them."""
    text = urlencode({name: value for name, value in query.items() if value}, errors="replace")
    return Markup(f"<!-- view?{text} -->")  # noqa: S704 - `urlencode` leaves no character that ends a comment
