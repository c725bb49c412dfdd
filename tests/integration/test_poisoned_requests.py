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


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param("die_on", "engine_died", marks=pytest.mark.slow),
        pytest.param("hang_on", "timeout", marks=pytest.mark.full),
    ],
)
def test_request_costs_only_its_own_row_and_a_retry_repairs_it(
    cli: Cli, maia_data: str, tmp_path: Path, fault: str, error: str
) -> None:
    models, out = tmp_path / "models.yaml", tmp_path / "out"
    # One token: the time in which a request must end grows with the tokens that it may have.
    entry = "engine: scripted, stall_timeout_s: 2, generation: {max_new_tokens: 1}"
    models.write_text(f"bad: {{{entry}, fault_injection: {{{fault}: cosa 3 per Sentiment_A}}}}\n")
    flags = ("--models", "bad", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    flags = (*flags, "--settings", "1-frame", "--data", maia_data, "--out", str(out))
    result = cli("run", *flags, "--json", code=1)
    table = predictions(out, "bad")
    assert table.num_rows == len(set(table["request_id"].to_pylist())) == 384
    bad = table.filter(pa.compute.equal(table["status"], "error")).to_pylist()
    assert sorted((row["sample_id"], row["variant"]) for row in bad) == [
        ("video1/Sentiment_A", "3"),
        ("video2/Sentiment_A", "3"),
    ]
    assert {(row["error_type"], row["output"]) for row in bad} == {(error, None)}
    assert error != "timeout" or all("stall_timeout_s" in row["error"] for row in bad)
    assert json.loads(result.stdout)["failed"] == 2
    # Faults are not part of the fingerprint: the same model without faults repeats only the failed requests.
    models.write_text(f"bad: {{{entry}}}\n")
    result = cli("run", *flags, "--json")
    again = predictions(out, "bad")
    assert sorted(again["request_id"].to_pylist()) == sorted(table["request_id"].to_pylist())
    assert set(again["status"].to_pylist()) == {"ok"}
    assert "predict bad: 2 of 2" in result.stderr or "predict" not in result.stderr
