"""Scoring on the cluster: judge rounds first, then every prediction part through a pool of part scorers."""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from heapq import nsmallest
from typing import Any, TypeAlias

from cluster.lazy import LazyCluster
from models.spec import ModelSpec
from pipelines.benchmarks.judges import CHECKS, changed_row
from pipelines.benchmarks.records import Row
from pipelines.errors import DamagedPartError, ModelUnavailableError
from pipelines.hashing import stable_id
from pipelines.plan.context import SweepContext, WorkerContext
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.run_spec import ScorerSpec
from pipelines.predict.concurrent_judges import RunJobs
from pipelines.predict.records import Job
from pipelines.ray_data import carry_errors, quiet_ray_data, run_rows
from pipelines.score.judge import JudgeLoaderSpec, JudgeReplies, delete_judge_plans, open_questions, plan_questions
from pipelines.score.part_scorer import PartScorer, ScoringSpec
from pipelines.score.text_scorers import ScoringContext, rows_of
from pipelines.storage.backend import FileInfo
from pipelines.storage.errors import retry_store
from pipelines.storage.parts import iter_parts, list_parts, part_folder, score_path
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

ROUNDS = 3  # the first attempt, and two more for replies that could not be read
SCORER_CPUS = 0.5
AUTOSCALED_SCORERS = 8  # the most scorers in a cluster that grows by load: its size at the moment says nothing
MAX_PARTS_HERE = 40  # scored in this process by a run on one machine, within some seconds, unless a scorer is a model
MAX_PARTS_PER_CALL = 16
CALLS_PER_SCORER = 4  # minimum number of calls per scorer, so that all end at one time

JudgedRows = Callable[[SweepContext, ManifestEntry, ScoringContext], Iterator[Row]]


def judge_rounds(
    context: SweepContext,
    models: Mapping[str, ModelSpec],
    entries: Sequence[ManifestEntry],
    run_jobs: RunJobs,
    rows_to_judge: JudgedRows | None = None,
    *,
    rounds: int = ROUNDS,
) -> tuple[dict[str, list[JudgeReplies]], list[str]]:
    """Send judges all open questions about entries; return their replies by benchmark, and why some are unavailable.

    The questions of a round are one job a judge, for which it is loaded once; unreadable replies are retried in two
    more. `rows_to_judge` gives other rows than all of an entry.
    """
    out, problems, asked_ids = context.out, dict[str, str](), defaultdict[tuple[str, str], set[str]](set)
    names = sorted({entry.benchmark for entry in entries})
    judges = {name: [JudgeReplies.load(*model, out, name) for model in models.items()] for name in names}
    try:
        for attempt in range(1, rounds + 1):
            plans, jobs = dict[str, ModelPlan](), dict[str, Job]()
            for group in _same_inputs(entries):
                benchmark, scoring = group[0].benchmark, scoring_context(group[0], out)
                for judge in (judge for judge in judges[benchmark] if judge.name not in problems):
                    plan = plans.setdefault(judge.name, ModelPlan(group[0].target))
                    rows = (row for entry in group for row in (rows_to_judge or _judged_rows)(context, entry, scoring))
                    questions = open_questions(judge, rows, scoring, asked_ids[judge.name, benchmark])
                    plan_questions(judge, questions, scoring, out, plan)
                    jobs[judge.name] = Job(
                        model=judge.name,
                        spec=judge.spec,
                        loader=JudgeLoaderSpec(out_uri=out.uri, judge=judge.name, revision=judge.revision),
                        out=out.uri,
                        units=plan.units,
                        lock_token=context.lock_token,
                        wait_for_nodes_s=context.spec.wait_for_nodes_s,
                    )
            jobs = {name: job for name, job in jobs.items() if job.units}
            if not jobs:
                break
            title = "judge {}" if attempt == 1 else f"judge {{}}, round {attempt}"
            problems |= run_jobs(title, jobs, {name: [plans[name]] for name in jobs})
            for benchmark, judge in ((name, judge) for name in names for judge in judges[name] if judge.name in jobs):
                judge.reload(out, benchmark)
    finally:
        for benchmark in names:
            delete_judge_plans(out, benchmark)
    return judges, [*problems.values()]


def _same_inputs(entries: Sequence[ManifestEntry]) -> list[list[ManifestEntry]]:
    """Group entries that share benchmark, data, wording and seed."""
    groups: dict[tuple[str, str, str, int], list[ManifestEntry]] = {}
    for entry in entries:
        prompts = entry.prompts
        wording = json.dumps([dict(prompts.wording), dict(prompts.prompt_versions)], sort_keys=True)
        groups.setdefault((entry.benchmark, entry.data, wording, prompts.seed), []).append(entry)
    return list(groups.values())


def scoring_context(entry: ManifestEntry, out: Store) -> ScoringContext:
    """Return the context to read an entry's rows in an output with."""
    return ScoringContext.open(entry.data, entry.prompts, out)


def planned_rows(context: SweepContext, entry: ManifestEntry, scoring: ScoringContext) -> Iterator[Row]:
    """Yield the answered requests of an entry's plan, part by part."""
    planned_ids = context.planned_ids(entry)
    for _, part in iter_parts(context.out, part_folder("predictions", entry.benchmark, entry.model)):
        for row in rows_of(part, scoring):
            if row.request_id in planned_ids:
                yield row


def _judged_rows(context: SweepContext, entry: ManifestEntry, scoring: ScoringContext) -> Iterator[Row]:
    """Yield the rows to be judged, and with `--judge-checks` so many of them once more, changed in each way."""
    yield from planned_rows(context, entry, scoring)
    if number := context.spec.judge_checks:
        rows = (row for row in planned_rows(context, entry, scoring) if row.status == "ok" and not row.repeat)
        tasks = entry.definition.judged_tasks
        chosen = nsmallest(
            number, (row for row in rows if row.task in tasks), key=lambda row: stable_id({"checked": row.request_id})
        )
        changes = (changed_row(row, check) for row in chosen for check in CHECKS)
        yield from (row for row in changes if row is not None)


