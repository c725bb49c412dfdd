"""Lists that stand in a cell as text: as Python, NumPy and JSON print them, and what is no list."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.table.lists import lettered_lines, listed
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

TEXTS = st.lists(st.text(max_size=20), min_size=1)


@given(TEXTS)
def test_a_list_is_read_back_from_every_form(texts: list[str]) -> None:
    assert listed(repr(texts)) == texts
    assert listed(json.dumps(texts)) == texts
    assert listed(repr(tuple(texts))) == texts
    assert listed(f"array({texts!r}, dtype=object)") == texts
    assert listed(f"[{' '.join(map(repr, texts))}]") == texts  # without commas Python itself would join them
    assert listed(repr(dict(zip("ABCDEF", texts, strict=False)))) == dict(zip("ABCDEF", texts, strict=False))


@pytest.mark.parametrize("texts", [["cat", "dog"], ["cat's", 'a "dog"'], ["a, b", "[c]"]])
def test_arrays_of_numpy(texts: list[str]) -> None:
    for array in (np.array(texts), np.array(texts, dtype=object)):
        assert listed(str(array)) == listed(repr(array)) == texts


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2.5, 'x', None, True]", [1, 2.5, "x", None, True]),
        ("[nan 'a']", [None, "a"]),
        ("[u'a', u'b']", ["a", "b"]),
        ("(1, 2)", None),  # a point
        ("[1, 2)", None),
        ("cat;dog", None),
        ("a [b]", None),
    ],
)
def test_other_values(text: str, value: Any) -> None:
    assert listed(text) == value


@pytest.mark.parametrize(
    "text", ["['a'", "['a', b]", "['a' 'b', 'c']", "['a', ['b']]", "['a', 'b'] and more", "['a' ... 'z']"]
)
def test_a_broken_list_is_a_sentence_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"begins as a list and is none; write it as a list, JSON text"):
        listed(text)


def test_a_line_for_each_letter() -> None:
    assert lettered_lines("A. cat\nB. dog") == ["A. cat", "B. dog"]
    assert lettered_lines("(A) cat\n  big\n(B) dog") == ["(A) cat\n  big", "(B) dog"]
    assert lettered_lines("A. cat") is None
    assert lettered_lines("a cat\nB. dog") is None


@pytest.mark.parametrize("piece", ["['a', ", "'", "[", "['", "1 ", "\\", "array(", "{'a':"])
def test_time_is_linear_in_the_text(piece: str) -> None:
    def read(text: str) -> None:
        with contextlib.suppress(ValueError):
            listed(text)

    assert_not_quadratic(read, (piece * LONG_TEXT)[:LONG_TEXT])
