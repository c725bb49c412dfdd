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
    MAX_PIXELS,
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

MAX_BATCH_SIZE = 32
"""Requests answered as one batch."""
BATCH_WAIT_S = 0.02
"""Longest wait of a batch for more requests."""
START_S = 3600.0
"""145 GB of weights may have to be downloaded."""
LISTEN_S = 300.0
"""A proxy needs three seconds on an idle machine."""
MAX_BODY_BYTES = 128 << 20
_ENGINE_CPUS = 0.5
_DECODERS = 4


class ModelReplica:
    """One engine in one replica. A batch of requests is one call of the engine."""

    def __init__(self, name: str, spec: ModelSpec) -> None:
        from models.engines import build_engine
        from models.errors import EngineUnreachableError, MissingSecretError

        self._fatal = ""
        self._name, self._spec = name, spec
        self._numbers = itertools.count()
        # Engines are used by one thread, and block it: the replica's event loop must stay free to batch requests.
        self._thread = ThreadPoolExecutor(max_workers=1)
        try:
            self._engine = self._thread.submit(build_engine, name, spec).result()
        except (EngineUnreachableError, MissingSecretError) as error:
            self._fatal = str(error)

    def fatal(self) -> str:
        """Return why the model is unavailable, or ''."""
        return self._fatal

    async def answer(self, requests: list[ChatRequest]) -> list[Answer | Failure]:
        """Answer a batch, in order."""
        if self._fatal:
            return [Failure(type="model_unavailable", message=self._fatal)] * len(requests)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, requests)

    def _answer(self, requests: Sequence[ChatRequest]) -> list[Answer | Failure]:
        from models.engines import build_engine
        from models.errors import EngineDiedError, EngineUnreachableError

        calls = [replace(request.call, call_id=f"{next(self._numbers)}/0") for request in requests]
        media = {key: frames for request in requests for key, frames in request.media.items()}
        replies: dict[str, CallReply] = {}
        failure = Failure(type="engine_contract", message="the engine left this call unanswered")
        try:
            for reply in self._engine.generate(calls, media):
                replies[reply.call_id] = reply
        except EngineUnreachableError as error:
            failure = Failure(type="model_unavailable", message=str(error))
        except EngineDiedError as error:
            failure = Failure(type="engine_died", message=f"{error}; send the request again")
            try:
                self._engine = build_engine(self._name, self._spec)
            except EngineUnreachableError as unreachable:
                self._fatal = str(unreachable)
        except Exception as error:  # noqa: BLE001  the request fails, the server continues
            failure = Failure(type=type(error).__name__, message=str(error))
        return [replies[call.call_id].outcome if call.call_id in replies else failure for call in calls]


class _Decoders:
    """A few decoder processes for many threads; each is started when it is first needed."""

    def __init__(self) -> None:
        self._free: SimpleQueue[Decoder] = SimpleQueue()
        for _ in range(_DECODERS):
            self._free.put(Decoder(max_image_pixels=MAX_PIXELS))

    def decode(self, content: bytes, max_pixels: int | None) -> Frames:
        """Decode an image when a decoder is free."""
        decoder = self._free.get()
        try:
            return decoder.decode_picture(content, max_pixels)
        finally:
            self._free.put(decoder)


class OpenAIApi:
    """Reads requests, calls the model, writes replies."""

    def __init__(self, model: Any, name: str, spec: ModelSpec, key: str | None) -> None:
        self._model, self._name, self._spec, self._key = model, name, spec, key
        self._numbers = itertools.count(1)
        self._decoders = _Decoders()

    async def __call__(self, request: Any) -> Any:
        """Handle one HTTP request."""
        from starlette.responses import JSONResponse

        status, body = await self._reply(request)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        return JSONResponse(body, status_code=status, headers=headers)

    async def fatal(self) -> str:
        """Return why the model is unavailable, or ''."""
        return str(await self._model.fatal.remote())

    async def _reply(self, request: Any) -> tuple[int, Any]:
        if not is_authorized(request.headers.get("authorization"), self._key):
            return 401, error_body("Wrong or missing key", kind="invalid_request_error", code="invalid_api_key")
        route = (request.method, request.url.path.rstrip("/"))
        if route == ("GET", "/v1/models"):
            return 200, model_list(self._name)
        if route == ("GET", f"/v1/models/{self._name}"):
            return 200, model_list(self._name)["data"][0]
        if route != ("POST", "/v1/chat/completions"):
            return 404, error_body(f"No such path: {request.method} {request.url.path}", kind="invalid_request_error")
        return await self._chat(request)

    async def _chat(self, request: Any) -> tuple[int, Any]:
        call_id = str(next(self._numbers))
        try:
            content = await _body(request)
            # Decoding an image would block other requests.
            chat = await asyncio.to_thread(
                read_chat,
                content,
                name=self._name,
                spec=self._spec,
                call_id=call_id,
                decode=self._decoders.decode,
            )
        except BadRequestError as error:
            kind = "invalid_request_error"
            return error.status, error_body(str(error), kind=kind, code=error.code, param=error.param)
        outcome = await self._model.answer.remote(chat)
        if isinstance(outcome, Answer):
            return 200, completion(outcome, name=self._name, call_id=call_id, created=int(time.time()))
        status, body = error_response(outcome)
        return (503 if outcome.type == "model_unavailable" else status), body


