"""`vlmsweep serve`: a model as an OpenAI-compatible endpoint on Ray Serve, batching requests and scaling to zero."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

from cluster.connect import ClusterInfo
from cluster.errors import ClusterError
from jobs.serve.auth import is_authorized
from jobs.serve.chat_api import (
    MOST_PIXELS,
    BadRequestError,
    ChatRequest,
    completion,
    error_body,
    error_response,
    model_list,
    read_chat,
)
from models.messages import Answer, CallReply, Failure, Frames
from models.spec import ModelSpec
from pipelines.errors import UsageError
from pipelines.media.decoder import Decoder

MOST_AT_ONCE = 32
"""Requests answered as one batch."""
GATHER_S = 0.02
"""A batch waits so long for more."""
START_S = 3600.0
"""Weights of 145 GB may have to come from far."""
LISTEN_S = 300.0
"""A proxy listens after three seconds on a machine that has time for it."""
MOST_BODY = 128 << 20
_ENGINE_CPUS = 0.5
_DECODERS = 4


class ModelReplica:
    """One engine in one replica. Requests that came together are one call of the engine."""

    def __init__(self, name: str, spec: ModelSpec) -> None:
        from models.engines import build_engine
        from models.errors import EngineUnreachableError, MissingSecretError

        self._fatal = ""
        self._name, self._spec = name, spec
        self._numbers = itertools.count()
        # Engines are used by one thread, and block it: the replica's event loop must stay free to gather.
        self._thread = ThreadPoolExecutor(max_workers=1)
        try:
            self._engine = self._thread.submit(build_engine, name, spec).result()
        except (EngineUnreachableError, MissingSecretError) as error:
            self._fatal = str(error)

    def fatal(self) -> str:
        """Why the model cannot be had; '' when it can."""
        return self._fatal

    async def answer(self, asked: list[ChatRequest]) -> list[Answer | Failure]:
        """Answer a batch, each in its place."""
        if self._fatal:
            return [Failure(type="model_unavailable", message=self._fatal)] * len(asked)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, asked)

    def _answer(self, asked: Sequence[ChatRequest]) -> list[Answer | Failure]:
        from models.engines import build_engine
        from models.errors import EngineDiedError, EngineUnreachableError

        own = [replace(one.call, call_id=f"{next(self._numbers)}/0") for one in asked]
        media = {key: frames for one in asked for key, frames in one.media.items()}
        found: dict[str, CallReply] = {}
        lost = Failure(type="engine_contract", message="the engine left this call unanswered")
        try:
            for reply in self._engine.generate(own, media):
                found[reply.call_id] = reply
        except EngineUnreachableError as error:
            lost = Failure(type="model_unavailable", message=str(error))
        except EngineDiedError as error:
            lost = Failure(type="engine_died", message=f"{error}; ask again")
            try:
                self._engine = build_engine(self._name, self._spec)
            except EngineUnreachableError as gone:
                self._fatal = str(gone)
        except Exception as error:  # noqa: BLE001  the edge of a request: it fails, the server goes on
            lost = Failure(type=type(error).__name__, message=str(error))
        return [found[call.call_id].outcome if call.call_id in found else lost for call in own]


class _Decoders:
    """A few decoder processes for many threads; each is started when it is first needed."""

    def __init__(self) -> None:
        self._free: SimpleQueue[Decoder] = SimpleQueue()
        for _ in range(_DECODERS):
            self._free.put(Decoder(max_image_pixels=MOST_PIXELS))

    def decode(self, content: bytes, max_pixels: int | None) -> Frames:
        """One picture, when a decoder is free."""
        decoder = self._free.get()
        try:
            return decoder.decode_picture(content, max_pixels)
        finally:
            self._free.put(decoder)


class OpenAIApi:
    """Reads requests, asks the model, writes replies."""

    def __init__(self, model: Any, name: str, spec: ModelSpec, key: str | None) -> None:
        self._model, self._name, self._spec, self._key = model, name, spec, key
        self._numbers = itertools.count(1)
        self._decoders = _Decoders()

    async def __call__(self, request: Any) -> Any:
        """One HTTP request."""
        from starlette.responses import JSONResponse

        status, body = await self._reply(request)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        return JSONResponse(body, status_code=status, headers=headers)

    async def fatal(self) -> str:
        """Why the model cannot be had; '' when it can."""
        return str(await self._model.fatal.remote())

    async def _reply(self, request: Any) -> tuple[int, Any]:
        if not is_authorized(request.headers.get("authorization"), self._key):
            return 401, error_body("Wrong or missing key", kind="invalid_request_error", code="invalid_api_key")
        place = (request.method, request.url.path.rstrip("/"))
        if place == ("GET", "/v1/models"):
            return 200, model_list(self._name)
        if place == ("GET", f"/v1/models/{self._name}"):
            return 200, model_list(self._name)["data"][0]
        if place != ("POST", "/v1/chat/completions"):
            return 404, error_body(f"No such path: {request.method} {request.url.path}", kind="invalid_request_error")
        return await self._chat(request)

    async def _chat(self, request: Any) -> tuple[int, Any]:
        call_id = str(next(self._numbers))
        try:
            body = await _body(request)
            # Decoding a picture takes long enough to hold up the others.
            asked = await asyncio.to_thread(
                read_chat,
                body,
                name=self._name,
                spec=self._spec,
                call_id=call_id,
                decode=self._decoders.decode,
            )
        except BadRequestError as error:
            kind = "invalid_request_error"
            return error.status, error_body(str(error), kind=kind, code=error.code, param=error.param)
        outcome = await self._model.answer.remote(asked)
        if isinstance(outcome, Answer):
            return 200, completion(outcome, name=self._name, call_id=call_id, created=int(time.time()))
        status, told = error_response(outcome)
        return (503 if outcome.type == "model_unavailable" else status), told


async def _body(request: Any) -> bytes:
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > MOST_BODY:
            raise BadRequestError(f"the request is larger than {MOST_BODY >> 20} MiB", status=413)
    return bytes(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Where and to whom a model answers."""

    host: str
    port: int
    key: str | None
    """Hash of the key that is wanted (`keys.key_hash`); None wants none."""
    idle_s: float
    """Seconds without requests after which replicas are given back, down to `replicas.min`."""


