"""Pictures and clips as a model's processor takes them: number and size of frames, and their times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from PIL import Image

from models.entry_fields import Limits
from models.media_sampling import shrunk_size, uniform_indices
from models.messages import Call, Frames, Media

_PAIRED_FRAMES = ("Qwen3VL", "Glm4v")  # video processors that reject fewer frames than one temporal patch
PixelLimit = Literal["none", "processor", "before"]  # where `max_pixels` is enforced; `before`: shrunk here


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRules:
    """How media are passed to a model, derived once from its processor and limits."""

    kind: Literal["video", "image", "none"]  # how a clip is passed: video, sequence of pictures, not at all
    pixel_limit: PixelLimit
    max_pixels: int | None
    max_frames: int | None
    min_frames: int = 1  # frames that the processor requires; the last one is repeated
    images_kwargs: Mapping[str, Any] = field(default_factory=dict)
    videos_kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class MediaInputs:
    """The processor's media inputs, in order of appearance."""

    images: list[Any] = field(default_factory=list)
    videos: list[np.ndarray] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)  # one per video, as `VideoMetadata` of transformers


def media_rules(processor: Any | None, limits: Limits) -> MediaRules:
    """Derive from a processor how clips and pixel limits are passed to it.

    Qwen2-VL's processors take a pixel budget per frame as `size`, and would otherwise enlarge frames to a minimum far
    above small budgets; pictures for other processors are shrunk before them.
    """
    if processor is None:
        return MediaRules(kind="none", pixel_limit="none", max_pixels=None, max_frames=limits.max_frames)
    video = getattr(processor, "video_processor", None)
    takes_video = (
        video is not None
        and getattr(processor, "video_token", None) is not None
        and "video" in str(processor.chat_template)
    )
    images_kwargs: dict[str, Any] = {}
    videos_kwargs: dict[str, Any] = {"do_sample_frames": False, "input_data_format": "channels_last"}
    # The reference implementation of Qwen2-VL divides a clip's budget among its frames; the default here may change.
    if hasattr(video, "cap_pixels_per_frame"):
        videos_kwargs["cap_pixels_per_frame"] = True
    if type(processor).__name__.startswith("MuseGlimmer"):
        videos_kwargs["return_metadata"] = True  # its processor reads the times of frames there without asking for them
    pixel_limit: PixelLimit = "none" if limits.max_pixels is None else "before"
    image = getattr(processor, "image_processor", None)
    if limits.max_pixels is not None and image is not None and type(image).__name__.startswith("Qwen2VLImageProcessor"):
        pixel_limit = "processor"
        images_kwargs["size"] = _budget(image.size, limits.max_pixels)
        if video is not None and type(video).__name__.startswith("Qwen2VLVideoProcessor"):
            videos_kwargs["size"] = _budget(video.size, limits.max_pixels)
    return MediaRules(
        kind="video" if takes_video else "image",
        pixel_limit=pixel_limit,
        max_pixels=limits.max_pixels,
        max_frames=limits.max_frames,
        min_frames=getattr(video, "temporal_patch_size", 1) if type(video).__name__.startswith(_PAIRED_FRAMES) else 1,
        images_kwargs=images_kwargs,
        videos_kwargs=videos_kwargs if takes_video else {},
    )


def _budget(size: Any, max_pixels: int) -> dict[str, int]:
    """Return the `size` of a Qwen2-VL processor; a clip's share per frame must be at least 1.05 times the minimum."""
    return {
        "shortest_edge": min(int(size["shortest_edge"]), int(max_pixels / 1.05)),
        "longest_edge": min(int(size["longest_edge"]), max_pixels),
    }


def blank_media(media: Mapping[Media, Frames]) -> frozenset[Media]:
    """Return the pictures and clips of a single colour: a text-only model misses nothing in them."""
    return frozenset(
        item
        for item, frames in media.items()
        if frames.pixels.size and (frames.pixels == frames.pixels[:1, :1, :1]).all()
    )


def without_media(call: Call, removed: frozenset[Media]) -> Call:
    """Return the call without these pictures and clips."""
    if removed.isdisjoint(call.media):
        return call
    turns = (replace(turn, parts=tuple(part for part in turn.parts if part not in removed)) for turn in call.turns)
    return replace(call, turns=tuple(turns))


def template_parts(item: Media, frames: Frames, rules: MediaRules) -> list[dict[str, str]]:
    """Return the parts of a chat turn that stand for a picture or clip; `ValueError` if the model is text-only."""
    if rules.kind == "none":
        raise ValueError("the model is text-only, and the prompt holds a picture or clip")
    if item.kind == "image":
        return [{"type": "image"}]
    if rules.kind == "video":
        return [{"type": "video"}]
    return [{"type": "image"}] * len(uniform_indices(len(frames.pixels), rules.max_frames))


def media_inputs(items: Sequence[Media], media: Mapping[Media, Frames], rules: MediaRules) -> MediaInputs:
    """Return the pixels of a prompt's media in order; other than uint8 [frames, height, width, 3] is a `ValueError`."""
    inputs = MediaInputs()
    for item in items:
        frames = media[item]
        pixels = frames.pixels
        if pixels.ndim != 4 or pixels.shape[-1] != 3 or pixels.dtype != np.uint8 or 0 in pixels.shape:
            raise ValueError(f"pixels are {pixels.dtype} {pixels.shape}, not uint8 [frames, height, width, 3]")
        indices = uniform_indices(len(pixels), rules.max_frames)
        if item.kind == "image":
            inputs.images.append(_picture(pixels[0], rules))
        elif rules.kind == "image":
            inputs.images.extend(_picture(pixels[index], rules) for index in indices)
        else:
            indices += indices[-1:] * (rules.min_frames - len(indices))
            clip = pixels if indices == list(range(len(pixels))) else pixels[indices]
            if rules.pixel_limit == "before":
                clip = np.stack([np.asarray(_picture(frame, rules)) for frame in clip])
            inputs.videos.append(clip)
            inputs.metadata.append(clip_metadata(frames, indices))
    return inputs


def _picture(pixels: np.ndarray, rules: MediaRules) -> Any:
    picture = Image.fromarray(pixels)
    if rules.pixel_limit != "before" or rules.max_pixels is None:
        return picture
    size = shrunk_size(*picture.size, rules.max_pixels)
    return picture if size == picture.size else picture.resize(size, Image.Resampling.BICUBIC)


def clip_metadata(frames: Frames, selected: Sequence[int]) -> dict[str, Any]:
    """Describe the selected frames by their times; without a frame rate, as if they were the whole clip."""
    height, width = frames.pixels.shape[1:3]
    seconds, fps, total = frames.seconds, frames.fps, frames.total_frames
    span = seconds[-1] - seconds[0] if len(seconds) == len(frames.pixels) > 1 else 0.0
    if fps <= 0 or total < len(selected):
        fps = (len(seconds) - 1) / span if span > 0 else 1.0
        total = len(frames.pixels)
        indices = list(selected)
    elif span > 0:
        indices = [min(total - 1, max(0, round(seconds[index] * fps))) for index in selected]
    else:
        indices = [j * (total - 1) // max(1, len(frames.pixels) - 1) for j in selected]
    return {
        "total_num_frames": total,
        "fps": float(fps),
        "width": int(width),
        "height": int(height),
        "duration": total / float(fps),
        "frames_indices": indices,
    }
