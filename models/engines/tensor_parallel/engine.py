"""A tensor-parallel replica: one engine to its caller, inside a group of processes that each hold a shard.

Every rank gets the same calls through its own pipe, so that a dead one is noticed at once. The group fails as a whole.
"""

import json
import logging
import multiprocessing
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection
from time import monotonic
from typing import Any

from models.engines.base import Engine
from models.engines.launch import LaunchedModel
from models.engines.load_progress import report_progress
from models.engines.tensor_parallel.log_forwarding import effective_level, relay
from models.engines.tensor_parallel.protocol import pack_calls, unpack_reply
from models.engines.tensor_parallel.worker import RankConfig, rank_main
from models.engines.transformers.fetch import ensure_local
from models.engines.watchdog import response_timeout
from models.engines.weights import check_checkpoint, check_memory, free_host_bytes
from models.errors import EngineDiedError, EngineStalledError, EngineUnreachableError, RankBugError
from models.messages import Call, CallReply, Frames, Media
from models.spec import ModelSpec

_log = logging.getLogger(__name__)

LOAD_S = 7200.0  # seconds without progress while weights load; 145 GB over a slow line take most of an hour
STARTS = 2  # attempts to start a group whose rank was killed before it was ready


def open_tensor_parallel(spec: ModelSpec) -> Engine:
    """Build a group of ranks, or one process for architectures without a plan, or raise `EngineUnreachableError`."""
    from models.engines.transformers.engine import TransformersEngine
    from models.engines.transformers.sharding import plan_ranks

    device = _device(spec)
    if device == "cpu":  # by the entry, before anything is fetched; on GPUs ranks check: this process uses none
        check_memory(LaunchedModel.as_named(spec), free_host_bytes() // spec.tensor_parallel, "memory")
    model = ensure_local(spec)
    check_checkpoint(model)
    warning = plan_ranks(model, device)
    if warning is None:
        return TensorParallelEngine(model)
    _log.warning("%s", warning)
    engine = TransformersEngine(spec, launched=model)
    engine.warnings = (warning, *engine.warnings)
    return engine


class TensorParallelEngine:
    """Answers calls with a group of ranks; see `models.engines.base.Engine`."""

    has_own_timeout = True

    def __init__(self, model: LaunchedModel, *, load_s: float = LOAD_S) -> None:
        """Start the ranks, in a thread that lives as long as the engine; `load_s` limits seconds without progress."""
        self._model, self._spec = model, model.spec
        self._all_read_pixels = True  # else rank 0 alone does, and preprocesses for the others
        self._sending = threading.Lock()  # the messages of one action follow each other in a pipe
        self.parameter_bytes: tuple[int, ...] = ()  # bytes of weights in each rank
        self.warnings: tuple[str, ...] = ()
        for attempts_left in reversed(range(STARTS)):
            self._start()
            try:
                self._await_ready(load_s)
            except EngineDiedError as error:
                self._kill()
                if not attempts_left:
                    raise EngineUnreachableError(f"{model.source}: its ranks do not start: {error}") from error
                _log.warning("%s: a rank died while loading; restarting the group: %s", model.source, error)
            except BaseException:
                self._kill()
                raise
            else:
                return

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call.

        Raises:
            EngineDiedError: a rank died or fell out of step; the whole group is gone.
            EngineStalledError: no rank replied within the timeout; likewise.
            EngineUnreachableError: a rank cannot answer at all.
            RuntimeError: all ranks failed alike; they are ready for other calls.
            RankBugError: a rank met a bug.
        """
        if not calls:
            return
        if not self._processes:
            raise EngineDiedError(f"{self._spec.model}: the group of ranks is closed")
        try:
            first, *others = self._pipes
            self._send(pack_calls(calls, media), [first])
            self._send(pack_calls(calls, media, pixels=self._all_read_pixels), others)
            ends: dict[int, dict[str, Any]] = {}
            for rank, message in self._messages(response_timeout(self._spec.stall_timeout_s, calls)):
                if message["kind"] == "reply":
                    yield unpack_reply(message["reply"])
                else:
                    ends[rank] = message
                    if message["kind"] in ("died", "bug") or len(ends) == len(self._pipes):
                        break
            self._check_agreement(ends)
        except (EngineDiedError, RankBugError, GeneratorExit):
            # A caller that stops iterating leaves replies in the pipes, which the next call must not read.
            self._kill()
            raise

    def prepare(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> None:
        """Let rank 0 preprocess the media of calls that come next, while all ranks answer others."""
        if not self._all_read_pixels:
            self._send(pack_calls(calls, media, action="prepare"), self._pipes[:1])

    def close(self) -> None:
        """Ask the ranks to stop; kill those that do not."""
        for pipe in self._pipes:
            try:
                pipe.send_bytes(b"stop")
            except OSError:
                continue
        for process in self._processes:
            process.join(5)
        self._kill()

    def _start(self) -> None:
        from torch.distributed import TCPStore

        # The parent binds the store to a port that the system chooses: two groups cannot clash. A store that binds
        # itself listens on all addresses.
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        self._store: Any = TCPStore(
            "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )
        context = multiprocessing.get_context("spawn")
        self._pipes: list[connection.Connection] = []
        self._processes: list[Any] = []
        for rank in range(self._spec.tensor_parallel):
            parent_end, rank_end = context.Pipe()
            config = RankConfig(
                rank=rank,
                ranks=self._spec.tensor_parallel,
                port=self._store.port,
                model=self._model,
                device=_device(self._spec),
                log_level=effective_level(),
            )
            process = context.Process(target=rank_main, args=(config, rank_end), name=f"rank-{rank}", daemon=True)
            process.start()
            rank_end.close()  # else the end of a rank would not close its pipe
            self._pipes.append(parent_end)
            self._processes.append(process)

    def _await_ready(self, load_s: float) -> None:
        ready: dict[int, dict[str, Any]] = {}
        for rank, message in self._messages(load_s):
            if message["kind"] == "loading":
                report_progress(
                    message["activity"], message["done"] * len(self._pipes), message["total"] * len(self._pipes)
                )
                continue
            if message["kind"] == "unreachable":
                raise EngineUnreachableError(message["message"])
            if message["kind"] == "bug":
                raise RankBugError(f"rank {rank}: {message['message']}")
            if message["kind"] != "ready":
                raise EngineDiedError(f"rank {rank}: {message['message']}")
            ready[rank] = message
            if len(ready) == len(self._pipes):
                break
        self.parameter_bytes = tuple(ready[rank]["parameter_bytes"] for rank in sorted(ready))
        self.warnings = tuple(ready[0]["warnings"])
        self._all_read_pixels = all(message["reads_pixels"] for message in ready.values())

    def _send(self, messages: Sequence[bytes | memoryview], pipes: Sequence[connection.Connection]) -> None:
        """Send the same messages to ranks, from a thread: a rank that stopped reading must not block this one."""

        def send_all() -> None:
            for pipe in pipes:
                try:
                    with self._sending:
                        for message in messages:
                            pipe.send_bytes(message)
                except OSError:  # its process is gone, which `_messages` notices
                    continue

        threading.Thread(target=send_all, name="rank-sender", daemon=True).start()

    def _messages(self, timeout_s: float) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (rank, message); raise `EngineDiedError` or `EngineStalledError` when a rank is gone or silent."""
        by_pipe = {pipe: rank for rank, pipe in enumerate(self._pipes)}
        by_sentinel = {process.sentinel: rank for rank, process in enumerate(self._processes)}
        last_message = monotonic()
        while True:
            wait_s = max(0.0, last_message + timeout_s - monotonic())
            ready = connection.wait([*by_pipe, *by_sentinel], wait_s)
            if not ready:
                raise EngineStalledError(f"{self._spec.model}: no rank replied within {timeout_s:g} s")
            last_message = monotonic()
            readable = [item for item in ready if isinstance(item, connection.Connection)]
            for pipe in readable:
                rank = by_pipe[pipe]
                try:
                    message = json.loads(pipe.recv_bytes())
                except (EOFError, OSError) as error:
                    raise EngineDiedError(self._exit_message(rank)) from error
                if message["kind"] == "line":
                    relay(message, rank)
                else:
                    yield rank, message
            if not readable:
                sentinel = next(item for item in by_sentinel if item in ready)
                raise EngineDiedError(self._exit_message(by_sentinel[sentinel]))

    def _exit_message(self, rank: int) -> str:
        process = self._processes[rank]
        process.join(10)
        code = process.exitcode
        reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return f"{self._spec.model}: rank {rank} of {len(self._processes)} died ({reason})"

    def _check_agreement(self, ends: Mapping[int, Mapping[str, Any]]) -> None:
        kinds = {end["kind"] for end in ends.values()}
        detail = next((end["message"] for _, end in sorted(ends.items()) if "message" in end), "")
        if "bug" in kinds:
            raise RankBugError(f"{self._spec.model}: {detail}")
        if "died" in kinds:
            limits = [end["max_rows"] for end in ends.values() if end.get("max_rows")]
            # The others notice a rank's death too, at times before this process does.
            gone = [rank for rank, process in enumerate(self._processes) if rank not in ends and process.exitcode]
            message = self._exit_message(gone[0]) if gone else f"{self._spec.model}: {detail}"
            raise EngineDiedError(message, max_rows=min(limits, default=None))
        if "unreachable" in kinds:
            raise EngineUnreachableError(detail)
        if len(kinds) > 1 or len({end.get("digest") for end in ends.values()}) > 1:
            raise EngineDiedError(f"{self._spec.model}: the ranks disagree {detail}".rstrip())
        if kinds == {"failed"}:
            raise RuntimeError(detail)

    def _kill(self) -> None:
        """Kill every rank: one that waits in a collective for a dead one cannot react to a message."""
        for process in self._processes:
            if process.is_alive():
                process.kill()
        for process in self._processes:
            process.join()
        with self._sending:  # a pipe that is written to must not be closed; the end of its rank ends the writing
            for pipe in self._pipes:
                pipe.close()
        self._processes, self._pipes, self._store = [], [], None


def _device(spec: ModelSpec) -> str:
    """Return `cpu` or `cuda`, where the ranks compute; fewer GPUs than ranks raise `EngineUnreachableError`."""
    import torch

    if spec.device == "cpu":
        return "cpu"
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if visible == 0 and spec.device == "auto":
        return "cpu"
    if visible < spec.tensor_parallel:
        raise EngineUnreachableError(
            f"{spec.model}: tensor_parallel {spec.tensor_parallel} needs as many GPUs on one machine, "
            f"and {visible} are visible"
        )
    return "cuda"
