"""Ingest of V-FLUTE in every form as distributed, with each rejection and notice."""

import ast
import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from models.messages import Text
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.records import MediaFile, RawSample, Rejection, Sample, SourceWarning
from pipelines.benchmarks.vflute.benchmark import BENCHMARK
from pipelines.benchmarks.vflute.facts import SUBSETS, subset_of
from pipelines.benchmarks.vflute.prompts import TEXTS, build_prompt
from pipelines.benchmarks.vflute.source import EXEMPLARS, digest_of
from pipelines.errors import SourceError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support.paths import SHARED_DATA
from tests.support.vflute_source import TEMPLATES, picture, rows, write_csv, write_json, write_parquet, write_pictures

REAL = SHARED_DATA / "vflute" / "vflute-v2-test-first400.csv"


def read(folder: Path) -> tuple[list[RawSample], list[Rejection], list[str]]:
    records = list(BENCHMARK.source(Folder(str(folder)), {}))
    samples = [record for record in records if isinstance(record, RawSample)]
    rejections = [record for record in records if isinstance(record, Rejection)]
    return samples, rejections, [record.message for record in records if isinstance(record, SourceWarning)]


def ingested(folder: Path, data: Path) -> dict[str, Sample]:
    ingest_benchmark(BENCHMARK, Folder(str(folder)), Store(str(data)))
    return {sample.sample_id: sample for sample in Dataset.open(Store(str(data)), "vflute").samples()}


def content_of(medium: MediaFile) -> bytes:
    assert medium.content is not None
    return medium.content


# ---------------------------------------------------------------------------------------------------- authors' files


@pytest.mark.parametrize("below", ["", "images"])
@pytest.mark.parametrize("write", [write_json, write_csv])
def test_read_joins_the_authors_file_with_picture_files(write: Any, below: str, tmp_path: Path) -> None:
    data = rows()
    write(tmp_path / "s", data)
    write_pictures(tmp_path / "s" / below, data)
    samples = ingested(tmp_path / "s", tmp_path / "d")
    assert set(samples) == {row["id"] for row in data}
    sample = samples["irfl-test-1"]
    assert (sample.subset, sample.category) == ("IRFL (idiom)", "Idiom")
    assert sample.data == {
        "source": "irfl", "phenomenon": "idiom", "claim": data[1]["claim"], "label": "entailment",
        "explanation": data[1]["explanation"], "prompt": TEMPLATES[1], "shots": [],
    }  # fmt: skip
    assert sample.media[0].role == "picture"
    assert sample.cluster == sample.media[0].sha256


def test_rows_that_share_a_picture_are_one_cluster(tmp_path: Path) -> None:
    data = rows()
    write_pictures(write_json(tmp_path / "s", data), data)
    samples = ingested(tmp_path / "s", tmp_path / "d")
    assert samples["memecap-test-2"].cluster == samples["memecap-test-8"].cluster
    assert samples["vismet-test-5"].cluster != samples["vismet-test-11"].cluster
    assert len({sample.cluster for sample in samples.values()}) == 10


