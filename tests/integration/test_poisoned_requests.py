"""Requests that kill the model's process become error rows; all others are answered and the run ends."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.conftest import Cli


def predictions(out: Path, model: str) -> pa.Table:
    parts = sorted(out.glob(f"predictions/benchmark=maia/model={model}/*.parquet"))
    return pa.concat_tables([pq.ParquetFile(part).read() for part in parts])


@pytest.mark.slow
def test_killer_request_costs_only_its_own_row_and_a_retry_repairs_it(cli: Cli, maia_data: str, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text('deadly: {engine: scripted, fault_injection: {die_on: "cosa 3 per Sentiment_A"}}\n')
    out = tmp_path / "out"
    flags = ("--models", "deadly", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    common_flags = ("--settings", "1-frame", "--data", maia_data, "--out", str(out))
    result = cli("run", *flags, *common_flags, "--json", code=1)
    table = predictions(out, "deadly")
    assert table.num_rows == len(set(table["request_id"].to_pylist())) == 384
    bad = table.filter(pa.compute.equal(table["status"], "error")).to_pylist()
    assert sorted((row["sample_id"], row["variant"]) for row in bad) == [
        ("video1/Sentiment_A", "3"),
        ("video2/Sentiment_A", "3"),
    ]
    assert {row["error_type"] for row in bad} == {"engine_died"}
    assert json.loads(result.stdout)["failed"] == 2
    assert {row["output"] for row in bad} == {None}
    # Faults are not part of the fingerprint: the same model without faults repeats only the failed requests.
    models.write_text("deadly: {engine: scripted}\n")
    result = cli("run", *flags, *common_flags, "--json")
    again = predictions(out, "deadly")
    assert sorted(again["request_id"].to_pylist()) == sorted(table["request_id"].to_pylist())
    assert set(again["status"].to_pylist()) == {"ok"}
    assert "predict deadly: 2 of 2" in result.stderr or "predict" not in result.stderr


@pytest.mark.full
def test_hanging_request_costs_only_its_own_row(cli: Cli, maia_data: str, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    hanging = (
        'fault_injection: {hang_on: "cosa 3 per Sentiment_A"}, stall_timeout_s: 2, generation: {max_new_tokens: 1}'
    )
    models.write_text(f"hanging: {{engine: scripted, {hanging}}}\n")
    out = tmp_path / "out"
    flags = ("--models", "hanging", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    common_flags = ("--settings", "1-frame", "--data", maia_data, "--out", str(out))
    cli("run", *flags, *common_flags, code=1)
    table = predictions(out, "hanging")
    assert table.num_rows == len(set(table["request_id"].to_pylist())) == 384
    bad = table.filter(pa.compute.equal(table["status"], "error")).to_pylist()
    assert sorted((row["sample_id"], row["variant"]) for row in bad) == [
        ("video1/Sentiment_A", "3"),
        ("video2/Sentiment_A", "3"),
    ]
    assert {row["error_type"] for row in bad} == {"timeout"}
    assert all("stall_timeout_s" in row["error"] for row in bad)
