"""Files of a model before they are loaded: fetched once, compared with their checksums."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.engines.transformers import fetch
from models.errors import EngineUnreachableError
from models.spec import ModelSpec
from tests.unit.models.engines.conftest import Checkpoints


def spec_of(model: Path | str, **more: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=str(model), device="cpu", **more)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_checksums_are_compared_with_the_files(checkpoint_of: Checkpoints) -> None:
    folder = checkpoint_of("llama")
    checksums = {"config.json": sha256(folder / "config.json").upper()}
    assert fetch.ensure_local(spec_of(folder, checksums=checksums)).source == str(folder)
    with pytest.raises(EngineUnreachableError, match=r"config\.json: its sha256 is .*, and the models file says 00"):
        fetch.ensure_local(spec_of(folder, checksums={"config.json": "00"}))
    with pytest.raises(EngineUnreachableError, match=r"gone\.bin has a checksum"):
        fetch.ensure_local(spec_of(folder, checksums={"gone.bin": "00"}))
    with pytest.raises(EngineUnreachableError, match="not on a hub"):
        fetch.ensure_local(spec_of("org/model", checksums={"config.json": "00"}))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """An in-process S3 and a private cache."""
    import boto3
    from moto import mock_aws

    for name, value in {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(fetch.tempfile, "gettempdir", lambda: str(tmp_path))
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="store")
        yield client


def test_s3_folder_is_fetched_once(bucket: Any, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint_of("llama")
    for path in folder.iterdir():
        bucket.upload_file(str(path), "store", f"models/tiny/{path.name}")
    bucket.put_object(Bucket="store", Key="models/tiny-other/config.json", Body=b"{}")
    spec = spec_of("s3://store/models/tiny", checksums={"model.safetensors": sha256(folder / "model.safetensors")})
    copy = Path(fetch.ensure_local(spec).source)
    names = {path.name for path in folder.iterdir()}
    assert {path.name for path in copy.iterdir()} == names | {".complete"}
    assert {path.name: sha256(path) for path in folder.iterdir()} == {name: sha256(copy / name) for name in names}
    copies: list[object] = []
    monkeypatch.setattr(fetch, "_copy", lambda *a: copies.append(a))
    assert Path(fetch.ensure_local(spec).source) == copy
    assert copies == []
    bucket.put_object(Bucket="store", Key="models/tiny/config.json", Body=b"{}")
    assert Path(fetch.ensure_local(spec_of("s3://store/models/tiny")).source) != copy, (
        "changed content gets another copy"
    )


def test_incomplete_copy_is_fetched_again(bucket: Any) -> None:
    bucket.put_object(Bucket="store", Key="m/config.json", Body=b"{}")
    copy = Path(fetch.ensure_local(spec_of("s3://store/m")).source)
    (copy / ".complete").unlink()
    (copy / "config.json").write_bytes(b"half")
    assert (Path(fetch.ensure_local(spec_of("s3://store/m")).source) / "config.json").read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("uri", "message"), [("s3://store/none", "no folder s3://store/none"), ("s3://missing/m", "cannot be")]
)
def test_missing_s3_folder_is_reported(bucket: Any, uri: str, message: str) -> None:
    with pytest.raises(EngineUnreachableError, match=message):
        fetch.ensure_local(spec_of(uri))


def test_fetched_files_stay_inside_the_folder(bucket: Any) -> None:
    bucket.put_object(Bucket="store", Key="m/../../evil", Body=b"x")
    with pytest.raises(EngineUnreachableError, match="outside the folder"):
        fetch.ensure_local(spec_of("s3://store/m"))
