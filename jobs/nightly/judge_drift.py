"""Drift of a judge between nights: answers that an earlier night judged are put to tonight's judge once more.

An endpoint may answer differently under an unchanged name, and stored verdicts would hide it. Each night asks about the
answers that were asked about least, so that nights add up. One that comes again is compared with its last verdict.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jobs.nightly.items import ItemScores, ScoreKey
from jobs.nightly.regressions import ALPHA, Change, change_p
from models.spec import ModelSpec
from pipelines.benchmarks.judges import CHANGED, check_metrics, check_value
from pipelines.benchmarks.records import JudgeRequest, Row, is_person
from pipelines.clean_text import counted
from pipelines.hashing import stable_id
from pipelines.metrics.intervals import FloatArray, sums_by
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import Job, TokenCounts
from pipelines.predict.stage import run_job
from pipelines.score.judge import JudgeReplies
from pipelines.score.stage import judge_rounds, planned_rows, scoring_context
from pipelines.score.text_scorers import ScoringContext
from pipelines.storage.lock import run_lock
from pipelines.storage.parts import iter_parts, part_folder, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.evaluate import Sweep

Usage = dict[tuple[str, str, str], TokenCounts]  # by kind, benchmark and model

_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")  # of TokenCounts


def _models_of(spec: RunSpec) -> Iterator[tuple[str, str, ModelSpec]]:
    for model, model_spec in spec.models.items():
        yield "predictions", model, model_spec
    for judge, judge_spec in spec.judges:
        yield "judgements", judge, judge_spec
    for model, model_spec in spec.caption_models.items():
        yield "captions", model, model_spec


def usage(spec: RunSpec) -> Usage:
    """Return the tokens recorded in the parts of an output."""
    out = Store(spec.out)
    used: Usage = {}
    for kind, name, _ in _models_of(spec):
        for benchmark in spec.benchmarks:
            total = TokenCounts()
            folder = part_folder(kind, benchmark, name)
            for _, table in iter_parts(out, folder, list(_TOKENS)):
                total = total.plus(TokenCounts(*(_sum(table, column) for column in _TOKENS)))
            used[kind, benchmark, name] = total
    return used


def _sum(table: pa.Table, column: str) -> int:
    return sum(filter(None, table[column].to_pylist())) if column in table.column_names else 0


def token_difference(now: TokenCounts, before: TokenCounts) -> TokenCounts:
    """Return the tokens that were added."""
    return TokenCounts(*(max(0, late - early) for late, early in zip(now, before, strict=True)))


def cost(spec: RunSpec, benchmark: str, used: Usage, seconds: float, gpu_hour_usd: float | None) -> float | None:
    """Return dollars for tokens and for `seconds` of all GPUs of a local model's replicas; None without a price."""
    total, is_known = 0.0, False
    for kind, name, model_spec in _models_of(spec):
        if price := model_spec.billed_price:
            total += price.dollars(*used[kind, benchmark, name])
            is_known = True
    (model,) = spec.models.values()
    if gpu_hour_usd is not None and model.can_use_gpu:
        total += seconds / 3600 * model.max_gpus * gpu_hour_usd
        is_known = True
    return round(total, 6) if is_known else None


_SIZES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
_BETS: Final = np.array([sign * size for size in _SIZES for sign in (-1, 1)])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class JudgeEvidence:
    """What nights say of one of so many `numbers`."""

    numbers: int
    nights: int = 0
    logs: FloatArray = field(default_factory=lambda: np.full(len(_BETS), -math.inf))
    """Logarithm of each bet's sum over the nights in which it may have begun."""

    def add(self, differences: FloatArray, clusters: NDArray[Any]) -> Self:
        """Add a night's differences, now less then, (answers,)."""
        bets = np.outer(_BETS, sums_by(clusters, differences))
        gains = (bets - (np.logaddexp(bets, -bets) - math.log(2))).sum(axis=1)
        return replace(self, logs=np.logaddexp(self.logs, 0.0) + gains, nights=self.nights + 1)

    @property
    def rate(self) -> float:
        """How many false alarms a night a limit at this evidence would give, for all numbers; at most 1."""
        mean = float(np.logaddexp.reduce(self.logs)) - math.log(len(_BETS)) if self.nights else 0.0
        return min(1.0, self.numbers * math.exp(-max(0.0, min(mean, 700.0))))

    @property
    def is_alarm(self) -> bool:
        """Whether somebody should look."""
        return self.rate < ALPHA