@contextlib.contextmanager
def serving(name: str, spec: ModelSpec, cluster: ClusterInfo, door: ServeConfig) -> Iterator[None]:
    """Serve on a joined cluster for the length of a block.

    Args:
        name: by which the model is asked for.
        spec: the model.
        cluster: what there is to run on.
        door: where and to whom it answers.

    Raises:
        ModelUnavailableError: the model cannot be had.
        ClusterError: the cluster serves something already, or nobody comes to listen at the door.
    """
    from ray import serve

    for logger in ("ray.serve", "ray._private"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    _refuse_a_second()
    try:
        _open(door)
        _start(name, spec, cluster, door)
        yield
    finally:  # on a cluster that outlives this process, what Serve holds does too
        serve.shutdown()


def _refuse_a_second() -> None:
    """A cluster has one Serve, and that has one port; to end it at our end would end others' models.

    Raises:
        ClusterError: it runs.
    """
    from ray import serve

    running = serve.status()
    if running.proxies or running.applications:
        what = ", ".join(sorted(running.applications)) or "nothing yet"
        raise ClusterError(
            f"Ray Serve runs on this cluster already (it serves {what}); end that first, by `serve shutdown` where it"
            " was left behind, or serve without --address"
        )


def _start(name: str, spec: ModelSpec, cluster: ClusterInfo, door: ServeConfig) -> None:
    from ray import serve

    from pipelines.errors import ModelUnavailableError

    try:
        handle = serve.run(_application(name, spec, cluster, door), name="vlmsweep", route_prefix="/")
        why = handle.fatal.remote().result(timeout_s=START_S)
    except (RuntimeError, TimeoutError) as error:
        raise ModelUnavailableError(f"model {name!r} could not be started: {error}") from error
    if why:
        raise ModelUnavailableError(f"model {name!r}: {why}")


def _open(door: ServeConfig) -> None:
    """Start Serve and wait until its proxies listen.

    Serve kills a proxy that is not up within a quarter of a minute and begins another with more time, as busy machines
    need it; its own call knows the first one alone, and fails.

    Raises:
        ClusterError: nobody comes to listen.
    """
    from ray import serve
    from ray.exceptions import RayActorError, RayTaskError

    last: Exception | None = None
    try:
        serve.start(
            http_options={"host": door.host, "port": door.port},
            logging_config={"log_level": "ERROR", "enable_access_log": False},
        )
    except (RayActorError, RayTaskError, TimeoutError) as error:
        last = error
    deadline = time.monotonic() + LISTEN_S
    while not _listening():
        if time.monotonic() > deadline or isinstance(last, RayTaskError):
            why = f" ({getattr(last, 'cause', last)})" if last else ""
            raise ClusterError(f"nobody comes to listen at {door.host} port {door.port}{why}; try another") from last
        time.sleep(0.2)


def _listening() -> bool:
    from ray import serve

    proxies = serve.status().proxies
    return bool(proxies) and all(status == "HEALTHY" for status in proxies.values())


def _application(name: str, spec: ModelSpec, cluster: ClusterInfo, door: ServeConfig) -> Any:
    from ray import serve

    local = spec.can_use_gpu and cluster.has_gpus
    resources = {"num_gpus": spec.tensor_parallel} if local else {"num_cpus": min(_ENGINE_CPUS, cluster.cpus / 4)}
    scaling = {
        "min_replicas": spec.replicas.min,
        "initial_replicas": max(1, spec.replicas.min),
        "max_replicas": spec.replicas.max,
        "target_ongoing_requests": MOST_AT_ONCE,
        "upscale_delay_s": 0.0,
        "downscale_delay_s": door.idle_s,
        "downscale_to_zero_delay_s": door.idle_s,
    }

    class Batched(ModelReplica):
        """The model, its requests gathered."""

        @serve.batch(max_batch_size=MOST_AT_ONCE, batch_wait_timeout_s=GATHER_S)  # type: ignore[untyped-decorator]
        async def answer(self, asked: list[ChatRequest]) -> list[Answer | Failure]:
            return await ModelReplica.answer(self, asked)

    model = serve.deployment(
        name="model",
        ray_actor_options=resources,
        autoscaling_config=scaling,
        max_ongoing_requests=2 * MOST_AT_ONCE,
    )(Batched)
    api = serve.deployment(name="api", ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=1000)(OpenAIApi)
    return api.bind(model.bind(name, spec), name, spec, door.key)


def free_port(host: str, port: int) -> int:
    """The port itself when nobody listens there, any free one for 0.

    Raises:
        UsageError: the address or port cannot be used.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: cannot listen there ({error.strerror or error})") from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
