"""Scorer models over whole benchmarks: predictions on disk, tiny checkpoints, values against the reference packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bert_score
import pytest
from transformers import BertModel

from models.messages import Answer, Reply
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Sample
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.metrics.bleurt import BleurtScorer
from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError
from pipelines.plan.context import WorkerContext
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_spec import ScorerSpec
from pipelines.plan.selection import TaskSetting
from pipelines.schemas import PREDICTIONS, prediction_row
from pipelines.score.part_scorer import PartScorer, ScoringSpec
from pipelines.storage.parts import part_folder, read_part, to_parquet
from pipelines.storage.store import Store
from tests.support import unpie_source, vague_source, vflute_source
from tests.support.requests import build_requests, target_of

Encoder = Callable[[str], Path]
LAYER = 2
CELLS = {
    "maia": TaskSetting("oevqa", "1-frame"), "unpie": TaskSetting("disambiguation", "vlm"),
    "vague": TaskSetting("freeform", "vlm"), "vflute": TaskSetting("entailment", "zero-shot"),
}  # fmt: skip


@dataclass(frozen=True)
class Swept:
    """Predictions of a benchmark in one setting, ready for scoring."""

    name: str
    data: str
    out: Store
    target: ModelTarget
    samples: dict[str, Sample]

    @property
    def part(self) -> str:
        return f"{part_folder('predictions', self.name, 'm')}/148de9c5a7a44d19e56cd9ae.parquet"

    def scored(self, *scorers: ScorerSpec) -> tuple[list[dict[str, Any]], PartScorer]:
        context = WorkerContext(self.data, self.out.uri)
        scorer = PartScorer(ScoringSpec(context=context, prompts=self.target.prompts, scorers=scorers))
        scorer.score(self.part)
        rows = read_part(self.out, self.part.replace("predictions", "scores")).to_pylist()
        return [{**row, "values": dict(row["values"])} for row in rows], scorer


@pytest.fixture
def swept(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Swept]:
    """Ingest a small source and write predictions, one of them empty."""

    def make(name: str, **score_columns: float) -> Swept:
        data = str(tmp_path / "data")
        if name == "maia":
            data = request.getfixturevalue("maia_data")
        elif name == "vflute":
            rows = vflute_source.rows(12)
            source = vflute_source.write_json(tmp_path / name, rows)
            vflute_source.write_pictures(source, rows)
            ingest_benchmark(benchmark(name), Folder(str(source)), Store(data))
        else:
            writer = {"unpie": unpie_source.write_source, "vague": vague_source.write_drive}[name]
            ingest_benchmark(benchmark(name), Folder(str(writer(tmp_path / name))), Store(data))
        dataset = Dataset.open(Store(data), name)
        target = target_of(
            benchmark_name=name,
            dataset_fingerprint=dataset.manifest.dataset_fingerprint,
            model="m", task_settings=(CELLS[name],), seed=42,
        )  # fmt: skip
        samples = {sample.sample_id: sample for sample in dataset.samples()}
        requests = [planned for sample in samples.values() for planned in build_requests(target, sample)]
        rows = []
        for index, planned in enumerate(requests):
            text = "" if index == 1 else f"the lion {index} sings in the lane\nLABEL: entailment"
            row = prediction_row(planned.columns, Reply(request_id="", outcome=Answer(text=text)))
            rows.append({**row, "given": list(score_columns.items())})
        sweep = Swept(name, data, Store(str(tmp_path / "out")), target, samples)
        sweep.out.put(sweep.part, to_parquet(rows, PREDICTIONS))
        return sweep

    return make


def package_f1(folder: Path, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Score with the reference implementation, one pair per batch; blank texts score 0."""
    _, _, f1 = bert_score.score(
        [candidate or "the" for candidate, _ in pairs], [reference for _, reference in pairs],
        model_type=str(folder), num_layers=LAYER, nthreads=0, batch_size=1, device="cpu",
    )  # fmt: skip
    return [float(score) if candidate else 0.0 for score, (candidate, _) in zip(f1, pairs, strict=True)]


