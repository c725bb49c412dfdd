from typing import Any

import pytest

from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.sweep.record import sweep_warnings, unjudged_metrics


def spec(**fields: Any) -> RunSpec:
    return RunSpec(data="data", out="out", models={"m": ModelSpec(engine="random")}, **fields)


def test_what_will_be_missing_is_said() -> None:
    names = "its headline, aggregate accuracy (agg_acc), open answers accepted (oevqa_accuracy)"
    assert unjudged_metrics(spec(benchmarks=("maia", "mate", "unpie"))) == [
        f"maia: without --judge NAME these will not be measured: {names}",
        "unpie: without --judge NAME these will not be measured: judged right (correct_pct)",
    ]
    assert sweep_warnings(spec(benchmarks=("maia", "unpie"), tasks=("vsv",))) == [
        "unpie: it has none of these tasks and settings and is left out"
    ]
    assert sweep_warnings(spec(benchmarks=("maia", "unpie"))) == []


@pytest.mark.parametrize("fields", [{"tasks": ("vsv",)}, {"judges": (("j", ModelSpec(engine="random")),)}])
def test_nothing_is_missing_with_a_judge_or_without_open_questions(fields: dict[str, Any]) -> None:
    assert unjudged_metrics(spec(benchmarks=("maia",), **fields)) == []


def test_models_whose_weights_or_code_others_decide_are_named_kind_by_kind() -> None:
    hub = ModelSpec(engine="transformers", model="org/m", adapter="org/a", trust_remote_code=True)
    pinned = ModelSpec(engine="transformers", model="org/m", revision="0" * 40)
    sentences = sweep_warnings(RunSpec(data="d", out="o", benchmarks=("maia",), models={"hub": hub, "pinned": pinned}))
    unpinned = "is not pinned, so the hub may serve others tomorrow; give"
    assert sentences == [
        f"model hub: its revision {unpinned} `revision` a commit",
        f"model hub: the revision of its adapter {unpinned} `adapter_revision` a commit",
        "model hub: code that its publisher keeps beside the weights runs on the workers (trust_remote_code)",
    ]
