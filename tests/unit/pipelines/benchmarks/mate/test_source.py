"""MATE: both forms as distributed."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.generate.generate import generate
from pipelines.benchmarks.mate.benchmark import BENCHMARK
from pipelines.benchmarks.mate.prompts import build_prompt, count_solved_examples
from pipelines.benchmarks.mate.scene import parse_scene
from pipelines.benchmarks.mate.source import parse_row
from pipelines.errors import SourceError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support.mate_samples import NAMED, SHOTS, cells, files, media_and_text, prompts, read
from tests.support.mate_source import RAW, WHITE, development, name_of, png, public, public_row, question, row

RED_NAME = question("img2txt", ("color", "red"), "name")


class TestDevelopment:
    def test_sample_holds_all_rows_of_its_scene(self, tmp_path: Path) -> None:
        result = ingest_benchmark(
            BENCHMARK, Folder(str(development(tmp_path / "s", files()))), Store(str(tmp_path / "d"))
        )
        assert result.rejections == ()
        samples = {item.sample_id: item for item in Dataset.open(Store(str(tmp_path / "d")), "mate").samples()}
        b, a = samples[name_of("B")], samples[name_of("A")]
        crossmodal = {("img2txt", setting) for setting in ("0-shot", "1-shot", "2-shot", "2-shot-cot")}
        assert cells(b) == crossmodal | {("txt2txt", "2-shot")}
        assert cells(a) == {("txt2img", setting) for setting in ("0-shot", "1-shot", "2-shot")}
        assert (b.category, a.category) == ("6 objects", "3 objects")
        assert [ref.role for ref in b.media] == ["picture", "white"]
        assert [ref.role for ref in a.media] == ["picture"]
        assert b.cluster == hashlib.sha256(png(f"{name_of('B')}.png")).hexdigest()

    def test_damaged_white_file_costs_no_row(self, tmp_path: Path) -> None:
        source = development(tmp_path / "s", files())
        (source / "img" / WHITE).write_bytes(b"\x89PNG and no more")
        samples, rejections, notices = read(source)
        assert len(samples) == 2
        assert rejections == []
        assert any("cannot be decoded" in notice for notice in notices)

    def test_missing_picture_costs_only_the_rows_of_its_scene(self, tmp_path: Path) -> None:
        samples, rejections, _ = read(development(tmp_path / "s", files(), [WHITE, f"{name_of('A')}.png"]))
        assert cells(samples[name_of("B")]) == {("txt2txt", "2-shot")}
        assert samples[name_of("B")].cluster == name_of("B")
        assert len(rejections) == 4
        assert {item.reason for item in rejections} == {f"the picture img/{name_of('B')}.png is missing"}

    @pytest.mark.parametrize("file", ["mm_0shot", "mm_2shot_cot"])
    def test_row_that_names_a_missing_picture_costs_no_other_row_of_its_scene(self, tmp_path: Path, file: str) -> None:
        rows = files()
        index = next(i for i, line in enumerate(rows[file]) if line["example_id"] == name_of("B"))
        rows[file][index] = {**rows[file][index], "image": "elsewhere.png"}
        whole = cells(read(development(tmp_path / "whole", files()))[0][name_of("B")])
        pictures = [WHITE, *(f"{name_of(scene)}.png" for scene in "AB")]
        samples, rejections, _ = read(development(tmp_path / "s", rows, pictures))
        (lost,) = whole - cells(samples[name_of("B")])
        assert [(item.item, item.reason) for item in rejections] == [
            (f"{name_of('B')} {lost[0]} {lost[1]}", "the picture img/elsewhere.png is missing")
        ]

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            (b'{"example_id": "x"', "not JSON"),
            (b"\xff\xfe", "not JSON"),
            (b"[" * 100_000, "not JSON"),
            (b"17", "no example_id or id"),
            (row(example_id=None), "no example_id or id"),
            (row(scene=None), "no scene"),
            (row(scene={"objects": []}), "no list of objects"),
            (row(task="img2smell"), "unknown task of MATE"),
            (row(task="img2img", target="shape"), "does not belong in a file of img2txt and txt2img"),
            (row(gold_reference=None), "no gold_reference or answer"),
            (row(gold_reference='{"answer": "Object_1"}'), "not the object's name"),
            (row(pointer_attribute={"color": "gray"}), "fits 3 objects"),
            (row(pointer_attribute={"color": ["red"]}), "fits 0 objects"),
            (row(pointer_attribute={"material": "metal"}), "there are color, shape"),
            (row(pointer_attribute={"color": "red", "shape": "cube"}), "2 keys"),
            (row(target_attribute={"color": "red"}), "there are name"),
            (row(few_shot_attributes=[]), "0 solved examples in a row of 2-shot"),
            (row(few_shot_attributes=["color"]), "no list of"),
            (row(few_shot_attributes=SHOTS, image="../secret.png"), "no plain file name"),
            (row(few_shot_attributes=SHOTS, input_str=17), "not text"),
            (row(few_shot_attributes=SHOTS, input_str="half \ud800"), "surrogate"),
            (row(few_shot_attributes=SHOTS, input_str=None, scene_format="yaml"), "in JSON"),
            (row(few_shot_attributes=[["color", "gray"], ["shape", "sphere"]], input_str=None), "fits 3 objects"),
            (row(few_shot_attributes=[["name", "Object_2"], ["shape", "sphere"]], input_str=None), "points with"),
            (row(few_shot_attributes=SHOTS, scene=RAW["A"], example_id=name_of("A")), "not the object's name"),
            (row(few_shot_attributes=SHOTS), "duplicate row of img2txt, 2-shot"),
        ],
        ids=lambda value: value[:30] if isinstance(value, str) else "",
    )
    def test_bad_row_costs_only_itself(self, tmp_path: Path, bad: Any, reason: str) -> None:
        folder = development(
            tmp_path / "s",
            {
                "mm_2shot": [
                    row(shots=SHOTS),
                    bad,
                    row("A", "txt2img", NAMED, "color", shots=[("name", "Object_0"), ("name", "Object_2")]),
                ]
            },
        )
        samples, rejections, _ = read(folder)
        assert {name: cells(sample) for name, sample in samples.items()} == {
            name_of("B"): {("img2txt", "2-shot")},
            name_of("A"): {("txt2img", "2-shot")},
        }
        assert len(rejections) == 1
        assert reason in rejections[0].reason
        assert rejections[0].item in ("line 2", name_of("B"), name_of("A"))

    def test_id_names_one_scene_and_one_picture(self, tmp_path: Path) -> None:
        other = row("A", "txt2img", NAMED, "color", example_id=name_of("B"))
        elsewhere = row(shots=SHOTS, image=f"{name_of('A')}.png")
        _, rejections, _ = read(development(tmp_path / "s", {"mm_0shot": [row(), other], "mm_2shot": [elsewhere]}))
        assert [item.reason[:15] for item in rejections] == [
            "its scene diffe",
            "its picture 'd4"[:4] + rejections[1].reason[4:15],
        ]

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"mm_0shot": [row(linking_attributes=[{"color": "red"}])]}, "linking_attributes differ from those"),
            ({"mm_0shot": [row(linking_attributes="no list")]}, "linking_attributes differ from those"),
            ({"mm_0shot": [row(object_count=9)]}, "object_count differs"),
            ({"mm_0shot": [row()]}, "0-shot: 1 rows of img2txt, 0 of txt2img"),
            ({"mm_0shot": [row()], "notes": [{}]}, "notes.jsonl: not a file of MATE"),
            (
                {"mm_2shot": [row(shots=SHOTS)], "mm_2shot_cot": [row(target="rotation", shots=SHOTS)]},
                "2-shot and 2-shot-cot ask different questions",
            ),
        ],
        ids=lambda value: value[:20] if isinstance(value, str) else "",
    )
    def test_oddities_are_reported_without_rejection(self, tmp_path: Path, changed: Any, message: str) -> None:
        samples, rejections, notices = read(development(tmp_path / "s", changed))
        assert len(samples) == 1
        assert rejections == []
        assert any(message in notice for notice in notices)

    def test_valid_data_gives_no_notice(self, tmp_path: Path) -> None:
        same = {"mm_0shot": [row(), row("A", "txt2img", NAMED, "color")]}
        assert read(development(tmp_path / "s", same))[1:] == ([], [])

    @pytest.mark.parametrize("examples", [5, 10])
    def test_generated_data_give_no_notice(self, tmp_path: Path, examples: int) -> None:
        generate(tmp_path / "s", (3, 5), examples, 1)
        samples, rejections, notices = read(tmp_path / "s")
        assert (len(samples), rejections, notices) == (examples, [], [])

    def test_folder_without_mate_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="neither mm_"):
            read(tmp_path)

    def test_settings_keep_their_different_questions(self, tmp_path: Path) -> None:
        rows = {"mm_0shot": [row()], "mm_1shot": [row(pointer=("shape", "sphere"), target="size", shots=SHOTS[:1])]}
        samples, _, _ = read(development(tmp_path / "s", rows))
        assert [item["gold"] for item in samples[name_of("B")].data["rows"]] == ["Object_0", 0.351]


class TestPublic:
    def splits(self, **how: Any) -> dict[str, list[dict[str, Any]]]:
        scene = parse_scene(RAW["B"])
        full = build_prompt(scene, RED_NAME, [question("img2txt", ("shape", "sphere"), "name")])
        bare = row("A", "txt2img", NAMED, "color")
        white = row(task="txt2txt", pointer=NAMED, target="rotation")
        shown = row("A", "img2img", ("color", "gray"), "shape")
        return {
            "cross_modal": [public_row(row(), full, **how), public_row(bare, "What color has 'Object_1'?", **how)],
            "unimodal": [
                public_row(white, "Which rotation has Object_1?", **how),
                public_row(shown, "What shape has the gray one?", **how),
            ],
        }

    @pytest.mark.parametrize("spelled", [json.dumps, repr])
    def test_given_prompts_are_used_and_others_are_built(self, tmp_path: Path, spelled: Any) -> None:
        source = public(tmp_path / "s", self.splits(spelled=spelled))
        result = ingest_benchmark(BENCHMARK, Folder(str(source)), Store(str(tmp_path / "d")))
        assert result.rejections == ()
        assert result.manifest.media == 3
        assert any("3 rows hold a question and no prompt" in notice for notice in result.manifest.notices)
        samples = {item.sample_id: item for item in Dataset.open(Store(str(tmp_path / "d")), "mate").samples()}
        prompts_by_sample = {name: prompts(sample) for name, sample in samples.items()}
        shots = ("0-shot", "1-shot", "2-shot")
        assert set(prompts_by_sample[name_of("B")]) == {
            ("img2txt", "1-shot"),
            *(("txt2txt", setting) for setting in shots),
        }
        assert set(prompts_by_sample[name_of("A")]) == {
            *(("txt2img", setting) for setting in (*shots, "2-shot-cot")),
            *(("img2img", setting) for setting in shots),
        }
        for cell_prompts in prompts_by_sample.values():
            for (_, setting), prompt in cell_prompts.items():
                assert count_solved_examples(media_and_text(prompt)[1]) == int(setting[0])
        white = hashlib.sha256(png(WHITE)).hexdigest()
        assert media_and_text(prompts_by_sample[name_of("B")]["txt2txt", "0-shot"])[0].source == white
        assert (
            media_and_text(prompts_by_sample[name_of("A")]["img2img", "0-shot"])[0].source
            == hashlib.sha256(png(f"{name_of('A')}.png")).hexdigest()
        )
        assert {item["pointer"][1] for item in samples[name_of("A")].data["rows"]} == {"Object_1", "gray"}

    def test_missing_picture_costs_the_rows_that_show_it(self, tmp_path: Path) -> None:
        splits = self.splits()
        splits["cross_modal"][0]["image"] = None
        samples, rejections, _ = read(public(tmp_path / "s", splits))
        assert cells(samples[name_of("B")]) == {("txt2txt", setting) for setting in ("0-shot", "1-shot", "2-shot")}
        assert [item.item for item in rejections] == [f"{name_of('B')} img2txt 1-shot"]

    @pytest.mark.parametrize(
        ("field", "value", "reason"),
        [
            ("question", "What is it?", "contains no color"),
            ("answer", "Object_4", "not the object's name"),
            ("scene", "{", "no list of objects"),
            ("id", None, "no example_id or id"),
            ("pointer_attribute", "gloss", "there are color, shape"),
        ],
    )
    def test_bad_row_costs_only_itself(self, tmp_path: Path, field: str, value: Any, reason: str) -> None:
        splits = self.splits()
        splits["cross_modal"][0][field] = value
        samples, rejections, _ = read(public(tmp_path / "s", splits))
        assert set(samples) == {name_of("A"), name_of("B")}
        assert len(rejections) == 1
        assert reason in rejections[0].reason

    def test_a_broken_file_is_named(self, tmp_path: Path) -> None:
        source = public(tmp_path / "s", self.splits())
        (source / "data" / "cross_modal-00000-of-00001.parquet").write_bytes(b"PAR1 no")
        with pytest.raises(SourceError, match=r"cross_modal.*cannot be read as Parquet"):
            read(source)

    def test_a_missing_column_is_named(self, tmp_path: Path) -> None:
        splits = {
            "cross_modal": [
                {key: v for key, v in item.items() if key != "answer"} for item in self.splits()["cross_modal"]
            ]
        }
        with pytest.raises(SourceError, match="no column answer"):
            read(public(tmp_path / "s", splits))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(row())), JSON, max_size=4))
def test_no_row_breaks_the_reader(changes: dict[str, Any]) -> None:
    item, parsed = parse_row({**row(), **changes}, "line 1", "0-shot", ("img2txt", "txt2img"))
    assert item == "line 1" or isinstance(changes.get("example_id", ""), str)
    assert parsed


def many_scenes(form: str, folder: Path) -> Path:
    """Write nine scenes of which the last alone have other tasks than the first."""
    tasks = ["img2txt"] * 6 + ["txt2img", "img2img", "txt2txt"]
    pointers = {"img2txt": (("color", "red"), "name"), "txt2img": (("name", "Object_0"), "color"),
                "img2img": (("color", "red"), "shape"), "txt2txt": (("name", "Object_0"), "rotation")}  # fmt: skip
    rows = [
        row("B", task, *pointers[task], example_id=name_of("B", number))
        | ({} if task == "txt2txt" else {"image": f"{name_of('B', number)}.png"})
        for number, task in enumerate(tasks)
    ]
    if form == "public":
        texts = ["Which one is red?" if "color" in raw["pointer_attribute"] else "Which is Object_0?" for raw in rows]
        return public(folder, {"cross_modal": list(map(public_row, rows, texts))})
    return development(folder, {"mm_0shot": rows[:7], "um_0shot": rows[7:]})


@pytest.mark.parametrize("form", ["development", "public"])
def test_six_scenes_reach_every_task(tmp_path: Path, form: str) -> None:
    samples, _, _ = read(many_scenes(form, tmp_path / "s"))
    assert len(samples) == 9
    tasks = [{raw["task"] for raw in sample.data["rows"]} for sample in samples.values()]
    assert set().union(*tasks[:6]) == {"img2txt", "txt2img", "img2img", "txt2txt"}
    assert tasks[0] == {"img2txt"}


def test_order_of_the_files_stays_where_six_scenes_reach_every_task(tmp_path: Path) -> None:
    samples, _, _ = read(development(tmp_path / "s", files()))
    in_files = [raw["example_id"] for rows in files().values() for raw in rows if isinstance(raw, dict)]
    assert list(samples) == [name for name in dict.fromkeys(in_files) if name in samples]


@pytest.mark.parametrize("name", ["JSON", "json", None])
def test_scene_format_may_be_spelled_as_in_the_papers_appendix(tmp_path: Path, name: str | None) -> None:
    samples, rejections, _ = read(development(tmp_path / "s", {"mm_0shot": [row(input_str=None, scene_format=name)]}))
    assert (len(samples), rejections) == (1, [])


def test_prompt_of_another_scene_format_is_used_as_it_is(tmp_path: Path) -> None:
    samples, _, _ = read(
        development(tmp_path / "s", {"mm_0shot": [row(input_str="scene: in YAML", scene_format="YAML")]})
    )
    assert samples[name_of("B")].data["rows"][0]["text"] == "scene: in YAML"
