"""A sweep over two models on a cluster without nodes: it scales up as the models need, and down to zero."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.paths import ROOT

CLUSTER = """
import sys
from pathlib import Path
from tests.support import fake_autoscaler as bench
import os
folder = Path(sys.argv[1])
with bench.cluster_from_zero(folder, 0.1) as head:
    os.environ.update({name: head.env[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "HOME")})
    samples = bench.watched(head, folder, videos=6)
first, last = samples[0], samples[-1]
assert not first.nodes and not last.nodes, (first, last)
most = {kind: max(sample.nodes[kind] for sample in samples) for kind in bench.KINDS}
assert 1 <= most["gpu1"] <= bench.MOST["gpu1"] and most["gpu4"] == 1, most
assert most["cpu"] <= bench.MOST["cpu"], most
both = [sample for sample in samples if len(sample.running_models) == 2]
assert any(sample.nodes["gpu1"] and sample.nodes["gpu4"] for sample in both), "no nodes for both at once"
"""


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_autoscaler_adds_nodes_for_two_models_and_removes_them(tmp_path: Path) -> None:
    """In a process of its own: Ray joins one cluster a process, and its token is read once."""
    root = ROOT
    run = subprocess.run([sys.executable, "-c", CLUSTER, str(tmp_path)], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    parts = (tmp_path / "out").glob("predictions/*/*/*.parquet")
    rows = [row for part in parts for row in pq.ParquetFile(part).read(["request_id", "model", "status"]).to_pylist()]
    assert Counter((row["model"], row["status"]) for row in rows) == {("small", "ok"): 384, ("large", "ok"): 384}
    assert len({row["request_id"] for row in rows}) == len(rows)
