"""Models that are given as GGUF files: converted once, equal to the folder they were made of, refused when damaged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from models.catalog_loader import load_models
from models.engines.transformers import fetch
from models.engines.transformers.engine import TransformersEngine
from models.errors import EngineUnreachableError
from models.fingerprint import answer_fingerprint, is_unpinned, resolved_revision
from models.gpu_memory import model_size
from models.messages import Answer, Failure
from models.spec import ModelSpec
from models.weight_headers import gguf_file, read_gguf_header
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import calls_about

pytest.importorskip("gguf", reason="the package gguf is not installed")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private cache of converted files."""
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def gguf(checkpoint_of: Checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.gguf import write_gguf

    return write_gguf(checkpoint_of("llama"), tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def spec_of(model: Path | str, **more: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=str(model), device="cpu", **{"dtype": "float32", **more})


def answers(spec: ModelSpec) -> dict[str, Answer | Failure]:
    engine = TransformersEngine(spec)
    return {reply.call_id: reply.outcome for reply in engine.generate(calls_about(()), {})}


def test_file_and_folder_answer_like_the_checkpoint_they_were_made_of(
    gguf: Path, checkpoint_of: Checkpoints, tmp_path: Path
) -> None:
    expected = answers(spec_of(checkpoint_of("llama")))
    assert all(isinstance(outcome, Answer) for outcome in expected.values())
    assert answers(spec_of(gguf)) == expected
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(gguf, folder)
    assert answers(spec_of(folder)) == expected


def test_file_is_converted_once_for_each_dtype(gguf: Path, cache: Path) -> None:
    sources = [fetch.ensure_local(spec_of(gguf, dtype=dtype)).source for dtype in ("auto", "float32", "auto")]
    assert sources[0] == sources[2] != sources[1]
    folders = [path for path in cache.rglob("gguf-*") if path.is_dir()]
    assert sorted(map(str, folders)) == sorted(set(sources))
    assert {path.stat().st_mode & 0o077 for path in cache.iterdir()} == {0}


def test_header_gives_size_shape_and_template(gguf: Path, checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    from tests.support.gguf import write_gguf

    size = model_size(spec_of(gguf))
    stored = model_size(spec_of(checkpoint_of("llama")))
    assert size is not None
    assert stored is not None
    assert (size.parameters, size.shape) == (stored.parameters, stored.shape)
    assert read_gguf_header(gguf).has_chat_template
    bare = write_gguf(checkpoint_of("llama"), tmp_path / "bare.gguf", has_template=False)
    assert not read_gguf_header(bare).has_chat_template
    outcomes = answers(spec_of(bare)).values()
    assert all(
        isinstance(outcome, Failure) and "set chat_format in its entry" in outcome.message for outcome in outcomes
    )
    assert all(isinstance(outcome, Answer) for outcome in answers(spec_of(bare, chat_format="plain")).values())


def test_ids_depend_on_the_content_and_name_of_the_file_not_on_its_place(gguf: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copy(gguf, tmp_path / gguf.name))
    assert answer_fingerprint(spec_of(gguf)) == answer_fingerprint(spec_of(moved))
    assert not is_unpinned(spec_of(moved))
    before = resolved_revision(spec_of(moved))
    moved.write_bytes(moved.read_bytes()[:-1] + b"\7")
    assert resolved_revision(spec_of(moved)) != before


def test_automatic_engine_of_a_file_is_transformers(gguf: Path, tmp_path: Path) -> None:
    models_file = tmp_path / "models.yaml"
    models_file.write_text(f"tiny: {{engine: auto, model: {gguf}, architecture: llama}}\n")
    assert load_models([models_file])["tiny"].engine == "transformers"


@pytest.mark.parametrize("length", [0, 3, 20, 200, 20_000, -4096, -1])
def test_truncated_file_is_refused_in_one_sentence(length: int, gguf: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(gguf.read_bytes()[:length])
    with pytest.raises(EngineUnreachableError, match=r"damaged\.gguf.* \(fetch the file again") as error:
        TransformersEngine(spec_of(damaged))
    assert "\n" not in str(error.value)


def test_every_flipped_byte_of_the_header_is_refused_or_harmless(gguf: Path, tmp_path: Path) -> None:
    whole = gguf.read_bytes()
    damaged = tmp_path / "damaged.gguf"
    refused = 0
    for offset in range(0, 2_000, 29):
        damaged.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0xFF]) + whole[offset + 1 :])
        try:
            read_gguf_header(damaged)
        except ValueError:
            refused += 1
    assert refused > 5


def test_missing_tensor_split_file_and_unreadable_folder_are_refused(
    gguf: Path, checkpoint_of: Checkpoints, tmp_path: Path
) -> None:
    from tests.support.gguf import write_gguf

    source = checkpoint_of("llama")
    lacking = write_gguf(source, tmp_path / "lacking.gguf", skipped="model.layers.1.mlp.up_proj.weight")
    with pytest.raises(
        EngineUnreachableError, match=r"not those of the model: missing model\.layers\.1\.mlp\.up_proj\.weight"
    ):
        TransformersEngine(spec_of(lacking))
    part = write_gguf(source, tmp_path / "part.gguf", parts=3)
    with pytest.raises(EngineUnreachableError, match="one of 3 parts"):
        TransformersEngine(spec_of(part))
    with pytest.raises(EngineUnreachableError, match="there is no file"):
        TransformersEngine(spec_of(tmp_path / "gone.gguf"))
    assert gguf_file(str(tmp_path)) is None
    with pytest.raises(EngineUnreachableError, match="several"):
        TransformersEngine(spec_of(tmp_path))
    with pytest.raises(EngineUnreachableError, match="its sha256 is"):
        TransformersEngine(spec_of(gguf, checksums={gguf.name: "00"}))


def test_converted_file_needs_the_memory_of_its_dtype(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from models.engines.transformers import checkpoint

    monkeypatch.setattr(checkpoint, "free_host_bytes", lambda: 1_000_000)
    with pytest.raises(EngineUnreachableError, match="does not fit"):
        TransformersEngine(spec_of(gguf))
