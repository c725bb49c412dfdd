"""Valid parameters, and refusals before anything is written."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.generate.generate import generate
from jobs.generate.parameters import Options, Plan, counts_of, margin
from pipelines.errors import UsageError


@pytest.mark.parametrize(
    ("objects", "counts"),
    [((3, 5), (3, 4, 5)), ((7, 7), (7,)), (range(3, 6), (3, 4, 5)), (range(10, 3, -3), (4, 7, 10))],
)
def test_object_counts(objects: Any, counts: tuple[int, ...]) -> None:
    assert counts_of(objects) == counts


@pytest.mark.parametrize(
    ("objects", "examples", "workers", "message"),
    [
        ((10, 3), 5, 1, r"objects: the lowest number must not exceed the highest \(got 10-3\)"),
        (range(5, 5), 5, 1, "objects: the lowest number"),
        ((2, 5), 5, 1, r"objects: scenes hold 3 to 200 objects \(got 2-5\)"),
        ((0, 0), 5, 1, "scenes hold 3 to 200"),
        ((-4, 3), 5, 1, "scenes hold 3 to 200"),
        ((3, 201), 5, 1, "scenes hold 3 to 200"),
        ((3, 4), 0, 1, "examples: 1 or more"),
        ((3, 4), -1, 1, "examples"),
        ((3, 4), 1, 0, "workers: 1 or more"),
        ((3, 4), 1, -2, "workers"),
    ],
)
def test_bad_numbers_are_refused_before_anything_is_written(
    tmp_path: Path, objects: Any, examples: int, workers: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        generate(tmp_path / "out", objects, examples, 1, workers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ()}, "tasks: name each task once"),
        ({"tasks": ("img2txt", "img2txt")}, "tasks: name each"),
        ({"tasks": ("img2data",)}, "tasks: choose from img2txt"),
        ({"shots": (0, 3), "cot": False}, "shots: choose from 0, 1, 2"),
        ({"shots": ()}, "shots"),
        ({"shots": (0, 1)}, "cot: .*add 2 to shots"),
        ({"max_key_colors": 0}, "max_key_colors: 1 to 7"),
        ({"max_key_colors": 8}, "max_key_colors"),
        ({"max_key_shapes": 4}, "max_key_shapes: 1 to 3"),
        ({"max_key_colors": 1}, r"max_key_colors \+ max_key_shapes: one pointer and 2 examples need at least 3"),
        ({"max_key_colors": 3, "max_key_shapes": 2}, "at most the smallest number of objects, 4"),
        ({"coords_decimals": 0}, "coords_decimals: 1 to 15"),
        ({"min_visible_px": -1}, "min_visible_px: 0 to 250"),
        ({"min_visible_px": 251}, "min_visible_px: 0 to 250 at this width"),
        ({"min_visible_share": 0.0}, "min_visible_share: above 0, at most 0.9 with 5 objects"),
        ({"min_visible_share": 1.0}, "min_visible_share"),
        ({"width": 100}, "width: 240 to 1920"),
        ({"height": 100}, "height: 2/3 to 2 times the width"),
    ],
)
def test_impossible_combinations_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    plan = Plan(counts=(4, 5), examples=3, seed=1, options=Options(**options))
    with pytest.raises(UsageError, match=message):
        plan.check()


def test_limits_depend_on_the_number_of_objects() -> None:
    plan = Plan(counts=(3, 4), examples=3, seed=1, options=Options(stratify="links"))
    with pytest.raises(UsageError, match="the stratum links=3 cannot be filled with 3 objects; start at 4"):
        plan.check()
    dataclasses.replace(plan, counts=(4, 5)).check()
    plan = Plan(counts=(11,), examples=1, seed=1, options=Options(min_visible_share=0.7))
    with pytest.raises(UsageError, match=r"min_visible_share: above 0, at most 0\.6 with 11 objects"):
        plan.check()
    dataclasses.replace(plan, counts=(10,)).check()
    assert [margin(count) for count in (3, 10, 100)] == pytest.approx([0.4, 0.4, 0.04])
    plan = Plan(counts=(3, 100), examples=1, seed=1, options=Options(coords_decimals=1))
    with pytest.raises(UsageError, match=r"coords_decimals: .* 0\.040 between coordinates of 100 objects"):
        plan.check()
    dataclasses.replace(plan, counts=(3, 40)).check()


def test_plan_takes_object_counts_in_turn_and_records_all_but_seed_and_workers() -> None:
    plan = Plan(counts=(3, 4, 5), examples=7, seed=1, options=Options())
    assert [plan.scene_at(index) for index in range(7)] == [(3, 0), (4, 0), (5, 0), (3, 1), (4, 1), (5, 1), (3, 2)]
    plan = Plan(counts=(3, 4), examples=7, seed=1, options=Options())
    recorded = plan.parameters
    assert json.loads(json.dumps(recorded)) == recorded
    assert set(recorded) == {"object_counts", "examples", *(field.name for field in dataclasses.fields(Options))}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("here first", "utf-8")
    with pytest.raises(UsageError, match="is a file, give a folder"):
        generate(tmp_path / "out", (3, 4), 2, 1, 1)
    assert (tmp_path / "out").read_text("utf-8") == "here first"
