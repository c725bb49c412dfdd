"""Build a checked `RunSpec` from flags."""

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.shared.flags import StressFlags, SweepFlags
from jobs.shared.model_checks import ModelChecks, Place, refuse_unable, runnable_models
from jobs.shared.options import names, refuse
from models.catalog_loader import load_models, named_models, select_models, trust_remote_code
from models.environment import ray_address
from models.errors import YamlFileError
from models.selectors import add_direct_models, direct_name, is_direct_path
from models.spec import ModelSpec
from models.strict_yaml import read_text, read_yaml
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.prompt_templates import check_placeholders
from pipelines.errors import UsageError
from pipelines.ingest.human_files import parse_human_flag, read_human
from pipelines.ingest.known import load_tables
from pipelines.plan.run_manifest import load_existing_run
from pipelines.plan.run_spec import SELF, FailureBudget, RunSpec, ScorerSpec, Stage
from pipelines.plan.selection import Limit
from pipelines.plan.stopping.until import Until
from pipelines.plan.stress.conditions import Condition
from pipelines.storage.backend import is_remote, location_problem
from pipelines.storage.store import Store

_log = logging.getLogger(__name__)
_UNUSED: Mapping[Stage, dict[str, Any]] = {
    Stage.PREDICT: {"judge": None, "judge_checks": 0, "scorers": None, "human": None},
    Stage.REPORT: {"judge": None, "judge_checks": 0, "scorers": None, "cost_limit": None},
}
"""Flags without effect on a stage that runs alone; it accepts them so that one file of flags serves all stages."""


def build_run_spec(flags: SweepFlags, stages: Sequence[Stage] = (), *, models_flag: str = "--models") -> RunSpec:
    """Build the checked spec of a sweep; no `stages` means all. Groups of models leave out what cannot run.

    Raises:
        UsageError: a name is unknown, a value has the wrong form, a file cannot be read, or named models cannot run.
    """
    if not names(flags.models):
        raise UsageError(f"{models_flag}: name at least one model; see `vlmsweep list models`")
    if not names(flags.benchmarks):
        raise UsageError("--benchmarks: name at least one benchmark; see `vlmsweep list benchmarks`")
    if flags.until and list(stages) == [Stage.PREDICT]:
        raise UsageError("--until: predict alone scores nothing to decide by; use `vlmsweep run`")
    if len(stages) == 1:
        flags = replace(flags, **_UNUSED.get(stages[0], {}))
    flags, catalog = _with_models(flags)
    judges, captioners = _judges(flags, catalog), named_models(_captioners(flags)[0], catalog, "--captioner")
    checks = _checks(flags)
    if stages and Stage.PREDICT not in stages:  # the models and captioners have answered already
        refuse_unable(judges, checks)
        captioners, judges, checks = {}, {}, replace(checks, place="plan")
    models = runnable_models(names(flags.models), catalog, {**judges, **captioners}, checks, flag=models_flag)
    return _spec(flags, models, names(flags.benchmarks), catalog)


def validate_remote_flags(flags: SweepFlags) -> dict[str, ModelSpec]:
    """Return the models of flags for another machine; nothing that only that machine can know is checked.

    Models of a group that cannot run are left out there.
    """
    _refuse_relative_folders(flags)
    flags, catalog = _with_models(flags)
    if not names(flags.models) or not names(flags.benchmarks):
        raise UsageError("--models and --benchmarks: name at least one of each")
    helpers = {**_judges(flags, catalog), **named_models(_captioners(flags)[0], catalog, "--captioner")}
    named = select_models([name for name in names(flags.models) if name in catalog], catalog)
    refuse_unable({**named, **helpers}, ModelChecks(place="elsewhere", cost_limit=flags.cost_limit is not None))
    load_tables(checked_location(flags.data, "--data"), names(flags.benchmarks))
    defined = [name for name in names(flags.benchmarks) if name in benchmark_names()]
    is_there = is_remote(flags.data) or Path(flags.data).expanduser().is_dir()
    if not defined and not is_there:  # table benchmarks of a root that only the cluster has
        return select_models(names(flags.models), catalog)
    if not is_there:
        flags = replace(flags, benchmarks=",".join(defined))
    local_files = [spec for spec in flags.human or () if not is_remote(parse_human_flag(spec)[1])]
    elsewhere = replace(flags, judge=None, judge_checks=0, captioner=None, human=local_files)
    _spec(elsewhere, {}, names(flags.benchmarks), catalog)
    return select_models(names(flags.models), catalog)


