"""MATE scenes: parsing, pointers, links, and what wrong answers reveal."""

import json
import random
from collections import Counter
from itertools import combinations
from typing import Any

import pytest

from pipelines.benchmarks.mate import error_analysis as analysis
from pipelines.benchmarks.mate import scene as links
from pipelines.benchmarks.mate import scene as scenes
from pipelines.benchmarks.mate.answers import judge, read_strict
from tests.support.paths import GOLDEN

GOLDEN_ROWS = GOLDEN / "mate"


def golden(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN_ROWS / f"{name}.jsonl").read_text("utf-8").splitlines()]


RAW = {row["id"]: row["scene"] for row in golden("scenes")}
SCENES = {name: scenes.parse_scene(raw) for name, raw in RAW.items()}


def question_of(row: dict[str, Any]) -> scenes.Question:
    ((pointer, value),) = row["pointer"].items()
    return scenes.Question(
        task=row["task"], pointer_attribute=pointer, pointer_value=value, target_attribute=row["target"]
    )


def asks(pointer: str, value: Any, target: str, task: str = "img2txt") -> scenes.Question:
    return question_of({"task": task, "pointer": {pointer: value}, "target": target})


def row_name(row: dict[str, Any]) -> str:
    return f"{row['vector']}-{row['target']}-{row.get('output', '')}"


def random_scene(rng: random.Random) -> scenes.Scene:
    def draw(number: int) -> scenes.SceneObject:
        size = rng.choice((0.35, 0.351, 0.7, 0.701))
        return scenes.SceneObject(
            name=f"Object_{number}",
            shape=rng.choice(scenes.SHAPES),
            size=size,
            material=rng.choice(scenes.MATERIALS),
            coords=(rng.uniform(-4, 4), rng.uniform(-4, 4), size),
            rotation=rng.uniform(0, 360),
            color=rng.choice(scenes.COLORS[:4]),
        )

    return scenes.Scene((9.9, 0, 5.3), tuple(draw(number) for number in range(rng.randint(3, 10))))


class TestScene:
    @pytest.mark.parametrize("spelled", [lambda raw: raw, json.dumps, repr])
    def test_scene_is_parsed_from_data_and_from_text(self, spelled: Any) -> None:
        assert scenes.parse_scene(spelled(RAW["A"])) == SCENES["A"]

    def test_objects_survive_a_round_trip(self) -> None:
        assert [item.as_json() for item in SCENES["B"].objects] == RAW["B"]["objects"]
        assert list(SCENES["A"].objects[0].as_json({"color", "size"})) == [
            "name",
            "shape",
            "material",
            "3d_coords",
            "rotation",
        ]

    @pytest.mark.parametrize(
        "change",
        [
            {"shape": "pyramid"},
            {"shape": ["cube"]},
            {"color": "orange"},
            {"material": None},
            {"size": "small"},
            {"size": True},
            {"3d_coords": [1, 2]},
            {"3d_coords": [1, 2, "x"]},
            {"rotation": float("nan")},
            {"name": ""},
        ],
    )
    def test_impossible_object_is_refused_by_place_and_key(self, change: dict[str, Any]) -> None:
        (key,) = change
        first, *rest = RAW["A"]["objects"]
        with pytest.raises(ValueError, match=rf"objects\[1\] of the scene has {key}"):
            scenes.parse_scene({"objects": [first, rest[0] | change, *rest[1:]]})

    @pytest.mark.parametrize(
        "raw", [None, 3, "no scene", "[1, 2]", {}, {"objects": []}, {"objects": "Object_0"}, {"objects": [1]}]
    )
    def test_malformed_scene_is_refused(self, raw: Any) -> None:
        with pytest.raises(ValueError, match="objects"):
            scenes.parse_scene(raw)

    def test_camera_of_text_is_refused(self) -> None:
        with pytest.raises(ValueError, match="camera_location"):
            scenes.parse_scene(RAW["A"] | {"camera_location": ["left"]})

    @pytest.mark.parametrize(
        ("name", "task"),
        [("img2data", "img2txt"), ("data2img", "txt2img"), ("data2data", "txt2txt"), ("img2img", "img2img")],
    )
    def test_both_spellings_of_a_task_are_read(self, name: str, task: str) -> None:
        assert scenes.canonical_task(name) == scenes.canonical_task(task) == task

    def test_unknown_task_is_refused(self) -> None:
        with pytest.raises(ValueError, match="point"):
            scenes.canonical_task("point")