def _parts_to_score(entries: Sequence[ManifestEntry], out: Store) -> dict[FileInfo, bool]:
    """Return the prediction parts of entries, and whether each has a score part, from listings alone."""
    parts: dict[FileInfo, bool] = {}
    for entry in entries:
        predictions, scores = (part_folder(kind, entry.benchmark, entry.model) for kind in ("predictions", "scores"))
        score_paths = {info.path for info in list_parts(out, scores)}
        parts |= {info: score_path(info.path) in score_paths for info in list_parts(out, predictions)}
    return parts


class _ScorerActor:
    def __init__(self, spec: ScoringSpec, judges: Any) -> None:
        self._spec, self._judges = spec, judges
        self._scorer: PartScorer | None = None

    @carry_errors
    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import ray

        if self._scorer is None:  # not in __init__: Ray would start the actor again after an error there
            self._scorer = PartScorer(self._spec, ray.get(self._judges) if self._judges is not None else ())
        scored = _scored(self._scorer, json.loads(str(batch["parts"][0])))
        return {name: [value] for name, value in scored.items()}


def score_parts(
    context: SweepContext,
    entries: Sequence[ManifestEntry],
    cluster: LazyCluster,
    judges: Sequence[JudgeReplies],
    scorers: Sequence[ScorerSpec],
    *,
    defers_defaults: bool = False,
) -> list[str]:
    """Score all prediction parts of one benchmark's entries; return why default scorers did not run, a sentence each.

    Raises:
        ModelUnavailableError: a scorer that the user named is unavailable.
    """
    problems: dict[str, str] = {}
    for group in _same_inputs(entries):
        spec = ScoringSpec(
            context=WorkerContext(group[0].data, context.out.uri),
            prompts=group[0].prompts,
            scorers=tuple(scorers),
            judge_checks=context.spec.judge_checks > 0,
            defers_defaults=defers_defaults,
        )
        parts = list(_parts_to_score(group, context.out).items())
        context.progress.phase(f"score {group[0].benchmark}", len(parts))
        is_small = cluster.is_embedded and len(parts) <= MAX_PARTS_HERE and not spec.has_scorer_model()
        batches = _score_here(context, spec, parts, judges) if is_small else _score(spec, parts, judges, cluster)
        for batch in batches:
            if batch["fatal"]:
                raise ModelUnavailableError(batch["fatal"])
            problems |= json.loads(batch["problems"])
            for damage in json.loads(batch["damaged"]):
                log.warning("%s; skipped", damage)
            context.progress.advance(int(batch["parts"]), 0)
    return sorted(problems.values())


_Part: TypeAlias = tuple[FileInfo, bool]  # a prediction part, and whether it has a score part


def _score_here(
    context: SweepContext, spec: ScoringSpec, parts: Sequence[_Part], judges: Sequence[JudgeReplies]
) -> Iterator[dict[str, Any]]:
    dataset = context.datasets.open(spec.context.data_uri, spec.prompts.benchmark_name)
    scorer = PartScorer(spec, judges, out=context.out, dataset=dataset)
    for part in parts:
        yield _scored(scorer, [part])


def _scored(scorer: PartScorer, parts: Sequence[tuple[str | FileInfo, bool]]) -> dict[str, Any]:
    """Score parts; return how many, which are damaged, why scorers are unavailable, and why the run must end."""
    from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

    fatal, count, damages = "", 0, list[str]()
    try:
        for part, is_scored in parts:
            try:
                retry_store(partial(scorer.score, part, is_scored=is_scored))
            except DamagedPartError as error:
                damages.append(str(error))
            count += 1
    except ScorerUnavailableError as error:
        fatal = str(error)
    problems = json.dumps(scorer.problems)
    return {"parts": count, "damaged": json.dumps(damages), "problems": problems, "fatal": fatal}


def _score(
    spec: ScoringSpec, parts: Sequence[_Part], judges: Sequence[JudgeReplies], lazy_cluster: LazyCluster
) -> Iterator[Any]:
    if not parts:
        return
    import ray
    import ray.data as rd

    cluster = lazy_cluster.connect()
    spec = replace(spec, device="cuda" if cluster.gpus and spec.used_scorers else "cpu")
    quiet_ray_data()
    judges_ref = ray.put(list(judges)) if judges else None
    max_scorers = int(cluster.gpus) if spec.device == "cuda" else int(cluster.cpus / SCORER_CPUS / 2)
    if cluster.max_gpu_nodes and spec.device == "cpu":
        max_scorers = max(max_scorers, AUTOSCALED_SCORERS)
    pool = rd.ActorPoolStrategy(min_size=1, max_size=max(1, min(len(parts) // 4, max_scorers)))
    resources = {"num_gpus": 1} if spec.device == "cuda" else {"num_cpus": min(SCORER_CPUS, cluster.cpus)}
    size = max(1, min(MAX_PARTS_PER_CALL, len(parts) // (CALLS_PER_SCORER * max(1, max_scorers))))
    paths = [(info.path, is_scored) for info, is_scored in parts]
    items = [{"parts": json.dumps(paths[start : start + size])} for start in range(0, len(parts), size)]
    dataset = rd.from_items(items, override_num_blocks=len(items)).map_batches(
        _ScorerActor,
        batch_size=1,
        fn_constructor_kwargs={"spec": spec, "judges": judges_ref},
        compute=pool,
        **resources,
    )
    yield from run_rows(dataset)