def test_read_keeps_texts_unchanged(tmp_path: Path) -> None:
    data = rows(4)
    for row, claim in zip(data, ("NA", "null", 'say "so"?', "née emoji_12 {claim}\r\n  {instruction}"), strict=True):
        row["claim"] = claim
    write_pictures(write_json(tmp_path, data), data)
    samples, rejections, _ = read(tmp_path)
    assert [sample.data["claim"] for sample in samples] == [row["claim"] for row in data]
    assert not rejections


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"label": "neutral"}, "label: must be 'entailment' or 'contradiction', not 'neutral'"),
        ({"label": None}, "label: "),
        ({"claim": "  "}, "claim: is empty"),
        ({"claim": 7}, "claim: must be text, not 7"),
        ({"explanation": None}, "explanation: "),
        ({"source_dataset": "flickr"}, "source_dataset is 'flickr'"),
        ({"source_dataset": "irfl", "phenomenon": "humor"}, "phenomenon is 'humor'"),
        ({"prompt": "Yes or no?"}, "no REPLACE_CLAIM"),
        ({"prompt": None}, "prompt: "),
        ({"id": None}, "id: "),
        ({"image": "../secret.png"}, "leaves the folder"),
        ({"image": "/etc/passwd"}, "leaves the folder"),
        ({"image": "a/../../b.png"}, "leaves the folder"),
        ({"image": "s3://bucket/x.png"}, "leaves the folder"),
        ({"image": ""}, "no picture path"),
        ({"image": "irfl/test/77.png"}, "found neither irfl/test/77.png nor images/irfl/test/77.png"),
    ],
)
def test_ingest_rejects_one_bad_row_only(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    data = rows(3)
    write_pictures(tmp_path, data)
    data[1] |= change
    write_json(tmp_path, data)
    samples, rejections, _ = read(tmp_path)
    assert [sample.sample_id for sample in samples] == ["irfl-test-0", "memecap-test-2"]
    [rejection] = rejections
    assert rejection.file == "vflute-v2-test.json"
    assert rejection.item == (data[1]["id"] or "row 2 of vflute-v2-test.json")
    assert reason in rejection.reason


def test_read_rejects_malformed_rows_and_duplicate_ids(tmp_path: Path) -> None:
    data = rows(2)
    write_pictures(tmp_path, data)
    write_json(tmp_path, [data[0], "row", data[1], {**data[0], "claim": "another"}])
    samples, rejections, _ = read(tmp_path)
    assert [sample.data["claim"] for sample in samples] == [row["claim"] for row in data]
    assert [rejection.item for rejection in rejections] == ["row 2 of vflute-v2-test.json", "irfl-test-0"]
    assert "duplicate id" in rejections[1].reason


def test_ingest_rejects_a_row_with_an_undecodable_picture(tmp_path: Path) -> None:
    data = rows(3)
    write_pictures(write_json(tmp_path / "s", data), data)
    (tmp_path / "s" / data[0]["image"]).write_bytes(picture(9)[:40])
    assert set(ingested(tmp_path / "s", tmp_path / "d")) == {data[1]["id"], data[2]["id"]}
    assert "cannot be decoded" in (tmp_path / "d" / "vflute" / "rejected.jsonl").read_text()


def test_read_keeps_and_reports_irregular_rows(tmp_path: Path) -> None:
    data = rows(6)
    data[5]["claim"] = "Label: entailment\r\nClaim: a fly on a visor"
    data[3]["phenomenon"] = "simile"
    (tmp_path / data[3]["image"]).parent.mkdir(parents=True)
    write_json(tmp_path, data)
    for n, row in enumerate(data):
        (tmp_path / row["image"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / row["image"]).write_bytes(picture(n))
    samples, rejections, notices = read(tmp_path)
    assert len(samples) == 6
    assert not rejections
    assert [sample.subset for sample in samples][3] == "MuSE"
    assert any("label left from annotation, kept: vismet-test-5" in text for text in notices)
    assert any("phenomenon does not belong to the source, kept: muse-test-3" in text for text in notices)
    assert any("6 of the 723 test rows" in text for text in notices)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vflute-v2-test.json", b"[{", "cannot be read"),
        ("vflute-v2-test.json", b"\xff\xfe\x00", "cannot be read"),
        ("vflute-v2-test.json", b"{}", "expected a list of rows"),
        ("vflute-v2-test.csv", b"id,claim\n1,x\n", "no column source_dataset, phenomenon, path"),
        ("data/test-00000-of-00001.parquet", b"PAR1", "cannot be read as Parquet"),
        ("other.json", b"[]", "neither vflute-v2-test.json nor vflute-v2-test.csv"),
    ],
)
def test_read_refuses_other_sources(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        read(tmp_path)


# ------------------------------------------------------------------------------------------------------- hub's files


def test_read_of_hub_files_gives_ids_by_index_and_no_instruction(tmp_path: Path) -> None:
    data = rows(12)
    samples, rejections, notices = read(write_parquet(tmp_path, "test", [data[:7], data[7:]]))
    assert [sample.sample_id for sample in samples] == [row["id"] for row in data]
    assert [sample.data["prompt"] for sample in samples] == [""] * 12
    assert not rejections
    assert any("no vflute-v2-test.json: their prompts use this project's own wording" in text for text in notices)


def test_read_joins_both_sources_by_id(tmp_path: Path) -> None:
    data = rows(12)
    write_parquet(tmp_path, "test", [data])
    write_csv(tmp_path, list(reversed(data)))
    samples, rejections, notices = read(tmp_path)
    assert {sample.sample_id: sample.data["prompt"] for sample in samples} == {row["id"]: row["prompt"] for row in data}
    assert content_of(samples[4].media[0]) == picture(5004)
    assert not rejections
    assert not any("instruction" in text for text in notices)


def test_read_keeps_rows_of_one_source(tmp_path: Path) -> None:
    data = rows(12)
    write_parquet(tmp_path, "test", [data[:10]])
    write_json(tmp_path, data[2:])
    write_pictures(tmp_path, data[10:11])
    samples, rejections, notices = read(tmp_path)
    assert [sample.sample_id for sample in samples] == [row["id"] for row in data[:11]]
    assert any("2 rows have no instruction in vflute-v2-test.json" in text for text in notices)
    [rejection] = rejections
    assert rejection.item == data[11]["id"]
    assert "data/test-*.parquet has no such id" in rejection.reason


def test_read_rejects_rows_that_differ_between_sources(tmp_path: Path) -> None:
    data = rows(6)
    write_parquet(tmp_path, "test", [data])
    write_json(tmp_path, [{**data[0], "claim": data[0]["claim"] + "\r\n"}, {**data[1], "label": "contradiction"}])
    samples, rejections, _ = read(tmp_path)
    assert data[0]["id"] in {sample.sample_id for sample in samples}
    assert [(rejection.item, "`label` differs between" in rejection.reason) for rejection in rejections] == [
        (data[1]["id"], True)
    ]


def test_read_rejects_hub_rows_without_picture_or_with_a_wrong_field(tmp_path: Path) -> None:
    data = rows(6)
    data[1]["picture"], data[2]["label"], data[3]["claim"] = None, "neutral", None
    samples, rejections, _ = read(write_parquet(tmp_path, "test", [data]))
    assert [sample.sample_id for sample in samples] == [data[n]["id"] for n in (0, 4, 5)]
    assert [rejection.item for rejection in rejections] == [data[n]["id"] for n in (1, 2, 3)]
    assert rejections[0].reason == "the row has no picture"


def test_read_refuses_a_split_with_a_missing_file(tmp_path: Path) -> None:
    data = rows(12)
    write_parquet(tmp_path, "test", [data[:7], data[7:]])
    (tmp_path / "data" / "test-00000-of-00002.parquet").unlink()
    with pytest.raises(SourceError, match="1 of 2 files of the test split"):
        read(tmp_path)


def test_read_refuses_a_file_without_a_column(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"claim": ["x"]}), tmp_path / "data" / "test-00000-of-00001.parquet")
    with pytest.raises(SourceError, match="no column label, explanation"):
        read(tmp_path)


# --------------------------------------------------------------------------------------------------------- exemplars


def expected(train: list[dict[str, Any]]) -> list[str]:
    """Repeat the selection in a slow way."""
    order = sorted(range(len(train)), key=lambda n: hashlib.sha256(f"42|train|{n}".encode()).hexdigest())
    taken: list[int] = []
    for source, label in EXEMPLARS:
        taken.append(
            next(
                n
                for n in order
                if n not in taken and (train[n]["source_dataset"], train[n]["label"]) == (source, label)
            )
        )
    return [train[n]["id"] for n in taken]


def test_exemplars_are_ten_fixed_training_rows(tmp_path: Path) -> None:
    test, train = rows(12), rows(96, "train")
    write_parquet(tmp_path / "s", "test", [test])
    write_parquet(tmp_path / "s", "train", [train[:50], train[50:]])
    write_json(tmp_path / "s", test)
    samples = ingested(tmp_path / "s", tmp_path / "d")
    shots = samples["irfl-test-0"].data["shots"]
    assert [shot["id"] for shot in shots] == expected(train)
    kinds = [(shot["id"].partition("-")[0], shot["label"]) for shot in shots]
    assert kinds == list(EXEMPLARS)
    assert all(sample.data["shots"] == shots for sample in samples.values())
    manifest = json.loads((tmp_path / "d" / "vflute" / "manifest.json").read_text())
    assert any(", ".join(expected(train)) in text for text in manifest["notices"])
    for shot in shots:
        index = int(shot["id"].rpartition("-")[2])
        assert shot["prompt"] == sorted(TEMPLATES)[int(digest_of(index), 16) % 3]
    for index, shot in enumerate(shots):
        ref = samples["irfl-test-0"].ref(f"shot/{index}")
        assert ref is not None
        assert ref.sha256 == hashlib.sha256(picture(20000 + int(shot["id"].rpartition("-")[2]))).hexdigest()


def test_exemplars_exclude_test_captions_and_undecodable_pictures(tmp_path: Path) -> None:
    test, train = rows(12), rows(96, "train")
    leaked, broken = expected(train)[:2]
    by_id = {row["id"]: row for row in train}
    by_id[leaked]["claim"] = test[3]["claim"]
    by_id[broken]["picture"] = b"no picture"
    write_parquet(tmp_path, "test", [test])
    write_parquet(tmp_path, "train", [train])
    samples, _, notices = read(tmp_path)
    shots = samples[0].data["shots"]
    assert [shot["id"] for shot in shots[2:5]] == expected(rows(96, "train"))[2:5]
    assert not {shot["id"] for shot in shots} & {leaked, broken}
    assert any("its picture cannot be decoded; the next one is used" in text for text in notices)
    assert {shot["prompt"] for shot in shots} == {""}


def test_exemplars_end_before_a_kind_that_the_training_split_lacks(tmp_path: Path) -> None:
    test, train = rows(6), [row for row in rows(96, "train") if row["source_dataset"] != "memecap"]
    write_parquet(tmp_path, "test", [test])
    write_parquet(tmp_path, "train", [train])
    samples, _, notices = read(tmp_path)
    assert len(samples[0].data["shots"]) == 3
    assert any("no few-shot exemplar of memecap/entailment, memecap/contradiction" in text for text in notices)
    assert any("3 of 10 few-shot exemplars" in text for text in notices)


@pytest.mark.parametrize("damage", ["absent", "part", "bytes"])
def test_exemplars_need_a_complete_training_split(damage: str, tmp_path: Path) -> None:
    write_parquet(tmp_path, "test", [rows(6)])
    train = rows(24, "train")
    if damage != "absent":
        write_parquet(tmp_path, "train", [train[:12], train[12:]])
        path = tmp_path / "data" / "train-00001-of-00002.parquet"
        path.unlink() if damage == "part" else path.write_bytes(b"PAR1 and no more")
    samples, _, notices = read(tmp_path)
    assert samples[0].data["shots"] == []
    assert sum("few-shot" in text and "excluded" in text for text in notices) == 1


# --------------------------------------------------------------------------------------------------------------- facts


def test_published_sizes_add_up() -> None:
    facts = load_dataset_facts("vflute")
    size = {key: int(value or 0) for key, value in facts.items() if "/" in key}
    for split in ("train", "valid", "test"):
        assert sum(size[f"{split}/{subset.name}"] for subset in SUBSETS) == size[f"{split}/Total"]
    assert sum(size[f"instances/{subset.name}"] for subset in SUBSETS) == int(facts["instances_total"])
    for name in (subset.name for subset in SUBSETS):
        assert size[f"instances/{name}"] == size[f"entailment/{name}"] + size[f"contradiction/{name}"]
        assert size[f"instances/{name}"] == sum(size[f"{split}/{name}"] for split in ("train", "valid", "test"))


def test_subset_of_maps_source_and_phenomenon() -> None:
    assert subset_of("irfl", "simile").name == "IRFL (metaphor/simile)"
    assert subset_of("irfl", "idiom").name == "IRFL (idiom)"
    assert subset_of("vismet", "simile").name == "HAIVMET"


def test_ingest_accepts_the_public_rows(tmp_path: Path) -> None:
    if not REAL.is_file():
        pytest.skip(f"the published rows are not at {REAL}")
    content = REAL.read_bytes()
    (tmp_path / "vflute-v2-test.csv").write_bytes(content)
    with REAL.open(newline="", encoding="utf-8") as file:
        published = list(csv.DictReader(file))
    for n, row in enumerate(published):
        (tmp_path / "images" / row["path"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / row["path"]).write_bytes(picture(n))
    samples, rejections, notices = read(tmp_path)
    assert len(samples) == 400
    assert not rejections
    assert any("vismet-test-689" in text for text in notices)
    assert len({sample.data["prompt"] for sample in samples}) == 21
    for raw, row in zip(samples, published, strict=True):
        sample = Sample(sample_id=raw.sample_id, data=raw.data)
        question = build_prompt(sample, "no-image", PromptTexts(TEXTS)).steps[0].turns[0].parts[1]
        authors = ast.literal_eval(row["transformed"])["conversations"][0]["value"]
        assert isinstance(question, Text)
        assert f"<image>\n{question.text}".splitlines() == authors.splitlines()