def compared(swept: Swept, row: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    """Return value -> candidate and references, as the benchmark pages define them."""
    sample, candidate = swept.samples[row["sample_id"]], row["answer"] or ""
    if swept.name == "vague":
        return {"bert_f1_raw": (candidate, [sample.data["readings"]["correct"]])}
    if swept.name == "maia":
        return {"bertscore": (candidate, list(sample.data["answers"]))}
    lang = row["variant"][:2]
    pairs = sample.data["translation"]
    return {f"bertscore_{i}": (candidate, [pairs[i][lang]]) for i in range(2)} if candidate else {}


@pytest.mark.parametrize("name", ["vague", "unpie", "maia"])
def test_bertscore_of_a_benchmark_equals_the_package(
    name: str, swept: Callable[..., Swept], encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, folder = swept(name), encoder("bert")
    forwards, inner = [], BertModel.forward

    def counting(self: Any, *args: Any, **how: Any) -> Any:
        forwards.append(1)
        return inner(self, *args, **how)

    monkeypatch.setattr(BertModel, "forward", counting)
    rows, _ = sweep.scored(ScorerSpec("bertscore", str(folder), LAYER))
    texts = {
        text for row in rows for candidate, refs in compared(sweep, row).values() for text in (candidate, *refs) if text
    }
    assert 0 < len(forwards) <= len(texts) // 64 + 1
    compared_rows = [(row, value, *pair) for row in rows[::4] for value, pair in compared(sweep, row).items()]
    expected = iter(
        package_f1(
            folder,
            [(candidate, reference) for _, _, candidate, references in compared_rows for reference in references],
        )
    )
    assert len(compared_rows) >= 3
    for row, value, _, references in compared_rows:
        assert row["values"][value] == pytest.approx(max(next(expected) for _ in references), abs=1e-5)
    if name == "vague":  # a tiny checkpoint has no known baseline
        assert not any("bert_f1" in row["values"] for row in rows)


def test_explanations_are_scored_by_bertscore_and_bleurt(
    swept: Callable[..., Swept], encoder: Encoder, bleurt_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, folder = swept("vflute"), encoder("bert")
    sizes, inner = [], BleurtScorer._forward

    def counting(self: Any, batch: Any) -> Any:
        sizes.append(len(batch))
        return inner(self, batch)

    monkeypatch.setattr(BleurtScorer, "_forward", counting)
    rows, _ = sweep.scored(
        ScorerSpec("bertscore", str(folder), LAYER), ScorerSpec("bleurt", str(bleurt_checkpoint))
    )  # fmt: skip
    assert sizes == [len(rows)]
    alone = BleurtScorer(str(bleurt_checkpoint), batch_size=1)
    candidate = ["" if index == 1 else f"the lion {index} sings in the lane" for index in range(len(rows))]
    references = [str(sweep.samples[row["sample_id"]].data["explanation"]) for row in rows]
    pairs = list(zip(candidate, references, strict=True))
    for row, bert, (text, reference) in zip(rows, package_f1(folder, pairs), pairs, strict=True):
        (bleurt,) = alone.score([reference], [text])
        assert row["values"]["bleurt"] == pytest.approx(bleurt, abs=1e-5)
        assert row["values"]["bertscore_f1"] == pytest.approx(bert, abs=1e-5)
        assert row["values"]["es"] == pytest.approx((bert + bleurt) / 2, abs=1e-5)


def test_imported_score_columns_replace_the_scorers(swept: Callable[..., Swept], tmp_path: Path) -> None:
    missing = str(tmp_path / "gone")
    rows, scorer = swept("vflute", bertscore_f1=0.8, bleurt=0.5).scored(
        ScorerSpec("bertscore", missing, LAYER), ScorerSpec("bleurt", missing)
    )
    assert {row["values"]["es"] for row in rows} == {0.65}
    assert scorer.problems == {}  # the scorers are unused


@pytest.mark.parametrize("kind", ["bertscore", "bleurt"])
def test_folder_without_scorer_is_refused(kind: str, swept: Callable[..., Swept], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    layer = LAYER if kind == "bertscore" else None
    with pytest.raises(ScorerUnavailableError, match="empty"):
        swept("vflute").scored(ScorerSpec(kind, str(tmp_path / "empty"), layer))
    rows, scorer = swept("vflute").scored(ScorerSpec(kind, str(tmp_path / "empty"), layer, named=False))
    assert "empty" in scorer.problems[kind]
    assert not any({"bertscore_f1", "bleurt", "es"} & set(row["values"]) for row in rows)
    assert json.dumps(scorer.problems)
