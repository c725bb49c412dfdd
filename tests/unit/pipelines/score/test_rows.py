"""Predictions become rows with what of a reply its benchmark can read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Sample
from pipelines.score.rows import ScoringContext, row_of

SAMPLES = {
    "maia": Sample(
        sample_id="a", data={"true": ["Il cane corre"] * 8, "false": ["Il cane dorme"] * 8, "letters": ["A"] * 8}
    ),
    "vflute": Sample(sample_id="a", data={"label": "contradiction", "explanation": "x", "claim": "y"}),
    "unpie": Sample(sample_id="a", data={"phrase": "bank", "sentence": "The bank was steep."}),
}
TASKS = {
    "maia": ("vsv", "32-frames", "0"),
    "vflute": ("entailment", "label-only", ""),
    "unpie": ("grounding", "lm", ""),
}


def read(name: str, reply: str) -> tuple[str | None, str | None]:
    """Return the row's output and the answer that is read from it."""
    definition, (task, setting, variant) = benchmark(name), TASKS[name]
    prompts = SimpleNamespace(benchmark=definition, seed=0)
    context = SimpleNamespace(prompts=prompts, labelled=())
    raw: dict[str, Any] = {
        **dict.fromkeys(("error", "steps", "given", "prompt_version", "finish_reason")), "request_id": "r",
        "model": "m", "task": task, "setting": setting, "variant": variant, "sample_id": name, "status": "ok",
        "output": reply,
    }  # fmt: skip
    row = row_of(raw, SAMPLES[name], cast("ScoringContext", context))
    return row.output, definition.reading(row).answer


@pytest.mark.parametrize(
    ("name", "reply", "answer"),
    [
        ("maia", "Conto \\boxed{2} cani. Risposta: B", "B"),
        ("maia", "Il cane è \\boxed{fermo}: scelgo B", "B"),
        ("maia", "\\boxed{A}", "A"),
        ("maia", "<answer>B</answer> e non <answer>A</answer>", "B"),
        ("maia", "Risposta: В", "B"),
        ("vflute", "I see \\boxed{2} men. Label: Contradiction", "contradiction"),
        ("vflute", "<result>2 men</result> The image contradicts the claim. Label: Contradiction", "contradiction"),
        ("unpie", "<answer>bank</answer>", "bank"),
        ("unpie", "We have \\boxed{steep}.\nFinal answer: bank", "bank"),
    ],
)
def test_a_box_around_a_step_hides_no_answer(name: str, reply: str, answer: str) -> None:
    assert read(name, reply)[1] == answer


def test_a_row_keeps_the_content_of_a_box_that_is_an_answer() -> None:
    assert read("maia", "Penso \\boxed{A} perché corre.") == ("A", "A")
