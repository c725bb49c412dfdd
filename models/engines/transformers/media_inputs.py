"""Pictures and clips as a model's processor wants them: how many frames, how large, and with which notes on time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from models.media_sampling import shrunk_size, uniform_indices
from models.messages import Frames, Media
from models.spec import Limits

PixelLimit = Literal["none", "processor", "before"]
"""Who keeps `max_pixels`: nobody, the processor by its own `size`, or we, shrinking before the processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRules:
    """Decided once a model from its processor and limits."""

    kind: Literal["video", "image", "none"]
    """How a clip is given: as a video, as a row of pictures, or not at all."""
    pixel_limit: PixelLimit
    max_pixels: int | None
    max_frames: int | None
    least_frames: int = 1
    """Frames below which the processor refuses a clip; the last one is shown again."""
    images_kwargs: Mapping[str, Any] = field(default_factory=dict)
    videos_kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class MediaInputs:
    """What goes to the processor beside the text, in order of appearance."""

    images: list[Any] = field(default_factory=list)
    videos: list[np.ndarray] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    """One for each video, as `VideoMetadata` of transformers."""


def media_rules(processor: Any | None, limits: Limits) -> MediaRules:
    """Read off a processor how clips and pixel limits are handed to it.

    Qwen2-VL's processors take a pixel budget a frame as `size`, and would else blow frames up to a minimum far above
    small budgets; every other processor has sizes of its own kind, so pictures are shrunk before it sees them.
    """
    if processor is None:
        return MediaRules(kind="none", pixel_limit="none", max_pixels=None, max_frames=limits.max_frames)
    video = getattr(processor, "video_processor", None)
    films = (
        video is not None
        and getattr(processor, "video_token", None) is not None
        and "video" in str(processor.chat_template)
    )
    images_kwargs: dict[str, Any] = {}
    videos_kwargs: dict[str, Any] = {"do_sample_frames": False, "input_data_format": "channels_last"}
    # The reference implementation of Qwen2-VL shares a clip's budget among its frames; the default here is in flux.
    if hasattr(video, "cap_pixels_per_frame"):
        videos_kwargs["cap_pixels_per_frame"] = True
    who: PixelLimit = "none" if limits.max_pixels is None else "before"
    image = getattr(processor, "image_processor", None)
    if limits.max_pixels is not None and image is not None and type(image).__name__.startswith("Qwen2VLImageProcessor"):
        who = "processor"
        images_kwargs["size"] = _budget(image.size, limits.max_pixels)
        if video is not None and type(video).__name__.startswith("Qwen2VLVideoProcessor"):
            videos_kwargs["size"] = _budget(video.size, limits.max_pixels)
    return MediaRules(
        kind="video" if films else "image",
        pixel_limit=who,
        max_pixels=limits.max_pixels,
        max_frames=limits.max_frames,
        least_frames=getattr(video, "temporal_patch_size", 1) if type(video).__name__.startswith("Qwen3VL") else 1,
        images_kwargs=images_kwargs,
        videos_kwargs=videos_kwargs if films else {},
    )


def _budget(size: Any, most: int) -> dict[str, int]:
    """`size` of a Qwen2-VL processor: edges that are pixel counts.

    The per-frame share of a clip is never below 1.05 times the minimum: the minimum must stay under the limit by that.
    """
    return {
        "shortest_edge": min(int(size["shortest_edge"]), int(most / 1.05)),
        "longest_edge": min(int(size["longest_edge"]), most),
    }


def places(item: Media, frames: Frames, rules: MediaRules) -> list[dict[str, str]]:
    """What stands in the chat turn for one picture or clip; no pixel is touched.

    Raises:
        ValueError: the model takes neither.
    """
    if rules.kind == "none":
        raise ValueError("the model reads text alone, and the prompt holds a picture or clip")
    if item.kind == "image":
        return [{"type": "image"}]
    if rules.kind == "video":
        return [{"type": "video"}]
    return [{"type": "image"}] * len(uniform_indices(len(frames.pixels), rules.max_frames))


def show(items: Sequence[Media], media: Mapping[Media, Frames], rules: MediaRules) -> MediaInputs:
    """The pixels of a prompt's pictures and clips, in order of appearance.

    Raises:
        ValueError: pixels that are not [frames, height, width, 3] of uint8.
    """
    shown = MediaInputs()
    for item in items:
        frames = media[item]
        pixels = frames.pixels
        if pixels.ndim != 4 or pixels.shape[-1] != 3 or pixels.dtype != np.uint8 or 0 in pixels.shape:
            raise ValueError(f"pixels are {pixels.dtype} {pixels.shape}, not uint8 [frames, height, width, 3]")
        picked = uniform_indices(len(pixels), rules.max_frames)
        if item.kind == "image":
            shown.images.append(_picture(pixels[0], rules))
        elif rules.kind == "image":
            shown.images.extend(_picture(pixels[index], rules) for index in picked)
        else:
            picked += picked[-1:] * (rules.least_frames - len(picked))
            clip = pixels if picked == list(range(len(pixels))) else pixels[picked]
            if rules.pixel_limit == "before":
                clip = np.stack([np.asarray(_picture(frame, rules)) for frame in clip])
            shown.videos.append(clip)
            shown.metadata.append(clip_metadata(frames, picked))
    return shown


def _picture(pixels: np.ndarray, rules: MediaRules) -> Any:
    from PIL import Image

    picture = Image.fromarray(pixels)
    if rules.pixel_limit != "before" or rules.max_pixels is None:
        return picture
    size = shrunk_size(*picture.size, rules.max_pixels)
    return picture if size == picture.size else picture.resize(size, Image.Resampling.BICUBIC)


def clip_metadata(frames: Frames, picked: Sequence[int]) -> dict[str, Any]:
    """Which frames of the stored clip are shown, from their times; without a frame rate, as if these were all."""
    height, width = frames.pixels.shape[1:3]
    seconds, fps, total = frames.seconds, frames.fps, frames.total_frames
    span = seconds[-1] - seconds[0] if len(seconds) == len(frames.pixels) > 1 else 0.0
    if fps <= 0 or total < len(picked):
        fps = (len(seconds) - 1) / span if span > 0 else 1.0
        total = len(frames.pixels)
        indices = list(picked)
    elif span > 0:
        indices = [min(total - 1, max(0, round(seconds[index] * fps))) for index in picked]
    else:
        indices = [j * (total - 1) // max(1, len(frames.pixels) - 1) for j in picked]
    return {
        "total_num_frames": total,
        "fps": float(fps),
        "width": int(width),
        "height": int(height),
        "duration": total / float(fps),
        "frames_indices": indices,
    }
