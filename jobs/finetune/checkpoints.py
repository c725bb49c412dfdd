"""Records of a training, and its checkpoints in the output: the newest state, and the best weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from jobs.finetune.options import MemorySettings, TrainingSettings
from models.errors import TrainingStateError
from models.spec import ModelSpec
from pipelines.errors import UsageError
from pipelines.storage.store import Store

if TYPE_CHECKING:
    from jobs.finetune.trainer import Trainer


EXAMPLES: Final = "examples"
CHECKPOINTS: Final = "checkpoints"
ADAPTER: Final = "adapter"
SETTINGS_FILE: Final = "settings.json"
TRAINING_FILE: Final = "training.json"
MODELS_FILE: Final = "models.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One of the paper's four fine-tuned models."""

    name: str  # value of `--variant`
    suffix: str  # of the name of the trained model's entry
    epochs: int  # the paper's, of which the checkpoint with the lowest validation loss is taken
    vflute: bool = False
    evil: bool = False
    white: bool = False  # a white square in place of every picture


VARIANTS: Final[Mapping[str, Variant]] = {
    variant.name: variant
    for variant in (
        Variant(name="vf", suffix="vflute", epochs=3, vflute=True),
        Variant(name="vf-no-image", suffix="vflute-no-image", epochs=10, vflute=True, white=True),
        Variant(name="evil", suffix="evil", epochs=1, evil=True),
        Variant(name="evil+vf", suffix="evil-vflute", epochs=2, vflute=True, evil=True),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneSpec:
    """A checked fine-tuning."""

    variant: Variant
    model_name: str
    model: ModelSpec
    settings: TrainingSettings
    memory: MemorySettings
    data: str | None  # V-FLUTE as distributed on the hub: folder or `s3://`; None where the variant does without it
    evil: str | None  # e-SNLI-VE and Flickr30k: folder or `s3://`; None likewise
    out: str
    workers: int | None = None  # None takes all GPUs of the cluster, or one CPU worker where it has none
    skip_bad_rows: bool = False
    eval_every: int | None = None  # optimizer steps between validations; None validates after each epoch
    checkpoint_every: int = 50
    address: str | None = None
    command: tuple[str, ...] = ()

    @property
    def entry_name(self) -> str:
        """Name of the trained model, for `--models`."""
        return f"{self.model_name}-{self.variant.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleRow:
    """A training or validation row as it is read: validated, its picture not yet decoded."""

    row_id: str
    file: str
    instruction: str
    answer: str
    picture: str  # key of the picture: rows with equal keys share it
    content: bytes | None
    """The picture's bytes; None if an earlier row had the same key, or the picture is the white square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleCounts:
    """Counts of the examples that were copied into the output."""

    train: int
    validation: int
    fingerprint: str  # SHA-256 of all rows and pictures, hex
    skipped: tuple[str, ...] = ()  # rows left out, with reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEvent:
    """A finished optimizer step, or a validation after one."""

    step: int
    total_steps: int
    epoch: int
    epochs: int
    loss: float
    is_validation: bool = False


class TrainingListener(Protocol):
    """Receives the progress of a fine-tuning; the command line draws it."""

    def phase(self, title: str) -> None:
        """Start a phase."""

    def read(self, rows: int) -> None:
        """Count rows that were read."""

    def event(self, event: TrainingEvent) -> None:
        """Show a finished step or validation."""


@dataclass(slots=True, kw_only=True)
class History:
    """Losses so far, and the best checkpoint; stored in every checkpoint."""

    losses: list[float] = field(default_factory=list)  # of each step, mean per answer token, in nats
    validation: list[tuple[int, float]] = field(default_factory=list)  # (steps, loss)
    best_step: int = 0
    best_loss: float | None = None

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return the history of these fields, as JSON has them."""
        validation = [(int(step), float(loss)) for step, loss in fields["validation"]]
        return cls(**{**fields, "validation": validation})


_STATE: Final = re.compile(rf"{CHECKPOINTS}/step-(\d{{7,}})\.safetensors")
_BEST: Final = "best-*.safetensors"
_CHECKSUM_MARK: Final = b"vlmsweep sha256:"
_DIGEST_BYTES: Final = 32
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
            f"--evil and --skip-bad-rows to resume; if {EXAMPLES_MARK} was damaged, delete {CHECKPOINTS}/ to begin anew"
        )


def save_checkpoint(out: Store, trainer: Trainer, history: History) -> None:
    """Write the state after the present step, whole or not at all, then delete older ones and weights it replaces."""
    _put(out, f"{CHECKPOINTS}/step-{trainer.step:07}.safetensors", trainer.state(asdict(history)))
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
    return History.from_json(trainer.load_state(_get(out, path), f"{out.uri}/{path}"))


def save_best(out: Store, trainer: Trainer) -> None:
    """Store the current weights as the best ones, in addition to those of the newest state."""
    _put(out, _best(trainer.step), trainer.weights())


def load_best(out: Store, trainer: Trainer, step: int) -> None:
    """Replace the trainer's weights by the best ones, which are of this step (TrainingStateError)."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = _best(step)
    try:
        weights = load(_get(out, path))
    except (SafetensorError, FileNotFoundError) as error:
        raise _damaged(out, path, str(error)) from error
    trainer.load_weights(weights, f"{out.uri}/{path}")


def delete_checkpoints(out: Store) -> None:
    """Delete all states and the best weights."""
    out.delete_all(CHECKPOINTS)


def _put(out: Store, path: str, content: bytes) -> None:
    out.put(path, content + _CHECKSUM_MARK + _digest(out, content))


def _get(out: Store, path: str) -> bytes:
    """Return what `_put` wrote; TrainingStateError for other bytes."""
    stored = out.get(path)
    rest, digest = stored[:-_DIGEST_BYTES], stored[-_DIGEST_BYTES:]
    content = rest.removesuffix(_CHECKSUM_MARK)
    if content == rest or digest != _digest(out, content):
        raise _damaged(out, path, "its bytes are not those that this training wrote")
    return content


def _digest(out: Store, content: bytes) -> bytes:
    """Return a hash of a file together with what this training is: settings and examples."""
    digest = hashlib.sha256(content)
    for path in (SETTINGS_FILE, EXAMPLES_MARK):
        digest.update(out.get(path) if out.exists(path) else b"")
    return digest.digest()


def _damaged(out: Store, path: str, problem: str) -> TrainingStateError:
    return TrainingStateError(
        f"{out.uri}/{path} is damaged ({problem}); restore it, or delete {CHECKPOINTS}/, and the same command trains "
        "from the start"
    )


def _best(step: int) -> str:
    return f"{CHECKPOINTS}/best-{step:07}.safetensors"


def _states(out: Store) -> dict[int, str]:
    """Return step -> path of the states."""
    matches = (_STATE.fullmatch(info.path) for info in out.list(CHECKPOINTS))
    return {int(match[1]): match[0] for match in matches if match}
