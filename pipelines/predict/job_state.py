"""The state that the workers of a job share, in one actor for the length of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.replica_board import ReplicaBoard


class JobState(AttemptTracker, ReplicaBoard):
    """The attempts at units and the board of replicas."""

    def __init__(self, replicas: int) -> None:
        AttemptTracker.__init__(self)
        ReplicaBoard.__init__(self, replicas)


class _RemoteState:
    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        import ray

        method = getattr(self._actor, name)  # AttributeError where the class of the actor has none
        return lambda *args: ray.get(method.remote(*args))


def remote_state(actor: Any) -> JobState:
    """Return the state that an actor holds, as if it were here: each call waits for its result."""
    return cast("JobState", _RemoteState(actor))
