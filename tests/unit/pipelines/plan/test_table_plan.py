"""The plan of a table benchmark makes it known wherever the plan comes to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cloudpickle

from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.selection import TaskSetting


def plan_of_a_table() -> PromptPlan:
    """Return a plan, which makes its table known to this process."""
    return PromptPlan(
        benchmark_name="far-table", dataset_fingerprint="f", task_settings=(TaskSetting("text", "default"),), seed=42,
        table=TableDefinition(name="far-table", kind="text", labels=("a",)),
    )  # fmt: skip


def test_a_plan_brings_its_table(tmp_path: Path) -> None:
    assert PromptPlan.from_dict(json.loads(json.dumps(plan_of_a_table().to_dict())), "prompts") == plan_of_a_table()
    path = tmp_path / "plan"
    path.write_bytes(cloudpickle.dumps(plan_of_a_table()))
    code = (
        f"import cloudpickle; from pathlib import Path; cloudpickle.loads(Path({str(path)!r}).read_bytes());"
        "from pipelines.benchmarks import benchmark; assert benchmark('far-table').tasks == {'text': ('default',)}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
