"""The batch endpoints of providers: send a file of requests, follow the batch, fetch its results."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any, ClassVar, Final, TypeAlias, TypeVar

import httpx2
from pydantic import AliasPath, BaseModel, Field, ValidationError

from models.engines.endpoints.bounded import MAX_REPLY, TooLongError, read
from models.engines.endpoints.dialect import Dialect
from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.failures import LONGEST_WAIT_S, FailedAttempt, backoff_s, error_object, reply_text
from models.errors import BatchApiError
from models.messages import Answer
from models.shell.connections import http_options
from models.spec import ModelSpec

T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)

ResultLine: TypeAlias = tuple[str, Answer | FailedAttempt | None]
"""A request's custom id and outcome; None where its batch ended before."""
KEY: Final = "vlmsweep_key"
"""The field of a batch's metadata that holds our name for it, where a provider keeps such fields."""
TRANSFER_S: Final = 600.0  # for an upload or download of up to some hundred megabytes
_MOST_LISTED: Final = 2_000  # batches that a listing looks at, the newest first
_PAGE: Final = 100  # batches of one listing
_MOST_RESULTS: Final = 1 << 30  # bytes of a file of results
_TRANSFER_HEADERS: Final = ("content-encoding", "content-length", "transfer-encoding")


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
    """'' where it is undecided which of the provider's batches it is."""
    status: str
    is_ended: bool = False
    """Whether there will be no further results."""
    done: int = 0
    """Requests with a result, failed ones among them."""
    result_files: tuple[str, ...] = ()
    """Names of what holds its answers and errors, as far as there are some."""
    problems: tuple[BatchProblem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBatch:
    """What is recorded of a batch that may have been created."""

    key: str
    """Our name for it."""
    created: float
    """Unix time of its record, which was written before it was created."""
    custom_ids: Collection[str]
    other_ids: Collection[str] = ()
    """Batches that were created under other keys."""


class BatchRecord(BaseModel):
    """A batch in a provider's own form."""

    key: Any = None
    """Our name for it, where the provider keeps it."""

    @property
    @abstractmethod
    def state(self) -> BatchState:
        """Return the batch as all providers' are described."""


class BatchPage(BaseModel):
    """A page of a provider's list of batches."""

    data: Sequence[BatchRecord]

    @property
    @abstractmethod
    def after(self) -> Mapping[str, str]:
        """Return the fields of the query for the next page; none where this is the last."""


class BatchApi(ABC):
    """Calls the batch endpoint of a model's provider. Each method raises `BatchApiError` when its call failed.

    What may be repeated is retried `retries` times; creating a batch is not, for it may have succeeded unnoticed.
    """

    dialect_type: ClassVar[type[Dialect]]
    batch_type: ClassVar[type[BatchRecord]]
    page_type: ClassVar[type[BatchPage]]
    page_size_name: ClassVar = "limit"
    batch_path: ClassVar = "/batches/{}"
    cancel_path: ClassVar = "/batches/{}/cancel"
    results_path: ClassVar[str]
    """Of one of the `result_files` of a batch."""
    results_query: ClassVar[Mapping[str, str]] = {}

    def __init__(self, spec: ModelSpec) -> None:
        """Read the key (`MissingSecretError` without one)."""
        self.spec, self.dialect = spec, self.dialect_type(spec)
        self.endpoint = Endpoint(spec, self.dialect.read_reply)
        self._headers = self.dialect.headers(self.endpoint.key)
        timeout = httpx2.Timeout(spec.timeout_s, connect=spec.connect_timeout_s)
        self._client = httpx2.Client(
            timeout=timeout, follow_redirects=self.dialect.follows_redirects, **http_options(str(spec.base_url))
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the endpoint refused and is no longer sent, and the other models that it answers as."""
        return (*self.dialect.warnings, *self.endpoint.remarks.warnings)

    @abstractmethod
    def request_fields(self, custom_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a batch's file holds of one request."""

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        """Return the line of a batch's file for one request."""
        fields = self.request_fields(custom_id, body)
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    @abstractmethod
    def upload(self, name: str, content: IO[bytes]) -> str | IO[bytes]:
        """Upload a file of lines, where the API has files; return what `create` takes."""

    @abstractmethod
    def create(self, uploaded: str | IO[bytes], key: str) -> BatchState:
        """Create the batch of an uploaded file; `key` is our name for it."""

    def retrieve(self, batch_id: str) -> BatchState | None:
        """Return a batch; None where the provider knows none of this id."""
        address = self.dialect.address(self.batch_path.format(batch_id))
        ask = partial(self.ask, "retrieve", "GET", address, self.batch_type)
        return _unless_missing(lambda: self.state(self.repeat(ask)))

    def find(self, sent: SentBatch) -> BatchState | None:
        """Return the batch of a record; None where it was certainly not created."""
        return next((self.state(batch) for batch in self.listed() if batch.key == sent.key), None)

    def listed(self) -> Iterator[BatchRecord]:
        """Yield the provider's batches, the newest first."""
        query = {self.page_size_name: str(_PAGE)}
        for _ in range(_MOST_LISTED // _PAGE):
            address = self.dialect.address("/batches", **query)
            page = self.repeat(partial(self.ask, "list", "GET", address, self.page_type))
            yield from page.data
            if not page.after:
                return
            query |= page.after

    def cancel(self, batch_id: str) -> None:
        """Ask the provider to end a batch: what is answered by then stays, and is paid."""
        self.repeat(partial(self.send, "cancel", "POST", self.dialect.address(self.cancel_path.format(batch_id))))

    def results(self, state: BatchState) -> bytes | None:
        """Return the lines of an ended batch's results, empty where it has none; None where they are gone."""
        addresses = [
            self.dialect.address(self.results_path.format(name), **self.results_query) for name in state.result_files
        ]
        return _unless_missing(lambda: b"\n".join(map(self.download, addresses)))

    def state(self, batch: BatchRecord) -> BatchState:
        """Return the state of a batch, its messages without the key and short."""
        state = batch.state
        shown = (replace(item, message=reply_text(self.endpoint.redact(item.message))) for item in state.problems)
        return replace(state, problems=tuple(shown))

    @abstractmethod
    def read_line(self, line: bytes) -> ResultLine:
        """Return what a line of results says; `ValueError` where it is none."""

    def read_results(self, content: bytes) -> Iterator[tuple[str, Answer | FailedAttempt]]:
        """Yield request and outcome of each line of results.

        Requests that ended with their batch are left out, and so are lines that are no result: they have no outcome.
        """
        for line in content.split(b"\n"):
            if not line.strip():
                continue
            try:
                custom_id, outcome = self.read_line(line)
            except ValueError:
                continue  # a request without a result is sent again; one that is cut off cannot even be attributed
            if outcome is not None:
                yield custom_id, outcome

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, name: str, method: str, address: str, record: type[R], **options: Any) -> R:
        """Send a request once and return its reply as a record; `name` names it in errors."""
        reply = self.send(name, method, address, **options)
        try:
            return record.model_validate_json(reply.content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise self._misread(name, f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()) from error

    def download(self, address: str) -> bytes:
        """Return the lines of results at an address."""

        def read() -> bytes:
            content = self.send("download", "GET", address, timeout=TRANSFER_S).content
            if content.lstrip()[:1] not in (b"", b"{"):  # read as results, it would send all requests again
                raise self._misread("download", "no lines of JSON")
            return content

        return self.repeat(read)

    def send(self, name: str, method: str, address: str, **options: Any) -> httpx2.Response:
        """Send a request once and return its reply."""
        options = {"headers": self._headers, **options}
        try:
            with self._client.stream(method, address, **options) as stream:
                content = read(stream.iter_bytes(), _MOST_RESULTS if name == "download" else MAX_REPLY)
            headers = [(key, value) for key, value in stream.headers.items() if key not in _TRANSFER_HEADERS]
            reply = httpx2.Response(stream.status_code, headers=headers, content=content)
        except TooLongError as error:
            raise self._misread(name, str(error)) from error
        except httpx2.HTTPError as error:  # a timeout too
            raise self._failure(f"{name} of a batch: {type(error).__name__}: {error}", is_transient=True) from error
        if not reply.is_success:
            raise self._refusal(name, reply)
        return reply

    def repeat(self, call: Callable[[], T]) -> T:
        """Return the result of a call that may be repeated while its failure is transient."""
        for attempt in range(self.spec.retries):
            try:
                return call()
            except BatchApiError as error:
                if not error.is_transient or (error.wait_s or 0.0) > LONGEST_WAIT_S:
                    raise
                time.sleep(max(error.wait_s or 0.0, backoff_s(self.spec.model, attempt)))
        return call()

    def _refusal(self, name: str, reply: httpx2.Response) -> BatchApiError:
        status, text = reply.status_code, reply.content.decode("utf-8", "replace")
        outcome = self.endpoint.failed_status(status, error_object(text), text, dict(reply.headers))
        failed = outcome if isinstance(outcome, FailedAttempt) else None
        message = failed.failure.message if failed else reply_text(self.endpoint.redact(text))
        reason = f"{name} of a batch: HTTP {status}: {message}"
        if name in ("upload", "create") and status in (404, 405):
            reason = f"it has no batch endpoint, so that it needs a run without --batch and `batch` ({reason})"
        return self._failure(
            reason,
            status=status,
            is_transient=failed is not None and failed.is_transient,
            wait_s=failed.wait_s if failed else None,
        )

    def _misread(self, name: str, problem: str) -> BatchApiError:
        return self._failure(
            f"{name} of a batch: the reply is none of this API ({problem}); "
            "base_url must be the API's address, mostly one ending in /v1",
            is_transient=True,
        )

    def _failure(self, reason: str, **facts: Any) -> BatchApiError:
        return BatchApiError(self.endpoint.unreachable_message(self.endpoint.redact(reason)), **facts)


def _unless_missing(call: Callable[[], T]) -> T | None:
    """Return the result of a call; None where the provider knows nothing of what it asks for."""
    try:
        return call()
    except BatchApiError as error:
        if error.status == 404:
            return None
        raise


def field_at(*path: str, default: Any) -> Any:
    """Return the field of a record whose value lies deeper in the JSON object; `default` where a part is absent."""
    return Field(default=default, validation_alias=AliasPath(*path))


def describe(problems: Sequence[BatchProblem]) -> str:
    """Return why a batch was refused, in a sentence."""
    shown = "; ".join(f"{problem.code}: {problem.message}" for problem in problems[:3])
    return shown or "the provider gives no reason"
