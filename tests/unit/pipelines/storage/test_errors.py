import errno
import pickle
from pathlib import Path

import pytest

from pipelines.errors import StoreError
from pipelines.storage.errors import describe, is_storage_error, no_bucket
from pipelines.storage.store import Store
from tests.support.redirecting_store import redirecting_store
from tests.unit.pipelines.storage.client_error import ClientError


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        (ClientError(503, "SlowDown"), True),
        (ClientError(500, "InternalError"), True),
        (ClientError(400, "RequestTimeout"), True),
        (ClientError(403, "AccessDenied"), False),
        (ClientError(400, "ExpiredToken"), False),
        (ClientError(404, "NoSuchBucket"), False),
        (OSError(errno.ENOSPC, "full"), False),
        (OSError(errno.ESTALE, "stale"), True),
        (PermissionError(errno.EACCES, "no"), False),
    ],
)
def test_store_error_says_whether_a_retry_may_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_transient: bool
) -> None:
    store = Store(str(tmp_path))
    monkeypatch.setattr(store.backend, "get", lambda path, limit: (_ for _ in ()).throw(error))
    with pytest.raises(StoreError) as raised:
        store.get("a")
    assert raised.value.is_transient is is_transient


def test_store_errors_survive_pickling_and_those_of_our_code_are_none() -> None:
    copy = pickle.loads(pickle.dumps(StoreError("away", is_transient=True)))
    assert (str(copy), copy.is_transient) == ("away", True)
    assert is_storage_error(ClientError(500, "x"))
    assert not is_storage_error(KeyError("x"))
    assert no_bucket(ClientError(404, "NoSuchBucket"))
    assert not no_bucket(ClientError(404, "NoSuchKey"))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ClientError(400, "ExpiredToken"), "renew the credentials. Run the same command again to resume"),
        (ClientError(403, "SignatureDoesNotMatch"), "check AWS_ACCESS_KEY_ID and its secret"),
        (ClientError(400, "InvalidToken"), "check AWS_SESSION_TOKEN"),
        (ClientError(500, "InternalError"), "the store failed: wait"),
        (OSError(errno.ENOSPC, "full"), "the disk is full"),
        (OSError(errno.EROFS, "Read-only file system"), "the place is read-only"),
        (OSError(errno.EMFILE, "Too many open files"), "`ulimit -n 4096`"),
        (PermissionError(errno.EACCES, "no"), "no permission"),
        (OSError(errno.EINVAL, "Bad Request"), "check that the credentials are valid"),
        (ConnectionResetError("http://host/x?signature=s3cret"), "check AWS_ENDPOINT_URL"),
    ],
)
def test_description_names_the_remedy(error: Exception, message: str) -> None:
    assert message in describe(error)
    assert "s3cret" not in describe(error)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AWS_PROFILE": "absent"}, "AWS_PROFILE must name a profile"),
        ({"AWS_CONFIG_FILE": __file__}, "AWS_CONFIG_FILE"),
        ({"AWS_REGION": "no region!", "AWS_DEFAULT_REGION": "no region!"}, "check the variables AWS_"),
        ({"AWS_DEFAULTS_MODE": "odd"}, "check the variables AWS_"),
        ({"AWS_METADATA_SERVICE_TIMEOUT": "soon"}, "check the variables AWS_"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://public.example/"}, "check the variables AWS_"),
    ],
)
def test_refused_settings_are_named(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match=expected):
        Store("s3://bucket/folder").get("file")


@pytest.mark.parametrize(
    ("status", "region", "setting"),
    [
        (301, "", "AWS_REGION to the bucket's region"),
        (301, "eu-west-3", "AWS_REGION=eu-west-3"),
        (307, "", "AWS_REGION"),
    ],
)
@pytest.mark.parametrize("operation", ["get", "put", "exists", "list"])
def test_bucket_of_another_region_names_region_address_and_remedy(
    operation: str, status: int, region: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore asks for the region until the recursion limit where that request is redirected too."""
    names = {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "DEFAULT_REGION": "us-east-2"}
    with redirecting_store(status, region) as address:
        for name, value in {**names, "ENDPOINT_URL": address}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        store = Store("s3://bucket/folder")
        calls = {
            "get": store.get, "exists": store.exists, "list": store.list, "put": lambda path: store.put(path, b"a"),
        }  # fmt: skip
        with pytest.raises(StoreError) as failure:
            calls[operation]("file")
    assert f"the store at {address} says that the bucket is not in region us-east-2; set {setting}" in str(
        failure.value
    )
    assert not failure.value.is_transient
