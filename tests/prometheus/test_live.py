"""Prometheus with the shipped configuration scrapes a head, a worker and the driver of a real sweep.

Only the targets are others: the file finds containers by the name server of Compose. About ten minutes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.prometheus.test_rules import SHIPPED
from tests.support.paths import ROOT
from tests.support.ray_head import RayHead, free_ports, ray_head

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(1800)]

NEEDS_GPU = {"ray_node_gpus_utilization", "ray_node_gram_used"}
"""Series that a node without GPU does not export."""
NEEDS_EVICTION = {"ray_memory_manager_worker_eviction_total"}
"""A series that Ray exports once a node's memory ran out."""


class Server:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def is_ready(self) -> bool:
        with contextlib.suppress(requests.ConnectionError):
            return requests.get(f"{self.url}/-/ready", timeout=30).ok
        return False

    def get(self, path: str, **parameters: str | float) -> Any:
        reply = requests.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=30)
        assert reply.ok, reply.text
        return reply.json()["data"]

    def values(self, expression: str, since: float) -> list[float]:
        """Return all values of an expression since a time, of every series, without those divided by zero."""
        result = self.get("query_range", query=expression, start=since, end=time.time(), step=15)["result"]
        values = [float(value) for series in result for _, value in series["values"]]
        return [value for value in values if not math.isnan(value)]

    def firing(self) -> list[str]:
        return [alert["labels"]["alertname"] for alert in self.get("alerts")["alerts"] if alert["state"] == "firing"]


def wait_for(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(2)


@pytest.fixture(scope="module")
def head() -> Iterator[RayHead]:
    with ray_head("--num-cpus=2") as item:
        item.start(f"--address=127.0.0.1:{item.gcs}", "--num-cpus=2", log="worker.log")
        yield item


@pytest.fixture(scope="module")
def server(head: RayHead, prometheus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((SHIPPED / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in head.metrics]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "alerts.yml").write_text((SHIPPED / "alerts.yml").read_text())
    (port,) = free_ports(1)
    command = [
        str(prometheus),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    server = Server(f"http://127.0.0.1:{port}")
    try:
        wait_for(server.is_ready, 120)
        yield server
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def sweep(head: RayHead, server: Server, maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> float:
    """Run a sweep of minutes with failures, prices, clips and a replica that is killed; return when it began."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "models.yaml").write_text(
        "fragile: {engine: scripted, price: {input_per_million: 1.0, output_per_million: 1.0}, "
        "fault_injection: {fail_share: 0.2, call_s: 0.3}}\n"
    )
    wait_for(lambda: server.values("sum(up)", time.time() - 60)[-1:] == [2.0], 120)
    began = time.time()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "jobs.cli", "run", "--models", "fragile", "--models-file", folder / "models.yaml"),
            *("--benchmarks", "maia", "--tasks", "vsv,oevqa", "--data", maia_data, "--out", folder / "out"),
            *("--address", f"127.0.0.1:{head.gcs}", "--fail-on-error", "false"),
        ],
        cwd=ROOT,
        env={**head.env, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: server.values("sum(ray_vlmsweep_requests_total)", began), 600)
    os.kill(next(_replicas(head)), signal.SIGKILL)
    errors = process.communicate(timeout=900)[1]
    assert process.returncode == 0, errors
    return began


def _replicas(head: RayHead) -> Iterator[int]:
    """Yield the processes of engine replicas, on any node of the cluster."""
    mark = f"{head.folder}/".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"EngineActor" in (path / "cmdline").read_bytes() and mark in (path / "environ").read_bytes():
                yield int(path.name)


def expressions() -> list[tuple[str, str]]:
    """Return (panel, expression) of all dashboards."""
    boards = [json.loads(path.read_text()) for path in sorted((SHIPPED / "grafana" / "dashboards").glob("*.json"))]
    return [
        (panel["title"], target["expr"]) for board in boards for panel in board["panels"] for target in panel["targets"]
    ]


def test_every_expression_of_the_dashboards_has_values(server: Server, sweep: float) -> None:
    exempt = NEEDS_GPU | NEEDS_EVICTION
    absent = [(panel, expression) for panel, expression in expressions() if not server.values(expression, sweep)]
    assert [(panel, e) for panel, e in absent if not any(name in e for name in exempt)] == []


def test_counters_agree_with_the_sweep(server: Server, sweep: float) -> None:
    totals = {
        status: max(server.values(f'sum(ray_vlmsweep_requests_total{{status="{status}"}})', sweep))
        for status in ("ok", "error")
    }
    assert 0.1 < totals["error"] / sum(totals.values()) < 0.3


def test_killed_node_raises_its_alert(head: RayHead, server: Server, sweep: float) -> None:
    assert server.firing() == []
    with contextlib.suppress(ProcessLookupError):
        os.killpg(head.processes[1].pid, signal.SIGKILL)
    wait_for(lambda: "RayNodeGone" in server.firing(), 300)
    assert server.firing() == ["RayNodeGone"]
