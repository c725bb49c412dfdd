"""Predictions become rows with what of a reply its benchmark can read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipelines.benchmarks import benchmark, table_benchmark
from pipelines.benchmarks.known_tables import TableDefinition
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
    context = SimpleNamespace(prompts=prompts, samples=SAMPLES, labelled=())
    raw: dict[str, Any] = {
        **dict.fromkeys(("error", "steps", "given", "prompt_version", "finish_reason")), "request_id": "r",
        "model": "m", "task": task, "setting": setting, "variant": variant, "sample_id": name, "status": "ok",
        "output": reply,
    }  # fmt: skip
    row = row_of(raw, cast("ScoringContext", context))
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


def test_official_scores_are_of_the_reply_as_it_came() -> None:
    definition = table_benchmark(TableDefinition(name="t", kind="text", scorers={"text": "exact"}))
    context = SimpleNamespace(
        prompts=SimpleNamespace(benchmark=definition, seed=0),
        samples={"a": Sample(sample_id="a", data={"question": "q", "answers": ["Model 3"]})},
        labelled=(),
    )
    for reply, official in (("**Model 3**", 0.0), ("<think>So Model 3</think>Model 3", 1.0), ("Model 3", 1.0)):
        raw: dict[str, Any] = {
            **dict.fromkeys(("error", "steps", "given", "prompt_version", "finish_reason")), "request_id": "r",
            "model": "m", "task": "text", "setting": "default", "variant": "", "sample_id": "a", "status": "ok",
            "output": reply,
        }  # fmt: skip
        values = definition.reading(row_of(raw, cast("ScoringContext", context))).values
        assert (values["correct"], values["official_score"]) == (1.0, official)
