"""Lower bound on the tokens that a set of prompts costs: every distinct prefix computed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.engines.transformers.prefix_tree import common_length
from models.engines.transformers.prompts import Prompt


def count_distinct_tokens(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Return call id -> tokens after its pixels that no other prompt has after the same prefix; of equals, one counts.

    Their sum is the number of nodes of the prefix tree: in sorted order a prompt adds what its predecessor lacks.
    """
    trees: dict[bytes, list[tuple[list[int], str]]] = {}
    for prompt in prompts:
        tail: list[int] = prompt.ids[len(prompt.head.ids) :].tolist()
        trees.setdefault(prompt.head.ids.tobytes(), []).append((tail, prompt.call.call_id))
    counts: dict[str, int] = {}
    for tree in trees.values():
        previous: list[int] = []
        for tail, call_id in sorted(tree):
            counts[call_id] = len(tail) - common_length(np.asarray(previous), np.asarray(tail))
            previous = tail
    return counts
