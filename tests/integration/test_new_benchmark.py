"""A new benchmark is one new file, a new model one new entry: no existing file is edited."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipelines.ingest.dataset import Dataset
from pipelines.storage.store import Store
from tests.integration.conftest import S3, Cli
from tests.support.mate_source import png
from tests.support.paths import ROOT
from tests.support.unpie_source import picture, row, write_jsonl

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


MAP = """\
sentence: text.en
phrase: text.pun
translation[0]: meanings[0]
translation[1]: meanings[1]
exp_image: drawing
disamb_image[0]: photos[0]
disamb_image[1]: photos[1]
category: kind
sample_id: key
"""


def renamed(kind: str, index: int) -> dict[str, Any]:
    """Return a pun with other column names."""
    item = row("homographic", index)
    return {
        "key": f"{kind}-{index}",
        "kind": kind,
        "text": {"en": item["pun_sentence"], "pun": item["pun_phrase"]},
        "meanings": [item["translation1"], item["translation2"]],
        "drawing": "a.png",
        "photos": ["b.png", "c.png"],
    }


@pytest.mark.parametrize("storage", ["folder", "s3"])
def test_column_map_reads_a_source_with_other_names(
    cli: Cli, tmp_path: Path, storage: str, request: pytest.FixtureRequest
) -> None:
    source = tmp_path / "source"
    write_jsonl(source / "puns.jsonl", [renamed(kind, n) for n in range(2) for kind in ("Homo", "Hetero")])
    for name in "abc":
        (source / f"{name}.png").write_bytes(picture(name))
    (tmp_path / "map.yaml").write_text(MAP)
    uri, env = str(source), {}
    if storage == "s3":
        s3: S3 = request.getfixturevalue("s3")
        for path in source.iterdir():
            s3.client().put_object(Bucket="bench", Key=f"puns/{path.name}", Body=path.read_bytes())
        uri, env = "s3://bench/puns", s3.env
    flags = ("ingest", "unpie", uri, "--data", str(tmp_path / "data"), "--json")
    payload = json.loads(cli(*flags, "--column-map", str(tmp_path / "map.yaml"), env=env).stdout)
    assert (payload["samples"], payload["rejected"], payload["media"]) == (4, 0, 3)
    results = {sample.sample_id: sample for sample in Dataset.open(Store(str(tmp_path / "data")), "unpie").samples()}
    assert sorted(results) == ["Hetero-0", "Hetero-1", "Homo-0", "Homo-1"]
    assert results["Homo-1"].data["translation"][1] == row("homographic", 1)["translation2"]
    assert {ref.role for ref in results["Homo-1"].media} == {"explanation", "disambiguator/0", "disambiguator/1"}
    if storage == "folder":
        (tmp_path / "map.yaml").write_text(MAP.replace("text.en", "txt.en"))
        wrong = cli(*flags, "--column-map", str(tmp_path / "map.yaml"), code=2).stderr
        assert "'text.en'" in wrong
        assert "columns found" in wrong
