"""TODO doc."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from jobs.submit.start import START
from pipelines.logging_context import logs_are_json

PACKAGES = ("cluster", "jobs", "models", "pipelines")


SENT = frozenset({".py", ".yaml", ".csv", ".j2", ".css", ".typed"})
"""Code and tables; sample pictures and clips are for the demo alone."""


FILES = "submitted"
"""Folder of the user's own files inside the job."""


_SINGLE = {
    "models": "--models",
    "benchmarks": "--benchmarks",
    "tasks": "--tasks",
    "settings": "--settings",
    "limit": "--limit",
    "data": "--data",
    "out": "--out",
    "judge": "--judge",
    "captioner": "--captioner",
    "fail_on_error": "--fail-on-error",
    "cost_limit": "--cost-limit",
    "seed": "--seed",
}


_REPEATED = {"sample_ids": "--sample-id", "scorers": "--scorer", "instead": "--prompt-version"}


def entrypoint(flags: Mapping[str, Any]) -> str:
    """The driver's command line on the cluster: the script that is sent along, and its flags there."""
    words = ["sh", f"{FILES}/start.sh"]
    for name, flag in _SINGLE.items():
        if flags.get(name) is not None:
            words += [flag, str(flags[name])]
    for name, flag in _REPEATED.items():
        for value in flags.get(name) or ():
            words += [flag, str(value)]
    for i, path in enumerate(flags.get("models_file") or ()):
        words += ["--models-file", f"{FILES}/{_models_name(i, path)}"]
    if flags.get("prompts"):
        words += ["--prompts", f"{FILES}/prompts"]
    for i, spec in enumerate(flags.get("human") or ()):
        name, place, _ = _people(i, spec)
        words += ["--human", f"{name}={place}"]
    words += ["--log-format", "json"] if logs_are_json() else []
    return shlex.join([*words, "--verbose"] if flags.get("verbose") else words)


def stage(flags: Mapping[str, Any], folder: Path, *, code: str) -> None:
    """Put together what is sent: code unless the image has it, and the files that the flags name."""
    if code == "here":
        for package in PACKAGES:
            root = Path(str(files(package)))
            for path in sorted(root.rglob("*")):
                if path.is_file() and path.suffix in SENT and not _hidden(path.relative_to(root)):
                    _copy(path, folder / package / path.relative_to(root))
    (folder / FILES).mkdir(parents=True, exist_ok=True)
    (folder / FILES / "start.sh").write_text(START)
    for i, path in enumerate(flags.get("models_file") or ()):
        _copy(path, folder / FILES / _models_name(i, path))
    prompts = flags.get("prompts")
    for path in sorted(prompts.glob("*/*.txt")) if prompts else ():
        _copy(path, folder / FILES / "prompts" / path.relative_to(prompts))
    for i, spec in enumerate(flags.get("human") or ()):
        _, place, sent = _people(i, spec)
        for path in sent:
            _copy(path, folder / place if place.endswith(".csv") else folder / place / path.name)


def _people(number: int, spec: str) -> tuple[str, str, list[Path]]:
    """Benchmark and place of a `--human` as the job is told them, and the files that go; none of what is in a store."""
    from pipelines.ingest.human_files import parse_human_flag
    from pipelines.storage.backend import is_remote

    name, uri = parse_human_flag(spec)
    path = Path(uri).expanduser()
    if is_remote(uri):
        return name, uri, []
    if path.is_file():
        return name, f"{FILES}/people-{number}.csv", [path]
    return name, f"{FILES}/people-{number}", sorted(path.glob("*.csv"))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)


def _models_name(place: int, path: Path) -> str:
    return f"models-{place}-{re.sub(r'[^A-Za-z0-9._-]', '_', path.name).lstrip('.')}"


def _copy(source: Path, target: Path) -> None:
    """Content alone: the package's name at the cluster is a hash, and no machine's file times shall change it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
