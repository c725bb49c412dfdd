from __future__ import annotations

import re

import pytest

from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

PIECES = ["{", '"answer": ', '"label"' + " " * 50]


@pytest.mark.parametrize("piece", PIECES[:2])
def test_quadratic_search_fails(piece: str) -> None:
    pattern = re.compile(re.escape(piece.strip()) + r".*\}", re.DOTALL)
    with pytest.raises(AssertionError, match="for a quarter"):
        assert_not_quadratic(pattern.search, (piece * LONG_TEXT)[: LONG_TEXT // (4 if piece == "{" else 1)])


@pytest.mark.parametrize("piece", PIECES)
def test_linear_work_passes_whether_fast_or_slow(piece: str) -> None:
    text = (piece * LONG_TEXT)[:LONG_TEXT]
    assert_not_quadratic(lambda given: re.findall(r"[^}]", given), text)
    assert_not_quadratic(lambda given: [re.findall(r"[^}]", given) for _ in range(20)], text)
