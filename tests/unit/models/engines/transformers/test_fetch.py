"""Files of a model before they are loaded: fetched once, compared with their checksums."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from models.engines import weight_store
from models.engines.transformers import fetch
from models.errors import EngineUnreachableError
from models.spec import ModelSpec
from tests.support.redirecting_store import redirecting_store
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
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))
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

    def copied(*arguments: Any) -> None:
        copies.append(arguments)
        arguments[-1].mkdir()

    monkeypatch.setattr(fetch, "_copy", copied)
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


def test_interrupted_download_goes_on_where_it_was(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_RANGE", 1000)
    content = random.Random(0).randbytes(20_500)
    bucket.put_object(Bucket="store", Key="m/a", Body=content[:500])
    bucket.put_object(Bucket="store", Key="m/b", Body=content)
    ranges, get = list[str](), fetch._get

    def broken(client: Any, key: Any, span: str) -> bytes:
        ranges.append(f"{key['Key']} {span}")
        if span == "bytes=12000-12999":
            raise EndpointConnectionError(endpoint_url="http://store")
        return get(client, key, span)

    monkeypatch.setattr(fetch, "_get", broken)
    with pytest.raises(EngineUnreachableError, match="s3://store/m cannot be read"):
        fetch.ensure_local(spec_of("s3://store/m"))
    ranges.clear()
    monkeypatch.setattr(fetch, "_get", lambda *of: ranges.append(f"{of[1]['Key']} {of[2]}") or get(*of))
    folder = Path(fetch.ensure_local(spec_of("s3://store/m")).source)
    assert ((folder / "a").read_bytes(), (folder / "b").read_bytes()) == (content[:500], content)
    assert sorted(ranges) == sorted(
        f"m/b bytes={start}-{min(start + 999, 20499)}" for start in range(12_000, 20_500, 1000)
    )
    assert {path.name for path in folder.iterdir()} == {"a", "b", ".complete"}


def test_connection_that_breaks_is_tried_again(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(fetch, "sleep", pauses.append)
    bucket.put_object(Bucket="store", Key="m/a", Body=b"weights")

    class Client:
        def get_object(self, **of: Any) -> Any:
            if len(pauses) < 2:
                raise ReadTimeoutError(endpoint_url="http://store")
            return bucket.get_object(**of)

    assert fetch._get(Client(), {"Bucket": "store", "Key": "m/a"}, "bytes=0-6") == b"weights"
    assert pauses == [1.0, 4.0]


def full_disk(monkeypatch: pytest.MonkeyPatch, store: Path, capacity: int) -> None:
    """Let the store's disk hold so many bytes."""

    def usage(_: Path) -> SimpleNamespace:
        used = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        return SimpleNamespace(free=capacity - used)

    monkeypatch.setattr("models.engines.weight_store.shutil.disk_usage", usage)


def test_weights_used_longest_ago_make_room_and_never_those_in_use(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        bucket.put_object(Bucket="store", Key=f"{name}/w", Body=name.encode() * 1000)
    held: dict[Path, int] = {}
    monkeypatch.setattr(weight_store, "_LOCKS", held)
    copies = {name: Path(fetch.ensure_local(spec_of(f"s3://store/{name}")).source) for name in "abc"}
    for age, name in enumerate("bac"):
        os.utime(copies[name] / ".complete", (age, age))
    for name in "ac":  # their processes have ended
        os.close(held.pop(copies[name] / ".complete"))
    full_disk(monkeypatch, copies["a"].parent, 3500)
    copies["d"] = Path(fetch.ensure_local(spec_of("s3://store/d")).source)
    assert {name for name, copy in copies.items() if (copy / "w").is_file()} == {"b", "c", "d"}
    bucket.put_object(Bucket="store", Key="e/w", Body=b"e" * 9000)
    with pytest.raises(EngineUnreachableError, match=r"9 kB are to be written.*set HF_HOME to a folder on a larger"):
        fetch.ensure_local(spec_of("s3://store/e"))
    assert (copies["b"] / "w").is_file(), "in use"


def test_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(EngineUnreachableError, match=r"weights cannot be kept in .*/file/home: .*; set HF_HOME to"):
        weight_store.weights_folder()


def test_model_of_the_hub_that_the_disk_cannot_hold_is_not_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "gone" / "hub"))
    monkeypatch.setattr("models.engines.weight_store.shutil.disk_usage", lambda _: SimpleNamespace(free=100 * 10**9))
    weight_store.check_disk(spec_of("org/model", parameters_b=7))
    weight_store.check_disk(spec_of("org/model"))
    with pytest.raises(
        EngineUnreachableError, match=r"org/model cannot be fetched: .* 144\.0 GB, and 100\.0 GB of .*/hub"
    ):
        weight_store.check_disk(spec_of("org/model", parameters_b=72))


