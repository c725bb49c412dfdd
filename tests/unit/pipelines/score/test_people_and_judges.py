"""Sweeps with files of people's work next to several judges."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import read_human
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep
from tests.support import unpie_source

JUDGES = tuple((name, ModelSpec(engine="random", seed=seed)) for name, seed in (("first", 1), ("second", 2)))


def sweep(name: str, data: str, out: Path, rows: list[dict[str, Any]], **fields: Any) -> None:
    """Run a guessing model with both judges and a file of people's rows."""
    path = out / "people.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    human = read_human([f"{name}={path}"])
    models = {"guess": ModelSpec(engine="random")}
    spec = RunSpec(data=data, out=str(out), models=models, benchmarks=(name,), judges=JUDGES, human=human, **fields)
    run_sweep(spec)


def table(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "report" / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_people_who_rate_and_leave_one_out_stand_beside_several_judges(maia_data: str, tmp_path: Path) -> None:
    questions = [sample.sample_id for sample in Dataset.open(Store(maia_data), "maia").samples()]
    ratings = [
        {"item_id": f"guess/1-frame/{question}", "rater": rater, "correct": index % 2}
        for index, question in enumerate(questions)
        for rater in ("ann", "bob")
    ]
    sweep("maia", maia_data, tmp_path, ratings, tasks=("oevqa",), settings=("1-frame", "leave-one-out"))
    (rating,) = (row for row in table(tmp_path, "maia_judge_agreement") if row["Raters"] == "Own ratings")
    assert rating["Rated"] == f"{len(questions)} samples"
    assert [row["Judge"] for row in table(tmp_path, "maia_judges_agreement")] == ["first", "second"]
    by_judge = {(row["Model"], row["Metric"]): row for row in table(tmp_path, "maia_judges")}
    people = by_judge["human:leave-one-out", "human_leave_one_out"]
    assert people["first"] != people["second"]
    assert by_judge["guess", "oevqa_accuracy"]["Setting"] == "1-frame"


def test_judge_reads_those_translations_that_people_labelled(tmp_path: Path) -> None:
    data, source = tmp_path / "data", unpie_source.write_source(tmp_path / "source")
    ingest_benchmark(benchmark("unpie"), Folder(str(source)), Store(str(data)))
    sample = next(iter(Dataset.open(Store(str(data)), "unpie").samples())).sample_id
    labels = [
        {"sample_id": sample, "variant": f"de/{meaning}", "model": "guess", "setting": "vlm", "human": meaning,
         "task": "disambiguation", "annotator": "ann"}
        for meaning in (0, 1)
    ]  # fmt: skip
    out = tmp_path / "out"
    sweep("unpie", str(data), out, labels, tasks=("disambiguation",), settings=("vlm",))
    judged = {
        (row["sample_id"], row["variant"])
        for info in Store(str(out)).list("scores", "*.parquet")
        for row in read_part(Store(str(out)), info.path).to_pylist()
        if "gpteval" in dict(row["values"])
    }
    assert judged == {(sample, "de/0"), (sample, "de/1")}
    assert any(row["Metric"] == "GPTEval, guess" for row in table(out, "unpie_table8"))
