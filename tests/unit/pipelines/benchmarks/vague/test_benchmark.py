"""VAGUE's ingest and prompts on small sources in both distributed forms."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from models.messages import Media
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import RawSample, Rejection, SourceWarning
from pipelines.benchmarks.vague.benchmark import BENCHMARK
from pipelines.benchmarks.vague.person_tags import count_tagged_boxes, draw_tags
from pipelines.errors import SourceError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.selection import selected_groups
from pipelines.storage.store import Store
from tests.support.requests import build_requests, target_of
from tests.support.vague_source import BOXES, HEIGHT, WIDTH, picture, pixels, row, rows, write_drive, write_hub

TEXTS = PromptTexts(BENCHMARK.prompt_texts)
SETTINGS = BENCHMARK.tasks["mcq"]
LEAKS = ("the caption leaks", "please", "parrot sits")


def read(folder: Path) -> tuple[list[RawSample], list[Rejection], list[str]]:
    items = list(BENCHMARK.source(Folder(str(folder)), {}))
    return (
        [record for record in items if isinstance(record, RawSample)],
        [record for record in items if isinstance(record, Rejection)],
        [record.message for record in items if isinstance(record, SourceWarning)],
    )


def ingested(folder: Path, data: Path) -> tuple[Dataset, list[dict[str, Any]]]:
    ingest_benchmark(BENCHMARK, Folder(str(folder)), Store(str(data)))
    listed = (data / "vague" / "rejected.jsonl").read_text().splitlines()
    return Dataset.open(Store(str(data)), "vague"), [json.loads(line) for line in listed]


# ------------------------------------------------------------------------------------------------ ingest


@pytest.mark.parametrize("write", [write_hub, write_drive])
def test_ingest_gives_the_same_items_from_both_forms(write: Any, tmp_path: Path) -> None:
    dataset, rejected = ingested(write(tmp_path / "source"), tmp_path / "data")
    samples = {sample.sample_id: sample for sample in dataset.samples()}
    assert not rejected
    assert sorted(samples) == sorted(sample["image_name"] for sample in rows())
    assert Counter(sample.subset for sample in samples.values()) == {"VCR": 8, "Ego4D": 4}
    sample = samples[row(2)["image_name"]]
    assert sample.data["indirect"] == "person1, it is rather cold in here, number 2."
    assert sample.data["ordering"] == ["C", "A", "B", "D"]
    assert sample.data["readings"]["ne"] == "The speaker wants person1 to bring the curtain 2."
    assert sample.data["tags"] == "distributed"
    assert sample.cluster == sample.media[0].sha256 == hashlib.sha256(picture(3, tags=BOXES[:1])).hexdigest()
    assert "leaks" not in json.dumps(dict(sample.data))


def test_read_reports_irregularities_of_a_small_set(tmp_path: Path) -> None:
    data = rows(3, 1)
    data[1]["mcq"]["2_fake_scene"] = data[1]["mcq"]["1_correct"]
    _, _, notices = read(write_hub(tmp_path, data))
    assert notices == [
        "3 VCR, 1 Ego4D items; the published set has 1,144 VCR, 533 Ego4D",
        f"two readings are equal in {data[1]['image_name']}",
    ]
    for entry in data:
        entry["mcq"]["ordering"] = ["A", "B", "C", "D"]
    _, _, notices = read(write_hub(tmp_path, data))
    assert "gold letters are uneven: A 100.0%, B 0.0%, C 0.0%, D 0.0%; 20% to 30% each are expected" in notices


def broken() -> list[dict[str, Any]]:
    data = rows(9, 0)
    data[0]["indirect"] = "   "
    data[1]["mcq"]["3_surface_understanding"] = ""
    data[2]["mcq"]["ordering"] = ["A", "B", "C", "E"]
    data[3]["mcq"]["ordering"] = ["A", "B", "C"]
    data[4]["image_name"] = data[5]["image_name"]
    return data


REASONS = {
    0: ("indirect",),
    1: ("mcq.3_surface_understanding",),
    2: ("mcq.ordering", "A, B, C and D in some order"),
    3: ("mcq.ordering", "A, B, C and D in some order"),
}


@pytest.mark.parametrize("write", [write_hub, write_drive])
def test_ingest_rejects_bad_rows_one_by_one(write: Any, tmp_path: Path) -> None:
    data = broken()
    dataset, rejected = ingested(write(tmp_path / "source", data), tmp_path / "data")
    reasons = {entry["item"]: entry["reason"] for entry in rejected}
    assert [entry.sample_id for entry in dataset.samples()] == [entry["image_name"] for entry in data[5:]]
    for number, words in REASONS.items():
        assert all(word in reasons[data[number]["image_name"]] for word in words)
    assert "first row" in reasons[data[5]["image_name"]]
    assert len(rejected) == 5


def test_ingest_rejects_hub_rows_without_picture(tmp_path: Path) -> None:
    cells = {1: None, 2: {"bytes": b"", "path": None}, 3: {"bytes": b"\xff\xd8no", "path": None}}
    dataset, rejected = ingested(write_hub(tmp_path / "source", rows(4, 0), cells=cells), tmp_path / "data")
    assert [entry.sample_id for entry in dataset.samples()] == [row(0)["image_name"]]
    assert [entry["reason"].partition(":")[0] for entry in rejected[:2]] == ["no picture", "no picture"]
    assert "cannot be decoded" in rejected[2]["reason"]
    assert rejected[0]["file"] == "data/train-00000-of-00001.parquet"


@pytest.mark.parametrize("tagged", [True, False])
def test_ingest_rejects_folder_rows_without_picture(tagged: bool, tmp_path: Path) -> None:
    source = write_drive(tmp_path / "source", tagged=tagged)
    (source / "annotated_images" / f"{row(3)['image_name']}_annot.jpg").unlink()
    dataset, rejected = ingested(source, tmp_path / "data")
    assert len(list(dataset.samples())) == 11
    (entry,) = rejected
    assert entry["item"] == row(3)["image_name"]
    assert "annotated_images/" in entry["reason"]


def test_rejections_name_malformed_rows_by_index(tmp_path: Path) -> None:
    source = write_drive(tmp_path, rows(1, 1))
    path = source / "vcr_1144_final.json"
    path.write_text(json.dumps([*json.loads(path.read_text()), "text", {"mcq": 3}, {**row(3), "image_name": "../x@0"}]))
    _, rejections, _ = read(source)
    assert [rejection.item for rejection in rejections] == ["row 2", "row 3", "../x@0"]
    assert "not a file name" in rejections[2].reason


def old_row(number: int) -> dict[str, Any]:
    new = row(number)
    mcq = new["mcq"]
    names = ("2_incorrect_fake_scene", "3_incorrect_surface_understanding", "4_incorrect_entity")
    old = dict(zip(names, [mcq["2_fake_scene"], mcq["3_surface_understanding"], mcq["4_wrong_entity"]], strict=True))
    return {**new, "mcq": {"1_correct": mcq["1_correct"], **old, "ordering": mcq["ordering"]}}


@pytest.mark.parametrize("write", [write_hub, write_drive])
def test_read_refuses_version_1(write: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"VAGUE 1\.0 .*version 2\.0"):
        read(write(tmp_path, [old_row(n) for n in range(3)]))


def test_read_refuses_version_1_under_any_file_name(tmp_path: Path) -> None:
    (tmp_path / "final.json").write_text(json.dumps([old_row(0)]))
    with pytest.raises(SourceError, match=r"VAGUE 1\.0"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("notes.txt", b"", "no data of VAGUE"),
        ("dataset_info.json", b"{}", "no data of VAGUE"),
        ("vcr_1144_final.json", b"{}", "an array"),
        ("vcr_1144_final.json", b"[{", "not readable as JSON"),
        ("ego4d_533_final.json", b"\xff\xfe", "not readable as JSON"),
        ("data/train-00000-of-00001.parquet", b"PAR1", "cannot be read as Parquet"),
    ],
)
def test_read_refuses_a_folder_of_other_files(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=words):
        read(tmp_path)


def test_read_refuses_a_parquet_file_of_other_columns(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"image": [b""], "text": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="no column image_name, indirect, mcq; found image, text"):
        read(tmp_path)


# ----------------------------------------------------------------------------------------- human items


def test_human_subset_follows_the_users_list(tmp_path: Path) -> None:
    source = write_hub(tmp_path)
    (source / "human400_ids.txt").write_text(f"{row(3)['image_name']}\n\n {row(5)['image_name']} \nnobody\n")
    samples, _, notices = read(source)
    assert {sample.sample_id for sample in samples if sample.data["human"] == "human-400"} == {
        row(3)["image_name"],
        row(5)["image_name"],
    }
    assert "human400_ids.txt: nobody not among the usable items" in notices
    assert "human400_ids.txt: 3 items, where a human answered 400" in notices


def test_human_subset_falls_back_to_the_best_rated_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.benchmarks.vague.benchmark.HUMAN_ITEMS", 5)
    data = rows(12, 0)
    for number, entry in enumerate(data):
        entry["meta"]["rating"] = {"direct": 5, "indirect": 5 if number in (2, 7, 9) else 4}
    del data[4]["meta"]["rating"]
    samples, _, _ = read(write_drive(tmp_path, data))
    chosen = {sample.sample_id for sample in samples if sample.data["human"] == "human-400-approx"}
    best = {data[n]["image_name"] for n in (2, 7, 9)}
    others = sorted(
        (data[n]["image_name"] for n in range(12) if n not in (2, 4, 7, 9)),
        key=lambda name: hashlib.sha256(name.encode()).hexdigest(),
    )
    assert chosen == best | set(others[:2])
    assert {sample.data["human"] for sample in samples} == {"human-400-approx", ""}


# -------------------------------------------------------------------------------------------------- tags


def test_read_draws_tags_on_untagged_pictures(tmp_path: Path) -> None:
    samples, _, notices = read(write_drive(tmp_path, tagged=False))
    assert {sample.data["tags"] for sample in samples} == {"drawn"}
    assert "tags: drawn on the pictures of VCR: of 12 people checked, 0 carry their number as distributed" in notices
    sample = next(sample for sample in samples if len(BOXES[: sample.data["people"]]) == 2)
    content = sample.media[0].content
    assert content is not None
    assert count_tagged_boxes(content, [(a, b, c, d) for a, b, c, d in BOXES], (WIDTH, HEIGHT), pixels) == (2, 2)


def test_read_checks_tags_by_subset_and_tolerates_one_in_ten_hidden(tmp_path: Path) -> None:
    data = rows(20, 2)
    source = write_drive(tmp_path, data)
    for entry in data[20:]:
        (source / "ego4d_final_annotated" / f"{entry['image_name']}_annot.jpg").write_bytes(picture(1))
    (source / "annotated_images" / f"{data[0]['image_name']}_annot.jpg").write_bytes(picture(2))
    samples, _, notices = read(source)
    assert Counter((sample.subset, sample.data["tags"]) for sample in samples) == {
        ("VCR", "distributed"): 20,
        ("Ego4D", "drawn"): 2,
    }
    assert sum(note.startswith("tags:") for note in notices) == 1


def test_draw_tags_draws_white_digits_on_black_at_the_centre_of_the_box() -> None:
    plain = picture(1, form="PNG")
    before, after = (
        np.asarray(Image.open(io.BytesIO(c))) for c in (plain, draw_tags(plain, [(10, 10, 70, 100)], None, pixels))
    )
    changed = np.argwhere((before != after).any(axis=2))
    (top, left), (bottom, right) = changed.min(axis=0), changed.max(axis=0)
    # One digit is 23 pixels wide; the box's centre is (40, 55).
    assert (left, right) == (pytest.approx(40 - 13.5, abs=1), pytest.approx(40 + 13.5, abs=1))
    assert (top, bottom) == (pytest.approx(55 - 13.5, abs=1), pytest.approx(55 + 25, abs=1))
    plate = after[top : bottom + 1, left : right + 1]
    assert plate.max() == 255
    assert plate.min() == 0
    assert (plate[:2] == 0).all()


def test_count_tagged_boxes_scales_boxes_to_the_picture() -> None:
    half = [(5.0, 5.0, 35.0, 50.0)]
    assert count_tagged_boxes(picture(1, tags=BOXES[:1]), half, (WIDTH / 2, HEIGHT / 2), pixels) == (1, 1)
    assert count_tagged_boxes(picture(1, tags=BOXES[:1]), half, None, pixels) == (0, 1)


@pytest.mark.parametrize("content", [b"", b"\xff\xd8broken", b"GIF89a"])
def test_draw_tags_keeps_undecodable_content(content: bytes) -> None:
    assert draw_tags(content, [(1, 2, 3, 4)], None, pixels) == content
    assert count_tagged_boxes(content, [(1, 2, 3, 4)], None, pixels) == (0, 0)


# ---------------------------------------------------------------------------------------------- requests


def test_request_builder_shares_captions_and_pictures_between_settings(tmp_path: Path) -> None:
    dataset, _ = ingested(write_hub(tmp_path / "source"), tmp_path / "data")
    target = target_of(
        benchmark_name="vague", dataset_fingerprint="f", model="m",
        task_settings=tuple(selected_groups(BENCHMARK, [], [])), seed=1,
    )  # fmt: skip
    requests = [request for item in dataset.samples() for request in build_requests(target, item)]
    items = 12
    assert len({request.request_id for request in requests}) == len(requests) == 10 * items
    groups = Counter(request.group for request in requests)
    assert groups.pop("") == 2 * items
    assert set(groups.values()) == {8}
    # One caption, two choices, two free answers see the picture.
    seeing = {
        (request.group, step.turns[0].parts[1])
        for request in requests
        for step in request.request.steps
        if any(isinstance(part, Media) for part in step.turns[0].parts)
    }
    assert len(seeing) == 5 * items
