"""What a form remembers of answers that were not saved yet."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jobs.annotate.create import form_page
from pipelines.benchmarks.human import YES_NO, AnnotationForm, AnnotationItem, AnnotationPart, Question
from tests.support.browser import CHROMIUM, browser


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_answers_to_a_part_of_an_item_are_remembered(tmp_path: Path) -> None:
    question = Question(column="adequate", label="Adequate?", options=YES_NO)
    items = [
        AnnotationItem(
            item_id=name,
            strata={},
            parts=[AnnotationPart(fields={"id": f"{name}{part}"}, questions=[question]) for part in "12"],
        )
        for name in "ab"
    ]
    form = AnnotationForm(
        kind="k", annotator="annotator", title="t", instructions=(), items=(), default_strata=(), preferred="best"
    )
    file = tmp_path / "form.html"
    file.write_text(form_page("x", form, items, "ann", {}), encoding="utf-8")
    with browser(tmp_path / "browser") as page:

        def remembered_after(selector: str, progress: str, checked: int) -> None:
            page.open(file)
            page.evaluate(f"document.querySelector({selector!r}).click()")
            deadline, state = time.monotonic() + 20, ("", 0)
            while state != (progress, checked):  # a busy browser passes what a page stored to the next one later
                assert time.monotonic() < deadline, state
                page.open_address("about:blank")
                page.open(file)
                state = (
                    page.evaluate("document.getElementById('progress').textContent"),
                    page.evaluate("document.querySelectorAll('#item1 input:checked').length"),
                )

        remembered_after("#item1 [name='q1-0-0'][value='1']", "0 of 2 done", 1)
        remembered_after("#item1 [name='q1-1-0'][value='0']", "0 of 2 done", 2)
        remembered_after("#item1 .preference [value='none']", "1 of 2 done", 3)
