"""Pin what a sweep loads from the hub: each branch or tag becomes the commit that it is when an output is begun.

Weights, LoRA adapters and scorers are pinned alike. Request ids hash the first two, and score parts the third, so an
output keeps what it was begun with: a resumed run repeats nothing and mixes no weights, whatever the branch has become.
A commit in an entry needs no hub; a local folder is named by its content (`models.fingerprint`).
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from models.engines.hub import (
    ADAPTER_CONFIG,
    DEFAULT_REVISION,
    HubAnswer,
    adapter_id,
    ask_hub,
    cached_commit,
    hub_id,
    is_commit,
    is_hub_name,
)
from models.errors import UnknownRevisionError
from models.spec import ModelSpec
from pipelines.plan.context import helper_models
from pipelines.plan.run_manifest import RecordedScorer, RunManifest
from pipelines.plan.run_spec import RunSpec, ScorerSpec, Stage, scorers_by_kind

log = logging.getLogger(__name__)

_Kind = Literal["weights", "adapter", "scorer"]
_FIELDS: Final[Mapping[_Kind, tuple[str, str]]] = {
    "weights": ("revision", "requested_revision"),
    "adapter": ("adapter_revision", "requested_adapter_revision"),
}


@dataclass(frozen=True, slots=True)
class PinnedSweep:
    """A sweep whose checkpoints have commits where these are known, and warnings about the others."""

    spec: RunSpec
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """Files of the hub that a sweep names: a model's weights, its adapter, or a scorer."""

    kind: _Kind
    name: str  # of the model; of a scorer its address
    hub_id: str
    revision: str  # as it was requested

    def __str__(self) -> str:
        owner = f"scorer {self.name}" if self.kind == "scorer" else f"model {self.name}"
        return f"the adapter of {owner}" if self.kind == "adapter" else owner

    @property
    def file(self) -> str:
        """A file that is in the cache wherever the checkpoint is."""
        return ADAPTER_CONFIG if self.kind == "adapter" else "config.json"


def keep_revisions(spec: RunSpec, run: RunManifest) -> RunSpec:
    """Return a sweep with the commits that its output was begun with; `run` is the output's `run.json`."""
    return _with_revisions(spec, _recorded(run))


def pin_revisions(
    spec: RunSpec, run: RunManifest, stages: Collection[Stage], *, endpoint: str | None = None
) -> PinnedSweep:
    """Return a sweep with the commits of its output, and those of the hub for what is new in it.

    Only what the stages load is asked about. Where the hub cannot be reached, a run on this machine takes the commit
    in its cache; else a revision stays as it is, with a warning. `endpoint` is the hub's address.

    Raises:
        UnknownRevisionError: the hub has no such revision, or no such checkpoint and no cluster may know it.
    """
    spec, recorded = keep_revisions(spec, run), _recorded(run)
    resolved = _resolve(spec, [each for each in _open(spec, stages) if each not in recorded], {}, endpoint)
    for checkpoint, answer in resolved.answers.items():
        # Workers of a cluster may have a folder or a token that is not here.
        is_unknown = answer.state == "unknown revision" or (answer.state == "unknown model" and not spec.address)
        if is_unknown and not _is_default(spec, checkpoint):
            raise UnknownRevisionError(_refusal(checkpoint, answer.problem))
    return PinnedSweep(resolved.spec, tuple(_warnings(spec, resolved)))


def pin_newest(spec: RunSpec, run: RunManifest, *, endpoint: str | None = None) -> PinnedSweep:
    """Return a sweep with today's commits; where the hub cannot be reached, with those that `run` has.

    What the hub does not know stays as it is, with a warning.
    """
    resolved = _resolve(spec, list(_open(spec, (Stage.PREDICT, Stage.SCORE))), _recorded(run), endpoint)
    return PinnedSweep(resolved.spec, tuple(_warnings(spec, resolved)))


def recorded_scorers(spec: RunSpec) -> dict[str, RecordedScorer]:
    """Return the scorers with a commit as `run.json` holds them, by address."""
    scorers = {scorer.address: scorer for name in spec.benchmarks for scorer in spec.scorers_for(name)}
    return {
        address: RecordedScorer(model=scorer.model, revision=commit, requested_revision=_requested(scorer))
        for address, scorer in scorers.items()
        if (commit := spec.scorer_commits.get(address))
    }


def _requested(scorer: ScorerSpec) -> str:
    return scorer.revision or DEFAULT_REVISION


def _open(spec: RunSpec, stages: Collection[Stage]) -> Iterator[_Checkpoint]:
    """Yield what the stages load from the hub by a name that may move."""
    models = {**spec.models, **dict(spec.captioners)} if Stage.PREDICT in stages else {}
    models |= dict(spec.judges) if Stage.SCORE in stages else {}
    checkpoints = [each for name, model in models.items() for each in _model_checkpoints(name, model)]
    if Stage.SCORE in stages:
        checkpoints += _scorers(spec)
    yield from (each for each in checkpoints if each.hub_id and not is_commit(each.revision))


