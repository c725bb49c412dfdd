"""What went wrong in a store: told in a sentence that a person can act on, and whether it may pass by itself.

Libraries are known by the names of their errors: importing them for a local folder would be slow.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any


class StoreError(RuntimeError):
    """The store cannot be reached, read or written. The message names the place and what to check."""

    passing = False
    """Whether it may pass by itself: a store that is away or overloaded, and not one that refuses."""


class TooLargeError(ValueError):
    """A file is larger than its reader takes. Says how large, and what the limit is."""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it was raised from, or while; libraries do either, and `from None` ends it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _response(error: BaseException) -> dict[str, Any]:
    """The store's own answer behind what a library raised; empty when there is none."""
    answers = (getattr(one, "response", None) for one in _chain(error))
    return next((answer for answer in answers if isinstance(answer, dict)), {})


def response_code(error: BaseException) -> str:
    """The store's own error code; '' when there is none."""
    return str(_response(error).get("Error", {}).get("Code", ""))


def no_bucket(error: BaseException) -> bool:
    """Whether a file is not there because its bucket is not."""
    return response_code(error) == "NoSuchBucket"


def is_transient(error: BaseException) -> bool:
    """Whether waiting may help: nobody answers, or who answers is overloaded or broken."""
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if status >= _BROKEN or status == _TOO_MANY or response_code(error) in _OVERLOADED:
        return True
    return any(
        type(one).__name__ in _UNREACHED or getattr(one, "errno", None) in _PASSING_ERRNOS for one in _chain(error)
    )


_BROKEN, _TOO_MANY = 500, 429
_OVERLOADED = ("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout")
_PASSING_ERRNOS = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH)
_UNREACHED = (
    *("EndpointConnectionError", "ConnectTimeoutError", "ClientConnectorError", "ConnectionRefusedError"),
    *("FSTimeoutError", "ReadTimeoutError", "AioReadTimeoutError"),
    *("ConnectionClosedError", "ConnectionResetError", "HTTPClientError", "ServerDisconnectedError"),
    *("ClientPayloadError", "IncompleteReadError", "ResponseStreamingError"),
)


def is_storage_error(error: Exception) -> bool:
    """Whether an error is a disk's or a store's; botocore's share no base with OSError."""
    libraries = ("botocore", "aiobotocore", "aiohttp", "s3fs")
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in libraries


_REMEDIES = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"), "renew the credentials"),
    **dict.fromkeys(("InvalidAccessKeyId", "SignatureDoesNotMatch"), "check AWS_ACCESS_KEY_ID and its secret"),
    "RequestTimeTooSkewed": "set this machine's clock, which the store says is wrong",
    **dict.fromkeys(("SlowDown", "Throttling", "RequestLimitExceeded"), "the store asks for fewer requests: wait"),
    "QuotaExceeded": "the store is full: free some of it",
}
"""What to do about what a store says, by its own code."""


def describe(error: Exception) -> str:
    """One sentence of cause and remedy. Libraries' own texts are cut: they may carry signed addresses."""
    text = str(error).split("?")[0][:300]
    name, code, number = type(error).__name__, response_code(error), getattr(error, "errno", None)
    if code in _REMEDIES:
        return f"{code} ({text}); {_REMEDIES[code]}, and the same command goes on"
    cause = next((told for known, told in _CAUSES if name in known or number in known or text in known), "")
    return cause.format(text=text) if cause else f"{name}: {text}"


_CAUSES: tuple[tuple[tuple[str | int, ...], str], ...] = (
    ((errno.ENOSPC, errno.EDQUOT), "the disk is full ({text}); free some of it, and the same command goes on"),
    (("PermissionError",), "no permission ({text}); give the user of this process the right to read and write there"),
    (
        ("[Errno 22] Bad Request",),  # how s3fs tells of a refusal without a word
        "refused ({text}) without a reason; see whether the credentials have expired and this machine's clock is right",
    ),
    (
        ("NoCredentialsError", "PartialCredentialsError"),
        "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use an instance role",
    ),
    (
        _UNREACHED,
        "the object store cannot be reached ({text}); check AWS_ENDPOINT_URL and that the store is up",
    ),
)
"""Names of errors or their numbers, and what is told; the first that fits."""
