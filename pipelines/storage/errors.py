"""Errors of a store: cause, remedy, use of a retry. Recognized by name, since importing their libraries is slow."""

import errno
import logging
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pipelines.errors import DamagedPartError, StoreError

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_PAUSES_S = (1.0, 2.0, 4.0)
TRANSIENT_PAUSES_S = (8.0, 16.0, 32.0, 60.0, 60.0)
"""Further pauses before a store is retried, only where it is unreachable or overloaded, not where it refuses."""


def retry_store(action: Callable[[], T]) -> T:
    """Run an action, again after pauses when the store fails; if it refuses, a few times only; damage stays."""
    for pause in (*RETRY_PAUSES_S, *TRANSIENT_PAUSES_S):
        try:
            return action()
        except DamagedPartError:
            raise
        except StoreError as error:
            if pause in TRANSIENT_PAUSES_S and not error.is_transient:
                raise
            log.info("retried in %g s: %s", pause, error)
            time.sleep(pause)
    return action()


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes and contexts; `from None` ends the chain."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def store_response(error: BaseException) -> dict[str, Any]:
    """Return the store's response that an error is about; {} for other errors."""
    responses = (getattr(cause, "response", None) for cause in _chain(error))
    return next((found for found in responses if isinstance(found, dict)), {})


def response_code(error: BaseException) -> str:
    """Return the store's error code, or ''."""
    return str(store_response(error).get("Error", {}).get("Code", ""))


def no_bucket(error: BaseException) -> bool:
    """Return whether a file is missing because its bucket is."""
    return response_code(error) == "NoSuchBucket"


def is_transient(error: BaseException) -> bool:
    """Return whether a retry may help: the store is unreachable, overloaded or broken."""
    status = store_response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if status >= _SERVER_ERROR or status == _TOO_MANY_REQUESTS or response_code(error) in _OVERLOADED:
        return True
    return any(
        type(cause).__name__ in _UNREACHABLE or getattr(cause, "errno", None) in _TRANSIENT_ERRNOS
        for cause in _chain(error)
    )


_SERVER_ERROR, _TOO_MANY_REQUESTS = 500, 429
_OVERLOADED = ("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout")
_TRANSIENT_ERRNOS = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH)
_UNREACHABLE = (
    *("EndpointConnectionError", "ConnectTimeoutError", "ClientConnectorError", "ConnectionRefusedError"),
    *("FSTimeoutError", "ReadTimeoutError", "AioReadTimeoutError"),
    *("ConnectionClosedError", "ConnectionResetError", "HTTPClientError", "ServerDisconnectedError"),
    *("ClientPayloadError", "IncompleteReadError", "ResponseStreamingError"),
)


def is_machine_failure(error: Exception) -> bool:
    """Return whether a disk or memory is full, a place is read-only, or too many files are open: never a bug."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    is_out_of_memory = isinstance(error, MemoryError) or any(text in str(error) for text in _NO_MEMORY)
    return is_out_of_memory or (isinstance(error, OSError) and error.errno in full)


def is_storage_error(error: Exception) -> bool:
    """Return whether a disk or a store raised it; botocore's errors are no OSErrors."""
    libraries = ("botocore", "aiobotocore", "aiohttp", "s3fs")
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in libraries or _is_bad_setting(error)


def _is_bad_setting(error: Exception) -> bool:
    """Return whether botocore could not read a variable or a line of its configuration: it raises what `int` does."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = {frame.f_globals.get("__name__", "").partition(".")[0] for frame in frames[-1:]}
    return isinstance(error, ValueError) and bool(modules & {"botocore", "aiobotocore"})


_REMEDIES = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"), "renew the credentials"),
    **dict.fromkeys(("InvalidAccessKeyId", "SignatureDoesNotMatch"), "check AWS_ACCESS_KEY_ID and its secret"),
    "InvalidToken": "check AWS_SESSION_TOKEN: it must belong to AWS_ACCESS_KEY_ID, and be unset for a key of a user",
    **dict.fromkeys(("InternalError", "ServiceUnavailable"), "the store failed: wait, or see its own logs"),
    "RequestTimeTooSkewed": "set this machine's clock: the store reports that it is wrong",
    **dict.fromkeys(("SlowDown", "Throttling", "RequestLimitExceeded"), "the store is overloaded: wait"),
    "QuotaExceeded": "the store is full: free some space",
}  # remedies by the store's error code


def describe(error: Exception) -> str:
    """Return cause and remedy in one sentence. Query strings are cut: they may hold signatures."""
    text = str(error).split("?")[0][:300]
    name, code, number = type(error).__name__, response_code(error), getattr(error, "errno", None)
    if _is_bad_setting(error) or name in _BAD_SETTINGS:
        return f"{name}: {text}; check the variables AWS_* and the files that AWS_CONFIG_FILE and others name"
    if code in _REMEDIES:
        return f"{code} ({text}); {_REMEDIES[code]}{_RESUME}"
    name = "MemoryError" if any(part in str(error) for part in _NO_MEMORY) else name
    cause = next((cause for keys, cause in _CAUSES if name in keys or number in keys or text in keys), "")
    return cause.format(text=text) if cause else f"{name}: {text}"


_BAD_SETTINGS = ("InvalidRegionError", "InvalidDefaultsMode", "InvalidConfigError", "InvalidRetryConfigurationError")
_NO_MEMORY = ("can't start new thread", "failed to map segment from shared object", "can't allocate memory")
"""What Python, the loader of libraries and torch say under a limit, without a number or a class of their own."""
_RESUME = ". Run the same command again to resume"
_CAUSES: tuple[tuple[tuple[str | int, ...], str], ...] = (
    ((errno.ENOSPC, errno.EDQUOT), f"the disk is full ({{text}}); free some space{_RESUME}"),
    ((errno.EROFS,), f"the place is read-only ({{text}}); make it writable, or give another{_RESUME}"),
    ((errno.EMFILE, errno.ENFILE), f"too many open files ({{text}}); raise the limit, `ulimit -n 4096`{_RESUME}"),
    (
        ("MemoryError", "_ArrayMemoryError", "ArrowMemoryError", errno.ENOMEM),
        f"no memory is left; raise the limits, `ulimit -v` and `ulimit -u`, or use a larger machine{_RESUME}",
    ),
    (("NotRegularError",), "{text}"),
    (("PermissionError",), "no permission ({text}); grant this user the right to read and write there"),
    (
        ("[Errno 22] Bad Request",),  # how s3fs reports a refusal without a message
        "refused ({text}) without a reason; check that the credentials are valid and this machine's clock is right",
    ),
    (
        ("NoCredentialsError", "PartialCredentialsError"),
        "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use an instance role",
    ),
    (
        ("ProfileNotFound",),
        "{text}; AWS_PROFILE must name a profile of AWS_CONFIG_FILE or AWS_SHARED_CREDENTIALS_FILE, or be unset",
    ),
    (
        ("ConfigParseError", "ConfigNotFound"),
        "{text}; AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE must name files of AWS's command line",
    ),
    (_UNREACHABLE, "the object store cannot be reached ({text}); check AWS_ENDPOINT_URL and that the store is up"),
)  # names, numbers or texts of errors, and their messages; the first match counts
