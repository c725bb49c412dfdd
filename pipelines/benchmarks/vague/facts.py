"""VAGUE: names of settings and subsets, and the sizes of the paper (ICCV 2025, arXiv 2411.14137)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SETTINGS: Final = ("lm", "sm", "vlm", "sm-cot", "vlm-cot")
"""Settings of both tasks, in the order of `metrics.json`."""
CAPTIONED: Final = "sm-other"
"""As `sm`, with the captions of the sweep's captioners instead of the model's own; of `mcq`."""
SUBSETS: Final[Mapping[str, int]] = {"VCR": 1144, "Ego4D": 533}
"""Subsets and their published sizes."""
HUMAN_LISTED: Final = "human-400"
"""Subset of the items that a person answered. The list is unpublished; a user may have it."""
HUMAN_APPROXIMATE: Final = "human-400-approx"
"""Subset that approximates it: the same number of items, those with the best mean rating."""
HUMAN_SUBSETS: Final = (HUMAN_LISTED, HUMAN_APPROXIMATE)
HUMAN_ITEMS: Final = 400
SIZES: Final[Mapping[str, int]] = {**SUBSETS, HUMAN_LISTED: HUMAN_ITEMS, "": sum(SUBSETS.values())}
"""Items behind the published numbers by subset; '' is the whole."""
