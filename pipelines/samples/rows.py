"""The rows that exporters write: planned requests with prompt, answer and scores, in the order of the plan."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Sample, is_person
from pipelines.errors import DatasetError, UsageError
from pipelines.ingest.dataset import Dataset, Datasets
from pipelines.plan.context import EntryPlan, plans_of_all_sets
from pipelines.plan.plan_store import PlanStore, iter_selected_samples
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, load_existing_run
from pipelines.plan.selection import check_names
from pipelines.plan.stored_plan import PlanRow
from pipelines.report.metrics_file import Measured, load_metrics
from pipelines.samples.prompts import ShownMedia, ShownPart, ShownSteps, answered_row, media_of, shown_steps
from pipelines.storage.parts import list_parts, part_folder, read_part, score_path
from pipelines.storage.store import Store

log = logging.getLogger("vlmsweep")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRow:
    """One request with what came back; `scores` is None where it has none yet."""

    planned: PlanRow
    prediction: Mapping[str, Any]
    scores: Mapping[str, Any] | None
    sample: Sample
    steps: ShownSteps
    scored_texts: tuple[str, ...]  # texts whose log-probabilities the last step measures; () where it generates
    expected: tuple[str, ...]  # the right answers; () where the benchmark names none
    prompt_set: str  # name of the set of prompts, and of the captioner, where the output has several; '' for the first

    @property
    def item_id(self) -> str:
        """The id within a model and a task."""
        return " ".join(filter(None, self.named("sample_id", "setting", "variant", "prompt_set").values()))

    def named(self, *names: str) -> dict[str, str]:
        """Return some of what names the request and sorts its sample, in this order."""
        values = {name: getattr(self.planned, name) for name in ("sample_id", "task", "setting", "variant")}
        values |= {"category": self.sample.category, "subset": self.sample.subset, "prompt_set": self.prompt_set}
        return {name: values[name] for name in names}

    @property
    def values(self) -> dict[str, float]:
        """The scores by name; a missing one is absent."""
        return dict((self.scores or {}).get("values") or ())

    @property
    def main_score(self) -> str:
        """Name of the score that says whether the answer is right; of a row without one, '' or the first name."""
        return next((name for name in ("correct", "accepted") if name in self.values), min(self.values, default=""))

    @property
    def media(self) -> list[ShownMedia]:
        """The pictures and clips in order, each once."""
        return [*media_of(self.steps)]


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """An output whose entries are exported."""

    out: Store
    run: RunManifest
    entries: tuple[ManifestEntry, ...]  # of models alone: what people answered is not exported
    metrics: tuple[Measured, ...]

    @classmethod
    def open(cls, uri: str, *, data: str, models: Sequence[str], benchmarks: Sequence[str]) -> Self:
        """Open an output; UsageError if it holds no run or lacks a model or benchmark that is named."""
        out = Store(uri)
        run = load_existing_run(out)
        entries = [entry for entry in run.entries if not is_person(entry.model)]
        check_names("model", models, sorted({entry.model for entry in entries}))
        check_names("benchmark", benchmarks, sorted({entry.benchmark for entry in entries}))
        metrics = load_metrics(out)
        if metrics is None:
            log.warning("%s: no metrics to export; run `vlmsweep report` first", out.uri)
        entries = [replace(entry, data=data or entry.data) for entry in entries]
        opened = cls(out, run, tuple(entries), tuple(metrics or ())).only(models, benchmarks)
        if not opened.entries:
            raise UsageError(f"{out.uri}: holds nothing that can be exported")
        return opened

    def only(self, models: Sequence[str], benchmarks: Sequence[str]) -> Self:
        """Return the run without entries of other models and benchmarks, where some are named."""
        entries = (entry for entry in self.entries if not models or entry.model in models)
        return replace(self, entries=tuple(e for e in entries if not benchmarks or e.benchmark in benchmarks))

    def metrics_of(self, entry: ManifestEntry) -> list[Measured]:
        """Return the metrics of an entry."""
        return [row for row in self.metrics if (row.benchmark, row.model) == (entry.benchmark, entry.model)]


class RowReader:
    """Reads the rows of an output's entries; plans that the output lacks are rebuilt in a temporary folder."""

    def __init__(self, run: ExportedRun, plans: PlanStore) -> None:
        self._run, self._plans = run, plans
        self.datasets = Datasets()
        self.problems: list[str] = []  # what the rows read so far lack

    def dataset(self, entry: ManifestEntry) -> Dataset:
        """Return the data of an entry; DatasetError where they are gone or have changed."""
        dataset = self.datasets.open(entry.data, entry.benchmark)
        if dataset.manifest.dataset_fingerprint != entry.prompts.dataset_fingerprint:
            raise DatasetError(f"{dataset.store.uri}: not the data that the run read; --data names another place")
        return dataset

    def rows(self, entry: ManifestEntry, task: str = "") -> Iterator[ExportRow]:
        """Yield the committed rows of an entry, those of one task if given; pending requests have none.

        Raises:
            DatasetError: the data are gone.
            DamagedPartError: a part is damaged.
        """
        answers = _answers(self._run.out, entry)
        names = _set_names(entry)
        for entry_plan in plans_of_all_sets(entry, self._run.out, self._plans, self.datasets):
            key = (entry_plan.entry.prompt_set, entry_plan.entry.prompts.captioner)
            yield from self._rows_of_plan(entry_plan, answers, names[key], task)

    def _rows_of_plan(
        self,
        entry_plan: EntryPlan,
        answers: dict[str, tuple[dict[str, Any], dict[str, Any] | None]],
        prompt_set: str,
        task: str,
    ) -> Iterator[ExportRow]:
        samples = {
            sample.sample_id: entry_plan.entry.prompts.asked_sample(sample)
            for sample in iter_selected_samples(self.dataset(entry_plan.entry), entry_plan.entry.selection)
        }
        expected = entry_plan.entry.prompts.benchmark.expected
        missing = unscored = 0
        for planned in entry_plan.plan:
            if task and planned.task != task:
                continue
            answer = answers.pop(
                entry_plan.entry.target.request_id(planned), None
            )  # once, where sets of prompts share it
            if answer is None:
                missing += 1
                continue
            unscored += answer[1] is None
            sample, steps = samples[planned.sample_id], planned.steps
            row = answered_row(answer[0], sample, entry_plan.entry.prompts.seed)
            yield ExportRow(
                planned=planned,
                prediction=answer[0],
                scores=answer[1],
                sample=sample,
                steps=shown_steps(steps, row.steps, sample),
                scored_texts=steps[-1].scored if steps else (),
                expected=tuple(expected(row)) if expected else (),
                prompt_set=prompt_set,
            )
        self._warn_of(entry_plan.entry, task, missing, unscored)

    def _warn_of(self, entry: ManifestEntry, task: str, missing: int, unscored: int) -> None:
        where = " ".join(filter(None, (entry.benchmark, entry.model, entry.prompt_set, task)))
        for count, problem in (  # an imported file may hold only some answers
            (
                0 if entry.external else missing,
                "planned requests have no answer, and are left out; the same `vlmsweep run` sends them",
            ),
            (unscored, "answers have no scores; the same `vlmsweep score` writes them"),
        ):
            if count:
                self.problems.append(f"{where}: {count} {problem}")
                log.warning("%s", self.problems[-1])


