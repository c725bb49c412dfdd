"""Small checkpoints, each built once per session, and their answers to one prompt at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from models.messages import Call, Generation, Turn

if TYPE_CHECKING:
    from tests.unit.models.engines.transformers.reference_answers import ReferenceModel

AnswersById = dict[str, tuple[str, list[float]]]
"""Call id -> answer, and for each token the gap between the two best logits."""


class Checkpoints(Protocol):
    def __call__(self, architecture: str) -> Path: ...


class ReferenceAnswers(Protocol):
    def __call__(self, checkpoint: Path | str, calls: Sequence[Call]) -> AnswersById: ...


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """Return the checkpoint of an architecture, built on first use."""
    from tests.support.checkpoints import build_tiny

    root = tmp_path_factory.mktemp("checkpoints")

    def get(architecture: str) -> Path:
        folder = root / architecture
        return folder if folder.is_dir() else build_tiny(folder, architecture)

    return get


@pytest.fixture(scope="session")
def reference_answers(checkpoint_of: Checkpoints) -> ReferenceAnswers:
    """Return a checkpoint's answer to each call by itself, computed once per session."""
    from tests.unit.models.engines.transformers.reference_answers import ReferenceModel

    models: dict[Path, ReferenceModel] = {}
    answers: dict[tuple[Path, tuple[Turn, ...], Generation], tuple[str, list[float]]] = {}

    def get(checkpoint: Path | str, calls: Sequence[Call]) -> AnswersById:
        path = checkpoint_of(checkpoint) if isinstance(checkpoint, str) else checkpoint
        if path not in models:
            models[path] = ReferenceModel(path)
        for call in calls:
            if (path, call.turns, call.generation) not in answers:
                answers[path, call.turns, call.generation] = models[path].answer(call)
        return {call.call_id: answers[path, call.turns, call.generation] for call in calls}

    return get
