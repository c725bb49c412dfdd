"""A tree of the prefixes that prompts share, built from their token ids."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

MIN_SAVED_TOKENS = 128  # tokens that a branch must save to be computed by itself


@dataclass(slots=True)
class Branch:
    """Tokens `start` to `end` that all prompts of it and of its children share."""

    start: int
    end: int
    members: list[int] = field(default_factory=list)  # prompts that share nothing further after `end`
    children: "list[Branch]" = field(default_factory=list)

    @property
    def first(self) -> int:
        """Return the earliest prompt of the subtree: the one that computes these tokens."""
        return min([*self.members, *(child.first for child in self.children)])


def common_length(a: np.ndarray, b: np.ndarray) -> int:
    """Return the number of tokens that two prompts share from the start."""
    shorter = min(len(a), len(b))
    differences = np.flatnonzero(a[:shorter] != b[:shorter])
    return int(differences[0]) if len(differences) else shorter


def build_prefix_tree(prompts: Sequence[np.ndarray], root: int, *, min_saved: int = MIN_SAVED_TOKENS) -> Branch:
    """Build the tree over prompts' token ids; every prompt keeps at least one token to itself.

    All must share `root` tokens, else `ValueError`; any further branch must save `min_saved` tokens.
    """
    members = list(range(len(prompts)))
    shared = _shared_length(prompts, members)
    if shared < root:
        raise ValueError(f"the prompts diverge after {shared} tokens, before the root's end at {root}")
    return _grow(prompts, members, Branch(0, root), min_saved)


def _grow(prompts: Sequence[np.ndarray], members: Sequence[int], branch: Branch, min_saved: int) -> Branch:
    """Fill a branch with members and children: prompts with the same next token may share more."""
    end = branch.end
    by_next_token: dict[int, list[int]] = {}
    for member in members:
        by_next_token.setdefault(int(prompts[member][end]), []).append(member)
    for group in by_next_token.values():
        child_end = _shared_length(prompts, group) if len(group) > 1 else end
        if child_end == end:
            branch.members.extend(group)
            continue
        child = _grow(prompts, group, Branch(end, child_end), min_saved)
        if (len(group) - 1) * (child_end - end) >= min_saved:
            branch.children.append(child)
            continue
        # What all of a group share may be a token, such as the one after a picture, and what most of it share a page.
        for deeper in child.children:
            deeper.start = end
        branch.children += child.children
        branch.members += child.members
    return branch


def _shared_length(prompts: Sequence[np.ndarray], members: Sequence[int]) -> int:
    first = prompts[members[0]]
    shared = min(common_length(first, prompts[member]) for member in members)
    return min(shared, *(len(prompts[member]) - 1 for member in members))
