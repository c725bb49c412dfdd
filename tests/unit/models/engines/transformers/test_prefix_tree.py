from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.engines.transformers.prefix_tree import Branch, build_prefix_tree


def ids(*prompts: str) -> list[np.ndarray]:
    return [np.array([ord(letter) for letter in prompt]) for prompt in prompts]


def shape(branch: Branch) -> tuple[int, int, list[int], list[object]]:
    return branch.start, branch.end, branch.members, [shape(child) for child in branch.children]


def test_prefix_tree_of_two_kinds_of_questions_on_one_clip() -> None:
    prompts = ids("CLIPchoose:ab", "CLIPanswer:c", "CLIPchoose:xy", "CLIPanswer:d", "CLIP?")
    tree = build_prefix_tree(prompts, 4, min_saved=3)
    assert shape(tree) == (0, 4, [4], [(4, 11, [0, 2], []), (4, 11, [1, 3], [])])
    assert tree.first == 0
    assert [child.first for child in tree.children] == [0, 1]


def test_prefix_that_saves_too_little_is_no_branch() -> None:
    prompts = ids("CLIPchoose:ab", "CLIPanswer:c", "CLIPchoose:xy")
    assert shape(build_prefix_tree(prompts, 4, min_saved=8)) == (0, 4, [0, 2, 1], [])


def test_branch_below_a_token_that_all_share_is_kept() -> None:
    prompts = ids("CLIP>choose:ab", "CLIP>answer", "CLIP>choose:xy", "CLIP>choose:z?")
    tree = build_prefix_tree(prompts, 4, min_saved=8)
    assert shape(tree) == (0, 4, [1], [(4, 12, [0, 2, 3], [])])


def test_equal_prompts_keep_one_token_each() -> None:
    assert shape(build_prefix_tree(ids("same", "same"), 0, min_saved=1)) == (0, 0, [], [(0, 3, [0, 1], [])])


def test_root_must_be_shared_by_all_prompts() -> None:
    with pytest.raises(ValueError, match="diverge after 2 tokens"):
        build_prefix_tree(ids("abX", "abY"), 3)
    with pytest.raises(ValueError, match="diverge after 2 tokens"):
        build_prefix_tree(ids("abc"), 3)


@given(
    st.lists(st.text(alphabet="ab", min_size=1, max_size=12), min_size=1, max_size=12),
    st.integers(1, 20),
)
def test_every_prompt_appears_once_below_its_own_prefixes(texts: list[str], min_saved: int) -> None:
    prompts = ids(*texts)
    visited: list[int] = []

    def check(branch: Branch, members: list[int]) -> None:
        assert branch.start <= branch.end
        below = [*branch.members]
        for child in branch.children:
            assert child.start == branch.end
            assert child.end > child.start
            inner: list[int] = []
            check(child, inner)
            below += inner
            assert (len(inner) - 1) * (child.end - child.start) >= min_saved
        assert branch.first == min(below)
        for member in below:
            assert len(prompts[member]) > branch.end
            assert (prompts[member][: branch.end] == prompts[below[0]][: branch.end]).all()
        members += below
        visited.extend(branch.members)

    check(build_prefix_tree(prompts, 0, min_saved=min_saved), [])
    assert sorted(visited) == list(range(len(prompts)))
