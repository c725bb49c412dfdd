"""An output that holds a training on other data is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.finetune.checkpoints import VARIANTS, ExampleCounts, FinetuneSpec, History
from jobs.finetune.options import MemorySettings, TrainingSettings
from jobs.finetune.run import finetune, training_record, write_result
from models.spec import ModelSpec
from pipelines.errors import StoreError, UsageError
from pipelines.storage.store import Store
from tests.support.toy_flute import write_toy
from tests.unit.jobs.finetune.sources import Listener


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