AGAIN: Final = "again"
_COLUMNS: Final = ["request_id", "verdict_state", "values"]
CHECKS_PATH: Final = "checks.parquet"
CHECKS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("benchmark", "task", "request_id", "question", "sample_id", "cluster")),
        ("accepted", pa.float64()),  # 1 or 0, by the stored verdict
        ("again", pa.float64()),  # by tonight's
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDrift:
    """What tonight's judge says of the answers of one task that an earlier night judged."""

    judge: str
    benchmark: str
    task: str
    answers: int
    clusters: int
    changed: float
    """Share of verdicts that differ, with the ends of its interval; None with one cluster."""
    ci_low: float | None
    ci_high: float | None
    before: float
    """Share accepted then."""
    now: float
    p: float
    """Bound of the two-sided p-value that the judge accepts as often as before, over clusters, of this night alone."""
    nights: int
    """Nights of checks that are added up, this one among them."""
    rate: float
    """How often a night, by chance alone, as much evidence of all of them comes."""
    is_alarm: bool

    @property
    def text(self) -> str:
        """Say it in a sentence."""
        ends = "" if self.ci_low is None else f" (95% interval {self.ci_low:.1%} to {self.ci_high:.1%})"
        return (
            f"judge {self.judge} on {self.benchmark} {self.task}: of {self.answers:,} answers judged again, "
            f"{self.changed:.1%} have another verdict{ends}; accepted were {self.before:.1%}, now {self.now:.1%}, "
            f"p {self.p:.2g} tonight; the evidence of {counted(self.nights, 'night')} comes by chance once in "
            f"{counted(round(1 / self.rate), 'night')}" + ("; the judge has drifted" if self.is_alarm else "")
        )

    def change(self, since: str) -> Change:
        """Return it as a change of the judge's verdicts since a night."""
        return Change(
            key=ScoreKey(self.judge, self.benchmark, self.task, "", "verdicts"),
            direction="fell" if self.now < self.before else "rose",
            before=self.before,
            now=self.now,
            n=self.clusters,
            p=self.rate,
            test="nights",
            since=since,
        )


def measure_drift(
    sweep: Sweep, night: str, to: Store, earlier: Sequence[Sequence[Mapping[str, Any]]]
) -> list[JudgeDrift]:
    """Ask the first judge again about `judge_checks` answers of each model; replies and `CHECKS` are stored in `to`.

    `earlier` are the checks of earlier nights, the oldest first. The alarms of all tasks together are wrong in at most
    `ALPHA` of the nights. Raises ModelUnavailableError.
    """
    context, checks = sweep.context, list[dict[str, Any]]()
    name, spec = context.spec.judges[0]
    counts = Counter(row["request_id"] for rows in earlier for row in rows)

    def run(title: str, jobs: Mapping[str, Job], _: object) -> dict[str, str]:
        run_job(f"{title.format(name)}, again", jobs[name], sweep.cluster, context.progress, sweep.costs)
        return {}

    current = set[str]()
    with run_lock(to) as token:
        drift_context = replace(context, out=to, lock_token=token)
        entries = [entry for benchmark_entries in judged_entries(context.spec).values() for entry in benchmark_entries]
        judge = JudgeReplies(name=name, spec=spec)
        pools = {(entry.benchmark, entry.model): [*_judged_rows(context, entry, judge)] for entry in entries}
        current |= {question for pool in pools.values() for _, question, _ in pool}
        chosen = {key: _least_asked(pool, counts, night, context.spec.judge_checks) for key, pool in pools.items()}
        replies, _ = judge_rounds(
            drift_context,
            {name: spec},
            entries,
            run,
            lambda _, e, __: (row for row, *_ in chosen[e.benchmark, e.model]),
        )
        for entry in entries:
            scoring = scoring_context(entry, to)
            for row, question, accepted in chosen[entry.benchmark, entry.model]:
                if (again := _verdict(replies[entry.benchmark][0], row, scoring)) is not None:
                    checks.append(_check(entry.benchmark, row, question, accepted, again))
        to.put(CHECKS_PATH, to_parquet(checks, CHECKS))
    groups = dict.fromkeys((check["benchmark"], check["task"]) for check in checks)
    nights = [[row for row in rows if row["question"] in current] for rows in (*earlier, checks)]
    return [_drift(name, group, nights, len(groups)) for group in groups]


def judged_entries(spec: RunSpec) -> dict[str, list[ManifestEntry]]:
    """Return the entries of models in the output whose answers a judge judges, by benchmark."""
    entries = defaultdict[str, list[ManifestEntry]](list)
    for entry in load_run(Store(spec.out)).entries:
        if entry.benchmark in spec.benchmarks and not is_person(entry.model) and entry.definition.judged_tasks:
            entries[entry.benchmark].append(entry)
    return dict(entries)


