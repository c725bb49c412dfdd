from typing import Any

import pytest

from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.sweep.record import unjudged_metrics


def spec(**fields: Any) -> RunSpec:
    return RunSpec(data="data", out="out", models={"m": ModelSpec(engine="random")}, **fields)


def test_run_without_judge_says_what_will_be_missing() -> None:
    names = "its headline, aggregate accuracy (agg_acc), open answers accepted (oevqa_accuracy)"
    assert unjudged_metrics(spec(benchmarks=("maia", "mate", "unpie"))) == [
        f"maia: without --judge NAME these will not be measured: {names}",
        "unpie: without --judge NAME these will not be measured: judged right (correct_pct)",
    ]


@pytest.mark.parametrize("fields", [{"tasks": ("vsv",)}, {"judges": (("j", ModelSpec(engine="random")),)}])
def test_nothing_is_missing_with_a_judge_or_without_open_questions(fields: dict[str, Any]) -> None:
    assert unjudged_metrics(spec(benchmarks=("maia",), **fields)) == []
