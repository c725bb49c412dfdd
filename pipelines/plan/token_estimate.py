"""Estimates of the tokens and pixels that a request costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models.messages import Media, Step, Text
from pipelines.benchmarks.records import MediaRef

CHARS_PER_TOKEN = 3.5
PIXELS_PER_TOKEN = 28 * 28
UNKNOWN_PIXELS = 640 * 360
LEAST_CACHED_TOKENS = 1024  # of a prefix that providers keep; some keep only longer ones


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEstimate:
    """Prompt tokens of one request over all its steps."""

    prompt_tokens: int = 0
    media_tokens: int = 0  # those of pictures and clips
    first_media_tokens: int = 0  # those of the first picture or clip, which a media group shares
    pictures: int = 0  # pictures and frames


def estimate_tokens(steps: Sequence[Step], media: Mapping[str, MediaRef]) -> TokenEstimate:
    """Estimate the prompt tokens of a request: 3.5 characters a token, 28 x 28 pixels a token, two frames deep."""
    text, shown, pictures = 0, [], 0
    for part in (part for step in steps for turn in step.turns for part in turn.parts):
        if isinstance(part, Text):
            text += round(len(part.text) / CHARS_PER_TOKEN)
        elif isinstance(part, Media):
            ref = media.get(part.file)
            pixels = ref.width * ref.height if ref else UNKNOWN_PIXELS
            pictures += max(1, part.frames)
            shown.append(round(pixels / PIXELS_PER_TOKEN) * max(1, (part.frames + 1) // 2))
    return TokenEstimate(
        prompt_tokens=text + sum(shown),
        media_tokens=sum(shown),
        first_media_tokens=shown[0] if shown else 0,
        pictures=pictures,
    )


def decoded_bytes(steps: Sequence[Step], media: Mapping[str, MediaRef]) -> int:
    """Return the bytes of a request's decoded pictures and clips, each once; single-colour ones have none."""
    parts = {part for step in steps for turn in step.turns for part in turn.parts if isinstance(part, Media)}
    return sum(
        max(1, part.frames) * media[part.file].width * media[part.file].height * 3
        for part in parts
        if part.file in media
    )
