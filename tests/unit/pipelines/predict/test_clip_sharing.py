"""Which runs keep decoded clips for their other models, and that nothing is left of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.lazy import LazyCluster
from models.entry_fields import Limits
from models.messages import Frames, Media
from models.scratch import scratch_base
from models.spec import ModelSpec
from pipelines.media.clip_folder import ClipFolder
from pipelines.media.decoder import Decoder
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import plan_sweep
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict.clip_sharing import NO_CLIPS, clip_sharing
from pipelines.sweep.run import run_sweep


def planned(data: str, out: Path, limits: Mapping[str, Limits], settings: tuple[str, ...]) -> tuple[Any, Any]:
    models = {name: ModelSpec(engine="random", model="", limits=limit) for name, limit in limits.items()}
    spec = RunSpec(data=data, out=str(out), models=models, benchmarks=("maia",), settings=settings)
    return plan_sweep(SweepContext.open(spec)), models


@pytest.mark.parametrize(
    ("limits", "shared_limits"),
    [
        ([Limits(), Limits(max_pixels=9)], {None}),
        ([Limits()], set()),
        ([Limits(max_frames=4), Limits(max_frames=8)], set()),
    ],
)
def test_folder_exists_for_the_run_and_keeps_what_two_models_see(
    maia_data: str, tmp_path: Path, limits: list[Limits], shared_limits: set[int | None]
) -> None:
    plans, models = planned(maia_data, tmp_path, dict(zip("ab", limits, strict=False)), ("32-frames",))
    with clip_sharing(LazyCluster(None, ExitStack()), plans, models) as clips:
        assert clips.shared_limits == shared_limits
        pixels = np.zeros((1, 1, 1, 3), np.uint8)
        ClipFolder(clips.folder).fetch(Media("video", "a", 1), None, lambda: Frames(pixels=pixels))
        assert (scratch_base() / clips.folder).is_dir()
    assert not (scratch_base() / clips.folder).exists()


def test_folder_is_absent_without_clips_and_after_an_error(maia_data: str, tmp_path: Path) -> None:
    plans, models = planned(maia_data, tmp_path, dict.fromkeys("ab", Limits()), ("black-video",))
    with clip_sharing(LazyCluster(None, ExitStack()), plans, models) as clips:
        assert clips == NO_CLIPS
    plans, models = planned(maia_data, tmp_path, dict.fromkeys("ab", Limits()), ("1-frame",))
    folders = []

    def fail() -> None:
        with clip_sharing(LazyCluster(None, ExitStack()), plans, models) as clips:
            folders.append(scratch_base() / clips.folder)
            assert folders[0].is_dir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not folders[0].exists()


def test_three_models_decode_each_clip_once(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[tuple[str, int]] = []
    decode = Decoder.decode

    def count(self: Decoder, store: Any, path: str, media: Media, *limits: Any) -> Frames:
        decoded.append((path, media.frames))
        return decode(self, store, path, media, *limits)

    monkeypatch.setattr(Decoder, "decode", count)
    models = {name: ModelSpec(engine="random", model="") for name in ("a", "b", "c")}
    settings = ("1-frame", "32-frames")
    spec = RunSpec(data=maia_data, out=str(tmp_path), models=models, benchmarks=("maia",), settings=settings)
    run_sweep(spec, stages=[Stage.PREDICT])
    assert len(decoded) == len(set(decoded)) == 4, "two clips, each as one frame and as 32"
