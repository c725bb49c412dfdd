"""Hosts on one machine: network namespaces on a bridge, each with its own processes, name, /dev/shm and folder.

Needs root and `ip` (iproute2). All lies inside the namespaces: nothing is added to this machine's own network, and
nothing outside them can be reached from within.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Host", "Network", "network", "unavailable_reason"]


def unavailable_reason() -> str:
    """Return why this machine cannot run network namespaces; '' where it can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    missing = [tool for tool in ("ip", "setpriv", "unshare", "mount") if not shutil.which(tool)]
    if missing:
        return f"needs {', '.join(missing)}"
    name = f"vlmsweep-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode:
        return f"network namespaces cannot be made here: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


@dataclass
class Host:
    """One host."""

    name: str
    address: str
    namespace: str
    folder: Path
    """Its own, seen by its processes at the network's `mount_point`."""
    mount_point: Path
    inits: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str, env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process, first of its own process tree: with its end all its descendants end."""
        return self._start(command, env, log)

    def supervise(self, *command: str, env: dict[str, str], log: Path, pause_s: float = 2.0) -> subprocess.Popen[bytes]:
        """Start a process again whenever it ends, as systemd or an engine's `restart: unless-stopped` does."""
        loop = f"while :; do {shlex.join(command)}; echo ended with $?, started again; sleep {pause_s}; done"
        return self._start(("/bin/sh", "-c", loop), env, log)

    def _start(self, command: Sequence[str], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        script = (
            f"hostname {self.name} && mount --bind {self.folder} {self.mount_point} && mount -t tmpfs shm /dev/shm "
            f"&& exec {shlex.join(command)}"
        )
        namespace_command = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.namespace]
        namespace_command += ["unshare", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
        with log.open("ab") as out:
            process = subprocess.Popen([*namespace_command, "/bin/sh", "-c", script], env=env, stdout=out, stderr=out)
        self.inits.append(process)
        return process

    def kill(self) -> None:
        """Kill every process of the host at once."""
        for container in self.inits:
            if container.poll() is None:
                container.kill()
            container.wait()


@dataclass
class Network:
    """Hosts on a bridge; the bridge's own namespace is a host as well, from which the others can be seen."""

    mount_point: Path
    hosts: dict[str, Host]

    def cut(self, name: str) -> None:
        """Cut a host's link: packets are dropped silently."""
        _ip("-n", self.hosts["switch"].namespace, "link", "set", _port(name), "down")

    def join(self, name: str) -> None:
        """Put it back."""
        _ip("-n", self.hosts["switch"].namespace, "link", "set", _port(name), "up")


@contextlib.contextmanager
def network(folder: Path, names: Sequence[str], net: str = "10.77.0") -> Iterator[Network]:
    """Yield hosts by name; all their processes end with the block or with this process."""
    _remove_left_over()
    mount_point = folder / "own"
    mount_point.mkdir()
    hosts = {}
    for number, name in enumerate(("switch", *names), start=1):
        host_folder = folder / f"of-{name}"
        host_folder.mkdir()
        hosts[name] = Host(name, f"{net}.{number}", f"vs{os.getpid()}-{name}", host_folder, mount_point)
    net_of_hosts = Network(mount_point, hosts)
    try:
        for host in hosts.values():
            _ip("netns", "add", host.namespace)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
        switch = hosts["switch"]
        _ip("-n", switch.namespace, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch.namespace, "address", "add", f"{switch.address}/24", "dev", "bridge")
        _ip("-n", switch.namespace, "link", "set", "bridge", "up")
        for name in names:
            _plug(hosts[name], switch)
        yield net_of_hosts
    finally:
        for host in hosts.values():
            host.kill()
            subprocess.run(["ip", "netns", "del", host.namespace], capture_output=True)


def _remove_left_over() -> None:
    """Remove the namespaces of killed processes."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    for name in (line.split()[0] for line in listed.splitlines() if line):
        owner = name.removeprefix("vs").partition("-")[0]
        if name.startswith("vs") and owner.isdigit() and not Path("/proc", owner).exists():
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _plug(host: Host, switch: Host) -> None:
    port = _port(host.name)
    _ip("-n", switch.namespace, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
    _ip("-n", switch.namespace, "link", "set", port, "master", "bridge", "up")
    _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
    _ip("-n", host.namespace, "link", "set", "eth0", "up")


def _port(name: str) -> str:
    return f"to-{name}"[:15]  # the kernel's longest name of a link


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
