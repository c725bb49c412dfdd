"""People, chance and a model in one sentence are of the same rows, and chance is one number on every page."""

from __future__ import annotations

import csv
import html
import json
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.cli.main import run as vlmsweep
from jobs.demo.screen import screen
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.mate.answers import gold_json
from pipelines.ingest.dataset import Dataset, Manifest
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.run_spec import RunSpec
from pipelines.report.metrics_file import load_metrics
from pipelines.storage.store import Store
from pipelines.sweep.result import SweepResult
from tests.integration.conftest import Cli
from tests.support.maia_source import write_source
from tests.unit.jobs.view.conftest import open_all

SCENES, ANSWERED = 60, 33


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Score a model on 60 scenes, a baseline that guesses, and a person who copied the model on 33 of them."""
    folder = tmp_path_factory.mktemp("same_rows")
    scenes, data, out = (str(folder / name) for name in ("scenes", "data", "out"))
    assert vlmsweep(["generate", "mate", "--objects", "3-6", "--examples", str(SCENES), "--out", scenes]) == 0
    assert vlmsweep(["ingest", "mate", scenes, "--data", data]) == 0
    samples = sorted(Dataset.open(Store(data), "mate").samples(), key=lambda sample: sample.sample_id)
    rows = [
        {
            "benchmark": "mate",
            "model": model,
            "task": row["task"],
            "setting": row["setting"],
            "variant": "",
            "sample_id": sample.sample_id,
            "output": gold_json(row["gold"]) if number % 3 or number < 20 else '{"answer": "no idea"}',
        }
        for model, answered in (("gpt-4o", SCENES), ("human:ann", ANSWERED))
        for number, sample in enumerate(samples[:answered])
        for row in sample.data["rows"]
    ]
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    where = ["--data", data, "--out", out]
    assert vlmsweep(["run", "--models", "random", "--benchmarks", "mate", *where]) == 0
    assert vlmsweep(["score", "--predictions", str(folder / "answers.jsonl"), *where]) == 0
    return Path(out)


def chance_of_all(out: Path) -> float:
    """Return the mean probability of a guess over the 60 scenes, by the paper's rule."""
    numbers = [row for row in load_metrics(Store(str(out))) or [] if (row.metric, row.task) == ("chance", "crossmodal")]
    (value,) = {row.value for row in numbers if row.model == "gpt-4o" and row.is_whole}
    assert value is not None
    return value


def words_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_first_page_compares_people_on_the_items_that_they_answered(out: Path) -> None:
    rows = [
        row for row in load_metrics(Store(str(out))) or [] if (row.metric, row.task) == ("exact_match", "crossmodal")
    ]
    whole = next(row for row in rows if row.model == "gpt-4o" and row.is_whole)
    person = next(row for row in rows if row.model == "human:ann" and row.is_whole)
    assert (whole.n, person.n) == (SCENES, ANSWERED)
    assert whole.value is not None
    assert person.value is not None
    assert whole.value != person.value
    page = words_of((out / "report" / "index.html").read_text())
    people = f"{100 * person.value:.1f}"
    assert f"gpt-4o {100 * whole.value:.1f} [" in page
    assert f"on the {ANSWERED} items that people answered: gpt-4o {people}, people {people}" in page


def test_chance_is_the_same_number_everywhere(out: Path, tmp_path: Path) -> None:
    chance = f"{100 * chance_of_all(out):.1f}"
    guessed = [
        row for row in load_metrics(Store(str(out))) or [] if row.model == "random" and row.metric == "exact_match"
    ]
    assert chance not in {
        f"{100 * (row.value or 0):.1f}" for row in guessed if row.task == "crossmodal" and row.is_whole
    }
    assert f"chance {chance} " in words_of((out / "report" / "index.html").read_text()).replace(";", " ")
    spec = RunSpec(
        data="data", out=str(out), models={name: ModelSpec(engine="random") for name in ("gpt-4o", "random")},
        benchmarks=("mate",),
    )  # fmt: skip
    terminal = screen(SweepResult(metrics=load_metrics(Store(str(out))) or [], report=""), spec, str(out), 1.0)
    assert f"{chance}%" in terminal
    with ExitStack() as stack:
        client = open_all(stack, str(out))
        for page in (client.get("").text, client.get("benchmark?name=mate").text):
            (line, *_) = re.findall(r"<tr[^>]*><th>\s*Chance.*?</tr>", page, re.DOTALL)
            assert chance in words_of(line).split()
    assert vlmsweep(["leaderboard", str(out), "--to", str(tmp_path)]) == 0
    with (tmp_path / "leaderboard.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["origin"] == "chance"]
    place = ("exact_match", "crossmodal", "2-shot", "")
    (board,) = [row for row in rows if tuple(row[name] for name in ("metric", "task", "setting", "subset")) == place]
    assert (f"{100 * float(board['value']):.1f}", board["rank"]) == (chance, "")


COLUMNS = ["request_id", "status", "output", "input_tokens"]


def rows(out: Path) -> list[tuple[object, ...]]:
    tables = [pq.ParquetFile(part).read(COLUMNS) for part in out.glob("predictions/*/*/*.parquet")]
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def parts(out: Path) -> set[str]:
    return {part.name for part in out.glob("predictions/*/*/*.parquet")}


@pytest.mark.slow
def test_replicas_unit_sizes_and_shard_order_do_not_change_rows(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, turned = tmp_path / "data", tmp_path / "turned"
    source = Folder(str(write_source(tmp_path / "source", videos=6, categories=4)))
    ingest_benchmark(benchmark("maia"), source, Store(str(data)))
    monkeypatch.setattr("pipelines.ingest.ingest.SHARD_ROWS", 8)
    ingest_benchmark(benchmark("maia"), source, Store(str(turned)))
    page = turned / "maia" / "manifest.json"
    manifest = Manifest.from_json(page.read_bytes())
    assert len(manifest.shards) > 1
    page.write_bytes(replace(manifest, shards=manifest.shards[::-1]).to_json())
    results = {}
    for name, replicas, where in (("one", 1, data), ("four", 4, data), ("turned", 2, turned)):
        models, out = tmp_path / f"{name}.yaml", tmp_path / name
        models.write_text(f"m: {{engine: random, replicas: {{max: {replicas}}}}}\n")
        flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia")
        cli("run", *flags, "--data", str(where), "--out", str(out))
        results[name] = (rows(out), json.loads((out / "report" / "metrics.json").read_text()))
    assert len(results["one"][0]) == 6 * 4 * 2 * 9 * 3
    assert results["one"] == results["four"] == results["turned"]
    assert parts(tmp_path / "one") != parts(tmp_path / "four"), "the units were cut alike, so nothing was tried"
