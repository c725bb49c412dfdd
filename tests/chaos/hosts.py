"""Four hosts - head, two workers and a store - in network namespaces; one is cut off for a minute, one is killed.

The sweep is submitted through Ray's job API with a token, from a fifth host on the same network; data and results lie
in the store. Workers are started again when Ray ends them, as the compose file and systemd do; the one that is killed
stays away. Both come at random moments, so that now and then no worker is there at all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.chaos.processes import ending
from tests.chaos.sweeps import Answers, Damage, Scene, environment, read_answers
from tests.support.hosts import Host, Network, network

__all__ = ["disturb_hosts"]

CUT_S = 60.0
JOURNAL = "journal"
ENDED = "started again"
"""What a supervised host's log says when its Ray has ended."""
OUTLIVED_S = 3.0
"""So long a host's processes may begin calls after its raylet has ended; those of the next need longer to start."""
WORKERS = ("worker1", "worker2")
CALL_S = 0.3
"""Of the scripted model: 648 calls on two or three replicas take some minutes."""
BIN = Path(sys.executable).parent

_FETCH = """
import sys
from pathlib import Path
from pipelines.storage.store import Store
store = Store(sys.argv[1])
for file in store.list():
    path = Path(sys.argv[2], file.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(store.get(file.path))
"""
_BUCKET = "import s3fs; s3fs.S3FileSystem().mkdir('bench')"


