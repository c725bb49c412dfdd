"""Reduce: the scores of one model on one benchmark become metrics, counts and a few answers to look at."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from models.messages import Request, Text
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Metric, Sample
from pipelines.errors import DamagedPartError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import is_person, load_human_files
from pipelines.plan.captions import load_captions
from pipelines.plan.planner import selected_samples
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.predict.records import CellCount
from pipelines.report.model import ExampleAnswer
from pipelines.report.token_efficiency import Efficiency, measure_efficiency, media_key
from pipelines.storage.parts import part_folder, read_part
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES_PER_CELL = 3
_SCORE_COLUMNS = ("answer", "rule", "flags", "finish_reason", "verdict_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryResults:
    """What one model on one benchmark comes to."""

    metrics: list[dict[str, Any]]
    """Rows of `metrics.json`, with `note`, and `plain`: the number is no share, and not to be read as percent."""
    counts: list[CellCount]
    answers: list[ExampleAnswer]
    judge_failed: int
    """Rows whose verdict the judge's engine failed to give."""
    marks: Mapping[str, float] = field(default_factory=dict)
    """Numbers of single rows that the tables of people's files need."""
    efficiency: Efficiency | None = None
    """Tokens computed; None where no answer tells."""


def reduce_entry(entry: ManifestEntry, out_uri: str) -> EntryResults:
    """Reduce one entry; runs where the data is near, needs no cluster."""
    out = Store(out_uri)
    dataset = Dataset.open(Store(entry.data), entry.benchmark)
    planned, samples, words, media = _planned(entry, dataset, out)
    one, files = benchmark(entry.benchmark), load_human_files(out, entry.benchmark)
    frame = one.people().labelled(_joined(planned, _scores(out, entry)), files, entry.model)
    made = one.reduce(frame, samples)
    if files and not is_person(entry.model):
        made += one.people().metrics(frame, samples, files, _people(entry.benchmark, out))
    return EntryResults(
        metrics=[_row(entry, metric) for metric in made],
        counts=_counts(entry, frame),
        answers=_examples(entry, out, frame, words),
        judge_failed=int((frame["verdict_state"] == "failed").sum()),
        marks=one.people().marks(frame, files),
        efficiency=None if entry.external else measure_efficiency(entry.benchmark, entry.model, out, media),
    )


def _people(name: str, out: Store) -> dict[str, pd.DataFrame]:
    """Scores of the people who answered this benchmark, by name."""
    found = {}
    for entry in load_run(out).get("entries", []):
        if entry.benchmark == name and is_person(entry.model):
            planned, _, _, _ = _planned(entry, Dataset.open(Store(entry.data), name), out)
            found[entry.model] = _joined(planned, _scores(out, entry))
    return found


def reduce_ensemble(entries: Sequence[ManifestEntry], out_uri: str) -> EntryResults:
    """What the models of one benchmark come to together, where it says so; all must have answered the same data."""
    out = Store(out_uri)
    frames: dict[str, pd.DataFrame] = {}
    samples: dict[str, Sample] = {}
    for entry in entries:
        planned, own, _, _ = _planned(entry, Dataset.open(Store(entry.data), entry.benchmark), out)
        samples |= own
        frames[entry.model] = _joined(planned, _scores(out, entry))
    made = benchmark(entries[0].benchmark).reduce_together(frames, samples)
    rows = [{**_row(entries[0], metric), "model": name} for name, own in made.items() for metric in own]
    return EntryResults(metrics=rows, counts=[], answers=[], judge_failed=0)


def _planned(
    entry: ManifestEntry, dataset: Dataset, out: Store
) -> tuple[dict[str, list[str]], dict[str, Sample], dict[str, str], dict[str, bytes]]:
    """Every request that the plan has: identity columns, samples by id, words of those shown as examples, media."""
    captions = load_captions(out, entry.benchmark, entry.parsed_asker().captioner)
    names = ("request_id", "sample_id", "task", "setting", "variant", "subset", "category", "cluster")
    columns: dict[str, list[str]] = {name: [] for name in names}
    samples: dict[str, Sample] = {}
    words: dict[str, str] = {}
    media: dict[str, bytes] = {}
    shown: Counter[tuple[str, str]] = Counter()
    for asker, sample in _asked_samples(entry, dataset):
        samples[sample.sample_id] = sample
        for asked in asker.ask(sample, captions):
            own = {**asked.columns, "subset": sample.subset, "category": sample.category, "cluster": sample.cluster}
            for name in names:
                columns[name].append(own[name])
            media[asked.request_id] = media_key(asked.request)
            cell = (own["task"], own["setting"])
            # A thin, steady choice over the whole set: which answers are shown hangs on nothing but their ids.
            if shown[cell] < EXAMPLES_PER_CELL and _drawn(asked.request_id, shown[cell]):
                shown[cell] += 1
                words[asked.request_id] = _words(asked.request)
    return columns, samples, words, media


