"""A tensor-parallel replica: one engine to its caller, inside a group of processes that each hold a share of it.

Every rank is given the same calls through a pipe of its own, so that a dead one is noticed at once and never waited
for. The group stands or falls as a whole: whoever built the engine builds it anew when `EngineDiedError` is raised.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection
from time import monotonic
from typing import Any

from models.engines.base import Engine
from models.engines.tensor_parallel.log_forwarding import own_level, relay
from models.engines.tensor_parallel.protocol import pack_calls, unpack_reply
from models.engines.tensor_parallel.worker import RankConfig, rank_main
from models.engines.transformers.load_progress import report_progress
from models.engines.transformers.weights import check_memory, ensure_local, free_host_bytes
from models.engines.watchdog import response_timeout
from models.errors import EngineDiedError, EngineStalledError, EngineUnreachableError
from models.messages import Call, CallReply, Frames, Media
from models.spec import ModelSpec

_log = logging.getLogger(__name__)

LOAD_S = 7200.0
"""Seconds for weights to arrive; 145 GB over a slow line take most of an hour."""
STARTS = 2
"""Tries at starting a group whose rank was killed before it was ready."""


def open_tensor_parallel(spec: ModelSpec) -> Engine:
    """The engine of a spec with several ranks: a group, or one process where the architecture cannot be divided.

    Raises:
        EngineUnreachableError: the model cannot be had, or its heads cannot be divided among so many ranks.
    """
    from models.engines.tensor_parallel.sharding import plan_ranks
    from models.engines.transformers.engine import TransformersEngine

    check_memory(spec, *_room(spec))  # by the entry's numbers, before anything is fetched
    spec = ensure_local(spec)
    warning = plan_ranks(spec)
    if warning is None:
        return TensorParallelEngine(spec)
    _log.warning("%s", warning)
    engine = TransformersEngine(spec)
    engine.warnings = (warning, *engine.warnings)
    return engine


class TensorParallelEngine:
    """Answers calls by a group of ranks; see `models.engines.base.Engine`."""

    has_own_timeout = True

    def __init__(self, spec: ModelSpec, *, load_s: float = LOAD_S) -> None:
        """Start the ranks and wait until each holds its share. Call it in a thread that lives as long as the engine.

        Args:
            spec: `tensor_parallel` is the number of ranks.
            load_s: silence after which a group that loads is given up.

        Raises:
            EngineUnreachableError: the model cannot be had.
        """
        self._spec = spec
        self.parameter_bytes: tuple[int, ...] = ()
        """Bytes of weights in each rank."""
        self.warnings: tuple[str, ...] = ()
        for left in reversed(range(STARTS)):
            self._start()
            try:
                self._await_ready(load_s)
            except EngineDiedError as error:
                self._kill()
                if not left:
                    raise EngineUnreachableError(f"{spec.model}: its ranks do not start: {error}") from error
                _log.warning("%s: a rank died while it loaded; the group is started again: %s", spec.model, error)
            except BaseException:
                self._kill()
                raise
            else:
                return

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call.

        Raises:
            EngineDiedError: a rank died or fell out of step; the whole group is gone.
            EngineStalledError: none has spoken for longer than the model may be silent; likewise.
            EngineUnreachableError: the device is gone for good.
            RuntimeError: the ranks failed all alike; they are ready for other calls.
        """
        if not calls:
            return
        if not self._processes:
            raise EngineDiedError(f"{self._spec.model}: the group of ranks is closed")
        try:
            self._send(pack_calls(calls, media))
            ends: dict[int, dict[str, Any]] = {}
            for rank, message in self._messages(response_timeout(self._spec.stall_timeout_s, calls)):
                if message["kind"] == "reply":
                    yield unpack_reply(message["reply"])
                else:
                    ends[rank] = message
                    if message["kind"] == "died" or len(ends) == len(self._pipes):
                        break
            self._agree(ends)
        except (EngineDiedError, GeneratorExit):
            # One who stops listening leaves replies in the pipes, which the next call must not find.
            self._kill()
            raise

    def close(self) -> None:
        """Tell the ranks to stop; those that do not are ended."""
        for pipe in self._pipes:
            try:
                pipe.send_bytes(b"stop")
            except OSError:
                continue
        for process in self._processes:
            process.join(5)
        self._kill()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, rank by rank; for drills."""
        return tuple(process.pid or 0 for process in self._processes)

    def _start(self) -> None:
        from torch.distributed import TCPStore

        # The store is the parent's, on a port that the system chose while it was bound: two groups cannot clash.
        self._store: Any = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        context = multiprocessing.get_context("spawn")
        self._pipes: list[connection.Connection] = []
        self._processes: list[Any] = []
        for rank in range(self._spec.tensor_parallel):
            ours, theirs = context.Pipe()
            seat = RankConfig(
                rank=rank,
                ranks=self._spec.tensor_parallel,
                port=self._store.port,
                spec=self._spec.model_dump_json(),
                device=_device(self._spec),
                log_level=own_level(),
            )
            process = context.Process(target=rank_main, args=(seat, theirs), name=f"rank-{rank}", daemon=True)
            process.start()
            theirs.close()  # else the end of a rank would not be seen as the end of its pipe
            self._pipes.append(ours)
            self._processes.append(process)

    def _await_ready(self, load_s: float) -> None:
        ready: dict[int, dict[str, Any]] = {}
        for rank, message in self._messages(load_s):
            if message["kind"] == "loading":
                report_progress(
                    message["what"], message["done"] * len(self._pipes), message["total"] * len(self._pipes)
                )
                continue
            if message["kind"] == "unreachable":
                raise EngineUnreachableError(message["message"])
            if message["kind"] != "ready":
                raise EngineDiedError(f"rank {rank}: {message['message']}")
            ready[rank] = message
            if len(ready) == len(self._pipes):
                break
        self.parameter_bytes = tuple(ready[rank]["parameter_bytes"] for rank in sorted(ready))
        self.warnings = tuple(ready[0]["warnings"])

    def _send(self, messages: Sequence[bytes | memoryview]) -> None:
        """Give every rank the same, from a thread: a rank that reads no more must not keep us from noticing."""

        def give(pipes: Sequence[connection.Connection]) -> None:
            for pipe in pipes:
                try:
                    for message in messages:
                        pipe.send_bytes(message)
                except OSError:  # its process is gone, which the listener sees for itself
                    continue

        threading.Thread(target=give, args=(tuple(self._pipes),), name="rank-sender", daemon=True).start()

    def _messages(self, silence_s: float) -> Iterator[tuple[int, dict[str, Any]]]:
        """What the ranks say, as it comes.

        Raises:
            EngineDiedError: a rank is gone.
            EngineStalledError: none has spoken for so long.
        """
        by_pipe = {pipe: rank for rank, pipe in enumerate(self._pipes)}
        by_end = {process.sentinel: rank for rank, process in enumerate(self._processes)}
        heard = monotonic()
        while True:
            left = max(0.0, heard + silence_s - monotonic())
            ready = connection.wait([*by_pipe, *by_end], left)
            if not ready:
                raise EngineStalledError(f"{self._spec.model}: no rank has spoken for {silence_s:g} s")
            heard = monotonic()
            speaking = [one for one in ready if isinstance(one, connection.Connection)]
            for pipe in speaking:
                rank = by_pipe[pipe]
                try:
                    message = json.loads(pipe.recv_bytes())
                except (EOFError, OSError) as error:
                    raise EngineDiedError(self._obituary(rank)) from error
                if message["kind"] == "line":
                    relay(message, rank)
                else:
                    yield rank, message
            if not speaking:
                raise EngineDiedError(self._obituary(next(by_end[end] for end in by_end if end in ready)))

    def _obituary(self, rank: int) -> str:
        process = self._processes[rank]
        process.join(10)
        code = process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return f"{self._spec.model}: rank {rank} of {len(self._processes)} died ({how})"

    def _agree(self, ends: Mapping[int, Mapping[str, Any]]) -> None:
        """Whether all ranks ended the call alike."""
        kinds = {end["kind"] for end in ends.values()}
        said = next((end["message"] for _, end in sorted(ends.items()) if "message" in end), "")
        if "died" in kinds:
            raise EngineDiedError(f"{self._spec.model}: {said}")
        if "unreachable" in kinds:
            raise EngineUnreachableError(said)
        if len(kinds) > 1 or len({end.get("digest") for end in ends.values()}) > 1:
            raise EngineDiedError(f"{self._spec.model}: the ranks fell out of step {said}".rstrip())
        if kinds == {"failed"}:
            raise RuntimeError(said)

    def _kill(self) -> None:
        """End every rank now: one that waits in a collective for a dead one cannot be asked."""
        for process in self._processes:
            if process.is_alive():
                process.kill()
        for process in self._processes:
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes, self._store = [], [], None


def _device(spec: ModelSpec) -> str:
    """Where the ranks compute.

    Raises:
        EngineUnreachableError: fewer GPUs are here than ranks.
    """
    import torch

    if spec.device == "cpu":
        return "cpu"
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if seen == 0 and spec.device == "auto":
        return "cpu"
    if seen < spec.tensor_parallel:
        raise EngineUnreachableError(
            f"{spec.model}: tensor_parallel {spec.tensor_parallel} needs as many GPUs in one place, and {seen} are here"
        )
    return "cuda"


def _room(spec: ModelSpec) -> tuple[int, str]:
    """Bytes that each rank may have, and whose they are."""
    import torch

    if _device(spec) == "cpu":
        return free_host_bytes() // spec.tensor_parallel, "memory"
    return min(int(torch.cuda.mem_get_info(gpu)[0]) for gpu in range(spec.tensor_parallel)), "GPU memory"
