"""Run the endpoint of `vlmsweep serve` and its replicas until it is interrupted."""

import asyncio
import contextlib
import importlib
import ipaddress
import itertools
import logging
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from cluster.connection import ClusterInfo, connect
from cluster.errors import ClusterError
from jobs.serve.chat_api import Bounds, ChatRequest
from jobs.serve.http_api import OpenAIApi
from jobs.serve.options import ServeOptions
from jobs.shared.auth import key_hash
from jobs.shared.output import print_result, results_only_on_stdout
from jobs.shared.web import listen, run_app
from models.environment import ray_address, secret
from models.messages import Answer, Call, CallReply, Failure, Frames, Media
from models.spec import ModelSpec
from pipelines.errors import UsageError

log = logging.getLogger("vlmsweep")


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


START_S = 3600.0  # 145 GB of weights may have to be downloaded
HEALTH_S = 2.0  # between questions to a replica; Serve replaces it after the third that fails, by default half a minute
_ENGINE_CPUS = 0.5


def serve_until_stopped(name: str, spec: ModelSpec, options: ServeOptions) -> int:
    """Serve until Ctrl-C or SIGTERM; return 0, the normal end."""
    if options.no_key and options.key_env:
        raise UsageError("--no-key and --key-env are mutually exclusive; give one")
    if not is_loopback(options.host):
        log.warning("listening at %s: every host that reaches this machine reaches the model", options.host)
        if options.no_key:
            log.warning("--no-key: authentication is disabled")
    key = None if options.no_key else _key(options.key_env)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        listener = stack.enter_context(_listening(options.host, options.port))
        cluster = stack.enter_context(connect(options.address or ray_address(), verbose=options.verbose))
        with results_only_on_stdout():
            model = stack.enter_context(serving(name, spec, cluster, options.idle_s))
        api = OpenAIApi(model, name, spec, key=key_hash(key) if key else None, bounds=_bounds(options))
        stack.callback(api.close)
        _announce(options, listener.getsockname()[1], name, key if key and not options.key_env else None)
        run_app(api, listener)
    return 0


def _bounds(options: ServeOptions) -> Bounds:
    return Bounds(
        pictures=options.max_pictures,
        pixels=options.max_total_pixels,
        messages=options.max_messages,
        body_bytes=options.max_body_mib << 20,
        timeout_s=options.timeout_s,
    )


def _key(variable: str | None) -> str:
    return secret(variable).get_secret_value() if variable else secrets.token_urlsafe(32)


def _announce(options: ServeOptions, port: int, name: str, key: str | None) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    base_url = f"http://{host}:{port}/v1"
    lines = [f"serving {name} at {base_url}; Ctrl-C stops it", *([f"key, shown this once: {key}"] if key else [])]
    print_result(options.json, {"base_url": base_url, "model": name, "key": key}, *lines)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: cannot listen there ({error.strerror or error})") from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.contextmanager
def serving(name: str, spec: ModelSpec, cluster: ClusterInfo, idle_s: float) -> Iterator[Any]:
    """Yield the handle of a model that is served on a connected cluster for the length of a block.

    Replicas are released after `idle_s` without requests, down to `replicas.min`.

    Raises:
        ModelUnavailableError: the model is unavailable.
        ClusterError: the cluster serves something already.
    """
    from ray import serve

    for logger in ("ray.serve", "ray._private"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    _check_no_serve_runs()
    try:
        # Its own HTTP proxies answer without a key, and wait for slow clients without end.
        serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR", "enable_access_log": False})
        yield _start(name, spec, cluster, idle_s)
    finally:  # else Serve would keep its replicas on a cluster that outlives this process
        if cluster.address:  # an embedded one ends without waiting for requests whose connections are closed
            serve.shutdown()


def _check_no_serve_runs() -> None:
    """Check that Serve is not running: a cluster has one, and our shutdown would end others' models."""
    from ray import serve

    running = serve.status()
    if running.proxies or running.applications:
        applications = ", ".join(sorted(running.applications)) or "nothing yet"
        raise ClusterError(
            f"Ray Serve runs on this cluster already (it serves {applications}); end it first, with `serve shutdown` if"
            " it was left behind, or serve without --address"
        )


def _start(name: str, spec: ModelSpec, cluster: ClusterInfo, idle_s: float) -> Any:
    from ray import serve

    from pipelines.errors import ModelUnavailableError

    try:
        handle = serve.run(_application(name, spec, cluster, idle_s), name="vlmsweep", route_prefix=None)
        reason = handle.fatal.remote().result(timeout_s=START_S)
    except (RuntimeError, TimeoutError) as error:
        raise ModelUnavailableError(f"model {name!r} could not be started: {error}") from error
    if reason:
        raise ModelUnavailableError(f"model {name!r}: {reason}")
    return handle


def _application(name: str, spec: ModelSpec, cluster: ClusterInfo, idle_s: float) -> Any:
    from ray import serve

    local = spec.can_use_gpu and cluster.has_gpus
    resources = {"num_gpus": spec.replica_gpus} if local else {"num_cpus": min(_ENGINE_CPUS, cluster.cpus / 4)}
    scaling = {
        "min_replicas": spec.replicas.min,
        "initial_replicas": max(1, spec.replicas.min),
        "max_replicas": spec.replicas.max,
        "target_ongoing_requests": MAX_BATCH_SIZE,
        "upscale_delay_s": 0.0,
        "downscale_delay_s": idle_s,
        "downscale_to_zero_delay_s": idle_s,
    }
    model = serve.deployment(
        name="model",
        ray_actor_options=resources,
        autoscaling_config=scaling,
        max_ongoing_requests=2 * MAX_BATCH_SIZE,
        health_check_period_s=HEALTH_S,
    )(ModelReplica)
    return model.bind(name, spec, is_embedded=not cluster.address)