async def _body(request: Any) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise BadRequestError(f"the request is larger than {MAX_BODY_BYTES >> 20} MiB", status=413)
    return bytes(content)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Address and authentication of the endpoint."""

    host: str
    port: int
    key: str | None
    """Hash of the required key (`key_hash`); None: no key is required."""
    idle_s: float
    """Seconds without requests after which replicas are released, down to `replicas.min`."""


@contextlib.contextmanager
def serving(name: str, spec: ModelSpec, cluster: ClusterInfo, config: ServeConfig) -> Iterator[None]:
    """Serve on a connected cluster for the length of a block; requests name the model `name`.

    Raises:
        ModelUnavailableError: the model is unavailable.
        ClusterError: the cluster serves something already, or no proxy listens in time.
    """
    from ray import serve

    for logger in ("ray.serve", "ray._private"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    _check_no_serve_runs()
    try:
        _start_proxies(config)
        _start(name, spec, cluster, config)
        yield
    finally:  # else Serve would keep its replicas on a cluster that outlives this process
        serve.shutdown()


def _check_no_serve_runs() -> None:
    """Check that Serve is not running: a cluster has one, with one port, and our shutdown would end others' models."""
    from ray import serve

    running = serve.status()
    if running.proxies or running.applications:
        applications = ", ".join(sorted(running.applications)) or "nothing yet"
        raise ClusterError(
            f"Ray Serve runs on this cluster already (it serves {applications}); end it first, with `serve shutdown` if"
            " it was left behind, or serve without --address"
        )


def _start(name: str, spec: ModelSpec, cluster: ClusterInfo, config: ServeConfig) -> None:
    from ray import serve

    from pipelines.errors import ModelUnavailableError

    try:
        handle = serve.run(_application(name, spec, cluster, config), name="vlmsweep", route_prefix="/")
        reason = handle.fatal.remote().result(timeout_s=START_S)
    except (RuntimeError, TimeoutError) as error:
        raise ModelUnavailableError(f"model {name!r} could not be started: {error}") from error
    if reason:
        raise ModelUnavailableError(f"model {name!r}: {reason}")


def _start_proxies(config: ServeConfig) -> None:
    """Start Serve and wait until its proxies listen; ClusterError if none does in time.

    Serve kills a proxy that is not up within 15 s and starts another with a longer timeout; its own call waits for the
    first one only, and fails.
    """
    from ray import serve
    from ray.exceptions import RayActorError, RayTaskError

    last: Exception | None = None
    try:
        serve.start(
            http_options={"host": config.host, "port": config.port},
            logging_config={"log_level": "ERROR", "enable_access_log": False},
        )
    except (RayActorError, RayTaskError, TimeoutError) as error:
        last = error
    deadline = time.monotonic() + LISTEN_S
    while not _listening():
        if time.monotonic() > deadline or isinstance(last, RayTaskError):
            detail = f" ({getattr(last, 'cause', last)})" if last else ""
            raise ClusterError(f"no proxy listens at {config.host} port {config.port}{detail}; try another") from last
        time.sleep(0.2)


def _listening() -> bool:
    from ray import serve

    proxies = serve.status().proxies
    return bool(proxies) and all(status == "HEALTHY" for status in proxies.values())


def _application(name: str, spec: ModelSpec, cluster: ClusterInfo, config: ServeConfig) -> Any:
    from ray import serve

    local = spec.can_use_gpu and cluster.has_gpus
    resources = {"num_gpus": spec.tensor_parallel} if local else {"num_cpus": min(_ENGINE_CPUS, cluster.cpus / 4)}
    scaling = {
        "min_replicas": spec.replicas.min,
        "initial_replicas": max(1, spec.replicas.min),
        "max_replicas": spec.replicas.max,
        "target_ongoing_requests": MAX_BATCH_SIZE,
        "upscale_delay_s": 0.0,
        "downscale_delay_s": config.idle_s,
        "downscale_to_zero_delay_s": config.idle_s,
    }

    class Batched(ModelReplica):
        @serve.batch(max_batch_size=MAX_BATCH_SIZE, batch_wait_timeout_s=BATCH_WAIT_S)  # type: ignore[untyped-decorator]
        async def answer(self, requests: list[ChatRequest]) -> list[Answer | Failure]:
            return await ModelReplica.answer(self, requests)

    model = serve.deployment(
        name="model",
        ray_actor_options=resources,
        autoscaling_config=scaling,
        max_ongoing_requests=2 * MAX_BATCH_SIZE,
    )(Batched)
    api = serve.deployment(name="api", ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=1000)(OpenAIApi)
    return api.bind(model.bind(name, spec), name, spec, config.key)


def free_port(host: str, port: int) -> int:
    """Return the port if it is free, or any free one for 0; UsageError if the address or port cannot be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: cannot listen there ({error.strerror or error})") from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
