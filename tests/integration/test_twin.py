"""A fresh twin of MATE: equal parameters, other scenes, and the gap of a model that knows the published answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jobs.cli.main import run as vlmsweep
from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.records import Sample
from pipelines.ingest.dataset import Dataset
from pipelines.storage.store import Store

SCENES = 30


def samples(data: Path) -> Mapping[str, Sample]:
    return {sample.sample_id: sample for sample in Dataset.open(Store(str(data)), "mate").samples()}


def answer(model: str, number: int, gold: str, *, is_published: bool) -> str:
    """`memory` knows the published answers and one in five others; `solver` is right in four of five everywhere."""
    is_right = number % 5 > 0 if model == "solver" else is_published or number % 5 == 0
    return gold if is_right else "no idea"


def scored(folder: Path, data: Path, *, is_published: bool) -> str:
    """Write the answers of both models, and score them."""
    rows = [
        {
            "benchmark": "mate",
            "model": model,
            "task": row["task"],
            "setting": row["setting"],
            "variant": "",
            "sample_id": name,
            "output": answer(model, number, gold_json(row["gold"]), is_published=is_published),
        }
        for model in ("memory", "solver")
        for number, (name, sample) in enumerate(sorted(samples(data).items()))
        for row in sample.data["rows"]
        if row["setting"] == "2-shot"
    ]
    file, out = folder / f"answers-{is_published}.jsonl", folder / f"out-{is_published}"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert vlmsweep(["score", "--predictions", str(file), "--data", str(data), "--out", str(out)]) == 0
    return str(out)


def write_counterparts(folder: Path) -> tuple[Path, Path]:
    """Generate scenes that pass for published ones, and their twin; return where both are ingested."""
    scenes, twin = folder / "scenes", folder / "twin"
    generate = ["generate", "mate", "--seed", "7", "--out"]
    assert vlmsweep([*generate, str(scenes), "--objects", "3-5", "--examples", str(SCENES)]) == 0
    for file in scenes.glob("*.jsonl"):  # only generated rows name their generator
        lines = [{**json.loads(line), "generator": None} for line in file.read_text().splitlines()]
        file.write_text("\n".join(map(json.dumps, lines)))
    assert vlmsweep(["ingest", "mate", str(scenes), "--data", str(folder / "data")]) == 0
    assert vlmsweep([*generate, str(twin), "--like", str(folder / "data")]) == 0
    assert vlmsweep(["ingest", "mate", str(twin), "--data", str(folder / "fresh")]) == 0
    return folder / "data", folder / "fresh"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Scenes that pass for published ones, and their twin, ingested."""
    return write_counterparts(tmp_path_factory.mktemp("twin"))


@pytest.mark.full
def test_memory_shows_as_a_gap_and_skill_does_not(
    data: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published, fresh = map(samples, data)
    assert published.keys() == fresh.keys()
    assert all(published[name].data["scene"] != fresh[name].data["scene"] for name in published)
    outs = [scored(tmp_path, folder, is_published=folder == data[0]) for folder in data]
    capsys.readouterr()
    assert vlmsweep(["twin", *outs, "--json"]) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert record["shared"]["number of objects"] == [SCENES, SCENES]
    assert record["shared"]["target and pointer attribute"] == [2 * SCENES, 2 * SCENES]
    assert record["shared"]["attributes that link the object"] == [SCENES, SCENES]
    assert record["shared"]["wording"] == [SCENES, SCENES]
    gaps = {(row["model"], row["task"]): row for row in record["gaps"]}
    assert {task for _, task in gaps} == {"img2txt", "txt2img", "img2img", "txt2txt", "crossmodal", "unimodal"}
    memory, solver = gaps["memory", "crossmodal"], gaps["solver", "crossmodal"]
    assert (memory["published"], memory["n"], memory["is_paired"]) == (1.0, SCENES, True)
    assert memory["ci_low"] < memory["gap"] < memory["ci_high"] < -0.6
    assert memory["gap"] == pytest.approx(-0.8, abs=0.02)
    assert memory["reading"] == "lower on fresh scenes"
    assert (solver["gap"], solver["reading"]) == (pytest.approx(0.0), "no gap shown")
    assert solver["ci_low"] < 0 < solver["ci_high"]
    page = Path(outs[0], "report", "twin.html").read_text()
    assert "Parameters that published scenes and their twins share" in page
    assert Path(outs[0], "report", "tables", "mate_twin.csv").exists()
    assert vlmsweep(["twin", *reversed(outs)]) == 2
    assert "its scenes are not generated" in capsys.readouterr().err
    assert vlmsweep(["twin", outs[1], outs[1]]) == 2
    assert "asks about the scenes of" in capsys.readouterr().err
