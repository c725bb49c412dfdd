"""`vlmsweep list models --check`: revisions of models files against the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from models.engines.hub import DEFAULT_REVISION, HubAnswer, Question, ask_hub, hub_id, is_commit
from models.errors import HubUnreachableError
from models.spec import ModelSpec

CHECK_HEADS: Final = ("model", "checkpoint", "revision", "main at the hub", "state")
CURRENT, BEHIND, NOT_PINNED = "current", "behind", "not pinned"
_DEADLINE_S: Final = 120.0  # for the whole catalog


def check_revisions(models: Mapping[str, ModelSpec], *, endpoint: str | None = None) -> list[list[str]]:
    """Return a row a model of the hub, with the columns of `CHECK_HEADS`, by name; `endpoint` is the hub's address.

    A pinned commit is `behind` where the hub's main is another one: newer, or a repaired file. Raises
    HubUnreachableError if the hub answers nothing.
    """
    ids = {name: model_id for name, spec in sorted(models.items()) if (model_id := hub_id(spec))}
    heads = {name: (model_id, DEFAULT_REVISION) for name, model_id in ids.items()}
    pins = {name: (model_id, models[name].revision or DEFAULT_REVISION) for name, model_id in ids.items()}
    answers = ask_hub([*heads.values(), *pins.values()], endpoint=endpoint, deadline_s=_DEADLINE_S)
    if answers and all(answer.state == "unreachable" for answer in answers.values()):
        reason = next(iter(answers.values())).problem
        raise HubUnreachableError(f"the hub cannot be reached ({reason}); check the network, HF_ENDPOINT and proxies")
    return [_row(name, models[name], answers, heads[name], pins[name]) for name in ids]


def _row(name: str, spec: ModelSpec, answers: Mapping[Question, HubAnswer], head: Question, pin: Question) -> list[str]:
    return [name, head[0], pin[1], answers[head].commit, _state(spec, answers[head], answers[pin])]


def _state(spec: ModelSpec, head: HubAnswer, pin: HubAnswer) -> str:
    problem = next((answer.problem for answer in (pin, head) if answer.problem), "")
    if problem:
        return problem
    if not is_commit(spec.revision):
        return NOT_PINNED
    return CURRENT if head.commit == pin.commit else BEHIND