class TestPointing:
    def test_values_that_point_in_the_published_example(self) -> None:
        scene = SCENES["B"]
        assert scenes.unique_values(scene, "size") == [0.35, 0.701]
        assert scenes.unique_values(scene, "color") == ["red"]
        assert scenes.unique_values(scene, "shape") == ["sphere"]
        assert Counter(key for key, _ in scenes.pointer_pool(scene, scenes.TEXTUAL)) == {
            "name": 6,
            "3d_coords": 6,
            "rotation": 6,
            "size": 2,
        }
        assert scenes.unique_values(SCENES["B6"], "size") == [0.701]

    def test_object_is_identified_by_any_unique_value(self) -> None:
        scene = SCENES["B"]
        for attribute, value in scenes.pointer_pool(scene, (*scenes.VISUAL, *scenes.TEXTUAL)):
            index = scenes.find_object(scene, attribute, value)
            assert scene.objects[index].value(attribute) == value

    @pytest.mark.parametrize(("attribute", "value"), [("color", "gray"), ("color", "cyan"), ("size", 0.7)])
    def test_pointer_that_fits_none_or_several_is_refused(self, attribute: str, value: Any) -> None:
        with pytest.raises(ValueError, match="not one"):
            scenes.find_object(SCENES["B"], attribute, value)

    def test_gold_must_be_the_value_of_the_object_pointed_at(self) -> None:
        question = asks("color", "red", "rotation")
        scenes.check_gold(SCENES["B"], question, 10.5)
        with pytest.raises(ValueError, match=r"20\.5 is not the object's rotation, 10\.5"):
            scenes.check_gold(SCENES["B"], question, 20.5)

    @pytest.mark.parametrize(
        ("attribute", "text", "value"),
        [
            ("name", "What is the color of the object named 'Object_4'?", "Object_4"),
            ("color", "Look for the Red object.", "red"),
            ("size", "Of which color is the object with size 0.35?", 0.35),
            ("3d_coords", "the object at [-1,\n -1, 0.35]", [-1, -1, 0.35]),
            ("rotation", "Object_1 has rotation 20.5. And the one with 30.5?", 30.5),
        ],
    )
    def test_pointer_value_is_resolved_from_its_name(self, attribute: str, text: str, value: Any) -> None:
        assert scenes.pointer_value_in(SCENES["B"], attribute, text) == value

    @pytest.mark.parametrize(
        ("attribute", "text"), [("color", "the gray one"), ("size", "size 10.351"), ("name", "Object_12")]
    )
    def test_question_without_a_pointer_value_is_refused(self, attribute: str, text: str) -> None:
        with pytest.raises(ValueError, match="contains no"):
            scenes.pointer_value_in(SCENES["B"], attribute, text)

    def test_example_about_the_target_object_is_detected(self) -> None:
        scene = SCENES["B"]
        assert not scenes.shot_shows_target(scene, 0, [])
        assert not scenes.shot_shows_target(scene, 0, [("name", "Object_1"), ("rotation", 30.5)])
        assert scenes.shot_shows_target(scene, 0, [("name", "Object_1"), ("rotation", 10.5)])
        assert scenes.shot_shows_target(scene, 0, [("3d_coords", [1, -2, 0.7])])


