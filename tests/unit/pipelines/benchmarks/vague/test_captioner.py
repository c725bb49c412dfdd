"""Choices from the captions of another model."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from models.messages import Text
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import MediaRef
from pipelines.benchmarks.vague.benchmark import BENCHMARK
from pipelines.benchmarks.vague.tables import make_tables
from pipelines.schemas import METRIC_KEYS
from tests.support import vague_rows
from tests.support.report_results import results_of
from tests.support.vague_rows import metric_named, reduced

REF = MediaRef(role="picture", kind="image", sha256="a" * 64, extension=".jpg", bytes=1, width=6, height=4)
SAMPLE = replace(vague_rows.item(0), media=(REF,))


def prompt(captions: dict[str, str] | None, setting: str = "sm-other"):  # type: ignore[no-untyped-def]
    (result,) = BENCHMARK.prompts(
        PromptInput(SAMPLE, "mcq", setting, PromptTexts(BENCHMARK.prompt_texts), 42, captions)
    )
    return result


def test_caption_of_another_model_stands_in_the_prompt_of_sm() -> None:
    result = prompt({REF.sha256: " Two {people} at a door.\n"})
    (step,) = result.steps
    (turn,) = step.turns
    (part,) = turn.parts
    assert isinstance(part, Text)
    sm = prompt(None, "sm").steps[1].turns[0].parts
    assert part.text == f"{sm[0].text}Two {{people}} at a door.{sm[2].text}"  # no picture, the words of `sm`
    assert step.choices == ("A", "B", "C", "D")
    assert prompt(None).excluded == "no_captioner"
    assert prompt({}).excluded == "caption_missing"
    assert prompt({REF.sha256: " "}).excluded == "caption_missing"


def test_captioner_gets_the_request_of_sm_only_where_it_is_needed() -> None:
    assert BENCHMARK.captions is not None
    (step,) = BENCHMARK.captions.steps(SAMPLE, "sm-other")
    assert step == prompt(None, "sm").steps[0]
    assert BENCHMARK.captions.steps(SAMPLE, "sm") == ()
    assert "sm-other" in BENCHMARK.explicit_settings


def test_change_by_other_captions_is_paired() -> None:
    right = {"sm": (0, 1), "sm-other": (0, 2, 3), "lm": ()}  # items answered rightly, of four

    def say(item, task, setting):  # type: ignore[no-untyped-def]
        number = int(item.sample_id[-1])
        return vague_rows.perfect(item, task, setting) if number in right[setting] else "I do not know."

    metrics = reduced(vague_rows.items(4), say, cells=[("mcq", setting) for setting in right])
    assert metric_named(metrics, "accuracy", "sm-other").value == 0.75
    change = metric_named(metrics, "caption_delta", "sm-other")
    assert (change.value, change.n) == (0.25, 4)
    assert change.ci_low is not None
    assert change.ci_low < 0.0 < (change.ci_high or 0.0)
    frame = pd.DataFrame(
        [{name: getattr(metric, name, "") for name in METRIC_KEYS} | {"model": "m"} for metric in metrics]
    ).assign(benchmark="vague")
    (table,) = (table for table in make_tables(results_of("vague", frame)) if table.id == "vague_captioner")
    assert [cell.value for cell in table.rows[0].cells] == [0.0, 0.5, 0.75, 0.25]  # type: ignore[union-attr]