def _judged_rows(context: SweepContext, entry: ManifestEntry, judge: JudgeReplies) -> Iterator[tuple[Row, str, float]]:
    """Yield the rows that the judge was asked about, with the id of the question and whether it accepted the answer."""
    folder = part_folder("scores", entry.benchmark, entry.model)
    scores = (row for _, part in iter_parts(context.out, folder, _COLUMNS) for row in part.to_pylist())
    verdicts = {
        row["request_id"]: values["accepted"]
        for row in scores
        if row["verdict_state"] == "ok" and "accepted" in (values := dict(row["values"] or ()))
    }
    scoring = scoring_context(entry, context.out)
    for row in planned_rows(context, entry, scoring):
        if row.request_id in verdicts and not row.repeat and (request := _question(row, scoring)) is not None:
            yield row, judge.question(request, 0).request_id, verdicts[row.request_id]


def _least_asked(
    pool: Iterable[tuple[Row, str, float]], counts: Mapping[str, int], night: str, number: int
) -> list[tuple[Row, str, float]]:
    """Return so many rows that earlier nights asked about least, equal ones in an order of the night's."""
    return nsmallest(
        number,
        pool,
        key=lambda each: (counts[each[0].request_id], stable_id({"again": each[0].request_id, "night": night})),
    )


def _question(row: Row, scoring: ScoringContext) -> JudgeRequest | None:
    prompter = scoring.prompts.benchmark.judge
    request = prompter.ask(row, scoring.texts) if prompter else None
    return request if isinstance(request, JudgeRequest) else None


def _verdict(replies: JudgeReplies, row: Row, scoring: ScoringContext) -> float | None:
    """Return whether the judge accepts a row's answer now; None where it did not say."""
    prompter, request = scoring.prompts.benchmark.judge, _question(row, scoring)
    assert prompter is not None
    assert request is not None
    verdict = replies.verdict(request, prompter.read)
    return float(bool(verdict.accepted)) if verdict.state == "ok" else None


def _check(benchmark: str, row: Row, question: str, accepted: float, again: float) -> dict[str, Any]:
    sample = row.sample
    return {
        "benchmark": benchmark,
        "task": row.task,
        "request_id": row.request_id,
        "question": question,
        "sample_id": sample.sample_id,
        "cluster": sample.cluster or sample.sample_id,
        "accepted": accepted,
        "again": again,
    }


def _drift(
    judge: str, group: tuple[str, str], nights: Sequence[Sequence[Mapping[str, Any]]], numbers: int
) -> JudgeDrift:
    """Return what the checks of nights, tonight's last, say of a benchmark and task."""
    import pandas as pd

    task_rows = [[row for row in rows if (row["benchmark"], row["task"]) == group] for rows in nights]
    frame = pd.DataFrame(task_rows[-1]).rename(columns={AGAIN: check_value(AGAIN)}).assign(setting="", status="ok")
    changed = next(metric for metric in check_metrics(frame, [AGAIN]) if metric.metric == CHANGED)
    clusters = frame["cluster"].to_numpy().astype(str)
    before, now = (
        ItemScores.of(clusters, frame[name].to_numpy(np.float64)) for name in ("accepted", check_value(AGAIN))
    )
    evidence = _evidence(task_rows, numbers)
    return JudgeDrift(
        judge=judge,
        benchmark=group[0],
        task=group[1],
        answers=len(frame),
        clusters=len(now.samples),
        changed=changed.value or 0.0,
        ci_low=changed.ci_low,
        ci_high=changed.ci_high,
        before=before.mean,
        now=now.mean,
        p=change_p(now, before),
        nights=evidence.nights,
        rate=evidence.rate,
        is_alarm=evidence.is_alarm,
    )


def _evidence(nights: Sequence[Sequence[Mapping[str, Any]]], numbers: int) -> JudgeEvidence:
    evidence, last = JudgeEvidence(numbers=numbers), dict[str, float]()
    for rows in filter(None, nights):
        differences = np.array([row["again"] - last.get(row["question"], row["accepted"]) for row in rows])
        last |= {row["question"]: row["again"] for row in rows}
        evidence = evidence.add(differences, np.array([row["cluster"] for row in rows]))
    return evidence


def planned_questions(spec: RunSpec) -> list[str]:
    """Return what a night will ask the judge again, and about at what cost, a sentence each benchmark."""
    if not (spec.judge_checks and spec.judges):
        return []
    (name, model), out = spec.judges[0], Store(spec.out)
    used, texts = usage(spec), []
    for benchmark, entries in judged_entries(spec).items():
        questions, text = spec.judge_checks * len(entries), ""
        folder = part_folder("judgements", benchmark, name)
        if answered := sum(table.num_rows for _, table in iter_parts(out, folder, ["request_id"])):
            tokens = [questions * count / answered for count in used["judgements", benchmark, name]]
            dollars = f", ${model.billed_price.dollars(*tokens):,.4f}" if model.billed_price else ""
            text = f": about {tokens[0] + tokens[1]:,.0f} tokens{dollars}"
        texts.append(f"judge {name} on {benchmark}: asked again about {questions:,} answers at most{text}")
    return texts
