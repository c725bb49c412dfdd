"""The training loop without Ray: an interrupted training ends with the same losses and weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jobs.finetune.checkpoints import VARIANTS, ExampleCounts, FinetuneSpec, TrainingEvent, check_examples
from jobs.finetune.options import MemorySettings, TrainingSettings
from jobs.finetune.ray_train import Worker, train
from jobs.finetune.run import prepare_examples
from models.errors import EngineUnreachableError, TrainingStateError
from models.spec import ModelSpec
from pipelines.errors import StoreError, UsageError
from pipelines.storage.store import Store
from tests.support.checkpoints import build_tiny
from tests.support.toy_flute import write_toy
from tests.unit.jobs.finetune.sources import Listener

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft's


class KilledError(Exception):
    pass


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> FinetuneSpec:
    root = tmp_path_factory.mktemp("finetune")
    return FinetuneSpec(
        variant=VARIANTS["vf"],
        model_name="tiny",
        model=ModelSpec(engine="transformers", model=str(build_tiny(root / "tiny")), dtype="float32", device="cpu"),
        settings=TrainingSettings(
            epochs=2, batch_size=2, learning_rate=2e-3, lora_rank=4, lora_alpha=8, dtype="float32"
        ),
        memory=MemorySettings(gradient_checkpointing=False),
        data=str(write_toy(root / "toy", train=5, validation=2, test=1)),
        evil=None,
        out=str(root / "whole"),
        checkpoint_every=2,
    )


def run(spec: FinetuneSpec, kill_at: int = 0) -> list[TrainingEvent]:
    events: list[TrainingEvent] = []

    def report(event: TrainingEvent) -> None:
        events.append(event)
        if event.step == kill_at:
            raise KilledError

    counts = prepare_examples(spec, Store(spec.out), Listener())
    train(spec, counts, Worker(), report)
    return events


def files(spec: FinetuneSpec) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(spec.out, "adapter").iterdir()}


def best_files(spec: FinetuneSpec) -> list[str]:
    return sorted(path.name for path in Path(spec.out, "checkpoints").glob("best-*"))


def test_killed_training_resumes_from_its_checkpoint_with_equal_losses(base: FinetuneSpec, tmp_path: Path) -> None:
    whole = run(base)
    assert [event.step for event in whole if not event.is_validation] == [1, 2, 3, 4, 5, 6]
    assert [event.step for event in whole if event.is_validation] == [3, 6]
    killed = replace(base, out=str(tmp_path / "killed"))
    with pytest.raises(KilledError):
        run(killed, kill_at=5)
    assert [path.name for path in Path(killed.out, "checkpoints").glob("step-*")] == ["step-0000004.safetensors"]
    rest = run(killed)
    assert rest == [event for event in whole if event.step > 4]
    assert files(killed) == files(base)
    assert json.loads(files(base)["adapter_config.json"])["base_model_name_or_path"] == base.model.model


@pytest.mark.full
def test_best_weights_stay_until_a_checkpoint_records_better_ones(base: FinetuneSpec, tmp_path: Path) -> None:
    spec = replace(base, out=str(tmp_path / "out"), eval_every=1, checkpoint_every=3)
    with pytest.raises(KilledError):
        run(spec, kill_at=6)
    assert best_files(spec) == [f"best-{step:07}.safetensors" for step in (3, 4, 5)]  # the checkpoint records step 3
    validation = {event.step: event.loss for event in run(spec) if event.is_validation}
    assert best_files(spec) == [f"best-{min(validation, key=validation.__getitem__):07}.safetensors"]


@pytest.mark.parametrize(
    ("eval_every", "message"), [(None, "^the loss at step 2 is nan"), (1, "^the validation loss at step 1 is nan")]
)
def test_diverged_training_says_so(base: FinetuneSpec, tmp_path: Path, eval_every: int | None, message: str) -> None:
    settings = replace(base.settings, learning_rate=1e30, warmup_ratio=0.0)
    spec = replace(base, out=str(tmp_path / "out"), settings=settings, eval_every=eval_every)
    with pytest.raises(TrainingStateError, match=f"{message}.*lower --learning-rate.*--dtype float32.*another --out"):
        run(spec)
    assert not Path(spec.out, "adapter").exists()


def test_memory_that_runs_out_and_an_output_out_of_sight_are_reported(base: FinetuneSpec, tmp_path: Path) -> None:
    spec = replace(base, out=str(tmp_path / "out"))
    counts = prepare_examples(spec, Store(spec.out), Listener())
    with pytest.raises(EngineUnreachableError, match=r"^tiny: memory ran out .*--micro-batch-size \(16 now\)"):
        train(spec, counts, Worker(), lambda _: torch.empty(1 << 55, dtype=torch.uint8))
    counts = ExampleCounts(train=5, validation=0, fingerprint="")
    with pytest.raises(StoreError, match="a folder that all nodes share, or s3://"):
        train(replace(base, out=str(tmp_path / "elsewhere")), counts, Worker(), lambda _: None)


def test_checkpoints_of_other_examples_are_refused(base: FinetuneSpec, tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    check_examples(out, "first")
    check_examples(out, "second")  # no checkpoint yet
    out.put("checkpoints/step-0000002.safetensors", b"")
    check_examples(out, "second")
    with pytest.raises(UsageError, match="on other examples; give it another --out"):
        check_examples(out, "first")
