"""The stratified draw of annotation forms, and what a page may hold."""

from __future__ import annotations

import re
from collections import Counter

from jobs.annotate.create import draw, draw_id, form_page
from pipelines.benchmarks.human import YES_NO, AnnotationForm, AnnotationItem, AnnotationPart, Question


def item(name: str, **strata: str) -> AnnotationItem:
    part = AnnotationPart(
        fields={"id": name}, texts=(("Answer", name),), questions=(Question(column="ok", label="?", options=YES_NO),)
    )
    return AnnotationItem(item_id=name, strata=strata, parts=(part,))


ITEMS = [
    item(f"{kind}{number}", kind=kind) for kind, count in (("a", 10), ("b", 3), ("c", 1)) for number in range(count)
]


def counts(drawn: list[AnnotationItem]) -> dict[str, int]:
    return dict(Counter(item.strata["kind"] for item in drawn))


def test_strata_take_turns_until_they_are_used_up() -> None:
    assert counts(draw(ITEMS, 3, ["kind"], 42)) == {"a": 1, "b": 1, "c": 1}
    assert counts(draw(ITEMS, 7, ["kind"], 42)) == {"a": 3, "b": 3, "c": 1}
    assert counts(draw(ITEMS, 99, ["kind"], 42)) == {"a": 10, "b": 3, "c": 1}
    assert draw([], 5, ["kind"], 42) == []


def test_draw_depends_on_seed_and_ids_alone() -> None:
    names = [item.item_id for item in draw(ITEMS, 6, ["kind"], 1)]
    assert [item.item_id for item in draw(ITEMS[::-1], 6, ["kind"], 1)] == names
    assert [item.item_id for item in draw(ITEMS, 9, ["kind"], 1)][:6] == names
    assert [item.item_id for item in draw(ITEMS, 6, ["kind"], 2)] != names
    assert draw_id(ITEMS) == draw_id(ITEMS[::-1])
    assert draw_id(ITEMS) != draw_id(ITEMS[1:])


def test_page_escapes_texts_and_allows_its_own_script_alone() -> None:
    hostile = """</section><script>alert(1)</script>" onload='x'"""
    form = AnnotationForm(
        kind="labels", annotator="annotator", title=hostile, instructions=(hostile,), items=(), default_strata=()
    )
    page = form_page("x", form, [item(hostile)], "ann", {})
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page.replace("&lt;", "")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert re.fullmatch(
        r"default-src &#39;none&#39;; img-src data:; style-src &#39;sha256-\S+&#39;; script-src &#39;sha256-\S+&#39;; "
        r"base-uri &#39;none&#39;; form-action &#39;none&#39;",
        policy,
    )
