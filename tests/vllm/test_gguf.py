"""A GGUF file on the real vLLM: converted, and answered like the folder that it was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.messages import Answer
from tests.support.gguf import write_gguf
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import calls_about
from tests.vllm.conftest import OpenEngine

pytestmark = pytest.mark.vllm


def test_gguf_file_answers_like_its_checkpoint(
    open_vllm: OpenEngine, checkpoint_of: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))
    path = write_gguf(checkpoint_of("llama"), tmp_path / "tiny.gguf")
    texts = []
    for model in (checkpoint_of("llama"), path):
        replies = {reply.call_id: reply.outcome for reply in open_vllm(model).generate(calls_about(()), {})}
        assert all(isinstance(outcome, Answer) for outcome in replies.values())
        texts.append({call_id: outcome.text for call_id, outcome in replies.items()})
    assert texts[0] == texts[1]
