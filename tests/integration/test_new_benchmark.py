"""A new benchmark is one new file, a new model one new entry: no existing file is edited."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.conftest import Cli
from tests.support.mate_source import png
from tests.support.paths import ROOT

TOY = ROOT / "tests" / "support" / "toy.py"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with one new file for each addition."""
    tree = tmp_path_factory.mktemp("tree")
    for package in ("cluster", "jobs", "models", "pipelines"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "pipelines" / "benchmarks" / "toy").mkdir()
    shutil.copy(TOY, tree / "pipelines" / "benchmarks" / "toy" / "__init__.py")
    (tree / "models" / "catalog" / "new.yaml").write_text("new-model: {engine: random, seed: 5}\n")
    return tree


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight sums, one of them unusable."""
    folder = tmp_path_factory.mktemp("sums")
    rows = [{"id": f"sum{n}", "sum": f"{n}-{n - 1 - n % 2}", "answer": 1 + n % 2, "picture": "p.png"} for n in range(8)]
    rows[3]["answer"] = None
    (folder / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "p.png").write_bytes(png("p"))
    return folder


@pytest.mark.timeout(1200)
def test_benchmark_is_one_file_and_model_is_one_entry(cli: Cli, tree: Path, sums: Path, tmp_path: Path) -> None:
    in_tree = {"env": {"PYTHONPATH": str(tree)}, "cwd": tree}
    payload = json.loads(cli("list", "benchmarks", "--json", **in_tree).stdout)
    assert any("toy" in row.values() for row in payload)
    models = json.loads(cli("list", "models", "--json", **in_tree).stdout)
    assert any("new-model" in row.values() for row in models)
    data, out = str(tmp_path / "data"), tmp_path / "out"
    ingested = json.loads(cli("ingest", "toy", str(sums), "--data", data, "--json", **in_tree).stdout)
    assert (ingested["samples"], ingested["rejected"]) == (7, 1)
    models_file = tmp_path / "own.yaml"
    models_file.write_text("own-model: {engine: random, seed: 6}\n")
    flags = ("--models", "new-model,own-model", "--models-file", str(models_file), "--benchmarks", "toy")
    cli("run", *flags, "--data", data, "--out", str(out), **in_tree)
    metrics = json.loads((out / "report" / "metrics.json").read_text())
    by_cell = {(row["model"], row["setting"]): row for row in metrics if row["metric"] == "accuracy"}
    assert {key: row["n"] for key, row in by_cell.items()} == {
        (model, setting): 7 for model in ("new-model", "own-model") for setting in ("words", "picture")
    }
    # The workers' own processes asked and scored: what they wrote agrees with what the numbers say.
    parts = [pq.read_table(part) for part in sorted(out.glob("scores/benchmark=toy/model=new-model/*.parquet"))]
    rows = [row for part in parts for row in part.to_pylist() if row["setting"] == "words"]
    right = [dict(row["values"])["correct"] for row in rows]
    assert len(right) == 7
    assert by_cell["new-model", "words"]["value"] == pytest.approx(sum(right) / 7)
    assert "Toy sums" in (out / "report" / "index.html").read_text()


def test_benchmark_of_another_package_is_found_by_its_entry_point(cli: Cli, tmp_path: Path) -> None:
    """A package's entry point registers its benchmark without a file in the product."""
    shutil.copy(TOY, tmp_path / "my_sums.py")
    about = tmp_path / "my_sums-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-sums\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[vlmsweep.benchmarks]\ntoy = my_sums\n")
    payload = json.loads(cli("list", "benchmarks", "--json", env={"PYTHONPATH": str(tmp_path)}).stdout)
    assert any("toy" in row.values() for row in payload)
    text = (tmp_path / "my_sums.py").read_text()
    (tmp_path / "my_sums.py").write_text(text.replace('name="toy"', 'name="mate"'))
    twice = cli("list", "benchmarks", env={"PYTHONPATH": str(tmp_path)}, code=2)
    assert "my_sums" in twice.stderr
    assert "'mate'" in twice.stderr
