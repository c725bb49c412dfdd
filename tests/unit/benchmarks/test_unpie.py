"""UNPIE read in, asked and read: every form of the data, the order of what is asked, scorers and judge."""

import base64
import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.messages import Generation, Media, Text
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import (
    JudgeAsk,
    MediaRef,
    Notice,
    Prompt,
    PromptTexts,
    RawSample,
    Rejection,
    Sample,
    SourceError,
    Verdict,
)
from pipelines.benchmarks.unpie import BENCHMARK
from pipelines.benchmarks.unpie_columns import Columns, shape_of
from pipelines.benchmarks.unpie_pictures import PictureError, Pictures
from pipelines.benchmarks.unpie_source import read_unpie
from pipelines.dataset import Dataset
from pipelines.ingest import Folder, ingest
from pipelines.store import Store
from tests.support.unpie_rows import SIX, asked, sample
from tests.support.unpie_source import (
    SPLITS,
    address,
    mirror,
    picture,
    row,
    rows,
    write_jsonl,
    write_parquet,
    write_source,
)

TEXTS = PromptTexts(BENCHMARK.prompt_texts)
SPOKEN = list(zip(SIX, ["German"] * 2 + ["French"] * 2 + ["Korean"] * 2, strict=True))
CELLS = [(task, setting) for task, settings in BENCHMARK.tasks.items() for setting in settings]


def offline(wanted: str) -> bytes:
    del wanted
    raise PictureError("HTTP 404")


def read(folder: Path, column_map: Mapping[str, str] | None = None) -> list[RawSample | Rejection | Notice]:
    source = Folder(str(folder))
    return list(read_unpie(source, column_map, Pictures(source, offline)))


def good(items: list[Any]) -> list[RawSample]:
    return [item for item in items if isinstance(item, RawSample)]


def notices(items: list[Any]) -> list[str]:
    return [item.message for item in items if isinstance(item, Notice)]


def rejected(items: list[Any]) -> list[tuple[str, str]]:
    return [(item.item, item.reason) for item in items if isinstance(item, Rejection)]


# ------------------------------------------------------------------------------------------------------------ ingest


def test_found_by_name() -> None:
    assert benchmark("unpie") is BENCHMARK


