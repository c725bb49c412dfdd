"""Checkpoints of a training in its output: the newest state, and the best weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pipelines.errors import UsageError
from pipelines.finetune.records import CHECKPOINTS, History
from pipelines.storage.store import Store

if TYPE_CHECKING:
    from models.finetuning.trainer import Trainer

_STATE: Final = re.compile(rf"{CHECKPOINTS}/step-(\d{{7,}})\.safetensors")
_BEST: Final = "best-*.safetensors"
EXAMPLES_MARK: Final = f"{CHECKPOINTS}/examples.sha256"


def check_examples(out: Store, fingerprint: str) -> None:
    """Store the fingerprint of the examples, or compare it with that of the examples behind the checkpoints.

    Raises:
        UsageError: the checkpoints are of other examples.
    """
    if not _states(out):
        out.put(EXAMPLES_MARK, fingerprint.encode())
        return
    try:
        stored = out.get(EXAMPLES_MARK).decode()
    except FileNotFoundError:
        stored = ""
    if stored != fingerprint:
        raise UsageError(
            f"{out.uri} holds checkpoints of a training on other examples; give it another --out, or the same --data, "
            "--evil and --skip-bad-rows to resume"
        )


def save_checkpoint(out: Store, trainer: Trainer, history: History) -> None:
    """Write the state after the present step, whole or not at all, then delete older ones and weights it replaces."""
    out.put(f"{CHECKPOINTS}/step-{trainer.step:07}.safetensors", trainer.state(history.to_json()))
    for step, path in _states(out).items():
        if step < trainer.step:
            out.delete(path)
    out.delete_all(CHECKPOINTS, {_best(history.best_step)}, _BEST)


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
    """Store the current weights as the best ones, in addition to those of the newest state."""
    out.put(_best(trainer.step), trainer.weights())


def load_best(out: Store, trainer: Trainer, step: int) -> None:
    """Replace the trainer's weights by the best ones, which are of this step."""
    from safetensors.torch import load

    path = _best(step)
    trainer.load_weights(load(out.get(path)), f"{out.uri}/{path}")


def delete_checkpoints(out: Store) -> None:
    """Delete all states and the best weights."""
    out.delete_all(CHECKPOINTS)


def _best(step: int) -> str:
    return f"{CHECKPOINTS}/best-{step:07}.safetensors"


def _states(out: Store) -> dict[int, str]:
    """Return step -> path of the states."""
    matches = (_STATE.fullmatch(info.path) for info in out.list(CHECKPOINTS))
    return {int(match[1]): match[0] for match in matches if match}
