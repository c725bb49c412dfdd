"""Answer a loaded unit by one engine, without a cluster: each request ends exactly once, even if an engine dies."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Any

from models.engines.base import Engine, prepare
from models.engines.conversation import answer_requests
from models.errors import (
    BUGS,
    DeviceFailedError,
    EngineContractError,
    EngineDiedError,
    EngineStalledError,
    EngineUnreachableError,
)
from models.messages import Call, Failure, Frames, Media, Reply, Request
from pipelines.logging_context import log_context
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.loader import Loaded
from pipelines.schemas import prediction_row

log = logging.getLogger(__name__)

REPORT_EVERY_S = 2.0
_FAILURES = {
    "engine_died": "the model's process died while it answered this request",
    "timeout": "the model gave no answer to this request within the stall_timeout_s of its entry",
}


class UnitRunner:
    """Answers loaded units by one engine.

    A unit whose engine died is sent again, the second time request by request: the fatal one becomes an `error` row.
    """

    def __init__(self, engine: Engine, attempts: AttemptTracker) -> None:
        self._engine, self._attempts = engine, attempts
        self._current: dict[str, str] = {}  # by part that is being answered: the request if it is sent alone, else ''
        self._reported = monotonic()

    def answer(self, loaded: Loaded, rows: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        """Return all rows of the unit, each request once; several threads may each answer a unit.

        They are appended to `rows`, if given, as they are answered.

        Raises:
            EngineUnreachableError: the model is unavailable; no other request of the unit counts as done.
            EngineDiedError: the engine must be rebuilt; no other request of the unit counts as done.
        """
        part = loaded.unit.part
        attempt, blamed = self._attempts.begin(part)
        rows = [] if rows is None else rows
        rows += loaded.ready
        requests = []
        for request in loaded.requests:
            if request.request_id in blamed:
                kind = blamed[request.request_id]
                outcome = Failure(type=kind, message=_FAILURES[kind])
                rows.append(self._row(loaded, Reply(request_id=request.request_id, outcome=outcome)))
            else:
                requests.append(request)
        self._current[part] = ""
        try:
            if attempt == 1:
                for reply in self._answer_all(part, requests, loaded.media):
                    rows.append(self._row(loaded, reply))
            else:
                for request in requests:
                    self._current[part] = request.request_id
                    self._attempts.begin_single(part, request.request_id)
                    rows.append(self._row(loaded, self._answer_single(request, loaded.media)))
                    self._attempts.end_single(part, request.request_id)
        except EngineStalledError:
            self.record_stall()
            raise
        except EngineDiedError as error:
            if not isinstance(error, DeviceFailedError):  # else the request may be the cause, as of a process's death
                self._attempts.forgive(part, self._current[part])
            raise
        del self._current[part]
        return rows

    @property
    def current_request(self) -> tuple[str, str]:
        """The part that is being answered, the last one of several, and the request if it is sent alone, else ''."""
        return next(reversed(self._current.items()), ("", ""))

    def prepare(self, loaded: Loaded) -> None:
        """Let the engine preprocess the media of a unit while it answers another in its own thread."""
        calls = [Call.of(request.steps[0], request.request_id) for request in loaded.requests]
        prepare(self._engine, calls, loaded.media)

    def record_stall(self) -> None:
        """Record that the engine stalled at the current requests; from any thread."""
        for part, request_id in [*self._current.items()]:
            self._attempts.record_stall(part, request_id)

    def _row(self, loaded: Loaded, reply: Reply) -> dict[str, Any]:
        return prediction_row(loaded.columns[reply.request_id], reply)

    def _answer_all(self, part: str, requests: Sequence[Request], media: Mapping[Media, Frames]) -> Iterator[Reply]:
        """Send all requests at once, and those that an exception left unanswered one by one."""
        unanswered = {request.request_id: request for request in requests}
        try:
            for reply in answer_requests(self._engine, requests, media):
                del unanswered[reply.request_id]
                self._report(part, len(requests) - len(unanswered))
                yield reply
        except (EngineUnreachableError, EngineDiedError, *BUGS):
            raise
        except Exception as error:  # noqa: BLE001  the row edge: a failure becomes data about the rows it concerns
            log.warning(
                "a unit of %d failed (%s); its %d open requests are sent one by one",
                len(requests),
                error,
                len(unanswered),
            )
            for request in unanswered.values():
                yield self._answer_single(request, media)

    def _report(self, part: str, rows: int) -> None:
        """Record answered rows for people who wait; not each one, for the record is in another process."""
        if monotonic() - self._reported > REPORT_EVERY_S:
            self._reported = monotonic()
            self._attempts.record_rows(part, rows)

    def _answer_single(self, request: Request, media: Mapping[Media, Frames]) -> Reply:
        with log_context(request_id=request.request_id):
            try:
                return next(iter(list(answer_requests(self._engine, [request], media))))
            except (EngineUnreachableError, EngineDiedError, *BUGS):
                raise
            except EngineContractError as error:
                outcome = Failure(type="engine_contract", message=str(error))
            except Exception as error:  # noqa: BLE001  the row edge, as above
                outcome = Failure(type=type(error).__name__, message=str(error))
            log.info("a request failed: %s", outcome.type)
        return Reply(request_id=request.request_id, outcome=outcome)
