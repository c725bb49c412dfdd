"""From flags to a checked `RunSpec`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.cli.options import names
from models.catalog_loader import load_models, select_models
from models.environment import ray_address, secret
from models.errors import YamlFileError
from models.spec import ModelSpec
from models.strict_yaml import read_yaml
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.errors import UsageError
from pipelines.ingest.human_files import parse_human_flag, read_human
from pipelines.plan.run_spec import SELF, FailureBudget, RunSpec, ScorerSpec
from pipelines.plan.selection import Limit
from pipelines.storage.backend import is_remote

_UNHEARD = {"predict": ("judge", "scorers", "human"), "report": ("judge", "scorers", "cost_limit")}
"""Flags that say nothing to a stage that runs alone; it takes them, that one file of flags serves all stages."""


def build_run_spec(flags: Mapping[str, Any], stages: Sequence[str] = ()) -> RunSpec:
    """The sweep that these flags mean.

    Args:
        flags: parameters of a command by name.
        stages: those that will be run; none for all.

    Raises:
        UsageError: a name is not known, a value has the wrong form, a file cannot be read, or a key is not set.
    """
    if not names(flags["models"]):
        raise UsageError("--models: name at least one model; see `vlmsweep list models`")
    if not names(flags["benchmarks"]):
        raise UsageError("--benchmarks: name at least one benchmark; see `vlmsweep list benchmarks`")
    if len(stages) == 1:
        flags = {**flags, **dict.fromkeys(_UNHEARD.get(stages[0], ()))}
    models = load_models(flags.get("models_file") or [])
    chosen = select_models(names(flags["models"]), models)
    return _spec(flags, chosen, names(flags["benchmarks"]), models)


def validate_remote_flags(flags: Mapping[str, Any]) -> dict[str, ModelSpec]:
    """The models of flags that another machine will run; nothing that only that machine can know is looked at.

    Raises:
        UsageError: a name is not known, a value has the wrong form, or a file cannot be read.
    """
    models = load_models(flags.get("models_file") or [])
    wanted = names(flags["models"])
    if not wanted or not names(flags["benchmarks"]):
        raise UsageError("--models and --benchmarks: name at least one of each")
    for name in (flags.get("judge"), flags.get("captioner")):
        _helper(None if name == SELF else name, models)
    human = [one for one in flags.get("human") or () if not is_remote(parse_human_flag(one)[1])]
    _spec({**flags, "judge": None, "captioner": None, "human": human}, {}, names(flags["benchmarks"]), models)
    return select_models(wanted, models)


def external_spec(flags: Mapping[str, Any]) -> RunSpec:
    """The spec for answers made elsewhere; models and benchmarks are those of the file."""
    models = load_models(flags.get("models_file") or [])
    wanted = names(flags.get("benchmarks")) or tuple(benchmark_names())
    return _spec(flags, {}, wanted, models)


def _spec(
    flags: Mapping[str, Any],
    chosen: Mapping[str, ModelSpec],
    benchmarks: Sequence[str],
    models: Mapping[str, ModelSpec],
) -> RunSpec:
    judge = _helper(flags.get("judge"), models)
    own_captions = flags.get("captioner") == SELF
    captioner = None if own_captions else _helper(flags.get("captioner"), models)
    for name, spec in {**chosen, **dict([pair for pair in (judge, captioner) if pair])}.items():
        _check(name, spec, dry_run=bool(flags.get("dry_run")))
        if flags.get("cost_limit") and spec.is_endpoint and spec.price is None:
            raise UsageError(f"--cost-limit: model {name!r} has no `price` in the models file to reckon with")
    return RunSpec(
        data=_place(flags["data"], "--data"),
        out=_place(flags["out"], "--out"),
        models=chosen,
        benchmarks=tuple(benchmarks),
        tasks=names(flags.get("tasks")),
        settings=names(flags.get("settings")),
        limit=Limit.parse(flags["limit"]) if flags.get("limit") else None,
        sample_ids=tuple(flags.get("sample_ids") or ()),
        judge=judge,
        captioner=captioner,
        own_captions=own_captions,
        scorers=tuple(ScorerSpec.parse(text) for text in flags.get("scorers") or ()),
        address=flags.get("address") or ray_address(),
        fail_on_error=FailureBudget(str(flags.get("fail_on_error", "true"))),
        seed=int(flags.get("seed", 42)),
        prompts=_own_wording(flags.get("prompts"), benchmarks),
        instead=dict(_pair(text) for text in flags.get("instead") or ()),
        command=tuple(sys.argv),
        human=read_human(flags.get("human") or ()),
        cost_limit=_dollars(flags.get("cost_limit")),
    )


def checked_model(name: str, files: Sequence[Path]) -> tuple[str, ModelSpec]:
    """One model by name, looked at as far as that can be done without loading it.

    Raises:
        UsageError: it is not known, cannot run, or its key is not set.
    """
    spec = select_models([name], load_models(files))[name]
    _check(name, spec, dry_run=False)
    return name, spec


def read_column_map(path: Path) -> dict[str, str]:
    """`--column-map`: YAML of our names and the source's.

    Raises:
        UsageError: it cannot be read or has another form.
    """
    try:
        raw, _ = read_yaml(path, "file")
    except YamlFileError as error:
        raise UsageError(f"--column-map {error}") from error
    if not isinstance(raw, dict) or not all(isinstance(one, str) for pair in raw.items() for one in pair):
        raise UsageError(f"--column-map {path}: a mapping of names to names was expected, such as `sentence: text`")
    return dict(raw)


def _dollars(value: object) -> float | None:
    if value is None:
        return None
    try:
        dollars = float(str(value).removeprefix("$"))
    except ValueError:
        dollars = 0.0
    if not 0.0 < dollars < float("inf"):
        raise UsageError(f"--cost-limit {value}: give dollars above 0, such as 5 or 0.50")
    return dollars


def _helper(name: str | None, models: Mapping[str, ModelSpec]) -> tuple[str, ModelSpec] | None:
    return (name, select_models([name], models)[name]) if name else None


def _check(name: str, spec: ModelSpec, *, dry_run: bool) -> None:
    """What can be known before a cluster is started: the entry can run, keys are set, local folders are there."""
    if spec.unsupported:
        raise UsageError(
            f"model {name!r} cannot run as it is listed. {spec.unsupported.reason.strip()} It runs with "
            f"{spec.unsupported.runs_with.strip()}"
        )
    if spec.is_endpoint and spec.api_key_env and not dry_run:
        secret(spec.api_key_env, model=name)
    looks_local = spec.model.startswith((".", "/", "~"))
    if spec.uses_transformers and looks_local and not Path(spec.model).expanduser().is_dir():
        raise UsageError(f"model {name!r}: no folder {spec.model}; give a checkpoint's folder or a hub id")


def _place(uri: str, flag: str) -> str:
    if "://" in uri and not is_remote(uri):
        raise UsageError(f"{flag} {uri}: only folders and s3:// addresses are supported")
    return uri if is_remote(uri) else os.path.abspath(Path(uri).expanduser())  # noqa: PTH100  links stay as given


def _own_wording(folder: Path | None, benchmarks: Sequence[str]) -> dict[str, dict[str, str]]:
    """`DIR/BENCHMARK/VERSION.txt`; a file that no prompt answers to is an error, not a silence."""
    if folder is None:
        return {}
    if not folder.is_dir():
        raise UsageError(f"--prompts {folder}: no such folder")
    wording: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*/*.txt")):
        name = path.parent.name
        if name not in benchmarks:
            continue
        known = benchmark(name).prompt_texts
        if path.stem not in known:
            raise UsageError(f"--prompts {path}: {name} has no prompt {path.stem!r}; known: {', '.join(sorted(known))}")
        wording.setdefault(name, {})[path.stem] = path.read_text(encoding="utf-8").removesuffix("\n")
    return wording


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise UsageError(f"--prompt-version {text!r}: give OLD=NEW, such as oevqa-it-v1=oevqa-it-v1-plain")
    return old, new
