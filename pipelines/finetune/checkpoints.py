"""Checkpoints of a training in its output: the newest state, and the best weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pipelines.finetune.records import CHECKPOINTS, History
from pipelines.storage.store import Store

if TYPE_CHECKING:
    from models.finetuning.trainer import Trainer

_STATE: Final = re.compile(rf"{CHECKPOINTS}/step-(\d+)\.safetensors")
_BEST: Final = f"{CHECKPOINTS}/best.safetensors"


def save_checkpoint(out: Store, trainer: Trainer, history: History) -> None:
    """Write the state after the present step, whole or not at all, then delete older ones."""
    out.put(f"{CHECKPOINTS}/step-{trainer.step:07}.safetensors", trainer.state(history.to_json()))
    for step, path in _states(out).items():
        if step < trainer.step:
            out.delete(path)


def resume(out: Store, trainer: Trainer) -> History:
    """Restore the newest state; return the history so far, an empty one where there is no state.

    Raises:
        TrainingStateError: the state is damaged, or of another model or other settings.
    """
    states = _states(out)
    if not states:
        return History()
    path = states[max(states)]
    return History.from_json(trainer.load_state(out.get(path), f"{out.uri}/{path}"))


def save_best(out: Store, trainer: Trainer) -> None:
    """Keep the present weights as the best ones."""
    out.put(_BEST, trainer.weights())


def load_best(out: Store, trainer: Trainer) -> None:
    """Replace the trainer's weights by the best ones."""
    from safetensors.torch import load

    trainer.load_weights(load(out.get(_BEST)), f"{out.uri}/{_BEST}")


def delete_checkpoints(out: Store) -> None:
    """Delete all states and the best weights."""
    for info in out.list(CHECKPOINTS):
        out.delete(info.path)


def _states(out: Store) -> dict[int, str]:
    """Return step -> path of the states."""
    matches = (_STATE.fullmatch(info.path) for info in out.list(CHECKPOINTS))
    return {int(match[1]): match[0] for match in matches if match}
