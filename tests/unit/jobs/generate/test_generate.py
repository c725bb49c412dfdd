"""A generated data set as a whole: files, answers, determinism, and scores of guessing."""

import hashlib
import json
import math
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from jobs.generate.generate import GeneratedSummary, generate
from jobs.generate.parameters import GENERATOR_VERSION, Options
from pipelines.benchmarks.mate.answers import gold_json, judge, read_gold
from pipelines.benchmarks.mate.error_analysis import chance, in_scene
from pipelines.benchmarks.mate.prompts import count_solved_examples
from pipelines.benchmarks.mate.scene import (
    COLORS,
    LINKABLE,
    SHAPES,
    TASKS,
    Question,
    Scene,
    check_gold,
    find_object,
    linking,
    linking_attributes,
    parse_scene,
    pointer_pool,
    shot_shows_target,
)
from pipelines.errors import UsageError

FILES = ["mm_0shot", "mm_1shot", "mm_2shot", "mm_2shot_cot", "um_0shot", "um_1shot", "um_2shot"]
KEYS = [
    "example_id", "task", "input_str", "gold_reference", "image", "scene", "scene_format", "object_count",
    "pointer_attribute", "target_attribute", "few_shot_attributes", "key_attributes", "linking_attributes", "generator",
]  # fmt: skip
EXAMPLES = 48
BLANK = "0" * 32 + ".png"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> GeneratedSummary:
    return generate(tmp_path_factory.mktemp("mate") / "set", (3, 10), EXAMPLES, 21, 2)


@pytest.fixture(scope="module")
def files(summary: GeneratedSummary) -> dict[str, list[dict[str, Any]]]:
    return {name: rows_of(summary.out / f"{name}.jsonl") for name in FILES}


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def question_of(row: dict[str, Any]) -> Question:
    ((pointer, value),) = row["pointer_attribute"].items()
    (target,) = row["target_attribute"]
    return Question(task=row["task"], pointer_attribute=pointer, pointer_value=value, target_attribute=target)


def each(files: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any], Scene, Question]]:
    for name, rows in files.items():
        for row in rows:
            yield name, row, parse_scene(row["scene"]), question_of(row)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_files_and_pictures_are_laid_out_as_in_the_published_development_version(
    summary: GeneratedSummary, files: dict[str, list[dict[str, Any]]]
) -> None:
    assert sorted(path.name for path in summary.out.iterdir()) == ["img", *(f"{name}.jsonl" for name in FILES)]
    assert summary.rows == dict.fromkeys(FILES, EXAMPLES)
    assert all(list(row) == KEYS for rows in files.values() for row in rows)
    pictures = {path.name for path in (summary.out / "img").iterdir()}
    assert pictures == {f"{row['example_id']}.png" for row in files["mm_0shot"]} | {BLANK}
    assert len(pictures) == EXAMPLES + 1 == summary.scenes + 1
    for path in (summary.out / "img").iterdir():
        with Image.open(path) as image:
            assert (image.mode, image.size, image.info) == ("RGB", (480, 320), {})
    with Image.open(summary.out / "img" / BLANK) as image:
        assert image.getcolors() == [(480 * 320, (255, 255, 255))]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_seed_gives_the_same_bytes_by_any_workers(summary: GeneratedSummary, tmp_path: Path, workers: int) -> None:
    again = generate(tmp_path / "again", range(3, 11), EXAMPLES, 21, workers)
    assert digests(again.out) == digests(summary.out)
    assert (again.rows, again.links) == (summary.rows, summary.links)


def test_another_seed_gives_other_scenes(summary: GeneratedSummary, tmp_path: Path) -> None:
    other = generate(tmp_path / "other", (3, 4), 4, 22, 1)
    shared = set(digests(other.out / "img")) & set(digests(summary.out / "img"))
    assert shared == {BLANK}


def test_rerun_changes_nothing_and_another_set_in_the_folder_is_refused(tmp_path: Path) -> None:
    first = generate(tmp_path / "set", (3, 3), 2, 1, 1)
    before = digests(first.out)
    generate(tmp_path / "set", (3, 3), 2, 1, 1)
    assert digests(first.out) == before
    with pytest.raises(UsageError, match=r"holds another data set .* give an empty folder"):
        generate(tmp_path / "set", (3, 3), 2, 2, 1)
    assert digests(first.out) == before
    shutil.rmtree(tmp_path / "set" / "img")
    with pytest.raises(UsageError, match=r"such as mm_0shot\.jsonl"):
        generate(tmp_path / "set", (3, 3), 2, 1, 1, options=Options(tasks=("txt2txt",), cot=False))


