"""The batch endpoint of a provider: upload a file of requests, create a batch, follow it, fetch its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, TypeVar

from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.failures import FailedAttempt, reply_text
from models.engines.openai.completion import read_reply
from models.engines.openai.endpoint import client_options
from models.errors import BatchApiError
from models.spec import ModelSpec

if TYPE_CHECKING:
    from openai.types import Batch

T = TypeVar("T")

KEY = "vlmsweep_key"
"""The field of a batch's metadata that holds our name for it."""
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_TRANSFER_S = 600.0  # for an upload or download of up to some hundred megabytes
_PAGE = 100  # batches of one listing
_MAX_LISTED = 2_000  # batches that a listing looks at, the newest first


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProblem:
    """The provider's error for a batch, or for one line of its file."""

    code: str
    message: str
    line: int | None = None
    """From 1; None for the whole batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """A batch as the provider reports it."""

    batch_id: str
    status: str
    done: int = 0
    """Requests with a result, failed ones among them."""
    result_files: tuple[str, ...] = ()
    """Ids of the files of answers and of errors, as far as there are some."""
    problems: tuple[BatchProblem, ...] = ()

    @property
    def is_ended(self) -> bool:
        """Whether there will be no further results."""
        return self.status in ENDED


class BatchApi:
    """Calls the batch endpoint of a model's provider. Each method raises `BatchApiError` when its call failed.

    What may be repeated is retried `retries` times; creating a batch is not, for it may have succeeded unnoticed.
    """

    def __init__(self, spec: ModelSpec) -> None:
        """Read the key (`MissingSecretError` without one)."""
        import openai

        self.endpoint, self._window = Endpoint(spec, read_reply), spec.batch_window
        timeout = openai.Timeout(spec.timeout_s, connect=spec.connect_timeout_s)
        http = openai.DefaultHttpxClient(**self.endpoint.http_options)
        self._client = openai.OpenAI(
            **client_options(spec, self.endpoint.key), timeout=timeout, max_retries=spec.retries, http_client=http
        )
        # As in the engine: requests must depend on the models file alone.
        self._client.organization = self._client.project = None

    def upload(self, name: str, content: IO[bytes]) -> str:
        """Upload a file of requests; return its id."""
        create = self._client.with_options(timeout=_TRANSFER_S).files.create
        return self._call("upload", lambda: create(file=(name, content), purpose="batch").id)

    def create(self, file_id: str, key: str) -> BatchState:
        """Create the batch of an uploaded file; `key` is our name for it, which `find` looks for."""
        batches = self._client.with_options(max_retries=0).batches
        window: object = self._window

        def create() -> BatchState:
            batch = batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window=window,  # type: ignore[arg-type]  # other providers have longer ones than 24h
                metadata={KEY: key},
            )
            return self._state(batch)

        return self._call("create", create)

    def retrieve(self, batch_id: str) -> BatchState | None:
        """Return a batch; None where the provider knows none of this id."""
        return _unless_missing(
            lambda: self._call("retrieve", lambda: self._state(self._client.batches.retrieve(batch_id)))
        )

    def find(self, key: str) -> BatchState | None:
        """Return the batch that was created under a key; None where there is none."""
        return self._call(
            "list", lambda: next((self._state(batch) for batch in self._listed() if _key(batch) == key), None)
        )

    def cancel(self, batch_id: str) -> None:
        """Ask the provider to end a batch: what is answered by then stays, and is paid."""
        self._call("cancel", lambda: self._client.batches.cancel(batch_id))

    def results(self, state: BatchState) -> bytes | None:
        """Return the lines of a batch's result files, empty where it has none; None where they are gone."""
        download = (self._call("download", partial(self._download, name)) for name in state.result_files)
        return _unless_missing(lambda: b"\n".join(download))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _download(self, name: str) -> bytes:
        content = self._client.with_options(timeout=_TRANSFER_S).files.content(name).content
        if content.lstrip()[:1] not in (b"", b"{"):  # read as results, it would send all requests again
            raise ValueError("no lines of JSON")
        return content

    def _listed(self) -> Iterator[Batch]:
        for number, batch in enumerate(self._client.batches.list(limit=_PAGE)):
            if number >= _MAX_LISTED:
                return
            yield batch

    def _call(self, name: str, call: Callable[[], T]) -> T:
        import openai

        try:
            return call()
        except openai.APIStatusError as error:
            outcome = self.endpoint.failed_status(
                error.status_code, error.body, error.response.text, error.response.headers
            )
            transient = isinstance(outcome, FailedAttempt) and outcome.is_transient
            message = (
                outcome.failure.message if isinstance(outcome, FailedAttempt) else self.endpoint.redact(str(error))
            )
            reason = f"{name} of a batch: HTTP {error.status_code}: {message}"
            if name in ("upload", "create") and error.status_code in (404, 405):
                reason = f"it has no batch endpoint, so that it needs a run without --batch and `batch` ({reason})"
            status = error.status_code
        except openai.APIConnectionError as error:  # a timeout too
            transient, status = True, None
            cause = error.__cause__ or error
            reason = self.endpoint.redact(f"{name} of a batch: {type(cause).__name__}: {cause}")
        except (AttributeError, ValueError) as error:
            if isinstance(error, AttributeError) and not isinstance(error.obj, str):
                raise  # the client hands on what is no JSON as text; anything else is a bug
            transient, status = True, None
            reason = self.endpoint.redact(
                f"{name} of a batch: the reply is none of this API ({type(error).__name__}: {error}); "
                "base_url must be the API's address, mostly one ending in /v1"
            )
        raise BatchApiError(self.endpoint.unreachable_message(reason), status=status, is_transient=transient)

    def _state(self, batch: Batch) -> BatchState:
        counts, errors = batch.request_counts, (batch.errors.data if batch.errors else None) or []
        return BatchState(
            batch_id=batch.id,
            status=batch.status,
            done=(counts.completed + counts.failed) if counts else 0,
            result_files=tuple(name for name in (batch.output_file_id, batch.error_file_id) if name),
            problems=tuple(
                BatchProblem(
                    code=error.code or "",
                    message=reply_text(self.endpoint.redact(error.message or "")),
                    line=error.line,
                )
                for error in errors
            ),
        )


def _unless_missing(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except BatchApiError as error:
        if error.status == 404:
            return None
        raise


def _key(batch: Batch) -> str | None:
    return (batch.metadata or {}).get(KEY)


def describe(problems: Sequence[BatchProblem]) -> str:
    """Return why a batch was refused, in a sentence."""
    shown = "; ".join(f"{problem.code}: {problem.message}" for problem in problems[:3])
    return shown or "the provider gives no reason"
