"""One rank of a tensor-parallel replica: a process that holds its share of the weights and answers in step.

It lives as long as its parent. Everything that reads calls, makes prompts and cuts batches is the same engine in every
rank; rank 0 alone says the answers, the others a hash of theirs.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from multiprocessing import connection, parent_process
from typing import Any

from models.engines.base import Engine
from models.engines.tensor_parallel.log_forwarding import forward_logs
from models.engines.tensor_parallel.protocol import pack_reply, unpack_calls
from models.engines.transformers.load_progress import progress_listener
from models.errors import EngineDiedError, EngineUnreachableError
from models.messages import CallReply
from models.spec import ModelSpec

_SILENCE = timedelta(hours=2)
"""A collective waits so long: large weights arrive at very different times. It is the parent who loses patience."""
_PR_SET_PDEATHSIG = 1
_SPEAKING = threading.Lock()
"""Answers and log lines come from several threads, and share the pipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankConfig:
    """A rank's place in its group."""

    rank: int
    ranks: int
    port: int
    """Of the group's store, which the parent keeps on the loopback address."""
    spec: str
    """The model's spec as JSON."""
    device: str
    """`cpu` or `cuda`."""
    log_level: int
    """From which the parent wants to have log lines."""


def rank_main(seat: RankConfig, pipe: connection.Connection) -> None:
    """Join the group, load this rank's share, answer until told to stop."""
    _die_with_the_parent()
    _settle(seat)
    forward_logs(partial(_say, pipe), seat.log_level, seat.rank)
    try:
        with progress_listener(partial(_tell_loading, pipe) if seat.rank == 0 else _silent):
            engine = _join(seat)
    except EngineUnreachableError as error:
        _say(pipe, kind="unreachable", message=str(error))
        return
    except Exception as error:  # noqa: BLE001  whatever it was, the parent shall know why a rank did not start
        _say(pipe, kind="died", message=f"{type(error).__name__}: {error}")
        return
    _say(pipe, kind="ready", parameter_bytes=_parameter_bytes(engine), warnings=list(engine.warnings))
    while True:
        try:
            head = pipe.recv_bytes()
        except EOFError:
            return
        if head == b"stop":
            return
        calls, media = unpack_calls(head, pipe.recv_bytes)
        try:
            _answer(engine.generate(calls, media), seat.rank, pipe)
        except EngineUnreachableError as error:
            _say(pipe, kind="unreachable", message=str(error))
        except EngineDiedError as error:
            _say(pipe, kind="died", message=str(error))
        except Exception as error:  # noqa: BLE001  the parent decides what an exception in all ranks, or in one, means
            _say(pipe, kind="failed", message=f"{type(error).__name__}: {error}")


def _tell_loading(pipe: connection.Connection, what: str, done: float, total: float) -> None:
    _say(pipe, kind="loading", what=what, done=done, total=total)


def _silent(what: str, done: float, total: float) -> None:
    """All ranks load alike: one of them speaks."""
    del what, done, total


def _answer(replies: Iterator[CallReply], rank: int, pipe: connection.Connection) -> None:
    digest = hashlib.sha256()
    for reply in replies:
        raw = pack_reply(reply)
        digest.update(_essence(raw))
        if rank == 0:
            _say(pipe, kind="reply", reply=raw)
    _say(pipe, kind="done", digest=digest.hexdigest())


def _essence(raw: dict[str, Any]) -> bytes:
    """What must be the same in every rank: not the time, nor a failure's words."""
    said = [raw["call_id"], raw.get("answer"), raw.get("failure", {}).get("type")]
    return json.dumps(said, sort_keys=True).encode()


def _say(pipe: connection.Connection, **message: Any) -> None:
    with _SPEAKING:
        pipe.send_bytes(json.dumps(message).encode())


def _die_with_the_parent() -> None:
    """By the kernel where it does that, and by watching the parent's pipe: no orphan keeps a GPU's memory."""
    parent = parent_process()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _settle(seat: RankConfig) -> None:
    """What torch and transformers read from the environment; before either is imported."""
    own = {"RANK": seat.rank, "LOCAL_RANK": seat.rank, "WORLD_SIZE": seat.ranks, "LOCAL_WORLD_SIZE": seat.ranks}
    os.environ.update({name: str(value) for name, value in own.items()})  # noqa: TID251  they take it no other way
    if seat.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # noqa: TID251  transformers picks a GPU wherever it sees one
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())  # noqa: TID251  the ranks of a group share a machine


def _loopback() -> str:
    return "lo" if sys.platform == "linux" else "lo0"


def _join(seat: RankConfig) -> Engine:
    import torch
    from torch import distributed

    from models.engines.transformers.engine import TransformersEngine

    store = distributed.TCPStore("127.0.0.1", seat.port, is_master=False, timeout=_SILENCE)
    if seat.device == "cuda":
        torch.cuda.set_device(seat.rank)
    distributed.init_process_group(
        "nccl" if seat.device == "cuda" else "gloo",
        store=store,
        rank=seat.rank,
        world_size=seat.ranks,
        timeout=_SILENCE,
        device_id=torch.device("cuda", seat.rank) if seat.device == "cuda" else None,
    )
    return TransformersEngine(ModelSpec.model_validate_json(seat.spec))


def _parameter_bytes(engine: Any) -> int:
    """Bytes of weights in this process."""
    return local_bytes(engine.parameters())


def local_bytes(parameters: Sequence[Any]) -> int:
    """Bytes of the parts of parameters that this process holds."""
    parts = [p.to_local() if hasattr(p, "to_local") else p for p in parameters]
    return sum(part.numel() * part.element_size() for part in parts)
