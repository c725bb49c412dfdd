"""VAGUE's human files: choices are checked, scored and paired."""

from __future__ import annotations

from pipelines.benchmarks.human import HumanInputs
from pipelines.benchmarks.people import agreement_table, parsed_answers
from pipelines.benchmarks.vague.benchmark import BENCHMARK
from tests.support import vague_rows
from tests.support.people_results import values


def test_vague_choices_are_scored_and_paired() -> None:
    items = vague_rows.items(4)  # gold letters A, B, C, D
    text = "image_name,annotator,letter\n" + "".join(
        f"{item.sample_id},{person},{letter}\n"
        for person, letters in (("ann", "ABCA"), ("bob", "AB"))
        for item, letter in zip(items, letters, strict=False)
    )
    samples = {item.sample_id: item for item in items}
    BENCHMARK.human.check("choices", text, samples)
    rows = BENCHMARK.human.predictions("choices", text)
    assert rows[3] == {
        "benchmark": "vague",
        "model": "human:ann",
        "task": "mcq",
        "setting": "vlm",
        "sample_id": "VCR-00003",
        "variant": "",
        "output": "A",
    }
    chosen = {(row["model"], row["sample_id"]): row["output"] for row in rows}
    people = {
        person: vague_rows.frame(
            [item for item in items if (person, item.sample_id) in chosen],
            lambda item, _task, _setting, person=person: chosen[person, item.sample_id],  # type: ignore[misc]
            cells=[("mcq", "vlm")],
        )
        for person in ("human:ann", "human:bob")
    }
    model = vague_rows.frame(items, lambda *_: "A", cells=[("mcq", "vlm"), ("mcq", "lm")])
    # On six answers: the model, always A, is right on the first item of both; people on 3 of 4 and 2 of 2.
    for setting in ("lm", "vlm"):
        assert values(
            BENCHMARK.human.metrics(HumanInputs(scores=model, samples=samples, people=people)),
            setting=setting,
            subset="human-items",
        ) == {
            "accuracy": (round(2 / 6, 6), 6),
            "accuracy_of_people": (round(5 / 6, 6), 6),
            "accuracy_minus_people": (-0.5, 6),
        }
    by_person = {
        person: parsed_answers(frame, BENCHMARK.human.agreement_headings)["Choices"] for person, frame in people.items()
    }
    (agreement,) = agreement_table("vague", "VAGUE", {"Choices": by_person})
    people, items, same, kappa, _ = agreement.rows[0].cells
    assert (people, items, same.value, kappa.value) == (2, 2, 1.0, 1.0)
