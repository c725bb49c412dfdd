"""TODO doc."""

from __future__ import annotations

from models.messages import Media, Request, Text
from pipelines.benchmarks.records import Sample
from pipelines.plan.records import Plan

CHARS_PER_TOKEN = 3.5


PIXELS_PER_TOKEN = 28 * 28


def count_words(plan: Plan, request: Request, sample: Sample, *, new_group: bool = False) -> None:
    """Add the tokens that a request reads and may write, as they are estimated."""
    sizes = {ref.sha256: ref for ref in sample.media}
    for step in request.steps:
        plan.output_tokens += step.generation.max_new_tokens
        for turn in step.turns:
            for part in turn.parts:
                if isinstance(part, Text):
                    plan.prompt_tokens += round(len(part.text) / CHARS_PER_TOKEN)
                elif isinstance(part, Media):
                    ref = sizes.get(part.source)
                    pixels = ref.width * ref.height if ref else 640 * 360
                    tokens = round(pixels / PIXELS_PER_TOKEN) * max(1, (part.frames + 1) // 2)
                    plan.prompt_tokens += tokens
                    plan.shared_tokens += tokens
                    plan.distinct_media_tokens += tokens if new_group else 0
                    new_group = False
