"""The stages of a sweep in the test's own process instead of Ray; the same product code does the work."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pytest

from cluster.connect import ClusterInfo
from models.engines import build_engine
from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.predict.commit import Committer
from pipelines.predict.records import Job, Receipt
from pipelines.predict.serialization import to_table
from pipelines.predict.unit_runner import UnitRunner
from pipelines.ray_data import run_rows
from pipelines.report.reduce import EntryResults, PlannedEntry, reduce_entry
from pipelines.report.render import draw
from pipelines.score.part_scorer import ScoringSpec
from pipelines.score.stage import _ScorerActor
from tests.support.units import RecordingAttempts

__all__ = ["run_in_process"]

CLUSTER = ClusterInfo(address="", cpus=1.0, gpus=0.0)


def run_in_process(patch: pytest.MonkeyPatch) -> None:
    """Let sweeps of this process run without Ray and without the checkpoints of text scorers."""
    patch.setattr("pipelines.sweep.run.connect", lambda _: contextlib.nullcontext(CLUSTER))
    patch.setattr("pipelines.sweep.evaluate.refresh", lambda cluster: cluster)
    patch.setattr("pipelines.predict.stage.run_units", _run_units)
    patch.setattr("pipelines.score.stage._score", _score)
    patch.setattr("pipelines.score.part_scorer.look_for", _no_checkpoint)
    patch.setattr("pipelines.sweep.evaluate.reduce_all", _reduce_all)
    patch.setattr("pipelines.report.stage._draw_side_by_side", draw)


def _run_units(job: Job, _cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
    runner, loader = UnitRunner(build_engine(job.model, job.spec), RecordingAttempts()), job.loader.build()
    for unit in job.units:
        rows = to_table(runner.answer(loader.load(unit)))
        counts = Committer(job.out, job.lock_token).commit(unit, rows)
        on_receipt(Receipt(part=unit.part, counts={(task, setting, status): n for task, setting, status, n in counts}))


class _Dataset:
    """A Ray Data pipeline of one actor: an error of the actor arrives as Ray brings it to the driver."""

    def __init__(self, actor: Any, batches: Sequence[dict[str, Any]]) -> None:
        self._actor, self._batches = actor, batches

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        from ray.exceptions import RayTaskError

        for batch in self._batches:
            try:
                result = self._actor(batch)
            except Exception as error:
                raise RayTaskError("map_batches", traceback.format_exc(), error) from error
            yield {name: values[0] for name, values in result.items()}


def _no_checkpoint(model: str) -> NoReturn:
    raise ScorerUnavailableError(model, "the test has none.", "")


def _score(spec: ScoringSpec, paths: Sequence[str], judge: object, _cluster: ClusterInfo) -> Iterator[Any]:
    assert judge is None, "a judge's replies are fetched from Ray's object store"
    return run_rows(_Dataset(_ScorerActor(spec, None), [{"paths": [json.dumps([path])]} for path in paths]))


def _reduce_all(context: SweepContext, entries: Sequence[ManifestEntry]) -> list[EntryResults]:
    planned = [PlannedEntry(entry, context.entry_plans(entry)) for entry in entries]
    return [reduce_entry(entry, [], context.out.uri) for entry in planned]
