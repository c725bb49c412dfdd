"""The Ray cluster: connection, capacity, scheduling of models on GPUs, and jobs.

Times are in seconds. Errors that a user can fix are `ClusterError`s.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cluster.connection import ClusterInfo as ClusterInfo
    from cluster.connection import connect as connect
    from cluster.errors import ClusterError as ClusterError
    from cluster.job_client import JobClient as JobClient
    from cluster.job_client import JobRequest as JobRequest
    from cluster.job_client import JobResult as JobResult
    from cluster.scheduling.gpu_scheduler import Fleet as Fleet
    from cluster.scheduling.gpu_scheduler import GpuScheduler as GpuScheduler
    from cluster.scheduling.gpu_scheduler import ModelWorkload as ModelWorkload
    from cluster.scheduling.gpu_scheduler import choose_schedule as choose_schedule

_MODULES: Final = {
    "cluster.connection": "ClusterInfo connect",
    "cluster.errors": "ClusterError",
    "cluster.job_client": "JobClient JobRequest JobResult",
    "cluster.scheduling.gpu_scheduler": "Fleet GpuScheduler ModelWorkload choose_schedule",
}
"""Module -> public names; a module is imported when one of its names is first used, which keeps imports light."""
__all__ = tuple(sorted(" ".join(_MODULES.values()).split()))


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
