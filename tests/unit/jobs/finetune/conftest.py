"""A small checkpoint, and training examples with pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.finetune.examples import TrainingExample
from models.engines.transformers.checkpoint import Checkpoint, load_checkpoint
from models.spec import ModelSpec
from tests.support.calls import OTHER_PICTURE, PICTURE
from tests.support.checkpoints import build_tiny

EXAMPLES = [
    TrainingExample(example_id="a", picture=PICTURE, instruction="Is it warm?", answer="It is.\nLABEL: entailment"),
    TrainingExample(
        example_id="b", picture=OTHER_PICTURE, instruction="Does the picture agree that the day is cold and long?",
        answer="No.\nLABEL: contradiction",
    ),
    TrainingExample(example_id="c", picture=PICTURE, instruction="Cold?", answer="No, warm.\nLABEL: contradiction"),
]  # fmt: skip


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("tiny")
    return {name: build_tiny(root / name, name) for name in ("qwen2_5_vl", "llava")}


@pytest.fixture
def load(folders: dict[str, Path]) -> Callable[[str], tuple[Checkpoint, ModelSpec]]:
    def load_tiny(name: str) -> tuple[Checkpoint, ModelSpec]:
        spec = ModelSpec(engine="transformers", model=str(folders[name]), dtype="float32", device="cpu")
        return load_checkpoint(spec), spec

    return load_tiny
