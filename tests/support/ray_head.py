"""A real `ray start` cluster for tests: own ports, home, token and folder; ended by its process ids."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import requests

from tests.support.paths import ENGINES_PATH

BIN = Path(sys.executable).parent


def free_ports(count: int) -> list[int]:
    """Return free ports. They lie below those that the system gives away and above those of Ray's workers, so that
    no other process gets one of them before Ray, which takes seconds, binds it."""
    results: list[int] = []
    while len(results) < count:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            results += [port] if port not in results else []
    return results


@dataclass
class RayHead:
    """One head, and nodes that join it."""

    folder: Path
    token: str
    env: dict[str, str]
    gcs: int
    dashboard: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    metrics: list[int] = field(default_factory=list)  # port of each node's metrics, in order of `processes`

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.dashboard}"

    def start(self, *arguments: str, log: str, block: bool = True) -> subprocess.Popen[bytes]:
        """Start a node; with `block` its command lives as long as the node does."""
        ports = dict(zip(("dashboard-agent-listen-port", "metrics-export-port"), free_ports(2), strict=True))
        command = [
            *(str(BIN / "ray"), "start", "--disable-usage-stats", "--node-ip-address", "127.0.0.1"),
            *(("--block",) if block else ()),
            *(f"--{name}={port}" for name, port in ports.items()),
            *arguments,
        ]
        with (self.folder / log).open("wb") as out:
            process = subprocess.Popen(command, env=self.env, stdout=out, stderr=out, start_new_session=True)
        self.processes.append(process)
        self.metrics.append(ports["metrics-export-port"])
        return process

    def wait(self, seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(requests.ConnectionError, requests.Timeout):
                if requests.get(f"{self.url}/api/gcs_healthz", timeout=20).ok:
                    return
            assert self.processes[0].poll() is None, (self.folder / "head.log").read_text()
            assert time.monotonic() < deadline, (self.folder / "head.log").read_text()
            time.sleep(0.2)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pid in _members(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _members(folder: Path) -> list[int]:
    """Return processes of this cluster outside its group: its folder is in their command line or environment."""
    results = []
    mark = f"{folder}/".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            process_text = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
            if int(path.name) != os.getpid() and mark in process_text:
                results.append(int(path.name))
    return results


@contextlib.contextmanager
def ray_head(*arguments: str, env: dict[str, str] | None = None, gcs: int = 0) -> Iterator[RayHead]:
    """Yield a head with dashboard and token, on loopback only; `gcs` fixes its port."""
    folder = Path(tempfile.mkdtemp(prefix="vsh-", dir="/tmp"))  # Ray's socket paths must stay short
    token = os.urandom(32).hex()
    (folder / "home").mkdir()
    token_file = folder / "ray_token"
    token_file.write_text(token)
    token_file.chmod(0o600)
    names = ("LANG", "LD_LIBRARY_PATH", "OMP_WAIT_POLICY")
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    free, dashboard, client = free_ports(3)
    gcs = gcs or free
    head_env = {
        **inherited,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_file),
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # else an end waits half a minute for work
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": ENGINES_PATH,
        **(env or {}),
    }
    head = RayHead(folder, token, head_env, gcs, dashboard)
    try:
        head.start(
            *("--head", f"--port={gcs}", f"--dashboard-port={dashboard}", "--dashboard-host=127.0.0.1"),
            *(f"--ray-client-server-port={client}", f"--temp-dir={folder}/ray", "--object-store-memory=150000000"),
            *arguments,
            log="head.log",
        )
        head.wait()
        yield head
    finally:
        head.stop()
        shutil.rmtree(folder, ignore_errors=True)