def _answers(out: Store, entry: ManifestEntry) -> dict[str, tuple[dict[str, Any], dict[str, Any] | None]]:
    """Return predictions and scores by request id; of two parts with the same request the later one counts."""
    answers: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {}
    for info in list_parts(out, part_folder("predictions", entry.benchmark, entry.model)):
        scores: dict[str, dict[str, Any]] = {}
        try:
            table = read_part(out, score_path(info.path))
            scores = {row["request_id"]: row for row in table.to_pylist()}
        except FileNotFoundError:
            pass  # not scored yet
        for row in read_part(out, info.path).to_pylist():
            answers[row["request_id"]] = (row, scores.get(row["request_id"]))
    return answers


def _set_names(entry: ManifestEntry) -> dict[tuple[str, str], str]:
    """Return what ids call each set of prompts and captioner: '' for the first."""
    first, *others = entry.by_prompt_set()
    names = {(first.prompt_set, first.prompts.captioner): ""}
    for in_set in others:
        captioner = in_set.prompts.captioner_name if in_set.prompts.captioner != first.prompts.captioner else ""
        prompts = in_set.prompt_set if in_set.prompt_set != first.prompt_set else ""
        names[in_set.prompt_set, in_set.prompts.captioner] = " ".join(filter(None, (prompts, captioner)))
    return names


def text_of(parts: Sequence[ShownPart]) -> str:
    """Return a turn as text, in which `<image:SHA256>` and `<video:SHA256>` stand for media."""
    return "".join(
        f"<{part.media.kind}:{part.media.sha256 or part.media.blank}>" if part.media else part.text for part in parts
    )


def tasks_of(entry: ManifestEntry) -> list[str]:
    """Return the tasks of an entry in the order of its benchmark."""
    run = {group.task for group in entry.prompts.task_settings}
    return [task for task in benchmark(entry.benchmark).tasks if task in run]
