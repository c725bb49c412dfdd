"""A stratified draw that depends on nothing but the items' ids, their strata and the seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pipelines.benchmarks.people.annotation import AnnotationItem


def draw(items: Sequence[AnnotationItem], n: int, strata: Sequence[str], seed: int) -> list[AnnotationItem]:
    """Draw `n` items, or all if there are fewer, spread over strata as evenly as possible.

    Strata take turns in an order that the seed determines; one whose items are used up passes its turn on. Within a
    stratum the order of items is that of a hash of seed and id, so that a larger draw contains a smaller one.
    """
    groups: dict[tuple[str, ...], list[AnnotationItem]] = {}
    for item in sorted(items, key=lambda item: order_key(seed, item.item_id)):
        groups.setdefault(tuple(item.strata[name] for name in strata), []).append(item)
    turns = [groups[key] for key in sorted(groups, key=lambda key: order_key(seed, *key))]
    selected: list[AnnotationItem] = []
    for rank in range(max((len(group) for group in turns), default=0)):
        selected += [group[rank] for group in turns if rank < len(group)]
    return selected[:n]


def order_key(seed: int, *names: str) -> str:
    """Return a sort key that orders names at random, determined by the seed and the names alone."""
    return hashlib.sha256("\x1f".join((str(seed), *names)).encode("utf-8", "surrogatepass")).hexdigest()
