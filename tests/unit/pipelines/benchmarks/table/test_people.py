"""People on a table benchmark: forms hold the options, and files of answers are scored like a model's."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from jobs.annotate.create import form_page
from pipelines.benchmarks import table_benchmark
from pipelines.benchmarks.human import SAME_ITEMS, csv_text
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.records import MediaRef, Row, Sample
from tests.support.report_results import results_of

CHOICE = Sample(
    sample_id="a",
    category="x",
    data={"question": "q?", "hint": "h", "options": ["red", "blue"], "gold": 0, "answers": ["red"]},
)


def test_a_form_asks_with_the_options_of_the_row() -> None:
    benchmark = table_benchmark(TableDefinition(name="t", kind="choice", title="T"))
    form = benchmark.human.annotation_form([CHOICE], [])
    (item,) = form.items
    (question,) = item.parts[0].questions
    assert (form.title, item.texts) == ("T", (("Hint", "h"), ("Question", "q?")))
    assert list(question.options) == [("A", "A. red"), ("B", "B. blue")]


def test_a_form_shows_all_pictures_of_a_row() -> None:
    refs = [
        MediaRef(role=f"media/{n}", kind="image", sha256=f"{n}" * 64, extension=".png", bytes=9, width=8, height=8)
        for n in range(3)
    ]
    make_form = table_benchmark(TableDefinition(name="t", kind="choice", has_media=True)).human.annotation_form
    assert make_form is not None
    form = make_form([replace(CHOICE, media=tuple(refs))], [])
    assert [*form.items[0].pictures] == refs
    page = form_page("t", form, form.items, "ann", {ref.sha256: f"data:{ref.role}" for ref in refs})
    assert [f'src="data:{ref.role}" alt="Picture {n} of item 1"' in page for n, ref in enumerate(refs, 1)] == [True] * 3


@pytest.mark.parametrize(
    ("definition", "values"),
    [
        (TableDefinition(name="t", kind="yes-no"), ["yes", "no"]),
        (TableDefinition(name="t", kind="label", labels=("cat", "dog")), ["cat", "dog"]),
        (TableDefinition(name="t", kind="label", labels=tuple(map(str, range(30)))), []),
        (TableDefinition(name="t", kind="number"), []),
    ],
)
def test_what_a_form_offers(definition: TableDefinition, values: list[str]) -> None:
    sample = Sample(sample_id="a", data={"question": "q?", "answers": ["yes"]})
    make_form = table_benchmark(definition).human.annotation_form
    assert make_form is not None
    (item,) = make_form([sample], []).items
    assert [value for value, _ in item.parts[0].questions[0].options] == values


def test_a_file_of_answers_is_checked_and_becomes_predictions() -> None:
    human = table_benchmark(TableDefinition(name="t", kind="choice")).human
    text = "annotator,sample_id,answer\nann,a,B\n"
    human.check("answers", text, {"a": CHOICE})
    (row,) = human.predictions("answers", text)
    assert (row["model"], row["task"], row["setting"], row["output"]) == ("human:ann", "choice", "default", "B")
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    human.check("answers", text.replace(",a,", f",{decomposed},"), {composed: CHOICE})
    with pytest.raises(ValueError, match=r"line 2: the data has no sample 'a'"):
        human.check("answers", text, {})


def test_people_label_models_answers_to_open_questions() -> None:
    benchmark = table_benchmark(TableDefinition(name="t", kind="open"))
    row = Row(
        request_id="r", sample=CHOICE, model="m", task="open", setting="default", variant="", status="ok", output="red!"
    )
    form = benchmark.human.annotation_form([], [row])
    (part,) = form.items[0].parts
    text = csv_text((*part.fields, form.annotator, "correct"), [{**part.fields, form.annotator: "ann", "correct": "1"}])
    benchmark.human.check(form.kind, text, {"a": CHOICE})
    assert benchmark.human.output_labels({form.kind: text}) == {("m", "open", "default", "a", ""): {"ann": 1.0}}


def test_items_that_people_answered_are_no_subset_of_the_tables() -> None:
    rows = [
        {"benchmark": "t", "model": "m", "task": "choice", "setting": "default", "metric": "accuracy", "value": 0.5}
        | {"subset": subset}
        for subset in ("", "part", SAME_ITEMS)
    ]
    tables = table_benchmark(TableDefinition(name="t", kind="choice")).tables(
        results_of("t", pd.DataFrame(rows), pd.DataFrame())
    )
    (subsets,) = [table for table in tables if table.id == "t_subset"]
    assert [*subsets.columns] == ["part"]