def test_only_proved_copies_make_room(bucket: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(weight_store, "_LOCKS", held := dict[Path, int]())
    for key in ("old/w", "old/part/w", "old/kept/w"):
        bucket.put_object(Bucket="store", Key=key, Body=b"w" * 1000)
    copy = Path(fetch.ensure_local(spec_of("s3://store/old")).source)
    os.close(held.pop(copy / ".complete"))
    marker, store, outside = (copy / ".complete").read_text(), copy.parent, tmp_path / "outside"

    def place(folder: Path, text: str) -> None:
        folder.mkdir()
        (folder / "w").write_bytes(b"u" * 1000)
        (folder / ".complete").write_text(text)

    for name, text in {"mine": "", "0" * 16: marker, f"{copy.name[:15]}g": marker}.items():
        place(store / name, text)
    place(outside, marker)
    (store / "linked").symlink_to(outside)
    (store / "of_a_folder" / ".complete").mkdir(parents=True)
    (store / "of_a_link").mkdir()
    (store / "of_a_link" / ".complete").symlink_to(outside / ".complete")
    (store / "broken_link").mkdir()
    (store / "broken_link" / ".complete").symlink_to("nothing")
    (store / "file").write_bytes(b"u")
    (copy / "notes").write_bytes(b"u")
    (copy / "kept" / "w").write_bytes(b"changed")
    shutil.rmtree(copy / "part")
    (copy / "part").symlink_to(outside)
    untouched = {path for path in tmp_path.rglob("*") if path not in (copy / "w", copy / ".complete")}

    full_disk(monkeypatch, store, 0)
    bucket.put_object(Bucket="store", Key="new/w", Body=b"n")
    with pytest.raises(EngineUnreachableError, match="are to be written"):
        fetch.ensure_local(spec_of("s3://store/new"))
    assert {path for path in tmp_path.rglob("*") if not path.name.endswith(".lock")} == {
        path for path in untouched if not path.name.endswith(".lock")
    }
    assert (outside / "w").read_bytes() == b"u" * 1000


def test_linked_copy_is_used_and_not_deleted(bucket: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(weight_store, "_LOCKS", held := dict[Path, int]())
    bucket.put_object(Bucket="store", Key="m/w", Body=b"w" * 1000)
    copy = Path(fetch.ensure_local(spec_of("s3://store/m")).source)
    os.close(held.pop(copy / ".complete"))
    copy.rename(tmp_path / copy.name)
    copy.symlink_to(tmp_path / copy.name)
    full_disk(monkeypatch, copy.parent, 0)
    with pytest.raises(OSError, match="are to be written"):
        weight_store.make_room(1, copy.parent)
    assert (tmp_path / copy.name / "w").is_file()


def test_marker_of_another_content_is_no_whole_copy(bucket: Any) -> None:
    for name in (".complete", "w"):
        bucket.put_object(Bucket="store", Key=f"m/{name}", Body=b"w")
    copy = Path(fetch.ensure_local(spec_of("s3://store/m")).source)
    (copy / "w").unlink()
    assert Path(fetch.ensure_local(spec_of("s3://store/m")).source) == copy
    assert not (copy / "w").exists(), "it counts as whole"
    (copy / ".complete").write_bytes(b"w")
    fetch.ensure_local(spec_of("s3://store/m"))
    assert (copy / "w").read_bytes() == b"w"


def test_marker_is_not_written_through_a_link(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Bucket="store", Key="m/w", Body=b"w")
    copy = Path(fetch.ensure_local(spec_of("s3://store/m")).source)
    (tmp_path / "theirs").write_bytes(b"")
    (copy / ".complete").unlink()
    (copy / ".complete").symlink_to(tmp_path / "theirs")
    fetch.ensure_local(spec_of("s3://store/m"))
    assert (tmp_path / "theirs").read_bytes() == b""
    assert not (copy / ".complete").is_symlink()


def test_bucket_of_another_region_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "k")
    with redirecting_store() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(EngineUnreachableError, match=r"^s3://bucket/m cannot be read: .*; set AWS_REGION to the"):
            fetch.ensure_local(spec_of("s3://bucket/m"))