def external_spec(flags: SweepFlags) -> RunSpec:
    """Build the spec for answers made elsewhere; models and benchmarks are those of the file."""
    load_tables(checked_location(flags.data, "--data"), names(flags.benchmarks))
    benchmarks = names(flags.benchmarks) or tuple(benchmark_names())
    flags, catalog = _with_models(flags)
    refuse_unable(_judges(flags, catalog), _checks(flags))
    return _spec(flags, {}, benchmarks, catalog)


def report_spec(flags: SweepFlags) -> RunSpec:
    """Build the spec for a report of all that an output holds: data, seed and benchmarks are those of its runs."""
    run = load_existing_run(Store(checked_location(flags.out, "--out")))
    data = flags.data or run.sweep.data
    flags = replace(flags, data=data, seed=run.sweep.seed, captioner=None, **_UNUSED[Stage.REPORT])
    flags, catalog = _with_models(flags)
    return _spec(flags, {}, sorted({entry.benchmark for entry in run.entries} & {*benchmark_names()}), catalog)


def _checks(flags: SweepFlags) -> ModelChecks:
    place: Place = "plan" if flags.dry_run else "cluster" if flags.address or ray_address() else "here"
    return ModelChecks(place=place, cost_limit=flags.cost_limit is not None)


def _with_models(flags: SweepFlags) -> tuple[SweepFlags, dict[str, ModelSpec]]:
    """Return flags in which models given by hub id, path or address have their names, and all models by name."""
    models, judges, captioners, trusted = (
        names(words) for words in (flags.models, flags.judge, flags.captioner, flags.trust_remote_code)
    )
    catalog = add_direct_models([*models, *judges, *captioners], load_models(flags.models_file or []))
    catalog = trust_remote_code(catalog, map(direct_name, trusted))
    batch = {name: spec.model_copy(update={"batch": True}) for name, spec in catalog.items() if spec.has_batches}
    flags = replace(
        flags,
        models=",".join(map(direct_name, models)),
        judge=[*map(direct_name, judges)],
        captioner=[*map(direct_name, captioners)],
    )
    return flags, {**catalog, **batch} if flags.batch else catalog


def _refuse_relative_folders(flags: SweepFlags) -> None:
    """Raise UsageError for a model or scorer in a folder that a job on another machine cannot find."""
    scorers = (text.partition("=")[2].partition(":")[0] for text in flags.scorers or ())
    for word in (*names(flags.models), *names(flags.judge), *names(flags.captioner), *scorers):
        if is_direct_path(word) and not Path(word).is_absolute():
            raise UsageError(
                f"{word}: a job runs in a folder of its own on another machine; give the absolute path of a folder "
                "that every node of the cluster sees, or an s3:// folder"
            )


def _spec(
    flags: SweepFlags, models: Mapping[str, ModelSpec], benchmarks: Sequence[str], catalog: Mapping[str, ModelSpec]
) -> RunSpec:
    load_tables(checked_location(flags.data, "--data"), benchmarks)
    judges = tuple(_judges(flags, catalog).items())
    captioner_names, own_captions = _captioners(flags)
    captioners = tuple(named_models(captioner_names, catalog, "--captioner").items())
    named = {**models, **dict((*judges, *captioners))}
    if flags.batch and named and not any(spec.has_batches for spec in named.values()):
        raise UsageError("--batch: no model of this run is at an endpoint; only those have batches")
    prompt_versions, prompt_sets = _prompt_versions(flags.prompt_versions or ())
    return RunSpec(
        data=checked_location(flags.data, "--data"),
        out=checked_location(flags.out, "--out"),
        models=models,
        benchmarks=tuple(benchmarks),
        tasks=names(flags.tasks),
        settings=names(flags.settings),
        limit=None if flags.limit is None else Limit.parse(flags.limit),
        sample_ids=tuple(flags.sample_ids or ()),
        judges=judges,
        judge_checks=flags.judge_checks,
        captioners=captioners,
        own_captions=own_captions,
        scorers=tuple(ScorerSpec.parse(text) for text in flags.scorers or ()),
        address=flags.address or ray_address(),
        fail_on_error=FailureBudget(flags.fail_on_error),
        seed=flags.seed,
        repeats=flags.repeats,
        until=None if flags.until is None else Until.parse(flags.until),
        stress=_conditions(flags) if isinstance(flags, StressFlags) else (),
        prompts=_prompt_texts(flags.prompts, benchmarks),
        prompt_versions=prompt_versions,
        prompt_sets=prompt_sets,
        command=tuple(sys.argv),
        human=read_human(flags.human or ()),
        cost_limit=_dollars(flags.cost_limit),
        wait_for_nodes_s=_seconds(flags.wait_for_nodes),
    )


