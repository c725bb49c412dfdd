"""MAIA's unimodal setting from the command line: text models score bare statements and make the paper's row."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.messages import logprobs_from_text
from tests.integration.conftest import Cli
from tests.support.checkpoints import build_tiny


@pytest.mark.full
def test_text_models_score_statements_and_vote_together(cli: Cli, maia_data: str, tmp_path: Path) -> None:
    folder = build_tiny(tmp_path / "checkpoint", "llama")
    models = tmp_path / "models.yaml"
    models.write_text(
        f"reader: {{engine: transformers, model: {folder}, device: cpu, dtype: float32}}\nchance: {{engine: random}}\n"
    )
    out = tmp_path / "out"
    flags = ("--models-file", str(models), "--benchmarks", "maia", "--settings", "unimodal", "--limit", "12")
    cli("run", "--models", "reader,chance", *flags, "--data", maia_data, "--out", str(out))
    rows = pa.concat_tables(
        [pq.ParquetFile(p).read() for p in out.glob("predictions/*/model=reader/*.parquet")]
    ).to_pylist()
    assert len({row["request_id"] for row in rows}) == len(rows) == 12 * 8
    assert {row["status"] for row in rows} == {"ok"}
    assert all(score < 0 for row in rows for score in logprobs_from_text(row["output"], 2))
    assert len({row["output"] for row in rows}) > 80
    metrics = json.loads((out / "report" / "metrics.json").read_text())
    displayed = {
        row["model"]: row["value"] for row in metrics if row["metric"] == "statement_accuracy" and not row["category"]
    }
    assert set(displayed) == {"reader", "chance", "best of 2 text models", "vote of 2 text models"}
    assert 0.3 < displayed["chance"] < 0.7
    assert {row["setting"] for row in metrics} == {"unimodal"}
    table = (out / "report" / "tables" / "maia_table5.csv").read_text().splitlines()
    labels = [line.split(",")[1] for line in table]
    assert labels.index("Unimodal") < labels.index("reader") < labels.index("best of 2 text models")
