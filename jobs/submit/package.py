"""The package of `vlmsweep submit`: the command line of the driver, the code, and the files that the flags name."""

import re
import shlex
from dataclasses import fields
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

from models.guards.regular_files import read_regular
from pipelines.ingest.human_files import parse_human_flag
from pipelines.logging_context import logs_are_json
from pipelines.plan.options import SweepOptions
from pipelines.registry import OURS
from pipelines.storage.backend import is_remote

PACKAGES = ("cluster", "jobs", "models", "pipelines")
SENT_SUFFIXES = frozenset({".py", ".yaml", ".csv", ".j2", ".css", ".js", ".sh", ".sql", ".typed"})
"""Code and tables; sample images and clips are for the demo only."""
USER_FILES = "submitted"  # folder of the user's own files inside the job
_FILES = ("models_file", "prompts", "human")  # options that name local files: the job gets copies and their new paths


def entrypoint(options: SweepOptions, *, verbose: bool) -> str:
    """Return the driver's command line on the cluster: the script that is sent, and its flags there."""
    arguments = ["sh", f"{USER_FILES}/start.sh"]
    for field in fields(SweepOptions):
        if (flag := field.metadata.get("flag")) and field.name not in ("address", *_FILES):
            value = getattr(options, field.name)
            is_list = isinstance(value, tuple) and not flag.is_repeatable
            arguments += _flag_arguments(flag.names(field.name)[0], (",".join(value) or None) if is_list else value)
    arguments += _flag_arguments("--models-file", [_models_path(i, path) for i, path in enumerate(options.models_file)])
    arguments += _flag_arguments("--prompts", f"{USER_FILES}/prompts" if options.prompts else None)
    human = (_human_files(i, spec) for i, spec in enumerate(options.human))
    arguments += _flag_arguments("--human", [f"{name}={path}" for name, path, _ in human])
    arguments += ["--log-format", "json"] if logs_are_json() else []
    return shlex.join([*arguments, "--verbose"] if verbose else arguments)


def _flag_arguments(option: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    values = value if isinstance(value, list | tuple) else [value]
    return [word for item in values for word in (option, str(item))]


def stage(options: SweepOptions, folder: Path, *, code: str) -> None:
    """Copy into a folder what is sent: code unless the image has it, and the files that the flags name.

    With the code goes what it registers, so that a cluster without it, or with another version, finds it.
    """
    if code == "here":
        for package in PACKAGES:
            root = Path(str(files(package)))
            for path in sorted(root.rglob("*")):
                name = path.relative_to(root)
                is_hidden = any(part.startswith(".") or part == "__pycache__" for part in name.parts)
                if path.is_file() and path.suffix in SENT_SUFFIXES and not is_hidden:
                    _copy(path, folder / package / name)
        ours = distribution(OURS)
        metadata = folder / f"{OURS}-{ours.version}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {OURS}\nVersion: {ours.version}\n")
        entries = (f"[{entry.group}]\n{entry.name} = {entry.value}\n" for entry in ours.entry_points)
        (metadata / "entry_points.txt").write_text("".join(entries))
    _copy(Path(str(files("jobs.submit") / "start.sh")), folder / USER_FILES / "start.sh")
    for i, path in enumerate(options.models_file):
        _copy(path, folder / _models_path(i, path))
    for path in sorted(options.prompts.glob("*/*.txt")) if options.prompts else ():
        _copy(path, folder / USER_FILES / "prompts" / path.relative_to(options.prompts or ""))
    for i, spec in enumerate(options.human):
        _, target, sources = _human_files(i, spec)
        for path in sources:
            _copy(path, folder / target if target.endswith(".csv") else folder / target / path.name)


def _human_files(number: int, spec: str) -> tuple[str, str, list[Path]]:
    """Return the benchmark of a `--human` flag, its path in the job, and the local files to send, if any."""
    name, uri = parse_human_flag(spec)
    path = Path(uri).expanduser()
    if is_remote(uri):
        return name, uri, []
    if path.is_file():
        return name, f"{USER_FILES}/people-{number}.csv", [path]
    return name, f"{USER_FILES}/people-{number}", sorted(path.glob("*.csv"))


def _models_path(number: int, path: Path) -> str:
    return f"{USER_FILES}/models-{number}-{re.sub(r'[^A-Za-z0-9._-]', '_', path.name).lstrip('.')}"


def _copy(source: Path, target: Path) -> None:
    """Copy the content only: file times must not change the hash by which the cluster names the package."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(read_regular(source))
