"""UNPIE's source reader: file formats, rejected rows, notices, column maps."""

import base64
import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.records import RawSample, Rejection, SourceWarning
from pipelines.benchmarks.unpie.benchmark import BENCHMARK
from pipelines.benchmarks.unpie.download import PictureError
from pipelines.benchmarks.unpie.files import Columns, shape_of
from pipelines.benchmarks.unpie.pictures import PictureLoader
from pipelines.benchmarks.unpie.source import read_unpie
from pipelines.errors import SourceError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support.unpie_source import SPLITS, address, mirror, row, rows, write_jsonl, write_parquet, write_source


def offline(address: str) -> bytes:
    del address
    raise PictureError("HTTP 404")


def read(folder: Path, column_map: Mapping[str, str] | None = None) -> list[RawSample | Rejection | SourceWarning]:
    source = Folder(str(folder))
    return list(read_unpie(source, column_map, PictureLoader(source, offline)))


def good(items: list[Any]) -> list[RawSample]:
    return [item for item in items if isinstance(item, RawSample)]


def notices(items: list[Any]) -> list[str]:
    return [item.message for item in items if isinstance(item, SourceWarning)]


def rejected(items: list[Any]) -> list[tuple[str, str]]:
    return [(item.item, item.reason) for item in items if isinstance(item, Rejection)]


