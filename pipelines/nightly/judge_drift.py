"""Drift of a judge between nights: answers that an earlier night judged are put to tonight's judge once more.

An endpoint may answer differently under an unchanged name, and stored verdicts would hide it. Which answers are asked
again is a pure function of the night, so that each night looks at others.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any, Final

import numpy as np

from pipelines.benchmarks.judges import CHANGED, check_metrics, check_value
from pipelines.benchmarks.records import JudgeRequest, Row, is_person
from pipelines.hashing import stable_id
from pipelines.nightly.cost import usage
from pipelines.nightly.items import CellKey, ItemScores
from pipelines.nightly.regressions import ALPHA, Change, change_p
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import Job
from pipelines.predict.stage import run_job
from pipelines.score.judge import JudgeReplies
from pipelines.score.rows import ScoringContext
from pipelines.score.stage import judge_rounds, planned_rows, scoring_context
from pipelines.storage.lock import run_lock
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store
from pipelines.sweep.session import Sweep

AGAIN: Final = "again"
_COLUMNS: Final = ["request_id", "verdict_state", "values"]


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
    """Bound of the two-sided p-value that the judge accepts as often as before, over clusters."""
    is_alarm: bool

    @property
    def text(self) -> str:
        """Say it in a sentence."""
        ends = "" if self.ci_low is None else f" (95% interval {self.ci_low:.1%} to {self.ci_high:.1%})"
        return (
            f"judge {self.judge} on {self.benchmark} {self.task}: of {self.answers:,} answers judged again, "
            f"{self.changed:.1%} have another verdict{ends}; accepted were {self.before:.1%}, now {self.now:.1%}, "
            f"p {self.p:.2g}" + ("; the judge has drifted" if self.is_alarm else "")
        )

    def change(self, since: str) -> Change:
        """Return it as a change of the judge's verdicts since a night."""
        return Change(
            key=CellKey(self.judge, self.benchmark, self.task, "", "verdicts"),
            direction="fell" if self.now < self.before else "rose",
            before=self.before,
            now=self.now,
            n=self.clusters,
            p=self.p,
            test="paired",
            since=since,
        )


def measure_drift(sweep: Sweep, night: str, to: Store) -> list[JudgeDrift]:
    """Ask the first judge again about `judge_checks` answers of each model; its replies are stored in `to`.

    The alarms of all tasks together are wrong in at most `ALPHA` of the nights. Raises ModelUnavailableError.
    """
    context, cells = sweep.context, defaultdict[tuple[str, str], list[dict[str, Any]]](list)
    name, spec = context.spec.judges[0]

    def run(title: str, jobs: Mapping[str, Job], _: object) -> dict[str, str]:
        run_job(f"{title.format(name)}, again", jobs[name], sweep.cluster, context.progress, sweep.costs)
        return {}

    with run_lock(to) as token:
        elsewhere = replace(context, out=to, lock_token=token)
        entries = [entry for of_benchmark in judged_entries(context.spec).values() for entry in of_benchmark]
        chosen = {(entry.benchmark, entry.model): [*_chosen(context, entry, night)] for entry in entries}
        replies, _ = judge_rounds(
            elsewhere, {name: spec}, entries, run, lambda _, e, __: (row for row, _ in chosen[e.benchmark, e.model])
        )
        for entry in entries:
            scoring = scoring_context(entry, to)
            for row, accepted in chosen[entry.benchmark, entry.model]:
                if (again := _verdict(replies[entry.benchmark][0], row, scoring)) is not None:
                    cells[entry.benchmark, row.task].append(_columns(row, accepted, again))
    return [_drift(name, *cell, rows, ALPHA / len(cells)) for cell, rows in cells.items()]


def judged_entries(spec: RunSpec) -> dict[str, list[ManifestEntry]]:
    """Return the entries of models in the output whose answers a judge judges, by benchmark."""
    entries = defaultdict[str, list[ManifestEntry]](list)
    for entry in load_run(Store(spec.out)).entries:
        if entry.benchmark in spec.benchmarks and not is_person(entry.model) and entry.definition.judged_tasks:
            entries[entry.benchmark].append(entry)
    return dict(entries)


def _chosen(context: SweepContext, entry: ManifestEntry, night: str) -> Iterator[tuple[Row, float]]:
    """Yield so many rows that the judge was asked about, each with whether it accepted the answer."""
    folder = part_folder("scores", entry.benchmark, entry.model)
    scores = (row for _, part in iter_parts(context.out, folder, _COLUMNS) for row in part.to_pylist())
    verdicts = {
        row["request_id"]: values["accepted"]
        for row in scores
        if row["verdict_state"] == "ok" and "accepted" in (values := dict(row["values"] or ()))
    }
    scoring, number = scoring_context(entry, context.out), context.spec.judge_checks
    rows = (
        row
        for row in planned_rows(context, entry, scoring)
        if row.request_id in verdicts and not row.repeat and _question(row, scoring) is not None
    )
    for row in nsmallest(number, rows, key=lambda row: stable_id({"again": row.request_id, "night": night})):
        yield row, verdicts[row.request_id]


def _question(row: Row, scoring: ScoringContext) -> JudgeRequest | None:
    prompter = scoring.prompts.benchmark.judge
    request = prompter.judge_request(row, scoring.texts) if prompter else None
    return request if isinstance(request, JudgeRequest) else None


def _verdict(replies: JudgeReplies, row: Row, scoring: ScoringContext) -> float | None:
    """Return whether the judge accepts a row's answer now; None where it did not say."""
    prompter, request = scoring.prompts.benchmark.judge, _question(row, scoring)
    assert prompter is not None
    assert request is not None
    verdict = replies.verdict(request, prompter.read_verdict)
    return float(bool(verdict.accepted)) if verdict.state == "ok" else None


def _columns(row: Row, accepted: float, again: float) -> dict[str, Any]:
    sample = row.sample
    return {
        "sample_id": sample.sample_id,
        "cluster": sample.cluster or sample.sample_id,
        "task": row.task,
        "setting": "",  # all together show smaller changes
        "status": row.status,
        "accepted": accepted,
        check_value(AGAIN): again,
    }


def _drift(judge: str, benchmark: str, task: str, rows: Sequence[Mapping[str, Any]], threshold: float) -> JudgeDrift:
    import pandas as pd

    frame = pd.DataFrame(rows)
    changed = next(metric for metric in check_metrics(frame, [AGAIN]) if metric.metric == CHANGED)
    clusters = frame["cluster"].to_numpy().astype(str)
    before, now = (
        ItemScores.of(clusters, frame[name].to_numpy(np.float64)) for name in ("accepted", check_value(AGAIN))
    )
    p = change_p(now, before)
    return JudgeDrift(
        judge=judge,
        benchmark=benchmark,
        task=task,
        answers=len(frame),
        clusters=len(now.samples),
        changed=changed.value or 0.0,
        ci_low=changed.ci_low,
        ci_high=changed.ci_high,
        before=before.mean,
        now=now.mean,
        p=p,
        is_alarm=p < threshold,
    )


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
