"""The services as they stand: what they run as, the demo, submission from outside, and Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.containers.services import Container, Services, wait_until
from tests.containers.sweeps import Sweep

pytestmark = pytest.mark.containers

UNITS = {"m": 2**20, "g": 2**30}


def running(services: Services) -> list[Container]:
    """List the containers that run: all but the demo."""
    return [container for container in services.containers() if container.pid]


def statuses(container: Container) -> list[dict[str, str]]:
    """Return the kernel's status of each process of a container."""
    pids = container.podman("top", container.name, "hpid").stdout.split()[1:]
    texts = [path.read_text() for pid in pids if (path := Path(f"/proc/{pid}/status")).exists()]
    return [dict(re.findall(r"^(\w+):\t(.*)$", text, re.MULTILINE)) for text in texts]


def mounts(container: Container) -> dict[str, list[str]]:
    """Return the options of each mount by its path in the container."""
    lines = Path(f"/proc/{container.pid}/mountinfo").read_text().splitlines()
    return {line.split()[4]: line.split()[5].split(",") for line in lines}


def test_no_process_is_root_or_can_become_it(services: Services, figures: list[str]) -> None:
    for container in running(services):
        processes = statuses(container)
        assert processes, container.name
        for status in processes:
            assert "0" not in status["Uid"].split(), (container.name, status["Name"])
            assert int(status["CapEff"], 16) == 0
            assert status["NoNewPrivs"] == "1"
            assert status["Seccomp"] == "2"
        users = sorted({status["Uid"].split()[0] for status in processes})
        figures.append(f"{container.name}: {len(processes)} processes as user {', '.join(users)}, without capabilities")


def test_roots_are_read_only_and_secrets_are_read_only_files(services: Services) -> None:
    for container in running(services):
        points = mounts(container)
        assert "ro" in points["/"], container.name
        secrets = {path for path in points if path.startswith("/run/secrets/")}
        service = services.file["services"][container.name.split("_")[1]]
        assert secrets == {f"/run/secrets/{name}" for name in service.get("secrets", ())}
        assert all("ro" in points[path] for path in secrets)


def test_memory_limits_hold_in_the_kernel(services: Services) -> None:
    read = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
    limits = {
        name: service["mem_limit"] for name, service in services.file["services"].items() if "mem_limit" in service
    }
    for service in ("head", "worker"):
        expected = int(limits[service][:-1]) * UNITS[limits[service][-1]]
        for container in services.containers(service):
            assert int(container.execute("sh", "-c", read).stdout) == expected


def test_only_loopback_is_published(services: Services) -> None:
    published = {}
    for container in services.containers():
        for port, bindings in (container.inspect()["NetworkSettings"]["Ports"] or {}).items():
            for binding in bindings or ():
                published[port] = binding["HostIp"]
    assert published == {"8265/tcp": "127.0.0.1", "8333/tcp": "127.0.0.1", "9090/tcp": "127.0.0.1"}


@pytest.fixture(scope="module")
def demo(services: Services) -> Container:
    return services.run_demo()


def test_demo_ends_with_0_and_its_report_is_in_the_store(services: Services, demo: Container) -> None:
    assert demo.inspect()["State"]["ExitCode"] == 0, demo.log()[-4000:]
    assert "report: s3://vlmsweep/demo/report/index.html" in demo.log()
    report = Sweep(services, "demo").get("report/index.html").decode()
    assert "statement_accuracy" in report or "maia" in report


def test_submit_from_outside_follows_a_sweep(services: Services, demo: Container, outside: dict[str, str]) -> None:
    sweep = Sweep(services, "outside")
    result = sweep.submit(outside)
    assert result.returncode == 0, result.stderr[-4000:]
    assert "report: s3://vlmsweep/outside/report/index.html" in result.stderr
    assert sweep.lost_or_doubled() == []


@pytest.mark.parametrize("token", ["none", "wrong"])
def test_submit_without_the_token_is_refused(
    services: Services, outside: dict[str, str], token: str, tmp_path: Path
) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("0" * 64)
    more = {"RAY_AUTH_MODE": "disabled"} if token == "none" else {"RAY_AUTH_TOKEN_PATH": str(wrong)}
    sweep = Sweep(services, f"refused-{token}")
    result = sweep.submit({**outside, **more})
    assert result.returncode == 3
    assert "does not accept the token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH" in result.stderr
    assert "Traceback" not in result.stderr
    assert sweep.keys() == []


def test_services_refuse_requests_without_a_secret(services: Services) -> None:
    assert requests.get("http://127.0.0.1:8265/api/jobs/", timeout=30).status_code == 401
    assert requests.get("http://127.0.0.1:8333/vlmsweep", timeout=30).status_code == 403


def query(expression: str) -> list[dict[str, Any]]:
    answer = requests.get("http://127.0.0.1:9090/api/v1/query", {"query": expression}, timeout=30)
    return list(answer.json()["data"]["result"])


def test_prometheus_scrapes_head_and_workers_and_has_the_rules(services: Services, demo: Container) -> None:
    wait_until(lambda: [item["value"][1] for item in query('up{job="ray"}')] == ["1"] * 3, "three nodes are up")
    wait_until(lambda: bool(query("ray_vlmsweep_requests_total")), "requests are counted")
    rules = requests.get("http://127.0.0.1:9090/api/v1/rules", timeout=30).json()["data"]["groups"][0]["rules"]
    assert {rule["name"] for rule in rules} >= {"RayNodeGone", "SweepStands", "RequestsFail"}
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}


def test_no_secret_is_in_inspect_logs_or_process_arguments(
    services: Services, demo: Container, figures: list[str]
) -> None:
    values = services.secret_values()
    searched = 0
    for container in services.containers():
        text = json.dumps(container.inspect()) + container.log()
        if container is not demo and container.pid:
            text += services.podman("top", container.name, "args").stdout
        assert [name for name, value in values.items() if value in text] == [], container.name
        searched += len(text)
    figures.append(
        f"searched {searched / 1e3:,.0f} kB of inspect, logs and arguments for {len(values)} secrets: nothing"
    )


def test_worker_reads_the_sweep_from_the_store(services: Services, demo: Container) -> None:
    (worker, *_) = services.containers("worker")
    result = worker.execute("vlmsweep", "status", "s3://vlmsweep/demo")
    assert "maia" in result.stdout
