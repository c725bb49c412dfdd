"""Records and checksums in JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest

from pipelines.json_records import MalformedError, dump_checked, dump_json, load_checked, read_record


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    name: str | None
    kind: Literal["line", "area"] = "line"
    points: tuple[Point, ...] = ()
    by_name: Mapping[str, Point] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)


SHAPE = Shape(name=None, kind="area", points=(Point(1), Point(2, 3)), by_name={"a": Point(4)}, other={"any": [1, None]})


def test_record_survives_its_file() -> None:
    assert read_record(Shape, load_checked(dump_checked(asdict(SHAPE)))) == SHAPE


def test_absent_keys_take_defaults_and_arrays_are_in_order() -> None:
    assert read_record(Shape, {"name": "a", "points": [[1], [2, 3]]}) == Shape(name="a", points=(Point(1), Point(2, 3)))


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (None, "Shape: not an object"),
        ({}, "no key 'name'"),
        ({"name": "a", "nam": 1}, "unknown key 'nam'"),
        ({"name": 1}, "name: 1 is no str"),
        ({"name": "a", "kind": "dot"}, 'kind: "dot" is no'),
        ({"name": "a", "points": {}}, "points: {} is no tuple"),
        ({"name": "a", "points": [{"x": True}]}, r"points\[0\].x: true is no int"),
        ({"name": "a", "points": [[1, 2, 3]]}, r"points\[0\]: not an object"),
        ({"name": "a", "by_name": {"b": {"x": 1, "y": "2"}}}, 'by_name.b.y: "2" is no float'),
    ],
)
def test_other_content_is_refused_with_its_place(raw: object, problem: str) -> None:
    with pytest.raises(MalformedError, match=problem):
        read_record(Shape, raw)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"a": 1, "checksum": "0"}', dump_checked({"a": 1}).replace(b"1", b"2", 1)]
)
def test_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedError):
        load_checked(content)


def test_file_without_a_checksum_is_damage() -> None:
    with pytest.raises(MalformedError, match="its checksum does not match"):
        load_checked(json.dumps({"a": 1}).encode())


@pytest.mark.parametrize("char", ["\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u202e", "\u2066", "\udcff", "\uffff"])
def test_json_is_text_for_a_terminal(char: str) -> None:
    text = dump_json({f"a{char}": f"è{char}b"})
    assert char not in text
    assert "è" in text
    assert text.encode()
    assert json.loads(text) == {f"a{char}": f"è{char}b"}