def _asked_samples(entry: ManifestEntry, dataset: Dataset) -> Iterator[tuple[RequestBuilder, Sample]]:
    """Cut by cut: the maker of its cells' requests, and each sample that they are made of."""
    for one in entry.by_cut():
        asker = one.parsed_asker()
        for _, sample in selected_samples(dataset, one.parsed_limit(), one.sample_ids):
            yield asker, sample


def _drawn(request_id: str, already: int) -> bool:
    return already == 0 or hashlib.sha256(request_id.encode()).digest()[0] < 16


def _words(request: Request) -> str:
    if not request.steps:
        return ""
    last = request.steps[-1]
    return "\n".join([*(p.text for turn in last.turns for p in turn.parts if isinstance(p, Text)), *last.scored])


def _scores(out: Store, entry: ManifestEntry) -> dict[str, dict[str, Any]]:
    """Score rows by request id; only of parts whose predictions are still there."""
    folder = part_folder("predictions", entry.benchmark, entry.model)
    rows: dict[str, dict[str, Any]] = {}
    for info in out.list(folder, "*.parquet"):
        path = info.path.replace("predictions/", "scores/", 1)
        if not out.exists(path):
            continue
        try:
            rows.update((row["request_id"], row) for row in read_part(out, path).to_pylist())
        except DamagedPartError as error:
            raise DamagedPartError(f"{error}; `vlmsweep score` with the same flags makes it again") from error
    return rows


def _joined(planned: Mapping[str, list[str]], scores: Mapping[str, dict[str, Any]]) -> pd.DataFrame:
    """One row a planned request; `missing` where there is no score."""
    import pandas as pd

    found = [scores.get(request_id) for request_id in planned["request_id"]]
    frame = pd.DataFrame(dict(planned))
    frame["status"] = [row["status"] if row else "missing" for row in found]
    for name in _SCORE_COLUMNS:
        frame[name] = pd.Series([row[name] if row else None for row in found], dtype=object)
    frame["verdict_state"] = frame["verdict_state"].fillna("absent")
    values = [dict(row["values"]) if row else {} for row in found]
    for name in sorted({name for own in values for name in own}):
        frame[name] = pd.Series([own.get(name) for own in values], dtype="float64")
    return frame


def _row(entry: ManifestEntry, metric: Metric) -> dict[str, Any]:
    """The contract knows two units; differences, and scores such as CIDEr that have no upper end, are no counts.

    `plain` keeps for people that such a number is no share: it is never printed as percent.
    """
    unit = metric.unit or "fraction"
    row = {"benchmark": entry.benchmark, "model": entry.model, **asdict(metric), "unit": unit}
    return {**row, "plain": not metric.unit}


def _counts(entry: ManifestEntry, frame: pd.DataFrame) -> list[CellCount]:
    """Cell by cell; of answers made elsewhere those that the file has no row for are nobody's to give."""
    counts = []
    given = frame[frame["status"] != "missing"] if entry.external else frame
    for (task, setting), rows in given.groupby(["task", "setting"], sort=False):
        by = Counter(rows["status"])
        counts.append(
            CellCount(
                benchmark=entry.benchmark,
                model=entry.model,
                task=str(task),
                setting=str(setting),
                requests=len(rows),
                ok=by["ok"],
                error=by["error"],
                excluded=by["excluded"],
                missing=by["missing"],
            )
        )
    return counts


def _examples(entry: ManifestEntry, out: Store, frame: pd.DataFrame, words: Mapping[str, str]) -> list[ExampleAnswer]:
    chosen = frame[frame["request_id"].isin(list(words))]
    rows = {row["request_id"]: {str(k): v for k, v in row.items()} for row in chosen.to_dict("records")}
    outputs: dict[str, dict[str, Any]] = {}
    for info in out.list(part_folder("predictions", entry.benchmark, entry.model), "*.parquet"):
        for raw in read_part(out, info.path, ["request_id", "output", "error"]).to_pylist():
            if raw["request_id"] in words:
                outputs[raw["request_id"]] = raw
    return [
        _example(entry, rows[request_id], outputs[request_id], text)
        for request_id, text in words.items()
        if request_id in outputs
    ]


def _example(entry: ManifestEntry, row: Mapping[str, Any], raw: Mapping[str, Any], text: str) -> ExampleAnswer:
    from typing import Literal

    import pandas as pd

    right = next((row[name] for name in ("correct", "accepted") if name in row and not pd.isna(row[name])), None)
    verdict: Literal["right", "wrong", "unscored", "error", "excluded"] = "unscored"
    if row["status"] != "ok":
        verdict = "error" if row["status"] == "error" else "excluded"
    elif right is not None:
        verdict = "right" if right else "wrong"
    return ExampleAnswer(
        benchmark=entry.benchmark,
        model=entry.model,
        task=row["task"],
        setting=row["setting"],
        sample_id=row["sample_id"],
        variant=row["variant"],
        question=text,
        output=raw["output"],
        read_as=row["answer"],
        verdict=verdict,
        note=raw["error"] or f"rule: {row['rule']}",
    )
