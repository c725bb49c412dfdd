"""All five benchmarks, every task and setting, by one command: each request once, one report."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.conftest import Cli
from tests.support import vflute_source
from tests.support.small_data import write_all


@pytest.fixture(scope="module")
def data(inline_cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small sources in distributed forms, ingested by the command line."""
    root = tmp_path_factory.mktemp("all")
    for name, source in write_all(root).items():
        result = inline_cli("ingest", name, str(source), "--data", str(root / "data"), "--json")
        assert json.loads(result.stdout)["rejected"] == 0, result.stderr
    return root / "data"


@pytest.mark.timeout(1200)
def test_sweep_runs_all_benchmarks(inline_cli: Cli, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = ["maia", "mate", "unpie", "vague", "vflute"]
    flags = ("--models", "random", "--judge", "random", "--captioner", "random", "--data", str(data), "--out", str(out))
    benchmarks = ("--benchmarks", ",".join(names))
    (plan,) = [json.loads(inline_cli("run", *flags, *benchmarks, "--dry-run", "--json").stdout)["plan"]]
    result = inline_cli("run", *flags, *benchmarks, "--json")
    payload = json.loads(result.stdout)
    assert payload["failed"] == 0
    tables = {
        name: pa.concat_tables(
            [pq.ParquetFile(p).read() for p in sorted(out.glob(f"predictions/benchmark={name}/model=random/*.parquet"))]
        )
        for name in names
    }
    for row in plan:
        table = tables[row["benchmark"]]
        assert table.num_rows == row["requests"]
        assert set(Counter(table["request_id"].to_pylist()).values()) == {1}
    requests = {
        name: set(zip(t["task"].to_pylist(), t["setting"].to_pylist(), strict=True)) for name, t in tables.items()
    }
    assert len(requests["vague"]) == 10
    assert {setting for _, setting in requests["vflute"]} == {
        "zero-shot", "5-shot", "10-shot", "scene-graph", "no-image", "label-only",
    }  # fmt: skip
    assert {task for task, _ in requests["mate"]} == {"img2txt", "txt2img", "img2img", "txt2txt"}
    assert len(requests["unpie"]) == 8
    excluded = {name: Counter(table["status"].to_pylist())["excluded"] for name, table in tables.items()}
    assert excluded["maia"] == excluded["mate"] == excluded["unpie"] == excluded["vague"] == 0
    metrics = json.loads((out / "report" / "metrics.json").read_text())
    keys = {"benchmark", "task", "model", "setting", "subset", "category", "metric", "value", "unit", "n", "n_failed"}
    assert {row["benchmark"] for row in metrics} == set(names)
    assert all(set(row) == keys | {"ci_low", "ci_high", "ci_df", "set_ci_low", "set_ci_high"} for row in metrics)
    assert {row["unit"] for row in metrics} == {"fraction", "count", "score", "words"}
    page = (out / "report" / "index.html").read_text()
    for title in ("MAIA", "MATE", "UNPIE", "VAGUE", "V-FLUTE"):
        assert title in page
    human = tmp_path / "labels.csv"
    rows = vflute_source.rows(12)
    human.write_text("".join(["id,annotator,label\n", *(f"{row['id']},ann,{row['label']}\n" for row in rows)]))
    again = inline_cli("run", *flags, *benchmarks, "--human", f"vflute={human}", "--json")
    assert "predict" not in again.stderr
    assert "caption random" not in again.stderr
    metrics = json.loads((out / "report" / "metrics.json").read_text())
    people = [
        row
        for row in metrics
        if (row["subset"], row["category"], row["metric"]) == ("human-items", "", "f1_at_0_of_people")
    ]
    assert [(row["model"], row["setting"], row["value"], row["n"]) for row in people] == [
        ("random", "label-only", 1.0, 12)
    ]
    joint = (out / "report" / "tables" / "human.csv").read_text()
    assert all(title in joint for title in ("MAIA", "MATE", "UNPIE", "VAGUE", "V-FLUTE", "human-items", "published"))
    human.write_text("id,annotator,label\nnowhere,ann,entailment\n")
    refused = inline_cli("report", *_without_judge(flags), *benchmarks, "--human", f"vflute={human}", code=2)
    assert "labels.csv (vflute labels): line 2: the data has no row 'nowhere'" in refused.stderr


def _without_judge(flags: tuple[str, ...]) -> list[str]:
    """Return the flags without the judge, which `report` does not use."""
    index = flags.index("--judge")
    return [*flags[:index], *flags[index + 2 :]]
