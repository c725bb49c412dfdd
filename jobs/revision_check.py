"""`vlmsweep list models --check`: revisions of models files and their adapters against the hub."""

from collections.abc import Mapping
from typing import Final

from models.engines.hub import DEFAULT_REVISION, HubAnswer, Question, adapter_id, ask_hub, hub_id, is_commit
from models.errors import HubUnreachableError
from models.spec import ModelSpec

CHECK_HEADS: Final = ("model", "checkpoint", "revision", "main at the hub", "state")
CURRENT, BEHIND, NOT_PINNED = "current", "behind", "not pinned"
_DEADLINE_S: Final = 120.0  # for the whole catalog


def check_revisions(models: Mapping[str, ModelSpec], *, endpoint: str | None = None) -> list[list[str]]:
    """Return a row for each checkpoint and adapter of the hub, with the columns of `CHECK_HEADS`, by model.

    A pinned commit is `behind` where the hub's main is another one: newer, or a repaired file. `endpoint` is the hub's
    address. Raises HubUnreachableError if the hub answers nothing.
    """
    pins = [(name, *pin) for name, spec in sorted(models.items()) for pin in _pins(spec)]
    questions = [(hub_name, branch) for _, hub_name, revision in pins for branch in (DEFAULT_REVISION, revision)]
    answers = ask_hub(questions, endpoint=endpoint, deadline_s=_DEADLINE_S)
    if answers and all(answer.state == "unreachable" for answer in answers.values()):
        reason = next(iter(answers.values())).problem
        raise HubUnreachableError(f"the hub cannot be reached ({reason}); check the network, HF_ENDPOINT and proxies")
    rows = []
    for name, hub_name, revision in pins:
        head, pin = answers[hub_name, DEFAULT_REVISION], answers[hub_name, revision]
        rows.append([name, hub_name, revision, head.commit, _state(revision, head, pin)])
    return rows


def _pins(spec: ModelSpec) -> list[Question]:
    """Return the ids at the hub of a model's checkpoint and adapter, each with the revision that its entry names."""
    pins = ((hub_id(spec), spec.revision), (adapter_id(spec), spec.adapter_revision))
    return [(hub_name, revision or DEFAULT_REVISION) for hub_name, revision in pins if hub_name]


def _state(revision: str, head: HubAnswer, pin: HubAnswer) -> str:
    problem = next((answer.problem for answer in (pin, head) if answer.problem), "")
    if problem:
        return problem
    if not is_commit(revision):
        return NOT_PINNED
    return CURRENT if head.commit == pin.commit else BEHIND
