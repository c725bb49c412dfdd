"""One actor for the length of a job: attempts, replicas and the shared frame cache, in one process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pipelines.media.frame_cache import SharedFrames
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.replica_board import ReplicaBoard


class JobActor:
    """Holds the objects that the workers of a job share."""

    def __init__(self, frame_cache_bytes: int) -> None:
        self._objects = {
            "attempts": AttemptTracker(),
            "board": ReplicaBoard(),
            "frame_cache": SharedFrames(frame_cache_bytes),
        }

    async def call(self, name: str, method: str, *args: Any) -> Any:
        """Call a method of one of the objects."""
        result = getattr(self._objects[name], method)(*args)
        return await result if inspect.isawaitable(result) else result


class RemoteObject:
    """One object of a `JobActor`, as if it were local: each call waits for its result."""

    def __init__(self, actor: Any, name: str) -> None:
        self._actor, self._name = actor, name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        import ray

        return lambda *args: ray.get(self._actor.call.remote(self._name, method, *args))

    def send(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method of the object's class without waiting; return a reference to its result."""
        return self._actor.call.remote(self._name, method.__name__, *args)
