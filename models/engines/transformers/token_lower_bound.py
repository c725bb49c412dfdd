"""What a set of prompts would cost at the least: every distinct beginning read once, and never again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.engines.transformers.prompts import Prompt


def least_tokens(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Tokens of each prompt behind its pixels that none of the others has at the same place after the same beginning.

    Their sum is the number of nodes of the tree that the prompts make: in sorted order a prompt adds what it does not
    have in common with the one before it. The beginning up to the last pixel is left out; it is counted by medium.

    Args:
        prompts: of one call to an engine; those with equal heads make one tree.

    Returns:
        Call id -> tokens. Of prompts that are equal to the end, one counts.
    """
    trees: dict[bytes, list[tuple[list[int], str]]] = {}
    for prompt in prompts:
        start = len(prompt.head.ids)
        tail: list[int] = prompt.ids[start:].tolist()
        trees.setdefault(prompt.head.ids.tobytes(), []).append((tail, prompt.call.call_id))
    found: dict[str, int] = {}
    for tree in trees.values():
        before: list[int] = []
        for tail, call_id in sorted(tree):
            found[call_id] = len(tail) - _common(before, tail)
            before = tail
    return found


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    least = min(len(one), len(other))
    differ = np.flatnonzero(np.asarray(one[:least]) != np.asarray(other[:least]))
    return int(differ[0]) if len(differ) else least