def test_rows_record_generator_parameters_object_counts_and_tasks_in_turn(
    files: dict[str, list[dict[str, Any]]],
) -> None:
    for _, row, scene, _ in each(files):
        generator = row["generator"]
        assert (generator["version"], generator["seed"]) == (GENERATOR_VERSION, 21)
        assert generator["parameters"]["object_counts"] == list(range(3, 11))
        assert "workers" not in generator["parameters"]
        assert row["scene_format"] == "json"
        assert row["object_count"] == len(scene.objects)
        assert row["example_id"] == hashlib.md5(json.dumps(row["scene"]).encode()).hexdigest()
        assert row["image"] == (BLANK if row["task"] == "txt2txt" else f"{row['example_id']}.png")
        assert [item["name"] for item in row["scene"]["objects"]] == [f"Object_{i}" for i in range(len(scene.objects))]
    for name, rows in files.items():
        assert [row["object_count"] for row in rows] == [3 + index % 8 for index in range(EXAMPLES)]
        tasks = ("img2txt", "txt2img") if name.startswith("mm") else ("img2img", "txt2txt")
        assert [row["task"] for row in rows[::8]] == list(tasks) * 3


def test_pointers_are_unique_and_gold_is_of_the_object_pointed_at(files: dict[str, list[dict[str, Any]]]) -> None:
    for _, row, scene, question in each(files):
        gold = read_gold(row["gold_reference"])
        check_gold(scene, question, gold)
        assert row["target_attribute"] == {question.target_attribute: gold}
        assert list(json.loads(row["gold_reference"])) == ["answer"]
        pointers, targets = TASKS[row["task"]]
        assert question.pointer_attribute in pointers
        assert question.target_attribute in targets
        assert question.pointer_attribute != question.target_attribute
        side = "img" if question.pointer_attribute in {"color", "shape"} else "data"
        assert question.pointer_value in row["key_attributes"][side][question.pointer_attribute]
        for attribute, values in {**row["key_attributes"]["img"], **row["key_attributes"]["data"]}.items():
            assert len({find_object(scene, attribute, value) for value in values}) == len(values)


def test_the_prompt_hides_what_links_and_shows_the_rest(files: dict[str, list[dict[str, Any]]]) -> None:
    for _, row, scene, question in each(files):
        scene_documents = [line for line in row["input_str"].splitlines() if line.startswith("{")]
        if row["task"] == "img2img":
            assert scene_documents == []
            continue
        (line,) = scene_documents
        assert json.loads(line)["objects"] == [item.as_json(question.hidden) for item in scene.objects]
        for hidden in question.hidden:
            values = COLORS if hidden == "color" else SHAPES
            assert not any(value in line for value in (hidden, *values))
        assert row["scene"]["image_filename"] not in row["input_str"]


def test_files_share_one_question_a_scene_and_nest_examples(files: dict[str, list[dict[str, Any]]]) -> None:
    for family in (["mm_0shot", "mm_1shot", "mm_2shot", "mm_2shot_cot"], ["um_0shot", "um_1shot", "um_2shot"]):
        for rows in zip(*(files[name] for name in family), strict=True):
            questions = {(row["example_id"], str(row["pointer_attribute"]), row["gold_reference"]) for row in rows}
            assert len(questions) == 1
            shots = [row["few_shot_attributes"] for row in rows]
            assert [len(shot) for shot in shots] == [0, 1, 2, 2][: len(rows)]
            assert shots[1] == shots[2][:1]
            assert [count_solved_examples(row["input_str"]) for row in rows] == [len(shot) for shot in shots]
            assert len({row["input_str"] for row in rows}) == len(rows)


def test_examples_show_others_than_the_target_and_links_are_filled(files: dict[str, list[dict[str, Any]]]) -> None:
    for _, row, scene, question in each(files):
        shots = row["few_shot_attributes"]
        assert not shot_shows_target(scene, question.object_index(scene), shots)
        assert len({find_object(scene, attribute, value) for attribute, value in shots}) == len(shots)
        assert all(attribute in TASKS[row["task"]][0] for attribute, _ in shots)
    for _, row, scene, question in each(files):
        expected = linking_attributes(scene, question.object_index(scene), question.hidden)
        assert row["linking_attributes"] == expected
        assert any("3d_coords" in item for item in expected)


