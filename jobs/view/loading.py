"""Fill the index from the parts of all outputs, in a thread: new, replaced and deleted parts are noticed later on."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from jobs.view.index import JUDGEMENT_COLUMNS, PREDICTION_COLUMNS, SCORE_COLUMNS, Index
from pipelines.errors import PipelineError
from pipelines.samples.outputs import Output
from pipelines.storage.backend import is_remote
from pipelines.storage.parts import batched, list_parts, open_part

log = logging.getLogger("vlmsweep")

_PAUSE_S: Final = 10.0  # between two looks at the outputs
_BATCH_PARTS: Final = 64  # added to the index together
_ITEMS_S: Final = 3.0  # least time between two groupings while parts are loaded
_QUESTION: Final = 20_000  # characters of a sample's fields that are searched


class Loader:
    """Loads outputs in a thread until it is stopped."""

    def __init__(self, outputs: Sequence[Output], index: Index) -> None:
        self._outputs, self._index = outputs, index
        self._stop, self.loaded = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="vlmsweep-view-loader", daemon=True)
        self._searched: set[tuple[str, str]] = set()
        self._judged: dict[tuple[int, str], str] = {}
        self._grouped_at = 0.0
        self.done = self.total = 0  # parts, of the current look

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._stop.set()
        self._thread.join()

    def load(self) -> None:
        """Look at all outputs once, and load what changed; what cannot be read is a problem of its output."""
        changes = [(output, *self._changes(output)) for output in self._outputs]
        self.done, self.total = 0, sum(len(new) for _, new, _ in changes)
        has_changed = False
        for output, new, removed in changes:
            if removed:
                self._index.drop_parts(output.number, removed)
            for batch in batched(new, _BATCH_PARTS):
                if self._stop.is_set():
                    return
                self._add(output, batch)
                self.done += len(batch)
                has_changed = True
                self._group(at_once=False)
            has_changed |= bool(removed)
        if has_changed:
            self._group(at_once=True)
        for output in self._outputs:
            self._add_questions(output)
            self._add_judgements(output)

    def _run(self) -> None:
        while not self._stop.is_set():
            problem = ""
            try:
                self.load()
            except PipelineError as error:
                problem = str(error)
            except Exception:  # a bug must not end the loading silently
                log.exception("the index cannot be brought up to date")
            for output in self._outputs:
                output.note("index", problem)
            self.loaded.set()
            self._stop.wait(_PAUSE_S)

    def _group(self, *, at_once: bool) -> None:
        started = time.monotonic()
        if at_once or started - self._grouped_at > _ITEMS_S:
            self._index.refresh_items()
            # A large table is grouped rarely: at most a fifth of the time is spent on it.
            self._grouped_at = time.monotonic() + 4 * (time.monotonic() - started)

    def _changes(self, output: Output) -> tuple[list[tuple[str, str]], list[str]]:
        """Return paths with signatures of new and replaced parts, and paths that are to be removed."""
        try:
            current = dict(_signatures(output))
        except PipelineError as error:
            output.note("parts", str(error))
            return [], []
        output.note("parts", "")
        loaded = self._index.signatures(output.number)
        new = [(path, signature) for path, signature in current.items() if loaded.get(path) != signature]
        return new, [path for path in loaded if current.get(path) != loaded[path]]

    def _add(self, output: Output, parts: Sequence[tuple[str, str]]) -> None:
        readable = []
        for path, signature in parts:
            try:
                readable.append((path, signature, *_read(output, path)))
                output.note(path, "")
            except FileNotFoundError:  # deleted since it was listed
                continue
            except (PipelineError, pa.ArrowException, ValueError, OSError) as error:
                output.note(path, f"{output.store.uri}/{path}: {str(error)[:300]}; its answers are not shown")
        if readable:
            self._index.add_parts(output.number, readable)

    def _add_judgements(self, output: Output) -> None:
        try:
            parts = {info.path: _signature(output, info) for info in list_parts(output.store, "judgements")}
        except PipelineError as error:
            output.note("judgements", str(error))
            return
        for path, signature in parts.items():
            key = (output.number, path)
            if self._judged.get(key) == signature or self._stop.is_set():
                continue
            self._judged[key] = signature
            try:
                part = open_part(output.store, path)
                table = part.read(_present(part, JUDGEMENT_COLUMNS), use_threads=False)
                self._index.replace_judgements(output.number, path, _with_columns(table, JUDGEMENT_COLUMNS))
            except (FileNotFoundError, PipelineError, pa.ArrowException, ValueError) as error:
                output.note(path, f"{output.store.uri}/{path}: {str(error)[:300]}; the judge's words are not shown")

    def _add_questions(self, output: Output) -> None:
        for benchmark in dict.fromkeys(entry.benchmark for entry in output.entries()):
            dataset = output.dataset(benchmark)
            key = (benchmark, dataset.manifest.dataset_fingerprint if dataset else "")
            if dataset is None or key in self._searched:
                continue
            self._searched.add(key)
            try:
                for shard in dataset.manifest.shards:
                    samples = dataset.read_shard(shard.path)
                    texts = [(each.sample_id, "\n".join(texts_of(each.data))[:_QUESTION]) for each in samples]
                    self._index.add_questions(benchmark, shard.sha256, texts)
            except (PipelineError, ValueError, OSError) as error:
                output.note(f"samples of {benchmark}", str(error))


def texts_of(value: Any) -> Iterator[str]:
    """Yield all texts inside a value of JSON types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


def _signatures(output: Output) -> Iterator[tuple[str, str]]:
    """Yield the path of each part, without its kind, with what changes when its predictions or scores do."""
    scores = {info.path.partition("/")[2]: _signature(output, info) for info in list_parts(output.store, "scores")}
    for info in list_parts(output.store, "predictions"):
        path = info.path.partition("/")[2]
        yield path, f"{_signature(output, info)} {scores.get(path, '')}"


def _signature(output: Output, info: Any) -> str:
    if is_remote(output.store.uri):
        return str(info.size)
    try:
        return f"{info.size}:{Path(output.store.uri, info.path).stat().st_mtime_ns}"
    except OSError:  # deleted since it was listed
        return str(info.size)


def _read(output: Output, path: str) -> tuple[pa.Table, pa.Table]:
    predictions = open_part(output.store, f"predictions/{path}")
    table = predictions.read(_present(predictions, PREDICTION_COLUMNS), use_threads=False)
    try:
        scores = open_part(output.store, f"scores/{path}")
        scored = scores.read(_present(scores, SCORE_COLUMNS, "values"), use_threads=False)
    except FileNotFoundError:  # not scored yet
        scored = SCORE_COLUMNS.empty_table()
    return _with_columns(table, PREDICTION_COLUMNS), _with_columns(_with_correct(scored), SCORE_COLUMNS)


def _present(part: Any, schema: pa.Schema, *more: str) -> list[str]:
    return [name for name in part.schema_arrow.names if name in {*schema.names, *more}]


def _with_correct(scores: pa.Table) -> pa.Table:
    """Replace the map of values by the columns that say whether an answer is right."""
    if "values" not in scores.column_names:
        return scores
    values = scores["values"].combine_chunks()
    accepted, correct = (pc.map_lookup(values, name, "first") for name in ("accepted", "correct"))
    scores = scores.append_column("accepted", accepted)
    return scores.append_column("correct", pc.coalesce(correct, accepted)).drop_columns(["values"])


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema; those that a part of a former version lacks are null."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