def test_ingest_reads_the_distributed_form(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", 3)
    result = ingest_benchmark(BENCHMARK, Folder(str(source)), Store(str(tmp_path / "data")))
    samples = {sample.sample_id: sample for sample in Dataset.open(Store(str(tmp_path / "data")), "unpie").samples()}
    assert sorted(samples) == [f"{split}/{index:04d}" for split in sorted(SPLITS) for index in range(3)]
    assert (result.rejections, result.manifest.media) == ((), 18)
    assert result.manifest.counts == {"Hetero": 3, "Homo": 3}
    pun = samples["heterographic/0002"]
    assert [ref.role for ref in pun.media] == ["explanation", "disambiguator/0", "disambiguator/1"]
    assert pun.cluster == pun.media[0].sha256
    assert pun.data["translation"][1]["fr"] == row("heterographic", 2)["translation2"]["fr"]
    assert pun.data["gloss"] == ["work dough", "want"]
    assert len(pun.data["content_sha"]) == 64
    assert [text for text in result.manifest.notices if "coverage" in text] == [
        f"{split}: picture coverage: 3 of 3 explanation pictures (100.0%), 6 of 6 disambiguator pictures (100.0%)"
        for split in SPLITS
    ]
    assert "homographic: 3 rows, 500 are published" in result.manifest.notices


def test_full_splits_have_no_notice_of_their_size(tmp_path: Path) -> None:
    short = [{**pun, "disamb_image1": "", "disamb_image2": "", "pun_exp_image": None} for pun in rows(SPLITS[0], 500)]
    for split in SPLITS:
        write_jsonl(tmp_path / f"{split}.jsonl", short)
    items = read(tmp_path)
    assert len(good(items)) == 1000
    assert not [text for text in notices(items) if "are published" in text]


def flat(pun: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as a CSV file may hold it: a struct as JSON, the other flattened, the picture as base64."""
    flattened = {
        key: value for key, value in pun.items() if key not in ("translation1", "translation2", "pun_exp_image")
    }
    flattened["translation1"] = json.dumps(pun["translation1"], ensure_ascii=False)
    flattened |= {f"translation2.{lang}": text for lang, text in pun["translation2"].items()}
    return {**flattened, "pun_exp_image": base64.b64encode(pun["pun_exp_image"]["bytes"]).decode()}


def write_csv(path: Path, content: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(content[0]))
        writer.writeheader()
        writer.writerows(content)


def as_json(path: Path, content: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8-sig")


def with_data_uri(pun: dict[str, Any]) -> dict[str, Any]:
    return {**pun, "pun_exp_image": f"data:image/png;base64,{base64.b64encode(pun['pun_exp_image']['bytes']).decode()}"}


FORMS: dict[str, Callable[[Path, str], None]] = {
    "parquet": lambda folder, split: write_parquet(folder / "data" / f"{split}-00000-of-00001-ab.parquet", rows(split)),
    "shards": lambda folder, split: [  # type: ignore[func-returns-value]
        write_parquet(folder / "data" / f"{split}-0000{n}-of-00002.parquet", [pun]) for n, pun in enumerate(rows(split))
    ],
    "configurations": lambda folder, split: write_parquet(folder / split / "test-00000.parquet", rows(split)),
    "jsonl": lambda folder, split: write_jsonl(folder / f"{split}.jsonl", [with_data_uri(pun) for pun in rows(split)]),
    "json": lambda folder, split: as_json(folder / f"{split}.json", [with_data_uri(pun) for pun in rows(split)]),
    "csv": lambda folder, split: write_csv(folder / f"{split}.csv", [flat(pun) for pun in rows(split)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_format_reads_the_same(tmp_path: Path, form: str) -> None:
    for split in SPLITS:
        FORMS[form](tmp_path, split)
    mirror(tmp_path, [address(split, index, meaning) for split in SPLITS for index in range(2) for meaning in range(2)])
    write_source(tmp_path / "hub")
    samples, expected = good(read(tmp_path)), good(read(tmp_path / "hub"))
    assert [replace(pun, file="") for pun in samples] == [replace(pun, file="") for pun in expected]
    assert len(samples) == 4


def test_one_file_may_hold_both_splits(tmp_path: Path) -> None:
    kinds = zip(("Homo", "heterographic"), SPLITS, strict=True)
    both = [{**with_data_uri(pun), "category": kind} for kind, split in kinds for pun in rows(split)]
    write_jsonl(tmp_path / "puns.jsonl", [*both, {**both[0], "category": "other"}])
    items = read(tmp_path)
    assert [(pun.sample_id, pun.category) for pun in good(items)] == [
        ("homographic/0000", "Homo"),
        ("homographic/0001", "Homo"),
        ("heterographic/0000", "Hetero"),
        ("heterographic/0001", "Hetero"),
    ]
    assert rejected(items) == [("row 5 of the file", "`category` must be Homo or Hetero")]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"pun_sentence": "  "}, "the sentence is empty"),
    ({"pun_sentence": None}, "the sentence is empty"),
    ({"pun_phrase": ""}, "the phrase is empty"),
    ({"pun_sentence": 7}, "`pun_sentence` must be text, not int"),
    ({"translation1": {"de": ["x"]}}, "`translation1.de` must be text, not list"),
    ({"translation1": {"de": "", "fr": None}, "translation2": {}}, "both translations of all languages are empty"),
    ({"translation1": None, "translation2": None}, "both translations of all languages are empty"),
]


@pytest.mark.parametrize(("change", "reason"), BAD)
def test_bad_row_rejects_only_itself(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    content = [with_data_uri(pun) for pun in rows("homographic", 3)]
    content[1] |= change
    write_jsonl(tmp_path / "homographic.jsonl", content)
    items = read(tmp_path)
    assert rejected(items) == [("homographic/0001", reason)]
    assert [pun.sample_id for pun in good(items)] == ["homographic/0000", "homographic/0002"]


def test_unreadable_lines_are_rejected(tmp_path: Path) -> None:
    lines = [
        json.dumps(with_data_uri(row("homographic", 0))),
        "{broken",
        "[1, 2]",
        json.dumps(with_data_uri(row("homographic", 3))),
    ]
    (tmp_path / "homographic.jsonl").write_text("\n".join(lines))
    items = read(tmp_path)
    assert [pun.sample_id for pun in good(items)] == ["homographic/0000", "homographic/0003"]
    assert [item for item, _ in rejected(items)] == ["homographic/0001", "homographic/0002"]
    assert "not JSON" in rejected(items)[0][1]


def test_suspicious_data_is_reported_in_notices(tmp_path: Path) -> None:
    content = [with_data_uri(pun) for pun in rows("homographic", 5)]
    content[0]["pun_phrase"] = "absent words"
    content[1]["translation2"] = {**content[1]["translation1"], "de": content[1]["translation1"]["de"].upper() + "!"}
    content[2]["translation1"] = {**content[2]["translation1"], "ko": "no hangul here"}
    content[3]["pun_exp_image"] = content[4]["pun_exp_image"]
    content[4]["pun_phrase"] = "KNEADED"
    write_jsonl(tmp_path / "homographic.jsonl", content)
    messages = notices(read(tmp_path))
    assert "the phrase does not occur in its sentence: 1 (homographic/0000)" in messages
    for language in ("German", "French", "Korean"):
        notice = f"degenerate_pair: both {language} translations are equal, always a tie: 1 (homographic/0001)"
        assert notice in messages
    assert "a Korean translation without Hangul: 1 (homographic/0002)" in messages
    assert "a picture that another pun has, too: 1 (homographic/0004)" in messages
    (coverage,) = (text for text in messages if "coverage" in text)
    assert "5 of 5 explanation pictures (100.0%), 0 of 10 disambiguator pictures (0.0%)" in coverage
    assert coverage.endswith("excluded as image_missing: HTTP 404 (10)")


@pytest.mark.parametrize(
    ("absent", "tasks"),
    [
        ("pun_phrase", "grounding"),
        ("pun_exp_image", "grounding and reconstruction with a picture or a caption"),
        ("disamb_image2", "disambiguation"),
        ("translation1", "disambiguation, reconstruction"),
    ],
)
def test_missing_column_excludes_its_tasks_with_a_notice(tmp_path: Path, absent: str, tasks: str) -> None:
    content = [{k: v for k, v in with_data_uri(pun).items() if k != absent} for pun in rows("homographic")]
    write_jsonl(tmp_path / "homographic.jsonl", content)
    items = read(tmp_path)
    assert len(good(items)) == 2
    assert any(
        text.startswith("homographic.jsonl: no column") and text.endswith(f"excluded: {tasks}")
        for text in notices(items)
    )


def renamed(pun: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "p" + pun["disamb_image1"].split("/")[-2],
        "text": {"en": pun["pun_sentence"], "pun": pun["pun_phrase"]},
        "targets": [pun["translation1"], pun["translation2"]],
        "photos": [{"url": pun["disamb_image1"]}, {"url": pun["disamb_image2"]}],
        "common": 1,
    }


MAP = {
    "sample_id": "id",
    "sentence": "text.en",
    "phrase": "text.pun",
    "translation": "targets",
    "disamb_image[0]": "photos[0].url",
    "disamb_image[1]": "photos[1].url",
    "freq_rank": "common",
}


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_column_map_renames_columns(tmp_path: Path, form: str) -> None:
    content = [renamed(pun) for pun in rows("homographic")]
    write = write_parquet if form == "parquet" else write_jsonl
    write(tmp_path / f"homographic.{form}", content)
    mirror(tmp_path, [address("homographic", 0, meaning) for meaning in range(2)])
    first, second = good(read(tmp_path, MAP))
    assert first.sample_id == "p0"
    assert first.data["sentence"] == row("homographic", 0)["pun_sentence"]
    assert first.data["translation"][1] == row("homographic", 0)["translation2"]
    assert first.data["frequent"] == 1
    assert [file.role for file in first.media] == ["disambiguator/0", "disambiguator/1"]
    assert second.media == ()


def test_unknown_column_lists_the_known_ones(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "homographic.jsonl", rows("homographic", 0) or [renamed(row("homographic", 0))])
    with pytest.raises(
        SourceError,
        match=r"no 'text\.english' for 'sentence'; did you mean 'text\.en'\?; columns found: id, text, text\.en",
    ):
        read(tmp_path, {**MAP, "sentence": "text.english"})
    with pytest.raises(SourceError, match=r"no 'pun_sentence' for 'sentence'; .*--column-map"):
        read(tmp_path)
    with pytest.raises(SourceError, match="unknown name 'words'"):
        ingest_benchmark(BENCHMARK, Folder(str(tmp_path)), Store(str(tmp_path / "data")), column_map={"words": "text"})


def test_more_specific_name_of_a_column_map_wins() -> None:
    columns = Columns.from_map({"translation": "t", "translation[1]": "second", "translation[1].ko": "korean"})
    assert columns.paths["translation[0].de"] == "t[0].de"
    assert columns.paths["translation[1].fr"] == "second.fr"
    assert columns.paths["translation[1].ko"] == "korean"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.text("abc.[]0", min_size=1, max_size=5), st.one_of(st.none(), st.text(), st.lists(st.integers())), max_size=4
    ),
    st.text("abc.[]0", max_size=8),
)
def test_columns_get_accepts_any_path_and_row(content: dict[str, Any], path: str) -> None:
    columns = replace(Columns.from_map(None), paths={"sentence": path})
    value = columns.get(content, "sentence")
    assert value is None or not columns.check(shape_of(content), "here")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (1.0, 1), ("1", 1), ([1, 2], 0), ([2, 1], 1), ([1, 1], None), (2, None), (True, None), (None, None)],
)
def test_frequent_meaning_is_read_from_index_or_ranks(tmp_path: Path, value: Any, expected: int | None) -> None:
    write_jsonl(tmp_path / "homographic.jsonl", [{**with_data_uri(row("homographic", 0)), "freq_rank": value}])
    items = read(tmp_path)
    assert good(items)[0].data["frequent"] == expected
    assert any("freq_rank" in text for text in notices(items)) == (expected is None)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no Parquet, JSON, JSONL or CSV file"),
        ({"readme.md": "x"}, "no Parquet, JSON, JSONL or CSV file"),
        ({"homographic.jsonl": "{}", "homographic.csv": "a"}, "in several formats"),
        ({"homographic.json": "{"}, "cannot be read"),
        ({"homographic.json": '{"a": 1}'}, "a list of rows was expected"),
        ({"homographic.parquet": "PAR1"}, "cannot be read"),
        ({"homographic.csv": ""}, "cannot be read"),
    ],
)
def test_source_without_usable_data_is_an_error(tmp_path: Path, files: dict[str, str], why: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=why):
        read(tmp_path)


def test_ingest_reports_ids_that_now_hold_another_pun(tmp_path: Path) -> None:
    data = Store(str(tmp_path / "data"))
    source = Folder(str(write_source(tmp_path / "source", 3)))

    def changes() -> list[str]:
        return [
            text
            for text in ingest_benchmark(BENCHMARK, source, data).manifest.notices
            if "differs from the previous ingest" in text
        ]

    assert changes() == []
    assert changes() == []
    file = tmp_path / "source" / "data" / "homographic-00000-of-00001-0123456789abcdef.parquet"
    write_parquet(file, rows("homographic", 3)[1:])
    (notice,) = changes()
    assert "homographic/0000, homographic/0001;" in notice
    assert changes() == []
