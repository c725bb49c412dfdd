"""Scoring on the cluster: judge rounds first, then every prediction part through a pool of part scorers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cluster.connect import ClusterInfo
from models.spec import ModelSpec
from pipelines.benchmarks.records import Row
from pipelines.errors import ModelUnavailableError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.captions import load_captions
from pipelines.plan.planner import selected_samples
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.run_spec import ScorerSpec
from pipelines.plan.units import WorkUnit
from pipelines.predict.records import Job
from pipelines.progress import ProgressListener
from pipelines.ray_data import carry_errors, quiet_ray_data, run_rows
from pipelines.score.judge import Judge, JudgeLoaderSpec, judge_units
from pipelines.score.part_scorer import PartScorer, ScoringSpec
from pipelines.score.rows import ScoringContext, rows_of
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

ROUNDS = 3
"""The first asking and two more for replies that could not be read."""
SCORER_CPUS = 0.5
SCORERS_TO_COME = 8
"""Scorers at the most where nodes come by load: what is there at the moment says nothing."""
PARTS_AT_ONCE = 16
SHARES = 4
"""Parts that a scorer is handed together, and how many times it shall be handed some, so that all end at one time."""

RunJob = Callable[[str, Job], None]


def prompts_of(entry: ManifestEntry) -> str:
    """The wording of an entry, as `Context.from_json` takes it."""
    asker = entry.parsed_asker()
    return json.dumps([dict(asker.prompts), dict(asker.instead)], sort_keys=True)


def judge_rounds(
    judge_model: tuple[str, ModelSpec], entries: Sequence[ManifestEntry], out: Store, run_job: RunJob
) -> Judge:
    """Ask the judge all that is open about one benchmark; an unreadable reply is asked again, twice at the most.

    Args:
        judge_model: name and spec.
        entries: whose predictions, all of one benchmark.
        out: the output.
        run_job: runs a job under a title.

    Raises:
        ModelUnavailableError: the judge cannot be had.
    """
    name, spec = judge_model
    benchmark_name = entries[0].benchmark
    judge = Judge.recall(name, spec, out, benchmark_name)
    failed_now: set[str] = set()
    for attempt in range(1, ROUNDS + 1):
        for group in _alike(entries):
            units = _open_units(judge, group, out, failed_now)
            if not units:
                continue
            first = group[0]
            loader = JudgeLoaderSpec(
                data=first.data,
                out=out.uri,
                benchmark=benchmark_name,
                judge=name,
                spec=spec,
                prompts=prompts_of(first),
                attempts=ROUNDS,
                seed=first.parsed_asker().seed,
            )
            title = f"judge {name}" if attempt == 1 else f"judge {name}, round {attempt}"
            run_job(title, Job(model=name, spec=spec, loader=loader, out=out.uri, units=units))
            judge = Judge.recall(name, spec, out, benchmark_name)
            failed_now |= judge.failed - judge.said.keys()
    return judge


def _alike(entries: Sequence[ManifestEntry]) -> list[list[ManifestEntry]]:
    """Entries that share data, wording and seed."""
    groups: dict[tuple[str, str, int], list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.data, prompts_of(entry), entry.parsed_asker().seed), []).append(entry)
    return list(groups.values())


def _open_units(judge: Judge, entries: Sequence[ManifestEntry], out: Store, skip: set[str]) -> list[WorkUnit]:
    first = entries[0]
    context = context_of(first)
    rows = (pair for entry in entries for pair in planned_rows(entry, context, out))
    return judge_units(judge, rows, first.benchmark, context.texts, skip=skip)


def context_of(entry: ManifestEntry) -> ScoringContext:
    """What an entry's rows are read with."""
    return ScoringContext.from_json(entry.data, entry.benchmark, prompts_of(entry), entry.parsed_asker().seed)


def planned_rows(entry: ManifestEntry, context: ScoringContext, out: Store) -> Iterator[tuple[str, Row]]:
    """What was answered of an entry's plan, each with its part."""
    planned = planned_ids(entry, context.dataset, out)
    for path in _parts([entry], out):
        for row in rows_of(out, path, context):
            if row.request_id in planned:
                yield path, row