class TestLinking:
    @pytest.mark.parametrize("row", golden("linking"), ids=row_name)
    def test_published_vectors(self, row: dict[str, Any]) -> None:
        scene, question = SCENES[row["scene"]], question_of(row)
        link = links.linking(scene, question.object_index(scene), question.hidden)
        assert link.k == row["k"]
        assert ["+".join(names) for names in link.smallest] == row["smallest"]
        assert links.link_category(link) == row["category"]

    def test_linking_equals_brute_force_on_a_thousand_scenes(self) -> None:
        rng = random.Random(11)
        for _ in range(1000):
            scene = random_scene(rng)
            index, hidden = rng.randrange(len(scene.objects)), rng.choice([(), ("color",), ("shape",)])
            looks = [
                {
                    "shape": item.shape,
                    "size": item.size >= 0.5,
                    "material": item.material,
                    "3d_coords": item.coords,
                    "color": item.color,
                }
                for item in scene.objects
            ]
            target = looks.pop(index)
            keys = [key for key in target if key not in hidden]
            alone = [
                names
                for size in range(1, len(keys) + 1)
                for names in combinations(keys, size)
                if not any(all(other[key] == target[key] for key in names) for other in looks)
            ]
            assert list(links.linking(scene, index, hidden).sets) == [
                names for names in alone if "3d_coords" not in names
            ]
            smallest_sets = links.linking_attributes(scene, index, hidden)
            assert [tuple(item) for item in smallest_sets] == alone
            assert smallest_sets[0] == {key: scene.objects[index].value(key) for key in alone[0]}


class TestAnalysis:
    ROWS = golden("overlap")

    @pytest.mark.parametrize("row", ROWS, ids=row_name)
    def test_published_answers(self, row: dict[str, Any]) -> None:
        scene, question = SCENES[row["scene"]], question_of(row)
        verdict = judge(row["output"], question.gold(scene))
        assert verdict.exact_match is (row["verdict"] == "correct")
        assert analysis.in_scene(verdict.answer, scene, row["target"]) is (row["verdict"] != "out")
        overlap = analysis.overlap(scene, question, verdict.answer)
        assert overlap.label == row["overlap"]
        assert (overlap.closer is None) is (row["named"] is None)

    @pytest.mark.parametrize("output", ['{"answer": true}', '{"answer": [true, 0, 0]}', '{"answer": 10}'])
    def test_an_answer_of_another_type_names_no_object(self, output: str) -> None:
        raw = {"objects": [item | {"rotation": float(turn)} for turn, item in enumerate(RAW["B"]["objects"])]}
        question = asks("color", "red", "rotation")
        assert analysis.overlap(scenes.parse_scene(raw), question, read_strict(output)).label == "-"

    def test_an_integer_names_an_object_by_its_float(self) -> None:
        raw = {"objects": [item | {"rotation": float(turn)} for turn, item in enumerate(RAW["B"]["objects"])]}
        question = asks("color", "red", "rotation")
        assert analysis.overlap(scenes.parse_scene(raw), question, read_strict('{"answer": 1}')).label == "3"
        # The right number as an integer is not the right text, and the object asked about is never the one named.
        assert analysis.overlap(scenes.parse_scene(raw), question, read_strict('{"answer": 0}')).label == "-"

    def test_a_tie_between_many_is_closer_than_their_average(self) -> None:
        ring = [[2, 2, 0.35], [2, -2, 0.35], [-2, 2, 0.35], [-2, -2, 0.35], [2.0, 2.0, 0.35], [-2, 2.0, 0.35]]
        base = RAW["A"]["objects"][0] | {"3d_coords": [0, 0, 0.35]}
        others = [
            RAW["A"]["objects"][1] | {"name": f"Object_{number}", "3d_coords": coords}
            for number, coords in enumerate(ring, start=1)
        ]
        scene = scenes.parse_scene({"objects": [base, *others]})
        overlap = analysis.overlap(scene, asks("color", "green", "name"), read_strict('{"answer": "Object_3"}'))
        assert overlap.closer == analysis.Closer(distance=True, depth=True, horizontal=True, alone=False)

    def test_overlap_is_measured_for_crossmodal_questions_only(self) -> None:
        with pytest.raises(ValueError, match="txt2txt"):
            analysis.overlap(SCENES["B"], asks("name", "Object_0", "rotation", "txt2txt"), None)

    @pytest.mark.parametrize(
        ("target", "gold", "expected"),
        [
            ("color", "red", 1 / 8),
            ("shape", "cube", 1 / 4),
            ("name", "Object_0", 1 / 6),
            ("size", 0.7, 2 / 6),
            ("size", 0.701, 1 / 6),
            ("3d_coords", [1, -2, 0.7], 1 / 6),
            ("name", "Object_9", 0),
        ],
    )
    def test_chance(self, target: str, gold: Any, expected: float) -> None:
        assert analysis.chance(SCENES["B"], target, gold) == pytest.approx(expected)