@dataclass
class _Site:
    """The running hosts, with the data in the store."""

    folder: Path
    net: Network
    env: dict[str, str]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def command(self, *arguments: str, timeout: float = 300) -> None:
        """Run a command beside the hosts, to its end."""
        process = self.net.hosts["switch"].start(*arguments, env=self.env, log=self.log("commands"))
        with ending(process):
            assert process.wait(timeout) == 0, f"{arguments}: {_end_of(self.log('commands'))}"

    def log_tails(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(f"--- {path.name}\n{_end_of(path)}" for path in sorted(self.folder.glob("*.log")))


def _end_of(path: Path) -> str:
    return path.read_text(errors="replace")[-3000:] if path.exists() else ""


@contextmanager
def _site(scene: Scene) -> Iterator[_Site]:
    folder = Path(tempfile.mkdtemp(prefix="vsn-", dir="/tmp"))  # Ray's socket paths must stay short
    token = folder / "token"
    token.write_text(os.urandom(32).hex())
    token.chmod(0o600)
    try:
        with network(folder, ("head", "worker1", "worker2", "store")) as net:
            env = {
                **environment(folder),
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "HOME": str(net.mount_point),
                "RAY_AUTH_MODE": "token",
                "RAY_AUTH_TOKEN_PATH": str(token),
                "AWS_ENDPOINT_URL": f"http://{net.hosts['store'].address}:9000",
                "AWS_ACCESS_KEY_ID": "chaos",
                "AWS_SECRET_ACCESS_KEY": "chaos-secret",
                "AWS_DEFAULT_REGION": "us-east-1",
            }
            site = _Site(folder, net, env)
            _start(site)
            site.command(sys.executable, "-c", _BUCKET)
            cli = (sys.executable, "-m", "jobs.cli")
            site.command(*cli, "ingest", "maia", str(scene.folder / "source"), "--data", "s3://bench/data")
            _until_up(site, "worker1", "worker2")
            yield site
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(site: _Site) -> None:
    hosts = site.net.hosts
    hosts["store"].start(str(BIN / "moto_server"), "-H", "0.0.0.0", "-p", "9000", env=site.env, log=site.log("store"))
    hosts["head"].supervise(  # Ray gives up its own start on a machine that is very busy
        *_ray(hosts["head"], site.net.mount_point, cpus=0),
        *("--head", "--port=6379", "--dashboard-host=0.0.0.0", "--dashboard-port=8265"),
        env=site.env,
        log=site.log("head"),
    )
    head = hosts["head"].address
    for address in (f"{hosts['store'].address}/9000", f"{head}/8265"):
        ping = f"until (exec 3<>/dev/tcp/{address}) 2>/dev/null; do sleep 0.5; done"
        site.command("timeout", "280", "bash", "-c", ping)
    _until_up(site, "head")
    for name in ("worker1", "worker2"):
        hosts[name].supervise(
            *_ray(hosts[name], site.net.mount_point, cpus=1),
            f"--address={head}:6379",
            env=site.env,
            log=site.log(name),
        )


def _until_up(site: _Site, *names: str) -> None:
    deadline = time.monotonic() + 300
    while not all("Ray runtime started" in site.log(name).read_text() for name in names):
        assert time.monotonic() < deadline, site.log_tails()
        time.sleep(0.5)


def _ray(host: Host, folder: Path, cpus: int) -> tuple[str, ...]:
    return (
        *(str(BIN / "ray"), "start", "--block", "--disable-usage-stats", f"--node-ip-address={host.address}"),
        *(f"--temp-dir={folder}/ray", f"--num-cpus={cpus}", "--object-store-memory=100000000"),
    )


def disturb_hosts(scene: Scene, out: Path, seed: int) -> Damage:
    """Cut one worker off for a minute and kill the other at random moments of the same sweep."""
    draw = Random(seed)
    models = out.with_suffix(".yaml")
    with _site(scene) as site:
        journal = site.net.mount_point / JOURNAL  # another file on each host
        models.write_text(f"slow: {{engine: scripted, fault_injection: {{call_s: {CALL_S}, journal: {journal}}}}}\n")
        submitted = site.net.hosts["switch"].start(
            *(sys.executable, "-m", "jobs.cli", "submit", "--models", "slow", "--models-file", str(models)),
            *("--benchmarks", "maia", "--data", "s3://bench/data", "--out", "s3://bench/out"),
            *("--address", f"http://{site.net.hosts['head'].address}:8265"),
            env=site.env,
            log=site.log("submit"),
        )
        try:
            _until(lambda: len(_calls(site, *WORKERS)) > draw.randrange(10, 60), submitted, site, 180)
            in_flight = _break(site, draw, submitted)
            code = submitted.wait(900)
        except BaseException:
            sys.stderr.write(site.log_tails())
            raise
        assert code == 0, site.log_tails()
        out.with_suffix(".journal").write_text("\n".join(_calls(site, *WORKERS)))
        site.command(sys.executable, "-c", _FETCH, "s3://bench/out", str(out))
    return scene.damage(out, 1, in_flight=in_flight)


def _break(site: _Site, draw: Random, submitted: subprocess.Popen[bytes]) -> int:
    """Cut one worker off at once; kill the other at a random time until half a minute after the network is repaired.

    Returns:
        Calls of the first that were not committed before the cut, with those that it begins until Ray ends it, as a
        node that was lost; and calls of the second that were not committed a moment before the kill.
    """
    before_cut = _committed(site, "cut")
    cut, killed = draw.sample(WORKERS, k=2)
    dies_after = draw.uniform(0.0, CUT_S + 30.0)
    begun, ends = time.monotonic(), site.log(cut).read_text().count(ENDED)
    site.net.cut(cut)
    in_flight = 0
    events = [(CUT_S, lambda: site.net.join(cut)), (dies_after, site.net.hosts[killed].kill)]
    for offset_s, event in sorted(events, key=lambda pair: pair[0]):
        time.sleep(max(0.0, begun + offset_s - time.monotonic()))
        assert submitted.poll() is None, f"the sweep ended before it was disturbed\n{site.log_tails()}"
        if offset_s == dies_after:
            before_kill = _committed(site, "kill")
            in_flight += _uncommitted(site, killed, before_kill)
        event()
    while site.log(cut).read_text().count(ENDED) == ends and submitted.poll() is None:
        assert time.monotonic() < begun + 300, f"Ray neither ended the node nor the sweep\n{site.log_tails()}"
        time.sleep(0.5)
    time.sleep(OUTLIVED_S)
    return in_flight + _uncommitted(site, cut, before_cut)


def _calls(site: _Site, *names: str) -> list[str]:
    """Return the ids of the calls that hosts have begun."""
    journals = [site.net.hosts[name].folder / JOURNAL for name in names]
    return [call for journal in journals if journal.exists() for call in journal.read_text().split()]


def _committed(site: _Site, name: str) -> Answers:
    observed = site.folder / name
    site.command(sys.executable, "-c", _FETCH, "s3://bench/out", str(observed))
    return read_answers(observed)


def _uncommitted(site: _Site, host: str, committed: Answers) -> int:
    return sum(call.rpartition("/")[0] not in committed for call in {*_calls(site, host)})


def _until(true: Callable[[], bool], submitted: subprocess.Popen[bytes], site: _Site, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert submitted.poll() is None, site.log_tails()
        assert time.monotonic() < deadline, site.log_tails()
        time.sleep(0.5)
