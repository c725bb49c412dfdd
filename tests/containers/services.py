"""The services of docker-compose.yml, started in the order of their dependencies."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.containers.engine import Podman

__all__ = ["Container", "Services", "running_services", "wait_until"]

HEALTH_EVERY_S = 5.0


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 300) -> None:
    """Wait until a condition holds; AssertionError with `what` after the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.5)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a service."""

    podman: Podman
    name: str

    def inspect(self) -> dict[str, Any]:
        """Return what podman knows of it."""
        (data,) = self.podman.json("container", "inspect", self.name)
        return dict(data)

    @property
    def pid(self) -> int:
        """Process id, on this machine, of its first process; 0 if it does not run."""
        return int(self.inspect()["State"]["Pid"])

    @property
    def health(self) -> str:
        """Result of the latest health checks: starting, healthy or unhealthy."""
        return str(self.inspect()["State"].get("Health", {}).get("Status", ""))

    def execute(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as its user."""
        return self.podman("exec", self.name, *command, check=check)

    def log(self) -> str:
        """Return what it wrote."""
        result = self.podman("logs", self.name, check=False)
        return result.stdout + result.stderr


@dataclass(slots=True)
class Services:
    """A project of podman-compose whose services run."""

    podman: Podman
    project: Path
    file: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.file = yaml.safe_load((self.project / "docker-compose.yml").read_text())

    def containers(self, service: str = "") -> list[Container]:
        """List containers of a service, or of all, by name."""
        label = f"label=io.podman.compose.project={self.file['name']}"
        names = self.podman("ps", "--all", "--filter", label, "--format", "{{.Names}}").stdout.split()
        pattern = rf"{self.file['name']}_{service or '.+'}_\d+"
        return [Container(self.podman, name) for name in sorted(names) if re.fullmatch(pattern, name)]

    def start(self, service: str, *, scale: int = 1) -> None:
        """Start a service and wait until each of its containers is healthy.

        podman-compose with a podman before 4.6 does not wait for the dependencies' health: start those first.
        """
        scaling = ("--scale", f"{service}={scale}") if scale > 1 else ()
        self.podman.compose(self.project, "up", "--detach", "--no-build", "--no-recreate", *scaling, service)
        containers = self.containers(service)
        assert len(containers) == scale, [container.name for container in containers]
        for container in containers:
            self.wait_until_healthy(container)

    def wait_until_healthy(self, container: Container) -> None:
        """Wait until a container's health check succeeds."""

        def state() -> str:
            return f"{container.name} is {container.health}\n{container.log()[-3000:]}"

        deadline = time.monotonic() + 300
        while container.health != "healthy":
            assert time.monotonic() < deadline, state()
            time.sleep(1)

    def run_demo(self) -> Container:
        """Start the service `demo` and wait for its end."""
        self.podman.compose(self.project, "up", "--detach", "--no-build", "--no-recreate", "demo")
        (demo,) = self.containers("demo")
        self.podman("wait", demo.name, timeout=900)
        return demo

    def secret(self, name: str) -> Path:
        """Return the file of a secret."""
        return self.project / str(self.file["secrets"][name]["file"])

    def secret_values(self) -> dict[str, str]:
        """Return each secret text by name."""
        (identity,) = json.loads(self.secret("s3_identities").read_text())["identities"]
        (pair,) = identity["credentials"]
        return {
            "ray_token": self.secret("ray_token").read_text(),
            "grafana_password": self.secret("grafana_password").read_text(),
            "access key": pair["accessKey"],
            "secret key": pair["secretKey"],
        }


@contextmanager
def running_services(podman: Podman, project: Path) -> Iterator[Services]:
    """Yield the services, which the caller starts, with their health checks repeated; all are removed at the end."""
    services = Services(podman, project)
    ended = threading.Event()
    checks = threading.Thread(target=_repeat_health_checks, args=(services, ended))
    checks.start()
    try:
        yield services
    finally:
        ended.set()
        checks.join()
        for container in services.containers():
            (podman.folder / f"{container.name}.log").write_text(container.log())
        podman.clear()


def _repeat_health_checks(services: Services, ended: threading.Event) -> None:
    while not ended.wait(HEALTH_EVERY_S):
        for container in services.containers():
            if not ended.is_set():
                services.podman("healthcheck", "run", container.name, check=False)
