"""Media of one prompt as vLLM takes them: parts of a turn, or placeholders in its text."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import Image

from models.engines.transformers.media_inputs import MediaRules, clip_metadata
from models.media_sampling import uniform_indices
from models.messages import Frames, Media, Text, Turn

_SIZES = ("size", "cap_pixels_per_frame")


class PromptMedia:
    """Collects the media of one prompt, and the names under which vLLM caches them."""

    def __init__(self, placeholder: Callable[[str, int], str | None] | None, rules: MediaRules) -> None:
        """Pass a clip as such or as pictures, at most `rules.max_frames`; a shorter clip repeats its last one."""
        self._placeholder, self._rules = placeholder, rules
        self.data: dict[str, list[Any]] = {}
        self.names: dict[str, list[str]] = {}  # keys of vLLM's caches; equal names must mean equal pixels

    def content(self, turn: Turn, media: Mapping[Media, Frames]) -> str | list[dict[str, Any]]:
        """Return a turn as its template takes it: parts, or one text with placeholders."""
        parts = [entry for part in turn.parts for entry in self._part(part, media)]
        return parts if self._placeholder is None else "".join(str(part.get("text", "")) for part in parts)

    def _part(self, part: object, media: Mapping[Media, Frames]) -> list[dict[str, Any]]:
        if isinstance(part, Text):
            return [{"type": "text", "text": part.text}]
        if not isinstance(part, Media):
            raise TypeError("an earlier step's output was not filled in")
        if part not in media:
            raise ValueError(f"the call has no pixels for the {part.kind} {part.source}")
        frames, name = media[part], f"{part.source}:{part.frames}"
        if part.kind == "image":
            return [self._add("image", Image.fromarray(frames.pixels[0]), name)]
        indices = uniform_indices(len(frames.pixels), self._rules.max_frames)
        if self._rules.kind != "video":
            return [self._add("image", Image.fromarray(frames.pixels[at]), f"{name}:{at}") for at in indices]
        indices += indices[-1:] * (self._rules.min_frames - len(indices))
        # Models that encode the time of frames (Qwen2.5-VL, Qwen3-VL) reject a clip without its metadata.
        metadata = {**clip_metadata(frames, indices), "do_sample_frames": False}
        return [self._add("video", (np.ascontiguousarray(frames.pixels[indices]), metadata), name)]

    def _add(self, kind: str, pixels: Any, name: str) -> dict[str, Any]:
        self.data.setdefault(kind, []).append(pixels)
        self.names.setdefault(kind, []).append(name)
        if self._placeholder is None:
            return {"type": kind}
        # On its own line, as in vLLM's chat interface; None: vLLM's processor inserts the placeholder itself.
        placeholder = self._placeholder(kind, len(self.data[kind]))
        return {"text": f"{placeholder}\n" if placeholder else ""}


def processor_settings(rules: MediaRules) -> dict[str, Any]:
    """Return the settings of a processor that decide the size of media, as vLLM takes them; it sets the others."""
    settings = {"images_kwargs": rules.images_kwargs, "videos_kwargs": rules.videos_kwargs}
    sizes = {kind: {name: given[name] for name in _SIZES if name in given} for kind, given in settings.items()}
    return {kind: given for kind, given in sizes.items() if given}


def has_video_placeholder(placeholder: Callable[[str, int], str | None]) -> bool:
    """Return whether a model's text has placeholders for clips."""
    try:
        placeholder("video", 1)
    except ValueError:
        return False
    return True
