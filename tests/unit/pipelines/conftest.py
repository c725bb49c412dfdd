"""A small MAIA, its questions and its units, loaded."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.benchmarks import benchmark
from pipelines.ingest.dataset import Dataset
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.selection import cells_of
from pipelines.predict.loader import Loaded, Loader
from pipelines.storage.store import Store
from tests.support.units import units_of


@pytest.fixture
def asker(maia_data: str) -> RequestBuilder:
    dataset = Dataset.open(Store(maia_data), "maia")
    return RequestBuilder(
        benchmark_name="maia",
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        model="m",
        model_fingerprint={},
        generation={},
        cells=tuple(cells_of(benchmark("maia"), [], [])),
        prompts={},
        instead={},
        seed=42,
    )


@pytest.fixture
def make_loader(maia_data: str, asker: RequestBuilder, tmp_path: Path) -> Iterator[Callable[..., Loader]]:
    made: list[Loader] = []

    def make(**changes: Any) -> Loader:
        made.append(Loader(**{"data": maia_data, "out": str(tmp_path), "askers": [asker], **changes}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def loaded(maia_data: str, asker: RequestBuilder, make_loader: Callable[..., Loader]) -> list[Loaded]:
    loader = make_loader()
    return [loader.load(unit) for unit in units_of(maia_data, asker)]
