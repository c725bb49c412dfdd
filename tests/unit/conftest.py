"""Unit tests run side by side, one process a core; outputs that several packages decide and analyse."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator

import pytest

from models.spec import ModelSpec
from pipelines.benchmarks.known_tables import _KNOWN
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: small models lose more by waiting for a busy second core than they gain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)  # by which engines count
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
        yield


def swept(data: str, folder: str, seeds: dict[str, int], settings: tuple[str, ...] = ("1-frame",)) -> Store:
    """Sweep MAIA's statements with models that guess, each by its own seed."""
    models = {name: ModelSpec(engine="random", seed=seed) for name, seed in seeds.items()}
    spec = RunSpec(data=data, out=folder, models=models, benchmarks=("maia",), tasks=("vsv",), settings=settings)
    run_sweep(spec)
    return Store(folder)


@pytest.fixture(scope="session")
def two_models(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """An output of models a and b."""
    return swept(maia_data, str(tmp_path_factory.mktemp("two") / "out"), {"a": 1, "b": 2})


@pytest.fixture(scope="session")
def five_models(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """An output of models m0 to m4, with and without clips."""
    seeds = {f"m{seed}": seed for seed in range(5)}
    return swept(maia_data, str(tmp_path_factory.mktemp("five") / "out"), seeds, ("1-frame", "black-video"))


@pytest.fixture
def table_out(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """An output of five models on a table benchmark `mine` in which the last two rows ask the same.

    This process has forgotten the benchmark, as one has that begins with the output.
    """
    folder = tmp_path_factory.mktemp("table")
    with (folder / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "A", "B", "C", "answer"))
        rows.writerows((n, f"Which is {min(n, 4)}?", "one", "two", "three", "ABC"[min(n, 4) % 3]) for n in range(6))
    ingest_table(str(folder / "questions.csv"), Store(str(folder / "data")), name="mine")
    load_tables(str(folder / "data"), ["mine"])
    models = {f"m{seed}": ModelSpec(engine="random", seed=seed) for seed in range(5)}
    run_sweep(RunSpec(data=str(folder / "data"), out=str(folder / "out"), models=models, benchmarks=("mine",)))
    _KNOWN.clear()
    return Store(str(folder / "out"))
