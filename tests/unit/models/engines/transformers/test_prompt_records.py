"""The lower bound on a set of prompts' tokens is the size of their prefix tree."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.transformers.prompt_records import Head, Prompt, count_distinct_tokens
from models.messages import Call, Generation


def prompt(name: str, head: list[int], tail: list[int]) -> Prompt:
    prompt_head = Head(media=(), ids=np.array(head, dtype=np.int64), inputs={}, extras={})
    call = Call(call_id=name, turns=(), generation=Generation())
    return Prompt(call=call, head=prompt_head, ids=np.array([*head, *tail], dtype=np.int64))


@given(
    tails=st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=20),
    heads=st.lists(st.integers(0, 1), min_size=20, max_size=20),
)
@settings(deadline=None)
def test_distinct_tokens_sum_to_the_number_of_distinct_prefixes(tails: list[list[int]], heads: list[int]) -> None:
    prompts = [prompt(str(n), [9, head], tail) for n, (tail, head) in enumerate(zip(tails, heads, strict=False))]
    prefixes = {
        (head, tuple(tail[: end + 1])) for tail, head in zip(tails, heads, strict=False) for end in range(len(tail))
    }
    counts = count_distinct_tokens(prompts)
    assert set(counts) == {str(n) for n in range(len(tails))}
    assert sum(counts.values()) == len(prefixes)
