"""The Dockerfile's steps without an engine: `python -m tests.support.image build|run`, as root, in folders.

`build` carries out a target's own lines, stage by stage, in copies of a base root, such as `debootstrap
--variant=minbase --include=ca-certificates,python3-venv bookworm ROOT` makes, with `python` linked to its Python, which
stands in for the base image's. `run` starts a command in the result as the image would: its user, variables, folder and
entry point, a read-only root with the compose file's places to write, and no network but loopback. What is not like an
engine: layers, the base image's own content.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.paths import ROOT

PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
REPOSITORY = ROOT
DOCKERFILE = REPOSITORY / "infra" / "docker" / "Dockerfile"


@dataclass(frozen=True)
class Step:
    """One instruction."""

    word: str
    text: str


@dataclass
class Stage:
    """`FROM base AS name` and what follows."""

    name: str
    base: str
    steps: list[Step] = field(default_factory=list)


def stages_of(text: str) -> tuple[dict[str, str], dict[str, Stage]]:
    """Return the arguments before the first stage, and all stages by name."""
    joined = re.sub(r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    local: Stage | None = None
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            local = Stage(name.strip(), base.strip())
            stages[local.name] = local
        elif local is None:
            assert word == "ARG", line
            arguments.update([rest.split("=", 1)])
        else:
            local.steps.append(Step(word, rest.strip()))
    return arguments, stages


@dataclass
class Settings:
    """Settings of the instructions so far, which an image stores beside its files."""

    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    args: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    shell: list[str] = field(default_factory=lambda: ["/bin/sh", "-c"])
    entrypoint: list[str] = field(default_factory=list)

    def filled(self, text: str) -> str:
        values = {**self.args, **self.env}
        return re.sub(r"\$\{?(\w+)\}?", lambda match: values.get(match[1], ""), text)


class Builder:
    """Builds stages once each."""

    def __init__(self, base: Path, work: Path, args: dict[str, str]) -> None:
        self._base, self._work, self._args = base, work, args
        _, self._stages = stages_of(DOCKERFILE.read_text())
        self._allowed = [
            line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line[:1] == "!"
        ]
        self._done: dict[str, Settings] = {}

    def build(self, name: str) -> Settings:
        if name in self._done:
            return self._done[name]
        stage = self._stages[name]
        root = self._work / name
        if stage.base in self._stages:
            before = self.build(stage.base)
            settings = replace(before, env=dict(before.env), args={})
            source = self._work / stage.base
        else:
            settings, source = Settings(), self._base
        _say(f"FROM {source} AS {name}")
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", f"{root}/"], check=True)
        for step in stage.steps:
            _say(f"{step.word} {step.text}")
            self._do(step, root, settings)
        self._done[name] = settings
        (self._work / f"{name}.json").write_text(json.dumps(vars(settings)))
        return settings

    def _do(self, step: Step, root: Path, settings: Settings) -> None:
        if step.word == "RUN":
            self._run(step.text, root, settings)
        elif step.word == "COPY":
            self._copy(step.text.split(), root, settings)
        elif step.word == "ENV":
            new = dict(pair.split("=", 1) for pair in shlex.split(step.text))
            settings.env.update({key: settings.filled(value) for key, value in new.items()})
        elif step.word == "ARG":
            key, _, value = step.text.partition("=")
            settings.args[key] = self._args.get(key, value)
        elif step.word == "WORKDIR":
            settings.folder = step.text
            (root / step.text[1:]).mkdir(parents=True, exist_ok=True)
        elif step.word == "USER":
            settings.user = step.text
        elif step.word in ("SHELL", "ENTRYPOINT"):
            setattr(settings, step.word.lower(), json.loads(step.text))
        else:
            assert step.word in ("CMD", "EXPOSE", "HEALTHCHECK"), step

    def _copy(self, arguments: list[str], root: Path, settings: Settings) -> None:
        origin = REPOSITORY
        if arguments[0].startswith("--from="):
            stage = arguments.pop(0).removeprefix("--from=")
            self.build(stage)
            origin = self._work / stage
        *sources, target = arguments
        destination = root / str(Path(settings.folder, target)).lstrip("/")
        for source in sources:
            path = origin / source.lstrip("/")
            assert origin is not REPOSITORY or source in self._allowed, f"{source} is not in the build context"
            if path.is_dir():
                shutil.copytree(path, destination, symlinks=True, dirs_exist_ok=True, ignore=_unwanted(origin))
            elif target.endswith("/"):
                destination.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, destination)
            else:
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, destination)

    def _run(self, line: str, root: Path, settings: Settings) -> None:
        user, _, group = settings.user.partition(":")
        env = {**settings.args, **settings.env, "HOME": "/root"}
        inside = f"mount -t proc proc {root}/proc && exec chroot --userspec={user}:{group} {root} "
        inside += _with(env, settings.folder, [*settings.shell, line])
        subprocess.run(["unshare", "--mount", "--", "/bin/sh", "-c", inside], check=True)


def run(image: Path, command: list[str], writable: list[str], more: dict[str, str]) -> int:
    """Start a command as the image would; its exit code."""
    settings = Settings(**json.loads(image.with_suffix(".json").read_text()))
    user, _, group = settings.user.partition(":")
    env = {**settings.env, "HOME": settings.folder, **more}
    folders = ("/dev/shm", "/tmp", *writable)
    lines = [
        "set -e",
        "ip link set lo up",
        f"mount --bind {image} {image}",
        f"mount -o remount,bind,ro {image}",
        f"mount -t proc proc {image}/proc",
        f"mount -t tmpfs -o mode=755 dev {image}/dev",
        "for name in null zero random urandom full; do",
        f"touch {image}/dev/$name; mount --bind /dev/$name {image}/dev/$name; done",
        f"ln -s /proc/self/fd {image}/dev/fd",
        *(f"mkdir -p {image}{folder}; mount -t tmpfs -o mode=1777 tmpfs {image}{folder}" for folder in folders),
        f"exec chroot --userspec={user}:{group} {image} "
        + _with(env, settings.folder, [*settings.entrypoint, *command]),
    ]
    alone = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=KILL"]
    return subprocess.run([*alone, "/bin/sh", "-c", "\n".join(lines)]).returncode


def _with(env: dict[str, str], folder: str, command: list[str]) -> str:
    return shlex.join(["env", "-C", folder, "-i", *(f"{key}={value}" for key, value in env.items()), *command])


def _unwanted(origin: Path) -> Callable[[str, list[str]], set[str]] | None:
    return shutil.ignore_patterns("__pycache__", ".env*") if origin == REPOSITORY else None


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("--target", default="cpu")
    build.add_argument("--base", type=Path, required=True)
    build.add_argument("--work", type=Path, required=True)
    build.add_argument("--build-arg", action="append", default=[])
    start = commands.add_parser("run")
    start.add_argument("--writable", action="append", default=[])
    start.add_argument("--env", action="append", default=[])
    start.add_argument("image", type=Path)
    start.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root: it mounts and changes the root folder")
    if options.command == "build":
        Builder(options.base, options.work, dict(item.split("=", 1) for item in options.build_arg)).build(
            options.target
        )
        return 0
    arguments = options.words[1:] if options.words[:1] == ["--"] else options.words
    return run(options.image.absolute(), arguments, options.writable, dict(item.split("=", 1) for item in options.env))


if __name__ == "__main__":
    sys.exit(main())
