"""Damage to the files of a training: it never ends with other weights, and the remedy that is named mends it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.finetune.checkpoints import (
    SETTINGS_FILE,
    TRAINING_FILE,
    VARIANTS,
    FinetuneSpec,
    TrainingEvent,
    check_examples,
)
from jobs.finetune.options import MemorySettings, TrainingSettings
from jobs.finetune.ray_train import Worker, train
from jobs.finetune.run import finetune, prepare_examples, read_record
from models.errors import TrainingStateError
from models.spec import ModelSpec
from pipelines.errors import PipelineError, UsageError
from pipelines.json_records import dump_checked
from pipelines.storage.store import Store
from tests.support.checkpoints import build_tiny
from tests.support.damage_matrix import DAMAGES
from tests.support.toy_flute import write_toy
from tests.unit.jobs.finetune.sources import Listener

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft's

FILES = {
    "state": "checkpoints/step-*.safetensors", "best weights": "checkpoints/best-*.safetensors",
    "examples": "examples/train.parquet", "mark of the examples": "examples/complete.json",
    "fingerprint": "checkpoints/examples.sha256",
}  # fmt: skip


class KilledError(Exception):
    pass


def resume(spec: FinetuneSpec, kill_at: int = 0) -> list[float]:
    """Train to the end, or to a step; return the losses."""

    def report(event: TrainingEvent) -> None:
        if event.step == kill_at and not event.is_validation:
            raise KilledError

    out = Store(spec.out)
    counts = prepare_examples(spec, out, Listener())
    check_examples(out, counts.fingerprint)
    return train(spec, counts, Worker(), report).losses


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> tuple[FinetuneSpec, FinetuneSpec, list[float]]:
    """Two interrupted trainings that differ in their seed and rows, and the losses of the first one at its end."""
    root = tmp_path_factory.mktemp("damage")
    base = FinetuneSpec(
        variant=VARIANTS["vf"], model_name="tiny",
        model=ModelSpec(engine="transformers", model=str(build_tiny(root / "tiny")), dtype="float32", device="cpu"),
        settings=TrainingSettings(epochs=2, batch_size=2, lora_rank=4, lora_alpha=8, dtype="float32"),
        memory=MemorySettings(gradient_checkpointing=False),
        data=str(write_toy(root / "toy", train=4, validation=2, test=1)), evil=None, out=str(root / "first"),
        checkpoint_every=1,
    )  # fmt: skip
    other = replace(
        base, settings=replace(base.settings, seed=7),
        data=str(write_toy(root / "toy2", train=6, validation=2, test=1)), out=str(root / "second"),
    )  # fmt: skip
    for spec in (base, other):
        Store(spec.out).put(SETTINGS_FILE, dump_checked({"seed": spec.settings.seed}))
        with pytest.raises(KilledError):
            resume(spec, kill_at=4)
    whole = replace(base, out=str(root / "whole"))
    return base, other, resume(whole)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(kind, way, marks=() if (kind, way) == (min(FILES), "bit in the middle") else pytest.mark.full)
        for kind in FILES
        for way in DAMAGES
    ],
)
def test_damaged_file_of_a_training_changes_no_weights(
    kind: str, way: str, trainings: tuple[FinetuneSpec, FinetuneSpec, list[float]], tmp_path: Path
) -> None:
    base, other, losses = trainings
    spec = replace(base, out=str(shutil.copytree(base.out, tmp_path / "out")))
    path, foreign = min(Path(spec.out).glob(FILES[kind])), min(Path(other.out).glob(FILES[kind]))
    content = DAMAGES[way](path.read_bytes(), foreign.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    try:
        assert resume(spec) == losses
    except (TrainingStateError, PipelineError) as error:
        assert "checkpoints" in str(error)
        assert "delete" in str(error)
        shutil.rmtree(Path(spec.out, "checkpoints"))
        assert resume(spec) == losses


@pytest.mark.parametrize("way", [way for way in DAMAGES if way not in ("deleted", "of another run")])
def test_damaged_settings_and_records_name_their_remedy(
    way: str, trainings: tuple[FinetuneSpec, FinetuneSpec, list[float]], tmp_path: Path
) -> None:
    base, _, _ = trainings
    spec, out = replace(base, out=str(tmp_path)), Store(str(tmp_path))
    content = DAMAGES[way](dump_checked({"losses": [0.1] * 40}), b"")
    assert content is not None
    for name in (SETTINGS_FILE, TRAINING_FILE):
        out.put(name, content)
    with pytest.raises(UsageError, match=r"settings\.json: damaged .*delete it, and the same command resumes"):
        finetune(spec, Listener())
    with pytest.raises(UsageError, match=r"training\.json: damaged .*delete it, and the same command trains again"):
        read_record(out)
