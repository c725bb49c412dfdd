"""UNPIE's human files: answers are paired with models', labels join their outputs."""

from __future__ import annotations

import pandas as pd
import pytest

from pipelines.benchmarks.human import HumanInputs
from pipelines.benchmarks.people import agreement_table
from pipelines.benchmarks.unpie.benchmark import BENCHMARK
from tests.support import unpie_rows
from tests.support.people_results import values
from tests.support.unpie_rows import samples as puns


def test_unpie_answers_are_paired_by_task_and_language() -> None:
    of = unpie_rows.samples(1)  # two puns
    text = "sample_id,task,variant,annotator,answer\n" + "".join(
        f"{name},grounding,,ann,{item.data['phrase'] if index else 'else'}\n"
        f"{name},disambiguation,de/0,ann,Ein Satz\n{name},disambiguation,fr/1,ann,Une phrase\n"
        for index, (name, item) in enumerate(of.items())
    )
    BENCHMARK.human.check("answers", text, of)
    assert {row["setting"] for row in BENCHMARK.human.predictions("answers", text)} == {"vlm"}
    rows = unpie_rows.cell(of, "grounding", "vlm", lambda item, _: {"output": item.data["phrase"]})
    rows += unpie_rows.cell(
        of, "disambiguation", "vlm", lambda _item, _variant: {"output": "x"} | unpie_rows.similar(0.9, 0.8)
    )
    person = unpie_rows.cell(of, "grounding", "vlm", lambda _item, _: {"output": "else"})
    person += unpie_rows.cell(
        of, "disambiguation", "vlm", lambda _item, _variant: {"output": "y"} | unpie_rows.similar(0.8, 0.9)
    )
    answered = {("grounding", ""), ("disambiguation", "de/0"), ("disambiguation", "fr/1")}
    people = pd.DataFrame([row for row in person if (row["task"], row["variant"]) in answered])
    metrics = BENCHMARK.human.metrics(HumanInputs(scores=pd.DataFrame(rows), samples=of, people={"human:ann": people}))
    assert values(metrics, task="grounding") == {
        "exact_match": (1.0, 2),
        "exact_match_of_people": (0.0, 2),
        "exact_match_minus_people": (1.0, 2),
    }
    # The model's output is nearer to meaning 0, the person's to meaning 1; asked for were 0 in German, 1 in French.
    assert values(metrics, task="disambiguation", category="")["accuracy_minus_people"] == (0.0, 4)
    assert values(metrics, category="En-De")["accuracy_minus_people"] == (1.0, 2)
    assert values(metrics, category="En-Fr")["accuracy_minus_people"] == (-1.0, 2)


def test_unpie_labels_are_joined_by_row_name() -> None:
    scores = pd.DataFrame(
        {
            "task": ["reconstruction", "reconstruction", "disambiguation"],
            "setting": ["lm", "vlm", "vlm"],
            "sample_id": ["homographic/0000"] * 3,
            "variant": ["de/0"] * 3,
            "human": [1.0, None, None],
        }
    )
    text = (
        "sample_id,variant,model,setting,human,task\n"
        "homographic/0000,de/0,m,lm,0,\n"
        "homographic/0000,de/0,m,vlm,1,disambiguation\n"
        "homographic/0000,de/0,other,vlm,1,reconstruction\n"
    )
    BENCHMARK.human.check("labels", text, puns(1))
    labels = BENCHMARK.human.with_labels(scores, {"labels": text}, "m")["human"]
    assert labels.fillna(-1).tolist() == [0.0, -1.0, 1.0]
    assert BENCHMARK.human.with_labels(scores, {}, "m") is scores


def test_unpie_labels_of_several_people_count_by_majority() -> None:
    of = unpie_rows.samples(1)
    name = next(iter(of))
    labels = "sample_id,variant,model,setting,human,task,annotator\n" + "".join(
        f"{name},{variant},m,vlm,{label},reconstruction,{person}\n"
        for variant, marks in (("de/0", "110"), ("fr/0", "10"), ("ko/0", "00"))
        for person, label in zip(("ann", "bob", "cia"), marks, strict=False)
    )
    BENCHMARK.human.check("labels", labels, of)
    rows = unpie_rows.cell(of, "reconstruction", "vlm", lambda _item, _variant: {"output": "a pun"})
    scores = BENCHMARK.human.with_labels(pd.DataFrame(rows), {"labels": labels}, "m")
    labelled = scores[scores["sample_id"] == name].set_index("variant")["human"]
    assert labelled[["de/0", "ko/0"]].tolist() == [1.0, 0.0]
    assert labelled[["fr/0", "de/1"]].isna().all()
    (table,) = agreement_table("unpie", "UNPIE", BENCHMARK.human.labels({"labels": labels}))
    people, items, same, _, alpha = table.rows[0].cells
    assert (people, items, same.value) == (3, 3, pytest.approx(2 / 5))  # pairs that agree: 1 of 3, 0 of 1, 1 of 1
    assert alpha.value == pytest.approx(1 - 6 * (4 / 2 + 2) / (49 - 9 - 16))  # seven labels, three of them 1
