"""Pin the models of a sweep: each branch or tag of the hub becomes the commit that it is when an output is begun.

Request ids hash the revision, so an output keeps the one with which it was begun: a resumed run repeats nothing and
mixes no weights, whatever the branch has become. A commit in an entry needs no hub; a local folder is named by its
content (`models.fingerprint`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from models.engines.hub import DEFAULT_REVISION, HubAnswer, ask_hub, cached_commit, hub_id, is_commit
from models.errors import UnknownRevisionError
from models.spec import ModelSpec
from pipelines.plan.context import helper_models
from pipelines.plan.run_spec import RunSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PinnedSweep:
    """A sweep whose models have commits where these are known, and warnings about the others."""

    spec: RunSpec
    warnings: tuple[str, ...] = ()


def keep_revisions(spec: RunSpec, run: Mapping[str, Any]) -> RunSpec:
    """Return a sweep with the commits that its output was begun with; `run` is the output's `run.json`."""
    return _with_models(spec, lambda name, model: _as_recorded(model, run.get("models", {}).get(name)) or model)


def pin_revisions(
    spec: RunSpec, run: Mapping[str, Any], stages: Collection[str], *, endpoint: str | None = None
) -> PinnedSweep:
    """Return a sweep with the commits of its output, and those of the hub for models that are new in it.

    Only models that the stages run are asked about. Where the hub cannot be reached, a run on this machine takes the
    commit in its cache; else a revision stays as it is, with a warning. `endpoint` is the hub's address.

    Raises:
        UnknownRevisionError: the hub has no such revision, or no such model and no cluster may know it.
    """
    recorded = run.get("models", {})
    spec = keep_revisions(spec, run)
    new = {name: model for name, model in _running(spec, stages).items() if _is_open(model, recorded.get(name))}
    resolved = _resolve(spec, new, {}, endpoint)
    for name, answer in resolved.answers.items():
        # Workers of a cluster may have a folder or a token that is not here.
        if answer.state == "unknown revision" or (answer.state == "unknown model" and not spec.address):
            raise UnknownRevisionError(
                f"model {name!r}: {answer.problem}; correct `model` or `revision` in its entry, or give a local folder"
            )
    return PinnedSweep(resolved.spec, tuple(_warnings(spec, resolved)))


def pin_newest(spec: RunSpec, run: Mapping[str, Any], *, endpoint: str | None = None) -> PinnedSweep:
    """Return a sweep with today's commits; where the hub cannot be reached, with those that `run` has.

    What the hub does not know stays as it is, with a warning.
    """
    models = {name: model for name, model in _running(spec, ("predict", "score")).items() if _is_open(model, None)}
    resolved = _resolve(spec, models, run.get("models", {}), endpoint)
    return PinnedSweep(resolved.spec, tuple(_warnings(spec, resolved)))


def _running(spec: RunSpec, stages: Collection[str]) -> dict[str, ModelSpec]:
    models = {**spec.models, **dict(spec.captioners)} if "predict" in stages else {}
    return models | (dict(spec.judges) if "score" in stages else {})


def _is_open(model: ModelSpec, recorded: Mapping[str, Any] | None) -> bool:
    """Return whether the hub must say which commit a model is."""
    return bool(hub_id(model)) and not is_commit(model.revision) and not _is_same(model, recorded)


def _is_same(model: ModelSpec, recorded: Mapping[str, Any] | None) -> bool:
    """Return whether an output has this model, by id and by the revision that was requested."""
    if not recorded or recorded.get("model") != model.model:
        return False
    requested = recorded.get("requested_revision") or recorded.get("revision") or DEFAULT_REVISION
    return bool(requested == (model.revision or DEFAULT_REVISION))


def _as_recorded(model: ModelSpec, recorded: Mapping[str, Any] | None) -> ModelSpec | None:
    if recorded is None or not hub_id(model) or is_commit(model.revision) or not _is_same(model, recorded):
        return None
    return _at(model, str(recorded.get("revision") or DEFAULT_REVISION))


def _at(model: ModelSpec, revision: str) -> ModelSpec:
    requested = model.requested_revision or model.revision or DEFAULT_REVISION
    if revision == requested:
        return model
    return model.model_copy(update={"revision": revision, "requested_revision": requested})


@dataclass(frozen=True, slots=True)
class _Resolved:
    spec: RunSpec
    answers: Mapping[str, HubAnswer]  # by name of the model
    stored: Mapping[str, str]  # commits that are not of the hub's answers


def _resolve(
    spec: RunSpec, models: Mapping[str, ModelSpec], recorded: Mapping[str, Any], endpoint: str | None
) -> _Resolved:
    """Replace revisions by the hub's commits; where it is unreachable, by recorded ones or those of the cache."""
    questions = {name: (hub_id(model), model.revision or DEFAULT_REVISION) for name, model in models.items()}
    by_question = ask_hub(questions.values(), endpoint=endpoint)
    answers = {name: by_question[question] for name, question in questions.items()}
    stored: dict[str, str] = {}
    for name, (model_id, revision) in questions.items():
        if answers[name].state == "unreachable":
            earlier = _as_recorded(models[name], recorded.get(name))
            commit = earlier.revision if earlier else "" if spec.address else cached_commit(model_id, revision)
            stored |= {name: commit} if commit and is_commit(commit) else {}
    commits = stored | {name: answer.commit for name, answer in answers.items() if answer.commit}
    for name, commit in commits.items():
        log.info("model %s: %s of %s is commit %s", name, questions[name][1], questions[name][0], commit)
    pinned = _with_models(spec, lambda name, model: _at(model, commits[name]) if name in commits else model)
    return _Resolved(pinned, answers, stored)


def _warnings(spec: RunSpec, resolved: _Resolved) -> Iterator[str]:
    models = {**helper_models(spec), **spec.models}
    for name, answer in resolved.answers.items():
        if answer.state == "unreachable":
            revision = models[name].revision or DEFAULT_REVISION
            used = f"; commit {resolved.stored[name]}, known from before, is used" if name in resolved.stored else ""
            yield f"model {name}: the hub did not say which commit {revision!r} is ({answer.problem}){used}"
        elif answer.problem:
            yield f"model {name}: {answer.problem}"


def _with_models(spec: RunSpec, change: Callable[[str, ModelSpec], ModelSpec]) -> RunSpec:
    changed = {name: change(name, model) for name, model in {**helper_models(spec), **spec.models}.items()}
    return replace(
        spec,
        models={name: changed[name] for name in spec.models},
        judges=tuple((name, changed[name]) for name, _ in spec.judges),
        captioners=tuple((name, changed[name]) for name, _ in spec.captioners),
    )
