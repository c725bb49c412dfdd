"""podman with storage, networks and settings of its own in one folder, so that nothing else of the machine changes."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Podman", "unavailable_reason"]

_PROGRAMS = {
    "aardvark-dns": "aardvark-dns",
    "podman": "podman",
    "runc": "runc",
    "mmdebstrap": "mmdebstrap",
    "netavark": "netavark",
}
"""Program -> Debian's package of it."""
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/lib/podman"
_COMPOSE = "podman-compose==1.6.0"
_LIMITS = {"nofile": (resource.RLIMIT_NOFILE, 65_536), "nproc": (resource.RLIMIT_NPROC, 16_384)}
"""Limits of a process in containers, where this machine allows as much: podman's own may exceed what it does."""


def unavailable_reason() -> str:
    """Return why no containers can run here, or ''."""
    if sys.platform != "linux":
        return "containers need Linux"
    if os.geteuid() != 0:
        return "needs root: it builds a base image with mmdebstrap and runs containers with memory limits"
    if missing := [package for program, package in _PROGRAMS.items() if not shutil.which(program, path=_PATH)]:
        return f"not installed: {' '.join(missing)} (apt-get install --no-install-recommends {' '.join(missing)})"
    return ""


@dataclass(frozen=True, slots=True)
class Podman:
    """podman in a folder."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """Environment in which podman and podman-compose use the folder."""
        return {
            **os.environ,
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            # Health checks are timers of systemd, which a build machine may lack: `Services` runs them instead.
            "DISABLE_HC_SYSTEMD": "true",
        }

    def prepare(self) -> None:
        """Write the settings: runc and cgroupfs work with and without systemd."""
        self.folder.mkdir(parents=True, exist_ok=True)
        limits = []
        for name, (number, preferred) in _LIMITS.items():
            hard = resource.getrlimit(number)[1]
            value = preferred if hard == resource.RLIM_INFINITY else min(hard, preferred)
            limits.append(f'"{name}={value}:{value}"')
        (self.folder / "containers.conf").write_text(
            f"""[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = [{", ".join(limits)}]
[network]
network_backend = "netavark"
network_config_dir = "{self.folder}/networks"
"""
        )
        (self.folder / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self.folder}/storage"\nrunroot = "{self.folder}/run"\n'
        )

    def __call__(
        self, *arguments: str, check: bool = True, timeout: float = 600, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a podman command; AssertionError with what it wrote if it fails."""
        command = ["podman", *arguments]
        result = subprocess.run(command, env=self.env, input=text, capture_output=True, text=True, timeout=timeout)
        assert not check or result.returncode == 0, (
            f"{' '.join(command)}\n{result.stdout[-2000:]}{result.stderr[-4000:]}"
        )
        return result

    def json(self, *arguments: str) -> Any:
        """Run a podman command that writes JSON."""
        return json.loads(self(*arguments).stdout)

    def has_image(self, name: str) -> bool:
        """Return whether an image of this name exists."""
        return self("image", "exists", name, check=False).returncode == 0

    def build(self, dockerfile: Path, context: Path, tag: str, *, options: Sequence[str] = ()) -> None:
        """Build an image, with the log beside the storage.

        The package managers in the build trust the authorities that this machine trusts, through folders that are not
        part of the image.
        """
        authorities = Path("/etc/ssl/certs")
        settings = self.folder / "pip.conf"
        settings.write_text(f"[global]\ncert = {authorities}/ca-certificates.crt\n")
        log = self.folder / f"build-{tag.replace('/', '-').replace(':', '-')}.log"
        command = [
            *("podman", "build", "--format", "docker", "--isolation", "chroot", "--network", "host"),
            *("--volume", f"{authorities}:{authorities}:ro", "--volume", f"{settings}:/etc/pip.conf:ro"),
            *(*options, "--file", str(dockerfile), "--tag", tag, str(context)),
        ]
        with log.open("wb") as out:
            code = subprocess.run(command, env=self.env, stdout=out, stderr=out, timeout=3600).returncode
        assert code == 0, f"{' '.join(command)}\n{log.read_text()[-4000:]}"

    def compose(self, project: Path, *arguments: str, timeout: float = 300) -> None:
        """Run podman-compose, which uv fetches, on a project's docker-compose.yml."""
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "tool", "run", "--from", _COMPOSE, "podman-compose", "--file", "docker-compose.yml", *arguments]
        result = subprocess.run(command, cwd=project, env=self.env, capture_output=True, text=True, timeout=timeout)
        assert result.returncode == 0, f"{' '.join(arguments)}\n{result.stdout[-2000:]}{result.stderr[-4000:]}"

    def clear(self) -> None:
        """Remove containers, volumes and networks; images stay.

        podman 4.3 refuses a container on which others depend, and removes those others: each attempt leaves fewer.
        """
        left = self("ps", "--all", "--quiet").stdout.split()
        while left:
            result = self("rm", "--all", "--force", "--volumes", "--time", "0", check=False)
            before, left = left, self("ps", "--all", "--quiet").stdout.split()
            assert len(left) < len(before), result.stderr
        self("volume", "prune", "--force", check=False)
        self("network", "prune", "--force", check=False)

    def remove(self) -> None:
        """Remove everything, the folder included."""
        self.clear()
        self("rmi", "--all", "--force", check=False)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((m for m in mounts if m.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.folder)