def _model_checkpoints(name: str, model: ModelSpec) -> tuple[_Checkpoint, _Checkpoint]:
    return (
        _Checkpoint("weights", name, hub_id(model), model.revision or DEFAULT_REVISION),
        _Checkpoint("adapter", name, adapter_id(model), model.adapter_revision or DEFAULT_REVISION),
    )


def _scorers(spec: RunSpec) -> list[_Checkpoint]:
    """Return the scorers of the hub that have no commit yet, each once."""
    scorers = {scorer.address: scorer for name in spec.benchmarks for scorer in spec.scorers_for(name)}
    return [
        _Checkpoint("scorer", address, scorer.model, _requested(scorer))
        for address, scorer in scorers.items()
        if is_hub_name(scorer.model) and address not in spec.scorer_commits
    ]


def _recorded(run: RunManifest) -> dict[_Checkpoint, str]:
    """Return the revisions with which an output was begun."""
    revisions = {}
    for name, fields in run.models.items():
        for kind, (field, requested_field) in _FIELDS.items():
            revision = str(fields.get(field) or DEFAULT_REVISION)
            model_id = str(fields.get("model" if kind == "weights" else "adapter") or "")
            revisions[_Checkpoint(kind, name, model_id, str(fields.get(requested_field) or revision))] = revision
    for address, scorer in run.scorers.items():
        revisions[_Checkpoint("scorer", address, scorer.model, scorer.requested_revision)] = scorer.revision
    return revisions


@dataclass(frozen=True, slots=True)
class _Resolved:
    spec: RunSpec
    answers: Mapping[_Checkpoint, HubAnswer]
    stored: Mapping[_Checkpoint, str]  # commits that are not of the hub's answers


def _resolve(
    spec: RunSpec, checkpoints: Collection[_Checkpoint], recorded: Mapping[_Checkpoint, str], endpoint: str | None
) -> _Resolved:
    """Replace revisions by the hub's commits; where it is unreachable, by recorded ones or those of the cache."""
    by_question = ask_hub([(each.hub_id, each.revision) for each in checkpoints], endpoint=endpoint)
    answers = {each: by_question[each.hub_id, each.revision] for each in checkpoints}
    stored: dict[_Checkpoint, str] = {}
    for each, answer in answers.items():
        if answer.state == "unreachable":
            local = "" if spec.address else cached_commit(each.hub_id, each.revision, file=each.file)
            commit = recorded.get(each) or local
            stored |= {each: commit} if is_commit(commit) else {}
    commits = stored | {each: answer.commit for each, answer in answers.items() if answer.commit}
    for each, commit in commits.items():
        log.info("%s: %s of %s is commit %s", each, each.revision, each.hub_id, commit)
    return _Resolved(_with_revisions(spec, commits), answers, stored)


def _refusal(checkpoint: _Checkpoint, problem: str) -> str:
    if checkpoint.kind == "scorer":
        return f"--scorer: {problem}; correct its name or revision, or give a local folder"
    key = "model" if checkpoint.kind == "weights" else "adapter"
    remedy = f"correct `{key}` or `{_FIELDS[checkpoint.kind][0]}` in its entry, or give a local folder"
    return f"model {checkpoint.name!r}: {problem}; {remedy}"


def _is_default(spec: RunSpec, checkpoint: _Checkpoint) -> bool:
    """Return whether no flag names a scorer: without it the run goes on, and its metrics are null."""
    return checkpoint.kind == "scorer" and checkpoint.name not in {
        scorer.address for scorer in scorers_by_kind(spec.scorers).values()
    }


def _warnings(spec: RunSpec, resolved: _Resolved) -> Iterator[str]:
    for each, answer in resolved.answers.items():
        is_absent = answer.state == "unreachable" and each not in resolved.stored and not spec.address
        if is_absent and _is_default(spec, each):
            continue  # scoring says why its metrics are null, where any is due
        if answer.state == "unreachable":
            used = f"; commit {resolved.stored[each]}, known from before, is used" if each in resolved.stored else ""
            yield f"{each}: the hub did not say which commit {each.revision!r} is ({answer.problem}){used}"
        elif answer.problem:
            yield f"{each}: {answer.problem}"


def _with_revisions(spec: RunSpec, revisions: Mapping[_Checkpoint, str]) -> RunSpec:
    models = {**helper_models(spec), **spec.models}
    changed = {name: _pinned_model(name, model, revisions) for name, model in models.items()}
    commits = {each.name: revision for each, revision in revisions.items() if each.kind == "scorer"}
    return replace(
        spec,
        models={name: changed[name] for name in spec.models},
        judges=tuple((name, changed[name]) for name, _ in spec.judges),
        captioners=tuple((name, changed[name]) for name, _ in spec.captioners),
        scorer_commits={**commits, **spec.scorer_commits},
    )


def _pinned_model(name: str, model: ModelSpec, revisions: Mapping[_Checkpoint, str]) -> ModelSpec:
    update: dict[str, str] = {}
    requested = {"weights": model.requested_revision, "adapter": model.requested_adapter_revision}
    for each in _model_checkpoints(name, model):
        revision = revisions.get(each) if each.hub_id else None
        if revision and revision != each.revision:
            field, requested_field = _FIELDS[each.kind]
            update |= {field: revision, requested_field: requested[each.kind] or each.revision}
    return model.model_copy(update=update) if update else model
