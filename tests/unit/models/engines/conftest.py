"""Small checkpoints, each built once a session, and what they say to one prompt at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from models.messages import Call, Generation, Turn

if TYPE_CHECKING:
    from tests.unit.models.engines.transformers.reference_answers import Alone

Said = dict[str, tuple[str, list[float]]]
"""Call id -> answer, and for each token how far the best logit was above the second."""


class Checkpoints(Protocol):
    def __call__(self, architecture: str) -> Path: ...


class Judge(Protocol):
    def __call__(self, where: Path | str, calls: Sequence[Call]) -> Said: ...


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """Checkpoints by architecture."""
    from tests.support.checkpoints import build_tiny

    root = tmp_path_factory.mktemp("checkpoints")

    def get(architecture: str) -> Path:
        made = root / architecture
        return made if made.is_dir() else build_tiny(made, architecture)

    return get


@pytest.fixture(scope="session")
def answers_alone(checkpoint_of: Checkpoints) -> Judge:
    """What a checkpoint says to each call by itself; asked once a session."""
    from tests.unit.models.engines.transformers.reference_answers import Alone

    models: dict[Path, Alone] = {}
    known: dict[tuple[Path, tuple[Turn, ...], Generation], tuple[str, list[float]]] = {}

    def get(where: Path | str, calls: Sequence[Call]) -> Said:
        path = checkpoint_of(where) if isinstance(where, str) else where
        if path not in models:
            models[path] = Alone(path)
        for call in calls:
            if (path, call.turns, call.generation) not in known:
                known[path, call.turns, call.generation] = models[path].ask(call)
        return {call.call_id: known[path, call.turns, call.generation] for call in calls}

    return get


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Small models lose more by waiting for a busy second core than they gain by it."""
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0})
        torch.set_num_threads(1)
        yield
