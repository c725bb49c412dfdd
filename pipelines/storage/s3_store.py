"""Objects in an S3-compatible store."""

import base64
import contextlib
import hashlib
import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from models.shell.connections import check_object_store
from models.shell.store_region import REDIRECTED, end_redirect, region_problem
from pipelines.storage.backend import FileInfo, check_size, resolve
from pipelines.storage.errors import is_storage_error, no_bucket, response_code, store_response

BODY_ATTEMPTS = 4
BODY_PAUSE_S = 1.0  # pause after a response that breaks off in its middle; the libraries retry earlier failures
_CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey")


class S3Store:
    """Objects below a prefix of a bucket. A write is one PUT, or one completed multipart upload."""

    missing_parent_remedy = "create the bucket first"

    def __init__(self, root: str) -> None:
        self._root = root  # bucket and prefix, without `s3://`

    @cached_property
    def filesystem(self) -> Any:  # fsspec has no types
        """Open the connection on first use; `ShellSettingError` where a variable keeps it from being opened."""
        check_object_store()
        import s3fs
        from aiobotocore.session import AioSession

        session = AioSession()
        for operation in ("PutObject", "UploadPart"):
            session.register(f"before-parameter-build.s3.{operation}", _add_md5)
        session.register(REDIRECTED, end_redirect)
        # botocore reads endpoint and credentials from the environment. Few attempts and short timeouts report a missing
        # endpoint within seconds; callers decide what is worth a retry.
        return s3fs.S3FileSystem(
            session=session,
            skip_instance_cache=True,
            config_kwargs={
                "connect_timeout": 5,
                "read_timeout": 60,
                "retries": {"max_attempts": 4, "mode": "standard"},
                "max_pool_connections": 32,
                # Some stores refuse the checksums that newer clients add by default; parts carry their own.
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
            use_listings_cache=False,
        )

    def put(self, path: str, content: bytes) -> str:
        """Write an object; return its version, '' for one that was uploaded in several parts."""
        response = self.filesystem.pipe_file(resolve(self._root, path), content)
        return str(response["ETag"]) if response else ""

    def put_if(self, path: str, content: bytes, version: str | None) -> str | None:
        """Write an object if its version is still this one; return the new version, or None."""
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            response = self.filesystem.call_s3("put_object", **self._address(path), Body=content, **condition)
        except Exception as error:
            if response_code(error) in _CONFLICTS:
                return None
            raise
        return str(response["ETag"])

    def get_version(self, path: str, max_bytes: int | None = None) -> tuple[bytes, str]:
        """Return the content and the version of an object."""
        from fsspec.asyn import sync

        for remaining in range(BODY_ATTEMPTS - 1, -1, -1):
            response = self.filesystem.call_s3("get_object", **self._address(path))  # retries by itself
            with contextlib.closing(response["Body"]) as body, _retry_while(remaining):
                check_size(path, response.get("ContentLength", 0), max_bytes)
                return bytes(sync(self.filesystem.loop, body.read)), str(response["ETag"])
        raise AssertionError("unreachable")

    def get(self, path: str, max_bytes: int | None = None) -> bytes:
        """Return the content of an object in one request; s3fs's own `cat_file` makes two and hides the cause."""
        return self.get_version(path, max_bytes)[0]

    def exists(self, path: str) -> bool:
        """Return whether there is an object at this path."""
        try:
            return bool(self.filesystem.info(resolve(self._root, path))["type"] == "file")
        except FileNotFoundError as error:
            if no_bucket(error):
                raise
            return False

    def folders(self) -> list[str]:
        """Return the names of the prefixes at the top."""
        prefix = f"{self._root}/".partition("/")[2]
        pages = self._pages("", Delimiter="/")
        prefixes = (entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", ()))
        return [name.removeprefix(prefix).rstrip("/") for name in prefixes]

    def walk(self, folder: str) -> Iterator[FileInfo]:
        """Yield the objects anywhere below a prefix, in one request per thousand."""
        bucket = self._root.partition("/")[0]
        for response in self._pages(folder):
            for item in response.get("Contents", ()):
                if not item["Key"].endswith("/"):  # some stores list folder markers
                    path = f"{bucket}/{item['Key']}".removeprefix(self._root).lstrip("/")
                    yield FileInfo(path, int(item["Size"]), str(item.get("ETag", "")))

    def _pages(self, folder: str, **options: str) -> Iterator[dict[str, Any]]:
        bucket, _, prefix = f"{resolve(self._root, folder)}/".partition("/")
        page: dict[str, Any] = {}
        while True:
            try:
                response = self.filesystem.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **options, **page)
            except FileNotFoundError as error:
                if no_bucket(error):
                    raise
                return
            yield response
            if not response.get("IsTruncated"):
                return
            page = {"ContinuationToken": response["NextContinuationToken"]}

    def delete(self, path: str) -> None:
        """Remove an object if it exists."""
        try:
            self.filesystem.call_s3("delete_object", **self._address(path))
        except FileNotFoundError as error:
            if no_bucket(error):
                raise

    def remove_temporary(self, *, below: bool = True) -> int:  # noqa: ARG002 - as of a disk
        """Return 0: an interrupted PUT leaves nothing in an object store."""
        return 0

    def region_problem(self, error: BaseException) -> str:
        """Return what to set where the store says that the bucket is in another region; '' for other errors."""
        response = store_response(error)
        return region_problem(response, self.filesystem.s3.meta) if response else ""

    def _address(self, path: str) -> dict[str, str]:
        bucket, _, key = resolve(self._root, path).partition("/")
        return {"Bucket": bucket, "Key": key}


def _add_md5(params: dict[str, Any], **_event: object) -> None:
    """Add the checksum that a bucket with object lock demands, in the form that all stores know."""
    if not params["Bucket"].endswith("--x-s3"):  # a directory bucket, which refuses it
        digest = hashlib.md5(params["Body"], usedforsecurity=False).digest()
        params["ContentMD5"] = base64.b64encode(digest).decode()


@contextlib.contextmanager
def _retry_while(remaining: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not remaining or not is_storage_error(error):
            raise
        time.sleep(BODY_PAUSE_S)
