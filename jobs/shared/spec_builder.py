"""Build a checked `RunSpec` from options."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

from jobs.shared.model_checks import ModelChecks, Place, refuse_unable, runnable_models
from jobs.shared.options import RunOptions, names, refuse
from models.catalog_loader import load_models, named_models, select_models, trust_remote_code
from models.environment import ray_address
from models.errors import YamlFileError
from models.selectors import add_direct_models, direct_name, is_direct_path
from models.spec import ModelSpec
from models.strict_yaml import read_text, read_yaml
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.prompt_templates import check_placeholders
from pipelines.errors import UsageError
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.human_files import parse_human_flag, read_human
from pipelines.plan.options import CommonOptions, SweepOptions
from pipelines.plan.run_manifest import load_existing_run
from pipelines.plan.run_spec import SELF, RunSpec, Stage
from pipelines.storage.backend import is_remote, location_problem
from pipelines.storage.store import Store

Options = TypeVar("Options", bound=SweepOptions)

_log = logging.getLogger(__name__)


def build_run_spec(options: RunOptions, stages: Sequence[Stage] = (), *, models_flag: str = "--models") -> RunSpec:
    """Build the checked spec of a sweep; no `stages` means all. Groups of models leave out what cannot run.

    Raises:
        UsageError: a name is unknown, a value has the wrong form, a file cannot be read, or named models cannot run.
    """
    if not options.models:
        raise UsageError(f"{models_flag}: name at least one model; see `vlmsweep list models`")
    if not options.benchmarks:
        raise UsageError("--benchmarks: name at least one benchmark; see `vlmsweep list benchmarks`")
    if options.until and list(stages) == [Stage.PREDICT]:
        raise UsageError("--until: `predict` computes no scores; use `vlmsweep run`")
    options, catalog = _with_models(options.without_ignored())
    judges, captioners = _judges(options, catalog), named_models(_captioners(options)[0], catalog, "--captioner")
    checks = _checks(options)
    if stages and Stage.PREDICT not in stages:  # the models and captioners have answered already
        refuse_unable(judges, checks)
        captioners, judges, checks = {}, {}, replace(checks, place="plan")
    models = runnable_models(options.models, catalog, {**judges, **captioners}, checks, flag=models_flag)
    return _spec(options, models, options.benchmarks, catalog)


def validate_remote_flags(options: SweepOptions) -> dict[str, ModelSpec]:
    """Return the models of flags for another machine; nothing that only that machine can know is checked.

    Models of a group that cannot run are left out there.
    """
    _refuse_relative_folders(options)
    options, catalog = _with_models(options)
    if not options.models or not options.benchmarks:
        raise UsageError("--models and --benchmarks: name at least one of each")
    helpers = {**_judges(options, catalog), **named_models(_captioners(options)[0], catalog, "--captioner")}
    named = select_models([name for name in options.models if name in catalog], catalog)
    refuse_unable({**named, **helpers}, ModelChecks(place="remote", cost_limit=options.cost_limit is not None))
    load_tables(checked_location(options.data, "--data"), options.benchmarks)
    defined = [name for name in options.benchmarks if name in benchmark_names()]
    is_there = is_remote(options.data) or Path(options.data).expanduser().is_dir()
    if not defined and not is_there:  # table benchmarks of a root that only the cluster has
        return select_models(options.models, catalog)
    if not is_there:
        options = replace(options, benchmarks=tuple(defined))
    local_files = tuple(spec for spec in options.human if not is_remote(parse_human_flag(spec)[1]))
    remote_options = replace(options, judge=None, judge_checks=0, captioner=None, human=local_files)
    _spec(remote_options, {}, options.benchmarks, catalog)
    return select_models(options.models, catalog)


def external_spec(options: RunOptions) -> RunSpec:
    """Build the spec for answers made remote_options; models and benchmarks are those of the file."""
    load_tables(checked_location(options.data, "--data"), options.benchmarks)
    benchmarks = options.benchmarks or tuple(benchmark_names())
    options, catalog = _with_models(options)
    refuse_unable(_judges(options, catalog), _checks(options))
    return _spec(options, {}, benchmarks, catalog)


def report_spec(options: SweepOptions) -> RunSpec:
    """Build the spec for a report of all that an output holds: data, seed and benchmarks are those of its runs."""
    run = load_existing_run(Store(checked_location(options.out, "--out")))
    options = replace(options, data=options.data or run.sweep.data, seed=run.sweep.seed, captioner=None)
    options, catalog = _with_models(options.without_ignored())
    return _spec(options, {}, sorted({entry.benchmark for entry in run.entries} & {*benchmark_names()}), catalog)


def _checks(options: RunOptions) -> ModelChecks:
    place: Place = "plan" if options.dry_run else "cluster" if options.address or ray_address() else "here"
    return ModelChecks(place=place, cost_limit=options.cost_limit is not None)


def _with_models(options: Options) -> tuple[Options, dict[str, ModelSpec]]:
    """Return options in which models given by hub id, path or address have their names, and all models by name."""
    judges, captioners = names(options.judge), names(options.captioner)
    catalog = add_direct_models([*options.models, *judges, *captioners], load_models(options.models_file))
    catalog = trust_remote_code(catalog, map(direct_name, options.trust_remote_code))
    batch = {name: spec.model_copy(update={"batch": True}) for name, spec in catalog.items() if spec.has_batches}
    options = replace(
        options,
        models=tuple(dict.fromkeys(map(direct_name, options.models))),
        judge=",".join(map(direct_name, judges)),
        captioner=",".join(map(direct_name, captioners)),
    )
    return options, {**catalog, **batch} if options.batch else catalog


def _refuse_relative_folders(options: SweepOptions) -> None:
    """Raise UsageError for a model or scorer in a folder that a job on another machine cannot find."""
    scorers = (text.partition("=")[2].partition(":")[0] for text in options.scorers)
    for word in (*options.models, *names(options.judge), *names(options.captioner), *scorers):
        if is_direct_path(word) and not Path(word).is_absolute():
            raise UsageError(
                f"{word}: a job runs in a folder of its own on another machine; give the absolute path of a folder "
                "that every node of the cluster sees, or an s3:// folder"
            )


def _spec(
    options: SweepOptions, models: Mapping[str, ModelSpec], benchmarks: Sequence[str], catalog: Mapping[str, ModelSpec]
) -> RunSpec:
    data = checked_location(options.data, "--data")
    load_tables(data, benchmarks)
    judges = tuple(_judges(options, catalog).items())
    captioner_names, own_captions = _captioners(options)
    captioners = tuple(named_models(captioner_names, catalog, "--captioner").items())
    named = {**models, **dict((*judges, *captioners))}
    if options.batch and named and not any(spec.has_batches for spec in named.values()):
        raise UsageError("--batch: no model of this run is at an endpoint; only those have batches")
    prompt_versions, prompt_sets = _prompt_versions(options.prompt_versions)
    as_given = {field.name: getattr(options, field.name) for field in fields(CommonOptions)}
    resolved = {
        "data": data,
        "out": checked_location(options.out, "--out"),
        "benchmarks": tuple(benchmarks),
        "address": options.address or ray_address(),
        "command": tuple(sys.argv),
    }
    return RunSpec(
        **{**as_given, **resolved},
        models=models,
        judges=judges,
        captioners=captioners,
        own_captions=own_captions,
        prompts=_prompt_texts(options.prompts, benchmarks),
        prompt_versions=prompt_versions,
        prompt_sets=prompt_sets,
        human=read_human(options.human),
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


def _judges(options: SweepOptions, catalog: Mapping[str, ModelSpec]) -> dict[str, ModelSpec]:
    if not names(options.judge):
        refuse({"judge-checks": options.judge_checks}, "judges are asked again; name one by --judge")
    return named_models(names(options.judge), catalog, "--judge")


def _captioners(options: SweepOptions) -> tuple[tuple[str, ...], bool]:
    """Return the names of the captioners, and whether each model captions for itself instead."""
    captioners = names(options.captioner)
    if SELF in captioners and len(captioners) > 1:
        raise UsageError(
            f"--captioner {','.join(captioners)}: self allows no other captioner; name the "
            "models to compare their captions"
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
