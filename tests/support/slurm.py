"""Debian's Slurm with two nodes on this machine, of the user who runs the tests, without munge."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel")
_START_S = 60
_CONFIG = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
JobRequeue=1
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus}
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus}
PartitionName=all Nodes=node[1-2] Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
"""


def why_not() -> str:
    """Return why no Slurm can be started here; '' where one can."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        return f"no {missing[0]}: install Debian's package slurm-wlm"
    return "" if os.geteuid() == 0 else "slurmd runs as root alone"


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[Mapping[str, str]]:
    """Start a cluster for the length of a block, and yield the environment of its commands."""
    host, user = socket.gethostname().partition(".")[0], pwd.getpwuid(os.geteuid()).pw_name
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
    file = folder / "slurm.conf"
    file.write_text(_CONFIG.format(host=host, user=user, ports=ports, folder=folder, cpus=os.cpu_count()))
    for name in ("state", "spool-node1", "spool-node2"):
        (folder / name).mkdir()
    env = {**os.environ, "SLURM_CONF": str(file), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    commands = (["slurmctld", "-D"], ["slurmd", "-D", "-N", "node1"], ["slurmd", "-D", "-N", "node2"])
    daemons = []
    try:
        daemons.extend(
            subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for command in commands
        )
        deadline = time.monotonic() + _START_S
        while "idle" not in _output(["sinfo", "--noheader", "--format=%T %D"], env).replace("idle 1", ""):
            assert time.monotonic() < deadline, (folder / "slurmctld.log").read_text()
            assert all(daemon.poll() is None for daemon in daemons)
            time.sleep(0.2)
        yield env
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)


def _output(command: list[str], env: Mapping[str, str]) -> str:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout
