from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.engines.transformers.media_inputs import MediaRules, media_inputs, media_rules, template_parts
from models.entry_fields import Limits
from models.messages import Frames, Media

CLIP = Media("video", "1" * 64, 4)
PICTURE = Media("image", "2" * 64)


def frames(count: int, height: int = 36, width: int = 64, **more: Any) -> Frames:
    pixels = np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, height, width, 3), dtype=np.uint8)
    return Frames(pixels=pixels, **more)


def rules(kind: Any = "video", **more: Any) -> MediaRules:
    return MediaRules(**{"pixel_limit": "none", "max_pixels": None, "max_frames": None, **more}, kind=kind)


def test_metadata_describes_the_stored_clip() -> None:
    clip_frames = frames(4, seconds=(0.0, 9.96, 19.96, 29.96), fps=25.0, total_frames=750)
    inputs = media_inputs([CLIP], {CLIP: clip_frames}, rules())
    assert inputs.videos[0] is clip_frames.pixels
    assert inputs.metadata == [
        {
            "total_num_frames": 750,
            "fps": 25.0,
            "width": 64,
            "height": 36,
            "duration": 30.0,
            "frames_indices": [0, 249, 499, 749],
        }
    ]
    sampled = media_inputs([CLIP], {CLIP: clip_frames}, rules(max_frames=2))
    assert sampled.metadata[0]["frames_indices"] == [0, 749]
    assert sampled.videos[0][:, 0, 0, 0].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("clip", "fps", "indices"),
    [
        (frames(4, seconds=(0.0, 10.0, 20.0, 30.0)), 0.1, [0, 1, 2, 3]),
        (frames(4, fps=25.0, total_frames=750), 25.0, [0, 249, 499, 749]),
        (frames(4), 1.0, [0, 1, 2, 3]),
        (frames(1, seconds=(0.0,), fps=25.0, total_frames=750), 25.0, [0]),
        (frames(4, seconds=(0.0, 10.0, 20.0, 31.0), fps=25.0, total_frames=750), 25.0, [0, 250, 500, 749]),
    ],
)
def test_metadata_uses_frame_rate_and_times_if_known(clip: Frames, fps: float, indices: list[int]) -> None:
    (notes,) = media_inputs([CLIP], {CLIP: clip}, rules()).metadata
    assert notes["fps"] == pytest.approx(fps)
    assert notes["frames_indices"] == indices
    assert notes["duration"] == pytest.approx(notes["total_num_frames"] / fps)


def test_clip_is_passed_as_pictures() -> None:
    media_rules_used = rules("image", max_frames=2)
    assert template_parts(CLIP, frames(4), media_rules_used) == [{"type": "image"}] * 2
    inputs = media_inputs([PICTURE, CLIP], {PICTURE: frames(1), CLIP: frames(4)}, media_rules_used)
    assert [np.asarray(image)[0, 0, 0] for image in inputs.images] == [0, 0, 3]
    assert not inputs.videos


def test_larger_pictures_are_shrunk_before_the_processor() -> None:
    media_rules_used = rules(pixel_limit="before", max_pixels=900)
    inputs = media_inputs([PICTURE, CLIP], {PICTURE: frames(1), CLIP: frames(4)}, media_rules_used)
    assert inputs.images[0].size == (40, 22)
    assert inputs.videos[0].shape == (4, 22, 40, 3)
    small = media_inputs([PICTURE], {PICTURE: frames(1, 30, 30)}, media_rules_used)
    assert small.images[0].size == (30, 30)
    strip = media_inputs([PICTURE], {PICTURE: frames(1, 1, 4000)}, media_rules_used)
    assert strip.images[0].size == (900, 1)


def _processor(image: str, video: str | None, size: dict[str, int]) -> Any:
    processor = SimpleNamespace(chat_template="{{ 'video' }}", video_token="<v>", video_processor=None)
    processor.image_processor = type(image, (), {"size": size})()
    if video:
        processor.video_processor = type(video, (), {"size": size, "cap_pixels_per_frame": None})()
    return processor


def test_rules_of_a_processor_that_counts_pixels() -> None:
    size = {"shortest_edge": 100_352, "longest_edge": 602_112}
    rules = media_rules(_processor("Qwen2VLImageProcessor", "Qwen2VLVideoProcessor", size), Limits(max_pixels=50_176))
    assert (rules.kind, rules.pixel_limit) == ("video", "processor")
    assert rules.images_kwargs == {"size": {"shortest_edge": 47_786, "longest_edge": 50_176}}
    assert rules.videos_kwargs == {
        "do_sample_frames": False,
        "input_data_format": "channels_last",
        "cap_pixels_per_frame": True,
        "size": {"shortest_edge": 47_786, "longest_edge": 50_176},
    }


def test_rules_of_other_processors() -> None:
    rules = media_rules(_processor("LlavaImageProcessor", None, {}), Limits(max_pixels=50_176))
    assert (rules.kind, rules.pixel_limit, rules.images_kwargs, rules.videos_kwargs) == ("image", "before", {}, {})
    free = media_rules(_processor("Qwen2VLImageProcessor", "Qwen2VLVideoProcessor", {}), Limits())
    assert (free.pixel_limit, free.images_kwargs) == ("none", {})
    assert media_rules(None, Limits()).kind == "none"
    silent = _processor("X", "Y", {})
    silent.chat_template = "pictures alone"
    assert media_rules(silent, Limits()).kind == "image"


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 8, 8, 4), (0, 8, 8, 3), (1, 0, 8, 3)])
def test_odd_pixels(shape: tuple[int, ...]) -> None:
    odd = Frames(pixels=np.zeros(shape, dtype=np.uint8))
    with pytest.raises(ValueError, match="pixels are uint8"):
        media_inputs([PICTURE], {PICTURE: odd}, rules())
