"""Records of a fine-tuning: what is trained on what, one training row, and events of its progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from jobs.finetune.settings import MemorySettings, TrainingSettings
from models.spec import ModelSpec

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
