"""Weights before they are loaded: fetched once, compared, weighed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.engines.transformers import weights
from models.errors import EngineUnreachableError
from models.spec import ModelSpec
from tests.unit.models.engines.conftest import Checkpoints


def spec_of(model: Path | str, **more: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=str(model), device="cpu", **more)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_bytes_are_read_from_headers(checkpoint_of: Checkpoints) -> None:
    from safetensors import safe_open

    folder = checkpoint_of("llama")
    with safe_open(folder / "model.safetensors", "pt") as file:
        want = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118  no mapping
    assert weights.weights_bytes(folder) == 4 * want
    assert weights.weights_bytes(folder, "bfloat16") == 2 * want


def test_a_model_that_does_not_fit_says_so_with_the_numbers(checkpoint_of: Checkpoints) -> None:
    spec = spec_of(checkpoint_of("llama"), dtype="float32", tensor_parallel=2)
    whole = weights.weights_bytes(Path(spec.model), "float32")
    weights.check_memory(spec, whole // 2, "GPU memory")
    with pytest.raises(EngineUnreachableError, match=r"does not fit: its weights take 0\.0 GB as float32.*2 ranks"):
        weights.check_memory(spec, whole // 2 - 1, "GPU memory")
    weights.check_memory(spec_of("org/on-a-hub"), 0, "memory")
    with pytest.raises(
        EngineUnreachableError, match=r"145\.2 GB as bfloat16, 18\.1 GB for each of 8 ranks, and 16\.0 GB"
    ):
        weights.check_memory(
            spec_of("org/on-a-hub", parameters_b=72.6, dtype="bfloat16", tensor_parallel=8), 16_000_000_000, "memory"
        )


def test_the_engine_weighs_before_it_loads(checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    from models.engines.transformers.checkpoint import load_checkpoint

    monkeypatch.setattr("models.engines.transformers.checkpoint.free_host_bytes", lambda: 1000)
    with pytest.raises(EngineUnreachableError, match=r"does not fit.* 0\.0 GB of memory are free"):
        load_checkpoint(spec_of(checkpoint_of("llama")))


def test_checksums(checkpoint_of: Checkpoints) -> None:
    folder = checkpoint_of("llama")
    right = {"config.json": sha256(folder / "config.json").upper()}
    assert weights.ensure_local(spec_of(folder, checksums=right)).model == str(folder)
    with pytest.raises(EngineUnreachableError, match=r"config\.json: its sha256 is .*, and the models file says 00"):
        weights.ensure_local(spec_of(folder, checksums={"config.json": "00"}))
    with pytest.raises(EngineUnreachableError, match=r"gone\.bin has a checksum"):
        weights.ensure_local(spec_of(folder, checksums={"gone.bin": "00"}))
    with pytest.raises(EngineUnreachableError, match="not on a hub"):
        weights.ensure_local(spec_of("org/model", checksums={"config.json": "00"}))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """An S3 inside this process, and a cache of its own."""
    import boto3
    from moto import mock_aws

    for name, value in {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(weights.tempfile, "gettempdir", lambda: str(tmp_path))
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="store")
        yield client


def test_an_s3_folder_is_fetched_once(bucket: Any, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint_of("llama")
    for path in folder.iterdir():
        bucket.upload_file(str(path), "store", f"models/tiny/{path.name}")
    bucket.put_object(Bucket="store", Key="models/tiny-other/config.json", Body=b"{}")
    spec = spec_of("s3://store/models/tiny", checksums={"model.safetensors": sha256(folder / "model.safetensors")})
    first = Path(weights.ensure_local(spec).model)
    names = {path.name for path in folder.iterdir()}
    assert {path.name for path in first.iterdir()} == names | {".complete"}
    assert {path.name: sha256(path) for path in folder.iterdir()} == {name: sha256(first / name) for name in names}
    copies: list[object] = []
    monkeypatch.setattr(weights, "_copy", lambda *a: copies.append(a))
    assert Path(weights.ensure_local(spec).model) == first
    assert copies == []
    bucket.put_object(Bucket="store", Key="models/tiny/config.json", Body=b"{}")
    assert Path(weights.ensure_local(spec_of("s3://store/models/tiny")).model) != first, (
        "another content is another copy"
    )


def test_a_copy_that_broke_off_is_made_again(bucket: Any) -> None:
    bucket.put_object(Bucket="store", Key="m/config.json", Body=b"{}")
    copy = Path(weights.ensure_local(spec_of("s3://store/m")).model)
    (copy / ".complete").unlink()
    (copy / "config.json").write_bytes(b"half")
    assert (Path(weights.ensure_local(spec_of("s3://store/m")).model) / "config.json").read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("uri", "words"), [("s3://store/none", "no folder s3://store/none"), ("s3://nobody/m", "cannot be")]
)
def test_an_s3_folder_that_is_not_there(bucket: Any, uri: str, words: str) -> None:
    with pytest.raises(EngineUnreachableError, match=words):
        weights.ensure_local(spec_of(uri))


def test_no_file_lands_outside_the_folder(bucket: Any) -> None:
    bucket.put_object(Bucket="store", Key="m/../../evil", Body=b"x")
    with pytest.raises(EngineUnreachableError, match="outside the folder"):
        weights.ensure_local(spec_of("s3://store/m"))
