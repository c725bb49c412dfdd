"""Specs, messages and the reading of models files load no heavy package: each is imported in a fresh process."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines
from pipelines.ingest.dataset import Dataset
from pipelines.plan.plan_store import PlanStore
from pipelines.storage.store import Store
from tests.support.viewer_output import make_target, write_output

MODEL_LIBRARIES = {"torch", "transformers", "ray", "openai", "vllm"}
HEAVY = MODEL_LIBRARIES | {"numpy", "pandas", "PIL"}

LIGHT = [
    "models",
    "models.messages",
    "models.spec",
    "models.environment",
    "models.catalog_loader",
    "models.message_codec",
    "jobs.demo.checkpoint",
    "models.engines",
    "models.engines.base",
    "models.engines.random_baseline",
    "models.engines.openai.engine",
]


@pytest.mark.parametrize("module", LIGHT)
def test_module_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert run.stdout.split() == []


def test_pipelines_load_neither_ray_nor_a_model_library() -> None:
    modules = {module.name for module in pkgutil.walk_packages(pipelines.__path__, "pipelines.")}
    names = sorted(modules - {"pipelines.worker_errors"})  # subclasses an exception of Ray; imported with Ray alone
    assert len(names) > 20
    code = f"import sys; {'; '.join(f'import {name}' for name in names)}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert not MODEL_LIBRARIES & set(run.stdout.split())


def test_reading_the_catalog_loads_nothing_heavy() -> None:
    code = (
        "import sys; from models.catalog_loader import load_models; from models.engines import build_engine\n"
        "build_engine('random', load_models()['random'])\n"
        f"print(*sorted({HEAVY!r} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert run.stdout.split() == []


def test_status_loads_no_pandas(maia_data: str, tmp_path: Path) -> None:
    out, dataset = write_output(str(tmp_path / "out"), maia_data, ["m"]), Dataset.open(Store(maia_data), "maia")
    PlanStore(Store(out)).write(dataset, make_target(dataset, "m").prompts)
    code = f"import sys; from jobs.cli.main import run; print(run(['status', {out!r}]), 'pandas' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    *_, counts, ending = run.stdout.splitlines()
    assert counts.endswith(" done")
    assert ending == "0 False"


def test_chance_level_of_macro_f1_loads_no_scipy() -> None:
    code = "import sys; from pipelines.metrics.f1 import chance_f1; chance_f1(11, 10); print('scipy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert run.stdout.strip() == "False"
