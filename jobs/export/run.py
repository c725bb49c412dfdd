"""Run `vlmsweep export`: open an output without writing to it, and fill a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from jobs.export.files import new_folder
from jobs.export.rows import ExportedRun, RowReader
from jobs.view.media import MediaReader
from models.scratch import scratch
from pipelines.errors import StoreError
from pipelines.plan.plan_store import PlanStore
from pipelines.storage.errors import describe

Exporter = Callable[[ExportedRun, RowReader, MediaReader, Path], list[Path]]


def export_run(
    exporter: Exporter, out: str, folder: str, *, data: str, models: Sequence[str], benchmarks: Sequence[str]
) -> list[Path]:
    """Export an output into a new folder, and return the files that a reader opens first."""
    run = ExportedRun.open(out, data=data, models=models, benchmarks=benchmarks)
    target = new_folder(folder)
    with ExitStack() as stack:
        plans = stack.enter_context(PlanStore.reading(run.out))
        media = MediaReader(stack.enter_context(scratch()))
        stack.callback(media.close)
        try:
            return exporter(run, RowReader(run, plans), media, target)
        except OSError as error:
            problem = f"{folder}: {describe(error)}"
            raise StoreError(f"{problem}, with another folder: this one holds an unfinished export") from error
