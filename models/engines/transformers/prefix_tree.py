"""Which prompts begin alike: a tree of shared beginnings, found in the token ids themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

WORTH = 128
"""Tokens that a branch must save to be computed by itself."""


@dataclass(slots=True)
class Branch:
    """Tokens `start` to `end` that all prompts of it and of its children have in common."""

    start: int
    end: int
    members: list[int] = field(default_factory=list)
    """Prompts that go on alone from `end`."""
    children: list[Branch] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The earliest prompt beneath: the one that pays for these tokens."""
        return min([*self.members, *(child.first for child in self.children)])


def _common(one: np.ndarray, other: np.ndarray) -> int:
    """Tokens that two prompts have in common from the start."""
    least = min(len(one), len(other))
    differ = np.flatnonzero(one[:least] != other[:least])
    return int(differ[0]) if len(differ) else least


def build_prefix_tree(prompts: Sequence[np.ndarray], root: int, *, worth: int = WORTH) -> Branch:
    """The tree over prompts; every prompt keeps one token at least for itself.

    Args:
        prompts: token ids.
        root: tokens of the root, which all prompts begin with; 0 for none.
        worth: tokens that any further branch must save.

    Raises:
        ValueError: the prompts part before the root's end.
    """
    members = list(range(len(prompts)))
    alike = _shared(prompts, members)
    if alike < root:
        raise ValueError(f"the prompts part after {alike} tokens, before the root's end at {root}")
    return _grow(prompts, members, Branch(0, root), worth)


def _grow(prompts: Sequence[np.ndarray], members: Sequence[int], branch: Branch, worth: int) -> Branch:
    """The branch with its members and children: prompts with the same next token may have more in common."""
    end = branch.end
    by_next: dict[int, list[int]] = {}
    for member in members:
        by_next.setdefault(int(prompts[member][end]), []).append(member)
    for alike in by_next.values():
        further = _shared(prompts, alike) if len(alike) > 1 else end
        if (len(alike) - 1) * (further - end) >= worth:
            branch.children.append(_grow(prompts, alike, Branch(end, further), worth))
        else:
            branch.members.extend(alike)
    return branch


def _shared(prompts: Sequence[np.ndarray], members: Sequence[int]) -> int:
    first = prompts[members[0]]
    alike = min(_common(first, prompts[member]) for member in members)
    return min(alike, *(len(prompts[member]) - 1 for member in members))