def test_cells_fill_alike(files: dict[str, list[dict[str, Any]]], summary: GeneratedSummary) -> None:
    groups: dict[str, Counter[tuple[int, str, str]]] = defaultdict(Counter)
    for row in files["mm_0shot"] + files["um_0shot"]:
        question = question_of(row)
        groups[row["task"]][row["object_count"], question.target_attribute, question.pointer_attribute] += 1
    for task, counter in groups.items():
        pointers, targets = TASKS[task]
        pairs = [(target, pointer) for target in targets for pointer in pointers if target != pointer]
        # Sizes are unique in about half of the scenes only; every other pair can always be asked.
        always = [pair for pair in pairs if "size" not in pair]
        for count in range(3, 11):
            used = [counter[count, *pair] for pair in always]
            assert max(used) - min(used) <= 1
    assert summary.tasks == dict.fromkeys(TASKS, EXAMPLES // 2)
    assert sum(summary.links.values()) == EXAMPLES


def test_an_oracle_is_always_right_and_guesses_score_at_chance(files: dict[str, list[dict[str, Any]]]) -> None:
    for _, row, scene, question in each(files):
        verdict = judge(gold_json(question.gold(scene)), read_gold(row["gold_reference"]))
        assert verdict.exact_match
        assert in_scene(verdict.answer, scene, question.target_attribute)
    rng, right, expected, variance, runs = random.Random(3), 0, 0.0, 0.0, 60
    for _, row, scene, question in each({name: files[name] for name in ("mm_0shot", "um_0shot")}):
        target, gold = question.target_attribute, read_gold(row["gold_reference"])
        options = {"color": list(COLORS), "shape": list(SHAPES)}.get(target)
        values: list[Any] = options or [item.value(target) for item in scene.objects]
        probability = chance(scene, target, gold)
        expected += runs * probability
        variance += runs * probability * (1 - probability)
        right += sum(judge(gold_json(rng.choice(values)), gold).exact_match for _ in range(runs))
    assert abs(right - expected) < 3 * math.sqrt(variance)


def test_an_oracle_blind_to_coordinates_guesses_among_look_alikes(files: dict[str, list[dict[str, Any]]]) -> None:
    met = 0
    for _, row, scene, question in each({"mm_0shot": files["mm_0shot"]}):
        index = question.object_index(scene)
        if linking(scene, index, question.hidden).k:
            continue
        target, usable = scene.objects[index], [key for key in LINKABLE if key not in question.hidden]
        alike = [
            item
            for item in scene.objects
            if all(item.visible_value(key) == target.visible_value(key) for key in usable)
        ]
        assert len(alike) > 1
        gold = read_gold(row["gold_reference"])
        right = [judge(gold_json(item.value(question.target_attribute)), gold).exact_match for item in alike]
        same = [str(item.value(question.target_attribute)) == str(gold) for item in alike]
        assert right == same
        met += question.target_attribute in {"name", "3d_coords", "rotation"}
        if question.target_attribute in {"name", "3d_coords", "rotation"}:
            assert sum(right) / len(right) == 1 / len(alike)
    assert met


def test_options_reach_the_files(tmp_path: Path) -> None:
    options = Options(
        tasks=("txt2img", "img2img"), shots=(0, 2), cot=False, shots_may_show_target=True, width=400, height=320
    )
    dataset = generate(tmp_path / "set", (4, 4), 24, 3, 1, options=options)
    assert dataset.rows == dict.fromkeys(["mm_0shot", "mm_2shot", "um_0shot", "um_2shot"], 24)
    assert not (dataset.out / "img" / BLANK).exists()
    rows = rows_of(dataset.out / "mm_2shot.jsonl")
    assert {row["task"] for row in rows} == {"txt2img"}
    with Image.open(dataset.out / "img" / rows[0]["image"]) as image:
        assert image.size == (400, 320)
    leaks = [
        shot_shows_target(parse_scene(row["scene"]), find_object(parse_scene(row["scene"]), *pointer), shots)
        for row in rows
        for pointer, shots in [(next(iter(row["pointer_attribute"].items())), row["few_shot_attributes"])]
    ]
    assert any(leaks)
    assert not all(leaks)


def test_large_scenes_have_a_larger_camera_and_the_blank_keeps_its_size(tmp_path: Path) -> None:
    dataset = generate(tmp_path / "set", (40, 40), 2, 3, 1)
    row = rows_of(dataset.out / "um_0shot.jsonl")[0]
    assert row["scene"]["camera_location"][0] == pytest.approx(2 * 9.915478112284436)
    with Image.open(dataset.out / "img" / row["image"]) as image:
        assert image.size == (960, 640)
    with Image.open(dataset.out / "img" / BLANK) as image:
        assert image.size == (480, 320)
    assert len(pointer_pool(parse_scene(row["scene"]), ("name",))) == 40