def read_column_map(path: Path) -> dict[str, str]:
    """Read `--column-map`: YAML of our names and the source's."""
    try:
        raw, _ = read_yaml(path, "file")
    except YamlFileError as error:
        raise UsageError(f"--column-map {error}") from error
    if not isinstance(raw, dict) or not all(isinstance(name, str) for pair in raw.items() for name in pair):
        raise UsageError(f"--column-map {path}: expected a mapping of names to names, such as `sentence: text`")
    return dict(raw)


def _conditions(flags: StressFlags) -> tuple[Condition, ...]:
    conditions = tuple(dict.fromkeys(map(Condition.parse, names(flags.conditions))))
    if not conditions:
        raise UsageError("--conditions: name at least one, such as order or jpeg-30")
    return conditions


def _dollars(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        dollars = float(value.removeprefix("$"))
    except ValueError:
        dollars = 0.0
    if not 0.0 < dollars < float("inf"):
        raise UsageError(f"--cost-limit {value}: give dollars above 0, such as 5 or 0.50")
    return dollars


def _seconds(value: str | None) -> float | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", value.strip())
    if not match:
        raise UsageError(f"--wait-for-nodes {value}: give a time such as 2h, 45m or 90s")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def _judges(flags: SweepFlags, catalog: Mapping[str, ModelSpec]) -> dict[str, ModelSpec]:
    if not names(flags.judge):
        refuse({"judge-checks": flags.judge_checks}, "judges are asked again; name one by --judge")
    return named_models(names(flags.judge), catalog, "--judge")


def _captioners(flags: SweepFlags) -> tuple[tuple[str, ...], bool]:
    """Return the names of the captioners, and whether each model captions for itself instead."""
    captioners = names(flags.captioner)
    if SELF in captioners and len(captioners) > 1:
        raise UsageError(
            f"--captioner {','.join(captioners)}: self stands alone; to compare own captions with others', name the "
            "models themselves"
        )
    return ((), True) if SELF in captioners else (captioners, False)


def checked_location(uri: str, flag: str) -> str:
    """Return a location with an absolute path; UsageError if it is neither a folder nor `s3://`."""
    if problem := location_problem(uri):
        raise UsageError(f"{flag} {uri}: {problem}")
    return uri if is_remote(uri) else os.path.abspath(Path(uri).expanduser())  # noqa: PTH100  links stay as given


def _prompt_texts(folder: Path | None, benchmarks: Sequence[str]) -> dict[str, dict[str, str]]:
    """Read `DIR/BENCHMARK/VERSION.txt`; a file that matches no prompt is an error."""
    if folder is None:
        return {}
    if not folder.is_dir():
        raise UsageError(f"--prompts {folder}: no such folder")
    texts, unknown = dict[str, dict[str, str]](), set[str]()
    for path in sorted(folder.glob("*/*.txt")):
        name = path.parent.name
        if name not in benchmarks:
            unknown |= {name} - {*benchmark_names()}
            continue
        prompt_texts = benchmark(name).prompt_texts
        if path.stem not in prompt_texts:
            raise UsageError(
                f"--prompts {path}: {name} has no prompt {path.stem!r}; known: {', '.join(sorted(prompt_texts))}"
            )
        try:
            text = read_text(path, "prompt").removesuffix("\n")
        except YamlFileError as error:
            raise UsageError(f"--prompts {error}") from error
        check_placeholders(text, prompt_texts[path.stem], f"--prompts {path}")
        texts.setdefault(name, {})[path.stem] = text
    if unknown:
        _log.warning("--prompts %s: this run uses no text for %s", folder, ", ".join(sorted(unknown)))
    return texts


def _prompt_versions(texts: Sequence[str]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Read `--prompt-version`: versions used in place of others, and sets of prompts by benchmark."""
    versions: dict[str, str] = {}
    sets: dict[str, tuple[str, ...]] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise UsageError(
                f"--prompt-version {text!r}: give OLD=NEW, such as oevqa-it-v1=oevqa-it-v1-plain, or "
                "BENCHMARK=SET,SET, such as unpie=default,paper"
            )
        if old not in benchmark_names():
            versions[old] = new
        elif old in sets:
            raise UsageError(f"--prompt-version {text}: name all sets of prompts of {old} in one flag, as {old}=A,B")
        else:
            sets[old] = names(new)
    return versions, sets
