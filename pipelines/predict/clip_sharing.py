"""The folder of decoded clips that the processes of a run share on each machine, and its removal from all machines."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cluster.lazy import LazyCluster
from models.spec import ModelSpec
from pipelines.media.clip_folder import make_clip_folder, remove_clip_folder
from pipelines.plan.records import ModelPlan

log = logging.getLogger(__name__)

REMOVAL_S = 10.0
"""Time limit for machines that do not respond at the end of a run; the next run there removes what is left."""


@dataclass(frozen=True, slots=True)
class ClipSharing:
    """Where decoded clips are kept, '' if no model sees any, and which limits of frames several models have."""

    folder: str = ""
    shared_limits: frozenset[int | None] = frozenset()


NO_CLIPS = ClipSharing()


@contextmanager
def clip_sharing(
    cluster: LazyCluster, plans: Mapping[str, Sequence[ModelPlan]], models: Mapping[str, ModelSpec]
) -> Iterator[ClipSharing]:
    """Yield the folder for the decoded clips of a run; delete it everywhere after."""
    limits = Counter(models[name].limits.max_frames for name, model_plans in plans.items() if _shows_clips(model_plans))
    if not limits:
        yield NO_CLIPS
        return
    try:
        folder = make_clip_folder()
    except OSError as error:
        log.warning("cannot cache decoded clips, so each model decodes them: %s", error)
        yield NO_CLIPS
        return
    try:
        yield ClipSharing(folder, frozenset(limit for limit, count in limits.items() if count > 1))
    finally:
        remove_clip_folder(folder)
        if not cluster.is_embedded:
            _remove_from_nodes(folder)


def _shows_clips(plans: Sequence[ModelPlan]) -> bool:
    groups = (media_slice.group for plan in plans for unit in plan.units for media_slice in unit.slices)
    return any(group.startswith("video:") and not group.startswith("video:blank:") for group in groups)


def _remove_from_nodes(folder: str) -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    try:
        removals = [
            ray.remote(
                num_cpus=0,
                max_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            )(remove_clip_folder).remote(folder)
            for node in ray.nodes()
            if node["Alive"]
        ]
        ray.wait(removals, num_returns=len(removals), timeout=REMOVAL_S)
    except ray.exceptions.RayError as error:  # the cluster is gone; what ended the run is the error to report
        log.info("decoded clips may be left in %s: %s", folder, error)
