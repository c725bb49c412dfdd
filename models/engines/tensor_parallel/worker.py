"""One rank of a tensor-parallel replica: a process that holds a shard of the weights and ends with its parent.

Every rank runs the same engine on the same calls; rank 0 alone sends the answers, the others a hash of theirs.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from multiprocessing import connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from models.engines.launch import LaunchedModel
from models.engines.load_progress import progress_listener
from models.engines.orphans import exit_with_parent
from models.engines.tensor_parallel.log_forwarding import forward_logs
from models.engines.tensor_parallel.protocol import pack_reply, unpack_calls
from models.errors import BUGS, EngineDiedError, EngineUnreachableError
from models.messages import Call, CallReply, Frames, Media

if TYPE_CHECKING:
    from models.engines.transformers.engine import TransformersEngine

_COLLECTIVE_TIMEOUT = timedelta(hours=2)  # weights arrive at different times; the parent enforces the model's timeout
_Work: TypeAlias = tuple[Sequence[Call], Mapping[Media, Frames]]
_PIPE_LOCK = threading.Lock()  # replies and log lines come from several threads and share the pipe


@dataclass(frozen=True, slots=True, kw_only=True)
class RankConfig:
    """Settings of a rank."""

    rank: int
    ranks: int
    port: int  # of the group's store, which the parent serves on the loopback address
    model: LaunchedModel
    device: str  # `cpu` or `cuda`
    log_level: int  # from which log lines are forwarded


def rank_main(config: RankConfig, pipe: connection.Connection) -> None:
    """Join the group, load this rank's shard, answer calls until a stop message."""
    exit_with_parent()
    faulthandler.enable()  # a rank that dies by a signal of its own says where, on standard error
    _set_environment(config)
    forward_logs(partial(_send, pipe), config.log_level, config.rank)
    try:
        with progress_listener(partial(_send_progress, pipe)) if config.rank == 0 else nullcontext():
            engine = _build_engine(config)
    except Exception as error:  # noqa: BLE001  the parent reports why a rank did not start
        _send_error(pipe, error, "died")
        return
    _send(
        pipe,
        kind="ready",
        parameter_bytes=local_bytes(engine.parameters()),
        warnings=engine.warnings,
        reads_pixels=engine.reads_pixels,
    )
    inbox: SimpleQueue[_Work | Exception | None] = SimpleQueue()
    threading.Thread(target=_read, args=(pipe, engine, inbox), name="reader", daemon=True).start()
    while (work := inbox.get()) is not None:
        if isinstance(work, Exception):
            _send_error(pipe, work, "died")
            continue
        try:
            _send_replies(engine.generate(*work), config.rank, pipe)
        except EngineDiedError as error:
            _send(pipe, kind="died", message=str(error), max_rows=error.max_rows)
        except Exception as error:  # noqa: BLE001  the parent decides what an exception in all ranks, or in one, means
            _send_error(pipe, error, "failed")


def _read(
    pipe: connection.Connection, engine: TransformersEngine, inbox: SimpleQueue[_Work | Exception | None]
) -> None:
    """Pass on calls to answer, and None at the end; preprocess what comes next while others are answered."""
    while True:
        try:
            header = pipe.recv_bytes()
        except EOFError:
            header = b"stop"
        if header == b"stop":
            return inbox.put(None)
        action, calls, media = unpack_calls(header, pipe.recv_bytes)
        if action == "generate":
            inbox.put((calls, media))
            continue
        try:
            engine.prepare(calls, media)
        except Exception as error:  # noqa: BLE001  the parent decides, as for calls that are answered
            inbox.put(error)


def _send_error(pipe: connection.Connection, error: Exception, kind: str) -> None:
    if isinstance(error, EngineUnreachableError):
        _send(pipe, kind="unreachable", message=str(error))
    elif isinstance(error, BUGS):
        _send(pipe, kind="bug", message="".join(traceback.format_exception(error)))
    else:
        _send(pipe, kind=kind, message=f"{type(error).__name__}: {error}")


def _send_progress(pipe: connection.Connection, activity: str, done: float, total: float) -> None:
    _send(pipe, kind="loading", activity=activity, done=done, total=total)


def _send_replies(replies: Iterator[CallReply], rank: int, pipe: connection.Connection) -> None:
    digest = hashlib.sha256()
    for reply in replies:
        raw = pack_reply(reply)
        # Times and messages of failures differ among ranks.
        same = [raw["call_id"], raw.get("answer"), raw.get("failure", {}).get("type")]
        digest.update(json.dumps(same, sort_keys=True).encode())
        if rank == 0:
            _send(pipe, kind="reply", reply=raw)
    _send(pipe, kind="done", digest=digest.hexdigest())


def _send(pipe: connection.Connection, **message: Any) -> None:
    with _PIPE_LOCK:
        pipe.send_bytes(json.dumps(message).encode())


def _set_environment(config: RankConfig) -> None:
    """Set the variables that torch and transformers read, before either is imported."""
    rank, ranks = str(config.rank), str(config.ranks)
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    os.environ.update(variables)  # noqa: TID251  they take it no other way
    if config.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # noqa: TID251  transformers picks a GPU wherever it sees one
        loopback = "lo" if sys.platform == "linux" else "lo0"  # the ranks of a group share a machine
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)  # noqa: TID251


def _build_engine(config: RankConfig) -> TransformersEngine:
    import torch
    from torch import distributed

    from models.engines.transformers.engine import TransformersEngine

    store = distributed.TCPStore("127.0.0.1", config.port, is_master=False, timeout=_COLLECTIVE_TIMEOUT)
    if config.device == "cuda":
        torch.cuda.set_device(config.rank)
    distributed.init_process_group(
        "nccl" if config.device == "cuda" else "gloo",
        store=store,
        rank=config.rank,
        world_size=config.ranks,
        timeout=_COLLECTIVE_TIMEOUT,
        device_id=torch.device("cuda", config.rank) if config.device == "cuda" else None,
    )
    return TransformersEngine(config.model.spec, launched=config.model)


def local_bytes(parameters: Sequence[Any]) -> int:
    """Return the bytes of the shards of parameters that this process holds."""
    parts = [p.to_local() if hasattr(p, "to_local") else p for p in parameters]
    return sum(part.numel() * part.element_size() for part in parts)
