"""A form as one page: its own script and style, allowed by hash; all texts of data and models are escaped.

No text of the data is inside a script: what the script saves stands in escaped attributes of the page's elements.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from pipelines.benchmarks.people.annotation import AnnotationForm, AnnotationItem
from pipelines.rendering.environment import environment, inline_file

_PACKAGE: Final = "pipelines.annotation"


def form_page(
    benchmark: str,
    form: AnnotationForm,
    items: Sequence[AnnotationItem],
    person: str,
    pictures: Mapping[str, str],
) -> str:
    """Return the page of one person; `pictures` holds a `data:` address by the hash of each picture."""
    (css, css_source), (script, script_source) = (inline_file(name, _PACKAGE) for name in ("form.css", "form.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src {css_source}; script-src {script_source}; base-uri 'none'; "
        "form-action 'none'"
    )
    head = {"benchmark": benchmark, "kind": form.kind, "annotator_column": form.annotator, "annotator": person}
    return (
        environment(_PACKAGE)
        .get_template("form.html.j2")
        .render(
            policy=policy,
            css=css,
            script=script,
            form=form,
            items=items,
            person=person,
            pictures=pictures,
            head=_as_json({**head, "preferred": form.preferred, "draw": draw_id(items)}),
            as_json=_as_json,
        )
    )


def draw_id(items: Sequence[AnnotationItem]) -> str:
    """Return what distinguishes this draw from others, independently of the order of its items."""
    return hashlib.sha256("\n".join(sorted(item.item_id for item in items)).encode()).hexdigest()[:16]


def _as_json(values: Mapping[str, str]) -> str:
    return json.dumps(dict(values), ensure_ascii=True, sort_keys=True)
