"""Flags of `finetune`: the paper's values by default, refusals in one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.cli.main import run
from jobs.finetune.checkpoints import VARIANTS, ExampleCounts, FinetuneSpec, History
from jobs.finetune.options import (
    FinetuneOptions,
    MemorySettings,
    TrainingSettings,
    epoch_order,
    learning_rate_factor,
    step_batch,
)
from jobs.finetune.run import finetune, training_record, write_result
from jobs.finetune.spec import build_finetune_spec
from models.spec import ModelSpec
from pipelines.errors import StoreError, UsageError
from pipelines.storage.store import Store
from tests.support.checkpoint_folder import write_checkpoint
from tests.support.toy_flute import write_toy
from tests.unit.jobs.finetune.sources import Listener

FLAGS = FinetuneOptions(benchmark="vflute", variant="vf", data="data", out="out")


@pytest.mark.parametrize(("variant", "epochs"), [("vf", 3), ("vf-no-image", 10), ("evil", 1), ("evil+vf", 2)])
def test_defaults_are_the_papers(variant: str, epochs: int) -> None:
    evil = "evil" if "evil" in variant else None
    spec = build_finetune_spec(replace(FLAGS, variant=variant, evil=evil))
    settings = spec.settings
    assert (settings.epochs, settings.batch_size, settings.learning_rate) == (epochs, 64, 2e-5)
    assert (settings.lora_rank, settings.lora_alpha, settings.projector_learning_rate) == (128, 256, 2e-5)
    assert (settings.warmup_ratio, settings.weight_decay, settings.seed, settings.dtype) == (0.03, 0.0, 42, "bfloat16")
    assert (spec.model.model, spec.model.engine) == ("llava-hf/llava-1.5-7b-hf", "transformers")
    assert spec.data == str(Path("data").absolute())


def test_entries_have_the_catalogs_names() -> None:
    from models.catalog_loader import load_models

    names = {
        build_finetune_spec(replace(FLAGS, variant=variant, evil=None if variant[:2] == "vf" else "e")).entry_name
        for variant in ("vf", "vf-no-image", "evil", "evil+vf")
    }
    assert names <= set(load_models())


@pytest.mark.parametrize("missing", ["batch_size", "lora_rank"])
def test_no_setting_is_left_at_its_default_for_want_of_its_flag(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FinetuneOptions, missing)
    with pytest.raises(AttributeError, match=missing):
        build_finetune_spec(FLAGS)


@pytest.mark.parametrize("key", ["learning_rat", "max_grad_norm"])
def test_a_misspelt_setting_ends_with_2(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.yaml").write_text(f"variant: vf\nout: o\ndata: d\n{key}: 1\n")
    assert run(["finetune", "vflute", "--config", str(tmp_path / "train.yaml")]) == 2
    assert f"unknown key '{key}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variant": "vfx"}, "unknown variant 'vfx'; did you mean 'vf'"),
        ({"benchmark": "vague"}, "unknown benchmark to fine-tune for 'vague'"),
        ({"data": None}, "--variant vf needs --data"),
        ({"variant": "evil"}, "--variant evil needs --evil"),
        ({"evil": "e"}, "--evil: the variant vf is not trained on"),
        ({"model": "gpt-4o"}, "--model gpt-4o: only models with weights"),
        ({"model": "qwen2.5-vl-72b"}, "--model qwen2.5-vl-72b is set to 4 GPUs"),
        ({"out": "gs://bucket"}, "--out gs://bucket: only local paths and s3:// are supported"),
    ],
)
def test_unusable_flags_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_finetune_spec(replace(FLAGS, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", ["-1", "4294967296"])
def test_a_seed_out_of_range_ends_with_2(seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("--data", "d", "--out", str(tmp_path / "out"))
    assert run(["finetune", "vflute", "--variant", "vf", *place, "--seed", seed]) == 2
    assert "--seed" in capsys.readouterr().err


def test_model_with_an_adapter_is_refused(tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("tuned: {engine: transformers, model: some/base, adapter: some/adapter}\n")
    with pytest.raises(UsageError, match="--model tuned has an adapter already"):
        build_finetune_spec(replace(FLAGS, model="tuned", models_file=[models]))


def test_local_base_is_absolute_and_has_the_trainings_dtype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path / "base")
    (tmp_path / "models.yaml").write_text("mine: {engine: transformers, model: ./base, dtype: float16}\n")
    monkeypatch.chdir(tmp_path)
    spec = build_finetune_spec(replace(FLAGS, model="mine", models_file=[Path("models.yaml")], dtype="float32"))
    assert (spec.model.model, spec.model.dtype) == (str(tmp_path / "base"), "float32")


@pytest.mark.parametrize(("examples", "epochs", "steps"), [(4578, 3, 216), (275_815, 1, 4310), (280_393, 2, 8764)])
def test_steps_of_the_paper(examples: int, epochs: int, steps: int) -> None:
    # The authors' checkpoints are of step 144, the second epoch of VF, and 4310, the end of eViL.
    assert TrainingSettings(epochs=epochs).total_steps(examples) == steps


def test_learning_rate_is_that_of_transformers() -> None:
    import torch
    from transformers import get_cosine_schedule_with_warmup

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=3, num_training_steps=100)
    for step in range(100):
        assert learning_rate_factor(step, 100, 0.03) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert learning_rate_factor(0, 10, 0.0) == 1.0


def test_batches_of_an_epoch_hold_every_example_once_in_an_order_by_epoch_and_seed() -> None:
    order = epoch_order(10, 0, seed=1)
    batches = [step_batch(order, step, 4) for step in range(3)]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(index for batch in batches for index in batch) == list(range(10))
    assert epoch_order(50, 0, seed=1) == epoch_order(50, 0, seed=1)
    assert len({tuple(epoch_order(50, epoch, seed)) for epoch, seed in [(0, 1), (1, 1), (0, 2)]}) == 3


@pytest.fixture
def finished(tmp_path: Path) -> FinetuneSpec:
    spec = FinetuneSpec(
        variant=VARIANTS["evil+vf"], model_name="tiny", model=ModelSpec(engine="transformers", model="tiny"),
        settings=TrainingSettings(epochs=1), memory=MemorySettings(), data="/vflute", evil="/evil", out=str(tmp_path),
    )  # fmt: skip
    counts = ExampleCounts(train=2, validation=0, fingerprint="f")
    write_result(spec, Store(spec.out), training_record(spec, counts, History(losses=[1.0]), 1.0))
    return spec


def test_finished_training_is_returned_and_a_file_is_no_output(finished: FinetuneSpec, tmp_path: Path) -> None:
    assert finetune(finished, Listener())["losses"] == [1.0]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="expected a folder, found a file"):
        finetune(replace(finished, out=str(tmp_path / "file")), Listener())


@pytest.mark.parametrize(("flag", "change"), [("--data", {"data": "/other"}), ("--evil", {"evil": "/other"})])
def test_finished_training_on_other_data_is_refused(finished: FinetuneSpec, flag: str, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"finished training on other data \\({flag}: .* there, /other here"):
        finetune(replace(finished, **change), Listener())


def test_checkpoints_of_other_examples_are_refused_before_ray_starts(finished: FinetuneSpec, tmp_path: Path) -> None:
    toy = write_toy(tmp_path / "toy", train=2, validation=0, test=0)
    spec = replace(finished, variant=VARIANTS["vf"], data=str(toy), evil=None, out=str(tmp_path / "out"))
    out = Store(spec.out)
    out.put("checkpoints/examples.sha256", b"of other examples")
    out.put("checkpoints/step-0000002.safetensors", b"")
    with pytest.raises(UsageError, match=r"checkpoints of a training on other examples; .*another --out"):
        finetune(spec, Listener())
