"""The folder of decoded clips that the models of a run share: when it is used, and its removal from all machines."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cluster.lazy import LazyCluster
from models.spec import ModelSpec
from pipelines.media.clip_folder import clip_folder_name, remove_clip_folder
from pipelines.plan.records import ModelPlan

log = logging.getLogger(__name__)

REMOVAL_S = 10.0
"""Time limit for machines that do not respond at the end of a run; the next run there removes what is left."""


@contextmanager
def clip_sharing(
    cluster: LazyCluster, plans: Mapping[str, Sequence[ModelPlan]], models: Mapping[str, ModelSpec]
) -> Iterator[str]:
    """Yield the folder for decoded clips, '' if no two models see equally many frames; delete it everywhere after."""
    limits = Counter(models[name].limits.max_frames for name, model_plans in plans.items() if _shows_clips(model_plans))
    if not any(count > 1 for count in limits.values()):
        yield ""
        return
    folder = clip_folder_name()
    try:
        yield folder
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
