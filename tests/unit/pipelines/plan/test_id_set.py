import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.plan.plan_store import IdSet

ids = st.lists(st.integers(0, 40).map(lambda number: f"{number << 100:032x}"), max_size=30)


@given(held=ids, others=ids)
def test_set_holds_what_a_python_set_holds(held: list[str], others: list[str]) -> None:
    digests = IdSet(held)
    assert len(digests) == len(set(held))
    assert digests.contains(others).tolist() == [name in set(held) for name in others]
    assert digests.repeated == {name for name in held if held.count(name) > 1}
    assert digests == IdSet(reversed(held))


@given(held=ids, others=ids)
def test_add_tells_which_ids_are_new(held: list[str], others: list[str]) -> None:
    digests, seen = IdSet(held), set(held)
    expected = []
    for name in others:
        expected.append(name not in seen)
        seen.add(name)
    assert digests.add(others).tolist() == expected
    assert digests == IdSet(seen)


def test_set_finds_its_ids_alone() -> None:
    whole = IdSet(["ab" + "0" * 30])
    assert "ab" + "0" * 30 in whole
    assert "ab" + "0" * 29 + "1" not in whole
    assert "0" * 32 not in whole
    with pytest.raises(ValueError, match="hexadecimal"):
        IdSet(["not an id"])
    draw = random.Random(0)
    names = [f"{draw.getrandbits(128):032x}" for _ in range(20_000)]
    digests = IdSet(names[::2])
    assert digests.contains(names).tolist() == [True, False] * 10_000
