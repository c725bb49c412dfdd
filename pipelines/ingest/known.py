"""Make the table benchmarks of a data root known by their names."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.benchmarks import code_benchmarks
from pipelines.errors import DatasetError
from pipelines.ingest.dataset import Dataset
from pipelines.storage.store import Store


def load_tables(data: str, names: Iterable[str] = ()) -> None:
    """Read the definitions of the table benchmarks under `data`, unless all `names` are benchmarks with code.

    DatasetError for one of the names whose data are damaged; the others' damage is their own.
    """
    named, with_code = set(names), set(code_benchmarks())
    if named and named <= with_code:
        return
    store = Store(data)
    for folder in store.folders():
        if folder in with_code:
            continue
        try:
            Dataset.open(store, folder)
        except DatasetError:
            if folder in named:
                raise
