"""The outputs that are shown: what their run, metrics and data files hold now, and what of that cannot be read."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pipelines.benchmarks.known_tables import use_tables
from pipelines.errors import PipelineError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.prompt_plan import load_captions
from pipelines.plan.run_manifest import PATH as RUN
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, load_run
from pipelines.report.metrics_file import PATH as METRICS
from pipelines.report.metrics_file import Measured, load_metrics
from pipelines.storage.backend import is_remote, short_labels
from pipelines.storage.parts import list_parts
from pipelines.storage.store import Store

T = TypeVar("T")

REPORT: Final = "report"  # folder of an output
OUTCOMES: Final = {
    "right": "right",
    "wrong": "wrong",
    "unread": "unread",
    "error": "error",
    "excluded": "excluded",
    "none": "not graded",
}
"""Outcome of one answer -> as shown. `unread`: nothing could be read from it; `none`: no score is right or wrong."""
_FRESH_S: Final = 5.0  # what was read is used again for this long: an output may be being written
_FAILED_S: Final = 30.0  # what could not be read is tried again after this time: a store may be gone, and pages wait
_NOTHING_THERE = "no output of vlmsweep; there is neither a run.json nor a prediction"


class Output:
    """One output. What cannot be read is absent, and `problems` says why."""

    def __init__(self, number: int, label: str, store: Store, data: str) -> None:
        self.number, self.label, self.store = number, label, store
        self._data = data
        self._cache: dict[str, tuple[float, Any]] = {}
        self._problems: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def problems(self) -> list[str]:
        """Errors of the last attempt to read the output."""
        return [*dict.fromkeys(self._problems.values())]

    def note(self, name: str, problem: str) -> None:
        """Note why something cannot be shown, or with '' that it can."""
        with self._lock:
            self._problems.pop(name, None)
            if problem:
                self._problems[name] = problem

    def run(self) -> RunManifest:
        """Return `run.json`; an empty one where it is absent or damaged."""
        return self._read(RUN, lambda: load_run(self.store), RunManifest())

    def entries(self) -> Sequence[ManifestEntry]:
        """Return what the output holds."""
        return self.run().entries

    def entry(self, benchmark: str, model: str) -> ManifestEntry | None:
        """Return a model's entry."""
        return next((entry for entry in self.entries() if (entry.benchmark, entry.model) == (benchmark, model)), None)

    def metrics(self) -> list[Measured]:
        """Return the numbers of `report/metrics.json`; none before the first report."""
        return self._read(METRICS, lambda: load_metrics(self.store) or [], [])

    def has_report(self) -> bool:
        """Return whether there is a report to show."""
        return self._read(REPORT, lambda: self.store.exists(f"{REPORT}/index.html"), False)

    def dataset(self, benchmark: str) -> Dataset | None:
        """Return the data of a benchmark; None where they are gone."""
        location = self._data or next((entry.data for entry in self.entries() if entry.benchmark == benchmark), "")
        if not location:
            return None
        return self._read(f"data of {benchmark}", lambda: Dataset.open(Store(location), benchmark), None)

    def captions(self, entry: ManifestEntry) -> dict[str, str]:
        """Return the captions that an entry's prompts may hold, by picture hash."""
        key = entry.prompts.captioner
        name = f"captions of {entry.benchmark} by {key}"
        return self._read(name, lambda: load_captions(self.store, entry.benchmark, key), {})

    def human_files(self, benchmark: str) -> dict[str, str]:
        """Return people's files that the output holds, by kind."""
        return self._read(f"human/{benchmark}", lambda: load_human_files(self.store, benchmark), {})

    def _read(self, name: str, load: Callable[[], T], missing: T) -> T:
        """Return what `load` returns, read again after a few seconds; `missing` where it cannot be read."""
        with self._lock:
            cached = self._cache.get(name)
        if cached and time.monotonic() < cached[0]:
            value: T = cached[1]
            return value
        try:
            value, problem = load(), ""
        except (PipelineError, ValueError, OSError) as error:
            location = "" if self.store.uri in str(error) else f"{self.store.uri}/{name}: "
            value, problem = (cached[1] if cached else missing), f"{location}{error}"
        self.note(name, problem)
        with self._lock:
            self._cache[name] = (time.monotonic() + (_FAILED_S if problem else _FRESH_S), value)
        return value


def open_outputs(uris: Sequence[str], data: str = "") -> list[Output]:
    """Open outputs.

    Raises:
        UsageError: one is no output, or a name is that of different table benchmarks.
        StoreError: a store cannot be reached.
    """
    labels = short_labels(uris)
    outputs = [Output(number, labels[number], _open(uri), data) for number, uri in enumerate(uris)]
    use_tables((output.label, table) for output in outputs for table in output.run().tables())
    return outputs


def by_label(outputs: Sequence[Output]) -> Mapping[str, Output]:
    """Return outputs by the name under which pages show them."""
    return {output.label: output for output in outputs}


def _open(uri: str) -> Store:
    store = Store(uri)
    if not is_remote(uri) and not Path(store.uri).is_dir():
        raise UsageError(f"{uri}: no such folder")
    if not store.exists(RUN) and not list_parts(store, "predictions"):
        raise UsageError(f"{uri}: {_NOTHING_THERE}")
    return store
