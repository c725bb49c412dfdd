"""Answering a loaded unit by one engine, without any cluster: each request ends once, whoever dies meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from models.engines.base import Engine
from models.engines.conversation import answer_requests
from models.errors import EngineContractError, EngineDiedError, EngineStalledError, EngineUnreachableError
from models.messages import Failure, Frames, Media, Reply, Request
from pipelines.logging_context import log_context
from pipelines.predict.loader import Loaded
from pipelines.schemas import prediction_row

log = logging.getLogger(__name__)

_BUGS = (LookupError, AttributeError, TypeError, NameError, AssertionError, NotImplementedError, ImportError)
"""Exceptions of an engine that mean a bug and not a request it cannot answer: they end the sweep."""
_ENDS = {
    "engine_died": "the model's process died while it answered this request",
    "timeout": "the model gave no answer to this request within the stall_timeout_s of its entry",
}


class Attempts(Protocol):
    """Remembers across process deaths how often a unit was begun and which requests were in an engine's hands."""

    def begin(self, unit: str) -> tuple[int, Mapping[str, str]]:
        """Count one more attempt.

        Returns its number (1 is the first) and the requests that ended earlier ones, by how: `engine_died`, `timeout`.
        """
        ...

    def alone(self, unit: str, request_id: str) -> None:
        """Note that this one request is now being answered by itself."""
        ...

    def survived(self, unit: str, request_id: str) -> None:
        """Take the note back."""
        ...

    def excuse(self, unit: str, request_id: str) -> None:
        """The engine died by no fault that is known under this request, or under all of the unit ('').

        Once for each, the note or the attempt is taken back.
        """
        ...

    def stalled(self, unit: str, request_id: str) -> None:
        """The engine fell silent under this request, which is not asked again, or under all of the unit ('')."""
        ...


class UnitRunner:
    """Answers loaded units by one engine.

    A unit whose engine died is begun again; the second time its requests are sent one by one, so that the one that
    kills is known, becomes an `error` row, and costs nobody else anything.
    """

    def __init__(self, engine: Engine, attempts: Attempts) -> None:
        self._engine, self._attempts = engine, attempts
        self._in_hand = ("", "")

    def answer(self, loaded: Loaded) -> list[dict[str, Any]]:
        """All rows of the unit, each request once.

        Raises:
            EngineUnreachableError: the model as a whole cannot be had; nothing of the unit counts as done.
            EngineDiedError: the engine is gone and must be built anew; nothing of the unit counts as done.
        """
        part = loaded.unit.part
        attempt, killers = self._attempts.begin(part)
        rows = list(loaded.ready)
        requests = []
        for request in loaded.requests:
            if request.request_id in killers:
                kind = killers[request.request_id]
                outcome = Failure(type=kind, message=_ENDS[kind])
                rows.append(self._row(loaded, Reply(request_id=request.request_id, outcome=outcome)))
            else:
                requests.append(request)
        self._in_hand = (part, "")
        try:
            if attempt == 1:
                rows += [self._row(loaded, reply) for reply in self._together(requests, loaded.media)]
                return rows
            for request in requests:
                self._in_hand = (part, request.request_id)
                self._attempts.alone(*self._in_hand)
                rows.append(self._row(loaded, self._one(request, loaded.media)))
                self._attempts.survived(*self._in_hand)
        except EngineStalledError:
            self.stalled()
            raise
        except EngineDiedError:
            self._attempts.excuse(*self._in_hand)
            raise
        return rows

    @property
    def in_hand(self) -> tuple[str, str]:
        """The part that is being answered, and the request where it is asked alone, else ''."""
        return self._in_hand

    def stalled(self) -> None:
        """Note that the engine has fallen silent under what is in its hands; from any thread."""
        self._attempts.stalled(*self._in_hand)

    def _row(self, loaded: Loaded, reply: Reply) -> dict[str, Any]:
        return prediction_row(loaded.columns[reply.request_id], reply)

    def _together(self, requests: Sequence[Request], media: Mapping[Media, Frames]) -> Iterator[Reply]:
        """All at once, so that an endpoint is kept busy; what an exception left unanswered is asked one by one.

        Engines put calls that share media together themselves.
        """
        left = {request.request_id: request for request in requests}
        try:
            for reply in answer_requests(self._engine, requests, media):
                del left[reply.request_id]
                yield reply
        except (EngineUnreachableError, EngineDiedError, *_BUGS):
            raise
        except Exception as error:  # noqa: BLE001  the row edge: a failure becomes data about the rows it concerns
            log.warning("a unit of %d failed (%s); its %d open requests go one by one", len(requests), error, len(left))
            for request in left.values():
                yield self._one(request, media)

    def _one(self, request: Request, media: Mapping[Media, Frames]) -> Reply:
        with log_context(request_id=request.request_id):
            try:
                return next(iter(list(answer_requests(self._engine, [request], media))))
            except (EngineUnreachableError, EngineDiedError, *_BUGS):
                raise
            except EngineContractError as error:
                outcome = Failure(type="engine_contract", message=str(error))
            except Exception as error:  # noqa: BLE001  the row edge, as above
                outcome = Failure(type=type(error).__name__, message=str(error))
            log.info("a request failed: %s", outcome.type)
        return Reply(request_id=request.request_id, outcome=outcome)
