"""Make the table benchmarks of a data root known by their names."""

from collections.abc import Iterable

from pipelines.benchmarks import code_benchmarks
from pipelines.benchmarks.known_tables import use_tables
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
            table = Dataset.open(store, folder).manifest.table
        except DatasetError:
            if folder in named:
                raise
            continue
        use_tables([(store.uri, table)] if table else [])