def test_as_distributed_through_ingest(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", 3)
    result = ingest(BENCHMARK, Folder(str(source)), Store(str(tmp_path / "data")))
    made = {one.sample_id: one for one in Dataset.open(Store(str(tmp_path / "data")), "unpie").samples()}
    assert sorted(made) == [f"{split}/{index:04d}" for split in sorted(SPLITS) for index in range(3)]
    assert (result.rejections, result.manifest.media) == ((), 18)
    assert result.manifest.counts == {"Hetero": 3, "Homo": 3}
    one = made["heterographic/0002"]
    assert [ref.role for ref in one.media] == ["explanation", "disambiguator/0", "disambiguator/1"]
    assert one.cluster == one.media[0].sha256
    assert one.data["translation"][1]["fr"] == row("heterographic", 2)["translation2"]["fr"]
    assert one.data["gloss"] == ["work dough", "want"]
    assert len(one.data["content_sha"]) == 64
    assert [text for text in result.manifest.notices if "coverage" in text] == [
        f"{split}: picture coverage: 3 of 3 explanation pictures (100.0%), 6 of 6 disambiguator pictures (100.0%)"
        for split in SPLITS
    ]
    assert "homographic: 3 rows, 500 are published" in result.manifest.notices


def test_full_splits_give_no_notice_of_their_size(tmp_path: Path) -> None:
    short = [{**one, "disamb_image1": "", "disamb_image2": "", "pun_exp_image": None} for one in rows(SPLITS[0], 500)]
    for split in SPLITS:
        write_jsonl(tmp_path / f"{split}.jsonl", short)
    items = read(tmp_path)
    assert len(good(items)) == 1000
    assert not [text for text in notices(items) if "are published" in text]


def flat(one: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a CSV file may hold it: a struct as JSON, the other flattened, the picture as base64."""
    made = {key: value for key, value in one.items() if key not in ("translation1", "translation2", "pun_exp_image")}
    made["translation1"] = json.dumps(one["translation1"], ensure_ascii=False)
    made |= {f"translation2.{lang}": text for lang, text in one["translation2"].items()}
    return {**made, "pun_exp_image": base64.b64encode(one["pun_exp_image"]["bytes"]).decode()}


def write_csv(path: Path, content: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(content[0]))
        writer.writeheader()
        writer.writerows(content)


def as_json(path: Path, content: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8-sig")


def with_data_uri(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "pun_exp_image": f"data:image/png;base64,{base64.b64encode(one['pun_exp_image']['bytes']).decode()}"}


FORMS: dict[str, Callable[[Path, str], None]] = {
    "parquet": lambda folder, split: write_parquet(folder / "data" / f"{split}-00000-of-00001-ab.parquet", rows(split)),
    "shards": lambda folder, split: [  # type: ignore[func-returns-value]
        write_parquet(folder / "data" / f"{split}-0000{n}-of-00002.parquet", [one]) for n, one in enumerate(rows(split))
    ],
    "configurations": lambda folder, split: write_parquet(folder / split / "test-00000.parquet", rows(split)),
    "jsonl": lambda folder, split: write_jsonl(folder / f"{split}.jsonl", [with_data_uri(one) for one in rows(split)]),
    "json": lambda folder, split: as_json(folder / f"{split}.json", [with_data_uri(one) for one in rows(split)]),
    "csv": lambda folder, split: write_csv(folder / f"{split}.csv", [flat(one) for one in rows(split)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same(tmp_path: Path, form: str) -> None:
    for split in SPLITS:
        FORMS[form](tmp_path, split)
    mirror(tmp_path, [address(split, index, meaning) for split in SPLITS for index in range(2) for meaning in range(2)])
    write_source(tmp_path / "hub")
    found, wanted = good(read(tmp_path)), good(read(tmp_path / "hub"))
    assert [replace(one, file="") for one in found] == [replace(one, file="") for one in wanted]
    assert len(found) == 4


def test_one_file_of_both_kinds(tmp_path: Path) -> None:
    kinds = zip(("Homo", "heterographic"), SPLITS, strict=True)
    both = [{**with_data_uri(one), "category": kind} for kind, split in kinds for one in rows(split)]
    write_jsonl(tmp_path / "puns.jsonl", [*both, {**both[0], "category": "other"}])
    items = read(tmp_path)
    assert [(one.sample_id, one.category) for one in good(items)] == [
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
def test_a_bad_row_costs_itself_alone(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    content = [with_data_uri(one) for one in rows("homographic", 3)]
    content[1] |= change
    write_jsonl(tmp_path / "homographic.jsonl", content)
    items = read(tmp_path)
    assert rejected(items) == [("homographic/0001", reason)]
    assert [one.sample_id for one in good(items)] == ["homographic/0000", "homographic/0002"]


def test_lines_that_are_no_rows(tmp_path: Path) -> None:
    lines = [
        json.dumps(with_data_uri(row("homographic", 0))),
        "{broken",
        "[1, 2]",
        json.dumps(with_data_uri(row("homographic", 3))),
    ]
    (tmp_path / "homographic.jsonl").write_text("\n".join(lines))
    items = read(tmp_path)
    assert [one.sample_id for one in good(items)] == ["homographic/0000", "homographic/0003"]
    assert [item for item, _ in rejected(items)] == ["homographic/0001", "homographic/0002"]
    assert "not JSON" in rejected(items)[0][1]


def test_what_looks_odd_is_told(tmp_path: Path) -> None:
    content = [with_data_uri(one) for one in rows("homographic", 5)]
    content[0]["pun_phrase"] = "absent words"
    content[1]["translation2"] = {**content[1]["translation1"], "de": content[1]["translation1"]["de"].upper() + "!"}
    content[2]["translation1"] = {**content[2]["translation1"], "ko": "no hangul here"}
    content[3]["pun_exp_image"] = content[4]["pun_exp_image"]
    content[4]["pun_phrase"] = "KNEADED"
    write_jsonl(tmp_path / "homographic.jsonl", content)
    found = notices(read(tmp_path))
    assert "the phrase does not occur in its sentence: 1 (homographic/0000)" in found
    for language in ("German", "French", "Korean"):
        words = f"degenerate_pair: both {language} translations are equal, always a tie: 1 (homographic/0001)"
        assert words in found
    assert "a Korean translation without Hangul: 1 (homographic/0002)" in found
    assert "a picture that another pun has, too: 1 (homographic/0004)" in found
    (coverage,) = (text for text in found if "coverage" in text)
    assert "5 of 5 explanation pictures (100.0%), 0 of 10 disambiguator pictures (0.0%)" in coverage
    assert coverage.endswith("excluded as image_missing: HTTP 404 (10)")


@pytest.mark.parametrize(
    ("absent", "told"),
    [
        ("pun_phrase", "grounding"),
        ("pun_exp_image", "grounding and reconstruction with a picture or a caption"),
        ("disamb_image2", "disambiguation"),
        ("translation1", "disambiguation, reconstruction"),
    ],
)
def test_a_missing_column_disables_its_tasks_loudly(tmp_path: Path, absent: str, told: str) -> None:
    content = [{k: v for k, v in with_data_uri(one).items() if k != absent} for one in rows("homographic")]
    write_jsonl(tmp_path / "homographic.jsonl", content)
    items = read(tmp_path)
    assert len(good(items)) == 2
    assert any(
        text.startswith("homographic.jsonl: no column") and text.endswith(f"not asked: {told}")
        for text in notices(items)
    )


def renamed(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "p" + one["disamb_image1"].split("/")[-2],
        "text": {"en": one["pun_sentence"], "pun": one["pun_phrase"]},
        "targets": [one["translation1"], one["translation2"]],
        "photos": [{"url": one["disamb_image1"]}, {"url": one["disamb_image2"]}],
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
def test_a_column_map(tmp_path: Path, form: str) -> None:
    content = [renamed(one) for one in rows("homographic")]
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


def test_an_unknown_source_name_lists_what_there_is(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "homographic.jsonl", rows("homographic", 0) or [renamed(row("homographic", 0))])
    with pytest.raises(
        SourceError,
        match=r"no 'text\.english' for 'sentence'; did you mean 'text\.en'\?; columns found: id, text, text\.en",
    ):
        read(tmp_path, {**MAP, "sentence": "text.english"})
    with pytest.raises(SourceError, match=r"no 'pun_sentence' for 'sentence'; .*--column-map"):
        read(tmp_path)
    with pytest.raises(SourceError, match="'words' is no name of ours"):
        ingest(BENCHMARK, Folder(str(tmp_path)), Store(str(tmp_path / "data")), column_map={"words": "text"})


def test_the_more_exact_name_wins() -> None:
    columns = Columns.of({"translation": "t", "translation[1]": "second", "translation[1].ko": "korean"})
    assert columns.paths["translation[0].de"] == "t[0].de"
    assert columns.paths["translation[1].fr"] == "second.fr"
    assert columns.paths["translation[1].ko"] == "korean"


@given(
    st.dictionaries(
        st.text("abc.[]0", min_size=1, max_size=5), st.one_of(st.none(), st.text(), st.lists(st.integers())), max_size=4
    ),
    st.text("abc.[]0", max_size=8),
)
def test_any_path_through_any_row(content: dict[str, Any], path: str) -> None:
    columns = replace(Columns.of(None), paths={"sentence": path})
    found = columns.get(content, "sentence")
    assert found is None or not columns.check(shape_of(content), "here")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(0, 0), (1.0, 1), ("1", 1), ([1, 2], 0), ([2, 1], 1), ([1, 1], None), (2, None), (True, None), (None, None)],
)
def test_which_meaning_is_common(tmp_path: Path, value: Any, wanted: int | None) -> None:
    write_jsonl(tmp_path / "homographic.jsonl", [{**with_data_uri(row("homographic", 0)), "freq_rank": value}])
    items = read(tmp_path)
    assert good(items)[0].data["frequent"] == wanted
    assert any("freq_rank" in text for text in notices(items)) == (wanted is None)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no Parquet, JSON, JSONL or CSV file"),
        ({"readme.md": "x"}, "no Parquet, JSON, JSONL or CSV file"),
        ({"homographic.jsonl": "{}", "homographic.csv": "a"}, "in several forms"),
        ({"homographic.json": "{"}, "cannot be read"),
        ({"homographic.json": '{"a": 1}'}, "a list of rows was expected"),
        ({"homographic.parquet": "PAR1"}, "cannot be read"),
        ({"homographic.csv": ""}, "cannot be read"),
    ],
)
def test_no_data(tmp_path: Path, files: dict[str, str], why: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=why):
        read(tmp_path)


# ----------------------------------------------------------------------------------------------------------- prompts


def pictured(**data: Any) -> Sample:
    refs = tuple(
        MediaRef(role=role, kind="image", sha256=name * 64, extension=".png", bytes=1, width=6, height=5)
        for role, name in (("explanation", "e"), ("disambiguator/0", "0"), ("disambiguator/1", "1"))
    )
    return replace(sample("homographic", 0, **data), media=refs)


CAPTIONS = {name * 64: f"a caption of {name}\nin two lines" for name in "e01"}


def prompts(
    task: str, setting: str, of: Sample | None = None, captions: Mapping[str, str] | None = CAPTIONS
) -> list[Prompt]:
    return list(BENCHMARK.prompts(of or pictured(), task, setting, texts=TEXTS, seed=42, captions=captions))


def said(prompt: Prompt) -> tuple[list[str], str]:
    """Pictures in front, then the words."""
    (turn,) = prompt.steps[0].turns
    media = [part.source[0] for part in turn.parts if isinstance(part, Media)]
    assert isinstance(turn.parts[-1], Text)
    assert all(isinstance(part, Media) for part in turn.parts[:-1])
    return media, turn.parts[-1].text


def in_order(words: str, *pieces: str) -> None:
    places = [words.index(piece) for piece in pieces]
    assert places == sorted(places), pieces


def test_requests_of_the_whole_set() -> None:
    asked_for = Counter({cell: 1000 * len(prompts(*cell)) for cell in CELLS})
    pictures = Counter({cell: 1000 * sum(bool(said(p)[0]) for p in prompts(*cell)) for cell in CELLS})
    assert asked_for == {
        ("grounding", "lm"): 1000,
        ("grounding", "sm"): 1000,
        ("grounding", "vlm"): 1000,
        ("disambiguation", "sm"): 6000,
        ("disambiguation", "vlm"): 6000,
        ("reconstruction", "lm"): 6000,
        ("reconstruction", "sm"): 6000,
        ("reconstruction", "vlm"): 6000,
    }
    assert asked_for.total() == 33_000
    assert +pictures == {("grounding", "vlm"): 1000, ("disambiguation", "vlm"): 6000, ("reconstruction", "vlm"): 6000}
    shared = Counter(said(p)[0][0] for task, setting in CELLS if setting == "vlm" for p in prompts(task, setting))
    assert shared == {"e": 7, "0": 3, "1": 3}
    assert len(BENCHMARK.caption(pictured(), "sm", TEXTS)) == 3


@pytest.mark.parametrize("cell", CELLS)
def test_variants_versions_and_limits(cell: tuple[str, str]) -> None:
    made = prompts(*cell)
    assert tuple(p.variant for p in made) == (("",) if cell[0] == "grounding" else SIX)
    assert {p.version for p in made} == {f"unpie-{cell[0]}-{cell[1]}-v1"}
    assert {p.steps[0].generation for p in made} == {Generation(max_new_tokens=200)}
    for prompt in made:
        assert "{" not in said(prompt)[1]


def test_grounding_in_order() -> None:
    data = pictured().data
    for setting, context in (
        ("lm", "rests on, and"),
        ("sm", '"a caption of e in two lines"'),
        ("vlm", "the picture above"),
    ):
        media, words = said(prompts("grounding", setting)[0])
        assert media == (["e"] if setting == "vlm" else [])
        in_order(
            words,
            f"[sentence]: {data['sentence']}",
            "is a pun",
            "word or phrase",
            context,
            "alone",
            "no explanation",
            "[answer]:",
        )
        assert words.endswith("[answer]:")


@pytest.mark.parametrize(("variant", "language"), SPOKEN)
def test_disambiguation_in_order(variant: str, language: str) -> None:
    for setting, context in (("sm", f'"a caption of {variant[-1]} in two lines"'), ("vlm", "the picture above")):
        (prompt,) = (p for p in prompts("disambiguation", setting) if p.variant == variant)
        media, words = said(prompt)
        assert media == ([variant[-1]] if setting == "vlm" else [])
        in_order(words, f"[English]: {pictured().data['sentence']}", f"into {language}", context, f"[{language}]:")
        assert words.endswith(f"[{language}]:")
        assert not any(word in words.lower() for word in ("pun", "sense", "ambig", "meaning"))


@pytest.mark.parametrize(("variant", "language"), SPOKEN)
def test_reconstruction_in_order(variant: str, language: str) -> None:
    given_text = pictured().data["translation"][int(variant[-1])][variant[:2]]
    plain = next(p for p in prompts("reconstruction", "lm") if p.variant == variant)
    head = said(plain)[1].partition("Reply")[0]
    in_order(head, f"{language} sentence", "into English", "pun", f'[{language}]: "{given_text}"')
    assert said(plain)[1].endswith("[English]:")
    for setting, context in (("sm", "a caption of e in two lines"), ("vlm", "the picture above")):
        media, words = said(next(p for p in prompts("reconstruction", setting) if p.variant == variant))
        assert media == (["e"] if setting == "vlm" else [])
        assert words.startswith(head + f"\n[Image Description]: {context}\n")
        in_order(words, "covers both senses", "guide the pun", "[English]:")
        assert words.endswith("[English]:")


@pytest.mark.parametrize("task", ["grounding", "disambiguation", "reconstruction"])
def test_vlm_differs_from_sm_where_the_caption_stands(task: str) -> None:
    for with_caption, with_picture in zip(prompts(task, "sm"), prompts(task, "vlm"), strict=True):
        caption = f"a caption of {said(with_picture)[0][0]} in two lines"
        quoted = f'"{caption}"' if task != "reconstruction" else caption
        pointer = "above" if task != "reconstruction" else "the picture above"
        assert said(with_caption)[1].replace(quoted, pointer) == said(with_picture)[1]


def test_braces_in_the_data_stay() -> None:
    words = said(prompts("grounding", "sm", pictured(sentence="A {caption} {pun}."))[0])[1]
    assert "[sentence]: A {caption} {pun}." in words


def test_guesses_are_words_or_translations() -> None:
    one = pictured()
    assert prompts("grounding", "lm")[0].steps[0].choices == tuple(one.data["sentence"].split())
    for prompt in prompts("disambiguation", "vlm"):
        assert prompt.steps[0].choices == tuple(pair[prompt.variant[:2]] for pair in one.data["translation"])


@pytest.mark.parametrize("cell", CELLS)
def test_what_cannot_be_asked_says_why(cell: tuple[str, str]) -> None:
    task, setting = cell
    bare = replace(pictured(), media=())
    for captions, of, wanted in (
        (CAPTIONS, bare, "image_missing"),
        (None, pictured(), "no_captioner"),
        ({}, pictured(), "caption_missing"),
        ({name * 64: "  " for name in "e01"}, pictured(), "caption_missing"),
    ):
        concerned = setting == "sm" or (setting == "vlm" and wanted == "image_missing")
        made = prompts(task, setting, of, captions)
        assert {p.excluded for p in made} == {wanted if concerned else ""}
        assert len(made) == (1 if task == "grounding" else 6)
        assert all(bool(p.steps) != bool(p.excluded) for p in made)


def test_one_missing_photo_costs_its_three_variants() -> None:
    one = pictured()
    one = replace(one, media=one.media[:2])
    assert [p.excluded for p in prompts("disambiguation", "vlm", one)] == ["", "image_missing"] * 3
    assert {p.excluded for p in prompts("reconstruction", "vlm", one)} == {""}


def test_a_missing_translation_costs_what_needs_it() -> None:
    one = pictured()
    pairs = [dict(pair) for pair in one.data["translation"]]
    pairs[1]["fr"] = ""
    one = replace(one, data={**one.data, "translation": pairs, "phrase": ""})
    missing = "translation_missing"
    assert [p.excluded for p in prompts("disambiguation", "vlm", one)] == ["", "", missing, missing, "", ""]
    assert [p.excluded for p in prompts("reconstruction", "lm", one)] == ["", "", "", missing, "", ""]
    assert [p.excluded for p in prompts("grounding", "lm", one)] == ["phrase_missing"]


def test_captions_are_asked_once_a_picture_without_words() -> None:
    one = pictured()
    one = replace(one, media=(*one.media, replace(one.media[0], role="again")))
    steps = BENCHMARK.caption(one, "sm", TEXTS)
    assert [[part.source[0] for part in step.turns[0].parts if isinstance(part, Media)] for step in steps] == [
        ["e"],
        ["0"],
        ["1"],
    ]
    assert all(len(step.turns[0].parts) == 1 and step.generation == Generation(max_new_tokens=50) for step in steps)
    assert all(step.choices == ("A picture.",) for step in steps)
    assert BENCHMARK.caption(one, "vlm", TEXTS) == ()


# ------------------------------------------------------------------------------------------------- answers and judges


def test_similarity_asks_against_both_targets() -> None:
    one = pictured()
    made = asked(one, "disambiguation", "vlm", "fr/1", output="[French]: « Le pain. »")
    asks = BENCHMARK.similarity(made)
    assert [(ask.column, ask.scorer, ask.candidate) for ask in asks] == [
        ("bertscore_0", "bertscore", "Le pain."),
        ("bertscore_1", "bertscore", "Le pain."),
    ]
    assert [ask.references for ask in asks] == [(pair["fr"],) for pair in one.data["translation"]]
    for other in (
        replace(made, output="[French]:"),
        replace(made, status="error", output=None),
        replace(made, task="reconstruction"),
    ):
        assert BENCHMARK.similarity(other) == ()


def test_a_translation_without_scorer_has_no_verdict() -> None:
    made = asked(pictured(), "disambiguation", "vlm", "de/0", output="Das Brot.")
    assert "correct" not in BENCHMARK.read_answer(made).values
    assert BENCHMARK.read_answer(replace(made, output="")).values == {"correct": 0.0}
    read_in = BENCHMARK.read_answer(replace(made, given={"bertscore_0": 0.9132, "bertscore_1": 0.887}))
    assert read_in.values["correct"] == 1.0
    assert read_in.values["margin"] == pytest.approx(0.0262)
    assert read_in.values["tie"] == 0.0
    tie = BENCHMARK.read_answer(replace(made, variant="de/1", given={"bertscore_0": 0.9, "bertscore_1": 0.9000004}))
    assert (tie.values["correct"], tie.values["tie"]) == (0.0, 1.0)


def test_the_judge_sees_original_then_candidate() -> None:
    one = pictured()
    made = asked(one, "reconstruction", "lm", "ko/0", output="[English]: The dough made him rich.")
    ask = BENCHMARK.judge(made, TEXTS)
    assert isinstance(ask, JudgeAsk)
    assert ask.seeds == (42, 43, 44)
    assert ask.step.generation == Generation(max_new_tokens=8)
    assert ask.step.choices == ("yes", "no")
    (part,) = ask.step.turns[0].parts
    assert isinstance(part, Text)
    in_order(part.text, "same word", "both meanings", one.data["sentence"], "The dough made him rich.", "yes or no")
    assert one.data["gloss"][0] not in part.text
    gold = BENCHMARK.judge(
        made, PromptTexts(BENCHMARK.prompt_texts, instead={"unpie-judge-v1": "unpie-judge-with-gold-v1"})
    )
    assert isinstance(gold, JudgeAsk)
    (told,) = gold.step.turns[0].parts
    assert isinstance(told, Text)
    in_order(told.text, "plays on: kneaded", "work dough", "want", one.data["sentence"])


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("", False),
        ("[English]:", False),
        ("<think>a pun", False),
        ("SHE kneaded bread number 0 of homographic until he needed money!", True),
    ],
)
def test_what_needs_no_judge(output: str, wanted: bool) -> None:
    made = asked(pictured(), "reconstruction", "lm", "de/0", output=output)
    assert BENCHMARK.judge(made, TEXTS) is wanted
    read_in = BENCHMARK.read_answer(replace(made, verdict=Verdict(state="ok", accepted=wanted)))
    assert "judged_by_rule" in read_in.flags
    assert read_in.values["accepted"] == float(wanted)


def test_nothing_is_judged_but_answers_of_reconstruction() -> None:
    made = asked(pictured(), "reconstruction", "lm", "de/0", output="x")
    assert BENCHMARK.judge(replace(made, status="error", output=None), TEXTS) is None
    assert BENCHMARK.judge(replace(made, task="disambiguation"), TEXTS) is None


@pytest.mark.parametrize("status", ["error", "excluded"])
def test_no_answer_earns_no_value(status: str) -> None:
    for task, variant in (("grounding", ""), ("disambiguation", "de/0"), ("reconstruction", "de/0")):
        made = asked(pictured(), task, "vlm", variant, status=status, output=None)
        assert BENCHMARK.read_answer(made).values == {}


def test_verdicts_of_the_judge() -> None:
    made = asked(pictured(), "reconstruction", "vlm", "de/0", output="A pun.")
    states = {"ok": 1.0, "invalid": 0.0, "failed": None, "absent": None}
    for state, wanted in states.items():
        read_in = BENCHMARK.read_answer(replace(made, verdict=Verdict(state=state, accepted=True)))  # type: ignore[arg-type]
        assert read_in.values.get("accepted") == wanted
        assert "judged_by_rule" not in read_in.flags


def test_cut_off_answers_are_flagged() -> None:
    made = asked(pictured(), "grounding", "lm", output="kneaded", finish_reason="length")
    assert BENCHMARK.read_answer(made).flags == ("truncated",)


def test_a_picture_is_small() -> None:
    assert len(picture("x")) < 300
