"""Flags of `finetune`: the paper's values by default, refusals in one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli.main import run
from jobs.finetune.options import FinetuneOptions
from jobs.finetune.spec import build_finetune_spec
from pipelines.errors import UsageError
from tests.support.checkpoint_folder import write_checkpoint

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
