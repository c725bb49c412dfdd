"""Check before a cluster starts which models of a sweep can run; groups of models leave out those that cannot."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from models.availability import missing_path, unavailable_reason
from models.catalog_loader import load_models, named_models, select_models
from models.checkpoints.problems import checkpoint_problem
from models.errors import EngineUnreachableError
from models.selectors import add_direct_models, direct_name, group_members
from models.spec import ModelSpec
from models.weight_headers import check_gguf, gguf_file
from pipelines.errors import ModelUnavailableError, UsageError

_log = logging.getLogger(__name__)

Place: TypeAlias = Literal["here", "cluster", "remote", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChecks:
    """What can be checked of models before they run."""

    place: Place
    """`here`: this machine, whose packages count; `cluster`: its workers, whose packages are not known, with files and
    keys of this machine; `remote`: nothing of this machine counts; `plan`: nothing runs, keys and packages do not
    count."""
    cost_limit: bool = False  # endpoints must have a price


def runnable_models(
    requested: Sequence[str],
    catalog: Mapping[str, ModelSpec],
    helpers: Mapping[str, ModelSpec],
    checks: ModelChecks,
    *,
    flag: str = "--models",
) -> dict[str, ModelSpec]:
    """Return the requested models that can run; one warning for each group names what it leaves out, and why.

    Named models and `helpers`, which are judges and captioners, must run; a model of a group that is also requested
    counts as named.

    Raises:
        UnknownModelError: a word of `requested` is neither a model nor a group.
        UsageError, ModelUnavailableError: named models cannot run, or none of a group can. The message gives each
            reason.
    """
    groups = {text: group_members(text, catalog) for text in requested if text not in catalog}
    unknown = [text for text, members in groups.items() if members is None]
    named = {**select_models([*unknown, *(name for name in requested if name in catalog)], catalog), **helpers}
    refuse_unable(named, checks)
    left_out = {
        text: {
            name: reason
            for name in members or ()
            if name not in requested and (reason := _reason_in_group(catalog[name], checks))
        }
        for text, members in groups.items()
    }
    for text, reasons in left_out.items():
        _warn_of_group(f"{flag} {text}", groups[text] or [], reasons)
    selected = [name for text in requested for name in groups.get(text) or [text] if name not in left_out.get(text, ())]
    models = {name: catalog[name] for name in selected}
    for name, spec in {**models, **helpers}.items():
        _warn_of_missing_template(name, spec)
    return models


def refuse_unable(models: Mapping[str, ModelSpec], checks: ModelChecks) -> None:
    """Raise one error that gives each of these models that cannot run, with its reason.

    Raises:
        ModelUnavailableError: their checkpoints cannot be loaded, and nothing else is wrong.
        UsageError: an entry, a key or a package is wrong or missing.
    """
    reasons = {name: reason for name, spec in models.items() if (reason := unable_reason(spec, checks))}
    is_loading = all(reason == checkpoint_problem(models[name]) for name, reason in reasons.items())
    error = ModelUnavailableError if is_loading else UsageError
    if len(reasons) == 1:
        ((name, reason),) = reasons.items()
        raise error(f"model {name!r}: {reason}")
    if reasons:
        raise error(f"{len(reasons)} of the named models cannot run:{by_reason(reasons)}")


def named_model(word: str, files: Sequence[Path], flag: str) -> tuple[str, ModelSpec]:
    """Return the name and entry of a model, given by name, hub id, path or address; UnknownModelError for none."""
    name = direct_name(word)
    return name, named_models([name], add_direct_models([word], load_models(files)), flag)[name]


def checked_model(word: str, files: Sequence[Path]) -> tuple[str, ModelSpec]:
    """Return the model that a word names as `named_model`, checked without loading it.

    Raises UnknownModelError, or as `refuse_unable`.
    """
    name, spec = named_model(word, files, "MODEL")
    refuse_unable({name: spec}, ModelChecks(place="here"))
    _warn_of_missing_template(name, spec)
    return name, spec


def unable_reason(spec: ModelSpec, checks: ModelChecks) -> str:
    """Return why a model cannot run and what to do, '' if it can as far as `checks` can know."""
    if spec.unsupported:
        return unavailable_reason(spec)
    untrusted = spec.remote_code and not spec.trust_remote_code
    if (
        checks.place == "here"
        or (checks.place == "cluster" and spec.is_endpoint)
        or (checks.place != "plan" and untrusted)
    ):
        reason = unavailable_reason(spec)
        if reason:
            return reason
    if checks.cost_limit and spec.is_endpoint and spec.price is None:
        return "--cost-limit needs its price: set `price` in its entry of the models file"
    return "" if checks.place == "remote" else _missing_files(spec, is_planned=checks.place == "plan")


def _reason_in_group(spec: ModelSpec, checks: ModelChecks) -> str:
    if spec.withdrawn:
        return "withdrawn by its maker: name it to send it requests all the same"
    return unable_reason(spec, checks)


def _warn_of_group(group: str, members: Sequence[str], reasons: Mapping[str, str]) -> None:
    """Warn of what a group leaves out; UsageError if nothing is left."""
    if not members:
        raise UsageError(f"{group}: no model is in this group; see `vlmsweep list models`")
    if len(reasons) == len(members):
        raise UsageError(f"{group}: none of these models can run; see `vlmsweep list models`{by_reason(reasons)}")
    if reasons:
        count = f"{len(reasons)} of {len(members)} models"
        _log.warning("%s skips %s, which cannot run here:%s", group, count, by_reason(reasons))


def by_reason(reasons: Mapping[str, str]) -> str:
    """Return a line for each reason with the models that have it."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return "".join(f"\n  {', '.join(models)}: {reason}" for reason, models in names.items())


def _missing_files(spec: ModelSpec, *, is_planned: bool) -> str:
    """Return why the files of a local model cannot be used."""
    path = gguf_file(spec.model) if spec.runs_locally else None
    missing = missing_path(spec)
    if missing or path is None:
        folder = Path(spec.model).expanduser()
        # A plan would else read the whole of a folder that holds no model, to name its content.
        is_wrong = is_planned and spec.runs_locally and folder.is_dir() and not (folder / "config.json").is_file()
        return missing or (checkpoint_problem(spec) if is_wrong else "")
    try:
        check_gguf(path)
    except EngineUnreachableError as error:
        return str(error)
    return ""


def _warn_of_missing_template(name: str, spec: ModelSpec) -> None:
    path = gguf_file(spec.model) if spec.runs_locally else None
    if path and spec.chat_format is None and not check_gguf(path).has_chat_template:
        _log.warning(
            "model %r: %s has no chat template, so that every request fails but those of MAIA's unimodal setting; set "
            "chat_format in its entry (vicuna, or plain for unformatted text)",
            name,
            path.name,
        )
