"""The contract of every benchmark and every model of the catalog."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from models.catalog_loader import CATALOG, load_models
from models.fingerprint import is_unpinned
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.records import Reading, Row, Sample, Status
from tests.support.prompt_fingerprints import RECORDED, changed, current, golden_rows, ids_of

LEAST = 10


@pytest.mark.parametrize("name", benchmark_names())
def test_a_benchmark_has_golden_rows(name: str) -> None:
    assert golden_rows(name) >= LEAST


@pytest.mark.parametrize("name", benchmark_names())
def test_prompts_and_ids_change_only_with_their_version(name: str) -> None:
    assert changed(json.loads(RECORDED.read_text()), current([name])) == []


def test_ids_are_equal_in_every_process() -> None:
    code = "from tests.support.prompt_fingerprints import ids_of; print(ids_of('vague'), ids_of('mate'))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": seed},
            capture_output=True, text=True, timeout=240, check=True,
        ).stdout.split()[0]
        for seed in ("1", "2")
    }  # fmt: skip
    assert outputs == {ids_of("vague")}


@pytest.mark.parametrize("name", benchmark_names())
@pytest.mark.parametrize("status", ["error", "excluded"])
def test_a_row_without_an_answer_has_no_values(name: str, status: Status) -> None:
    fields = dict.fromkeys(("request_id", "model", "task", "setting", "variant"), "")
    row = Row(sample=Sample(sample_id="s"), status=status, output=None, **fields)
    assert benchmark(name).reading(row) == Reading(answer=None, rule=status)


@pytest.mark.parametrize("name", sorted(load_models()))
def test_catalog_entry_is_complete(name: str) -> None:
    spec = load_models()[name]
    assert ModelSpec.model_validate(spec.model_dump(exclude_unset=True)) == spec
    if spec.runs_locally:  # `main` counts as unpinned, and a run of it warns
        assert spec.revision
        assert is_unpinned(spec) == (len(spec.revision or "") < 40)
        assert is_unpinned(spec) or len(spec.revision) == 40
    assert spec.api_key_env is None or spec.api_key_env.isupper()


def test_no_entry_hides_another() -> None:
    names = [name for path in sorted(CATALOG.glob("*.yaml")) for name in _names(path.read_text())]
    assert len(names) == len(set(names))


def _names(text: str) -> list[str]:
    import yaml

    return list(yaml.safe_load(text))


def test_discovery_loads_no_heavy_package() -> None:
    code = "import sys; from pipelines.benchmarks import benchmark_names; benchmark_names(); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert {"numpy", "pandas", "scipy", "pyarrow", "torch", "ray", "matplotlib"}.isdisjoint(run.stdout.split())
