from __future__ import annotations

from pathlib import Path

import pytest

from models.availability import unavailable_reason
from models.spec import ModelSpec


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
@pytest.mark.parametrize("name", ["pytorch_model-00001-of-00002.bin", "consolidated.pth"])
def test_folder_of_pickles_is_refused_by_file_with_a_remedy(tmp_path: Path, engine: str, name: str) -> None:
    (tmp_path / name).write_bytes(b"a pickle")
    spec = ModelSpec.model_validate({"engine": engine, "model": str(tmp_path)})
    assert unavailable_reason(spec).startswith(f"the folder holds {name} and no *.safetensors, and no other weights")
    assert "save_pretrained" in unavailable_reason(spec)


def test_folder_that_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    reason = unavailable_reason(ModelSpec(engine="transformers", model=str(tmp_path)))
    assert reason == f"{tmp_path} has no config.json: give the folder that save_pretrained wrote, or one fetched whole"
