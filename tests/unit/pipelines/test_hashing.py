"""Stable ids."""

from __future__ import annotations

from pipelines.hashing import stable_id


def test_stable_id_is_independent_of_key_order() -> None:
    assert stable_id({"a": 1, "b": "è"}) == stable_id({"b": "è", "a": 1})
    assert stable_id({"a": 1}) != stable_id({"a": "1"})


def test_stable_id_is_a_constant() -> None:
    assert stable_id({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad808"