def planned_ids(entry: ManifestEntry, dataset: Dataset, out: Store) -> set[str]:
    """Requests of an entry's plan: an output may hold answers to older prompts, which no judge is paid for."""
    captions = load_captions(out, entry.benchmark, entry.parsed_asker().captioner)
    return {
        asked.request_id
        for one in entry.by_cut()
        for _, sample in selected_samples(dataset, one.parsed_limit(), one.sample_ids)
        for asked in one.parsed_asker().ask(sample, captions)
    }


def _parts(entries: Sequence[ManifestEntry], out: Store) -> Iterator[str]:
    for entry in entries:
        folder = part_folder("predictions", entry.benchmark, entry.model)
        for path, _ in iter_parts(out, folder, ["request_id"]):
            yield path


class _ScorerActor:
    """A part scorer in an actor."""

    def __init__(self, spec: ScoringSpec, judge: Any) -> None:
        self._spec, self._judge = spec, judge
        self._scorer: PartScorer | None = None

    @carry_errors
    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Score a few parts."""
        import ray

        from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

        if self._scorer is None:  # not in __init__: Ray would start the actor again after an error there
            replies, failed = ray.get(self._judge) if self._judge is not None else ({}, [])
            self._scorer = PartScorer(self._spec, replies, failed)
        fatal, parts = "", 0
        try:
            for path in json.loads(str(batch["paths"][0])):
                self._scorer.score(path)
                parts += 1
        except ScorerUnavailableError as error:
            fatal = str(error)
        return {"parts": [parts], "problems": [json.dumps(self._scorer.problems)], "fatal": [fatal]}


def score_parts(
    entries: Sequence[ManifestEntry],
    out: Store,
    *,
    judge: Judge | None,
    scorers: Sequence[ScorerSpec],
    cluster: ClusterInfo,
    watcher: ProgressListener,
) -> list[str]:
    """Score all prediction parts of one benchmark's entries.

    Returns:
        What kept default scorers from running, one sentence each.

    Raises:
        ModelUnavailableError: a scorer that the user named cannot be had.
    """
    problems: dict[str, str] = {}
    for group in _alike(entries):
        first = group[0]
        spec = ScoringSpec(
            data=first.data,
            out=out.uri,
            benchmark=first.benchmark,
            prompts=prompts_of(first),
            seed=first.parsed_asker().seed,
            scorers=tuple(scorers),
            judge=(judge.name, judge.spec) if judge else None,
            device="cuda" if cluster.gpus and scorers else "cpu",
        )
        paths = list(_parts(group, out))
        watcher.phase(f"score {first.benchmark}", len(paths))
        for row in _scored(spec, paths, judge, cluster):
            if row["fatal"]:
                raise ModelUnavailableError(row["fatal"])
            problems |= json.loads(row["problems"])
            watcher.advance(int(row["parts"]), 0)
    return sorted(problems.values())


def _scored(spec: ScoringSpec, paths: Sequence[str], judge: Judge | None, cluster: ClusterInfo) -> Iterator[Any]:
    if not paths:
        return
    import ray
    import ray.data as rd

    quiet_ray_data()
    told = ray.put((judge.said, sorted(judge.failed))) if judge else None
    most = int(cluster.gpus) if spec.device == "cuda" else int(cluster.cpus / SCORER_CPUS / 2)
    if cluster.max_gpu_nodes and spec.device == "cpu":
        most = max(most, SCORERS_TO_COME)
    pool = rd.ActorPoolStrategy(min_size=1, max_size=max(1, min(len(paths) // 4, most)))
    resources = {"num_gpus": 1} if spec.device == "cuda" else {"num_cpus": min(SCORER_CPUS, cluster.cpus)}
    size = max(1, min(PARTS_AT_ONCE, len(paths) // (SHARES * max(1, most))))
    few = [{"paths": json.dumps(paths[start : start + size])} for start in range(0, len(paths), size)]
    dataset = rd.from_items(few, override_num_blocks=len(few)).map_batches(
        _ScorerActor, batch_size=1, fn_constructor_kwargs={"spec": spec, "judge": told}, compute=pool, **resources
    )
    yield from run_rows(dataset)
