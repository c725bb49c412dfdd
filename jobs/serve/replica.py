"""One engine in one replica of Ray Serve."""

import asyncio
import importlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from jobs.serve.chat_api import ChatRequest
from models.messages import Answer, Call, CallReply, Failure, Frames, Media
from models.spec import ModelSpec

log = logging.getLogger(__name__)

MAX_BATCH_SIZE = 32  # requests answered as one batch
BATCH_WAIT_S = 0.02  # of the first request of a batch for more


class ModelReplica:
    """One engine in one replica. A batch of requests is one call of the engine."""

    def __init__(self, name: str, spec: ModelSpec, *, is_embedded: bool = False) -> None:
        from models.engines import build_engine
        from models.engines.gpu_check import check_gpus
        from models.errors import EngineUnreachableError, MissingSecretError, ShellSettingError
        from pipelines.predict.job_state import replica_gpus

        if is_embedded:
            _listen_at_loopback()
        self._fatal = self._broken = ""
        self._name, self._spec = name, spec
        self._numbers = itertools.count()
        self._waiting: dict[asyncio.Future[Answer | Failure], ChatRequest] = {}
        self._is_answering, self._tasks = False, set[asyncio.Future[None]]()
        # Engines are used by one thread, and block it: the replica's event loop must stay free to batch requests.
        self._thread = ThreadPoolExecutor(max_workers=1)
        try:
            check_gpus(spec, replica_gpus()[1])
            self._engine = self._thread.submit(build_engine, name, spec).result()
        except (EngineUnreachableError, MissingSecretError, ShellSettingError) as error:
            self._fatal = str(error)

    def fatal(self) -> str:
        """Return why the model is unavailable, or ''."""
        return self._fatal

    def check_health(self) -> None:
        """Let Ray Serve start another process in place of one whose device refuses all work; RuntimeError then."""
        if self._broken:
            raise RuntimeError(self._broken)

    async def ask(self, request: ChatRequest) -> Answer | Failure:
        """Answer a request in a batch with those that wait. One whose client leaves before is not begun."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer | Failure] = loop.create_future()
        self._waiting[answered] = request
        loop.call_later(BATCH_WAIT_S, self._begin)
        try:
            return await answered
        finally:
            self._waiting.pop(answered, None)

    def _begin(self) -> None:
        if self._waiting and not self._is_answering:
            self._is_answering = True
            task = asyncio.ensure_future(self._answer_waiting())
            self._tasks.add(task)  # the loop itself holds none
            task.add_done_callback(self._tasks.discard)

    async def _answer_waiting(self) -> None:
        batch = dict(itertools.islice(self._waiting.items(), MAX_BATCH_SIZE))
        for answered in batch:
            del self._waiting[answered]
        try:
            outcomes = await self.answer([*batch.values()], lambda: not all(answered.done() for answered in batch))
            for answered, outcome in zip(batch, outcomes, strict=True):
                if not answered.done():  # cancelled
                    answered.set_result(outcome)
        except Exception as error:  # noqa: BLE001 - each caller gets it
            for answered in batch:
                if not answered.done():
                    answered.set_exception(error)
        finally:
            self._is_answering = False
            self._begin()

    async def answer(
        self, requests: list[ChatRequest], is_wanted: Callable[[], bool] = lambda: True
    ) -> list[Answer | Failure]:
        """Answer a batch, in order; the engine is stopped between answers when nobody wants them any more."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, requests, is_wanted)

    def _answer(self, requests: Sequence[ChatRequest], is_wanted: Callable[[], bool]) -> list[Answer | Failure]:
        calls = [
            replace(request.call, call_id=f"{request.call.call_id or next(self._numbers)}/0") for request in requests
        ]
        media = {key: frames for request in requests for key, frames in request.media.items()}
        outcomes = self._outcomes({call.call_id: call for call in calls}, media, is_wanted)
        return [outcomes[call.call_id] for call in calls]

    def _outcomes(
        self, calls: Mapping[str, Call], media: Mapping[Media, Frames], is_wanted: Callable[[], bool]
    ) -> dict[str, Answer | Failure]:
        from models.engines import build_engine
        from models.errors import DeviceFailedError, EngineDiedError, EngineUnreachableError

        if reason := self._fatal or self._broken:
            return dict.fromkeys(calls, Failure(type="model_unavailable", message=reason))
        outcomes: dict[str, Answer | Failure] = {}
        failure = Failure(type="engine_contract", message="the engine left this call unanswered")
        try:
            for reply in _while(is_wanted, self._engine.generate(list(calls.values()), media)):
                outcomes[reply.call_id] = reply.outcome
        except EngineUnreachableError as error:
            failure = Failure(type="model_unavailable", message=str(error))
        except DeviceFailedError as error:
            self._broken = f"{error}; another replica takes its place: send the request again"
            failure = Failure(type="model_unavailable", message=self._broken)
        except EngineDiedError as error:
            failure = Failure(type="engine_died", message=f"{error}; send the request again")
            try:
                self._engine = build_engine(self._name, self._spec)
            except EngineUnreachableError as unreachable:
                self._fatal = str(unreachable)
        except Exception as error:
            if len(calls) > 1:  # one of them may be to blame, and is to fail alone
                unanswered = [call for call in calls.values() if call.call_id not in outcomes]
                for call in unanswered:
                    outcomes |= self._outcomes({call.call_id: call}, media, is_wanted)
                return outcomes
            log.exception("a request failed")  # it alone: the server continues
            failure = Failure(type=type(error).__name__, message=str(error))
        return {call_id: outcomes.get(call_id, failure) for call_id in calls}


def _listen_at_loopback() -> None:
    """Let the replica of Ray Serve that this process becomes open its port, which other deployments use, here only."""
    module = importlib.import_module("ray.serve._private.replica")
    add_port: Callable[[object, str], int] = module.add_port_to_grpc_server
    setattr(module, "add_port_to_grpc_server", lambda server, _: add_port(server, "127.0.0.1:0"))  # noqa: B010 - private


def _while(is_wanted: Callable[[], bool], replies: Iterable[CallReply]) -> Iterator[CallReply]:
    for reply in replies:
        yield reply
        if not is_wanted():
            return
