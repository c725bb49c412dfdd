from pathlib import Path

import pytest

from jobs.view.detail import ShownAnswer
from pipelines.plan.options import SweepOptions
from pipelines.plan.run_manifest import RunManifest, save_run
from pipelines.samples.outputs import Output
from pipelines.storage.store import Store


@pytest.mark.parametrize(
    ("engine", "reason"), [("random", "The judge accepted it, tossing a coin."), ("openai", "The judge accepted it.")]
)
def test_a_judge_that_tosses_a_coin_is_named_so(tmp_path: Path, engine: str, reason: str) -> None:
    store = Store(str(tmp_path))
    save_run(store, RunManifest(), RunManifest(sweep=SweepOptions(judge="j"), models={"j": {"engine": engine}}))
    row = {"outcome": "right", "judge": "accepted"}
    assert ShownAnswer(label="m", output=Output(0, "out", store, ""), row=row).reason == reason
