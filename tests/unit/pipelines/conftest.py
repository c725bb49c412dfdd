"""A small MAIA, its requests and its units, loaded."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.benchmarks import benchmark
from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import WorkerContext
from pipelines.plan.requests import ModelTarget
from pipelines.plan.selection import selected_groups
from pipelines.plan.units import WorkUnit
from pipelines.predict.loader import Loaded, Loader, UnitLoaderSpec
from pipelines.storage.store import Store
from tests.support.requests import target_of
from tests.support.units import units_of


@pytest.fixture
def target(maia_data: str) -> ModelTarget:
    dataset = Dataset.open(Store(maia_data), "maia")
    return target_of(
        benchmark_name="maia",
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        model="m",
        task_settings=tuple(selected_groups(benchmark("maia"), [], [])),
        seed=42,
    )


@pytest.fixture
def units(maia_data: str, target: ModelTarget, tmp_path: Path) -> list[WorkUnit]:
    """Units of two samples, their plan written to the output in `tmp_path`."""
    return units_of(maia_data, target, str(tmp_path))


@pytest.fixture
def make_loader(maia_data: str, target: ModelTarget, tmp_path: Path) -> Iterator[Callable[..., Loader]]:
    loaders: list[Loader] = []

    def make(*, data: str = "", frames: Any = None, **limits: int) -> Loader:
        context = WorkerContext(data or maia_data, str(tmp_path))
        loaders.append(UnitLoaderSpec(context=context, targets=(target,), **limits).build(frames))
        return loaders[-1]

    yield make
    for loader in loaders:
        loader.close()


@pytest.fixture
def loaded(units: list[WorkUnit], make_loader: Callable[..., Loader]) -> list[Loaded]:
    loader = make_loader()
    return [loader.load(unit) for unit in units]
