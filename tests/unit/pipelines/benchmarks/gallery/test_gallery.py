"""Each definition of the gallery reads its published layout, and scores right answers as right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.cli.main import run
from pipelines.benchmarks import table_benchmark
from pipelines.benchmarks.base import BenchmarkDefinition, PromptInput
from pipelines.benchmarks.gallery import gallery_definition, gallery_names
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Prompt, Row, Sample, Verdict
from pipelines.errors import LayoutError, SourceError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import IngestResult
from pipelines.ingest.table import ingest_gallery
from pipelines.storage.store import Store
from tests.support.gallery_layouts import layouts, write_layout

EXPECTED = yaml.safe_load((Path(__file__).parent / "fingerprints.yaml").read_text("utf-8"))
PARTLY_RIGHT = {("vqav2", "262148002"): 0.6}  # two of ten gave this answer


def ingest(folder: Path, name: str, source: Path | None = None) -> IngestResult:
    place = source or write_layout(name, folder / "source")
    return ingest_gallery(str(place), Store(str(folder / "data")), name=name)


def samples(folder: Path, name: str) -> list[Sample]:
    return list(Dataset.open(Store(str(folder / "data")), name).samples())


def prompts(benchmark: BenchmarkDefinition, sample: Sample, setting: str = "default") -> Iterator[tuple[str, Prompt]]:
    for task in benchmark.tasks:
        query = PromptInput(sample, task, setting, PromptTexts(benchmark.prompt_texts), 42)
        yield from ((task, prompt) for prompt in benchmark.prompts(query))


def parts(prompt: Prompt) -> list[str]:
    """Return the parts of a prompt: texts, and the kinds of media."""
    return [getattr(part, "text", getattr(part, "kind", "")) for part in prompt.steps[0].turns[0].parts]


def fingerprint(items: list[Sample], asked: dict[str, list[tuple[str, Prompt]]]) -> str:
    """Return a hash of samples and prompts without the bytes of media, which differ by the encoder."""
    facts = [
        [each.sample_id, each.category, each.subset, each.data, [[ref.role, ref.kind] for ref in each.media],
         [[task, prompt.version, parts(prompt)] for task, prompt in asked[each.sample_id]]]
        for each in sorted(items, key=lambda each: each.sample_id)
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def test_every_definition_has_a_layout_and_says_where_it_comes_from() -> None:
    assert gallery_names() == sorted(layouts())
    assert len(gallery_names()) == 38
    for name in gallery_names():
        definition = gallery_definition(name)
        facts = (definition.title, definition.citation, definition.layout, definition.licence, definition.rows)
        assert all(facts), name
        assert definition.checked is False


@pytest.mark.parametrize("name", sorted(layouts()))
def test_published_layout_is_read_asked_and_scored(tmp_path: Path, name: str) -> None:
    result = ingest(tmp_path, name)
    manifest, benchmark = result.manifest, table_benchmark(result.manifest.table)
    items = samples(tmp_path, name)
    asked = {sample.sample_id: [(task, prompt) for task, prompt in prompts(benchmark, sample)] for sample in items}
    found = {
        "rows": [manifest.samples, manifest.rejected, manifest.media],
        "ids": sorted(asked),
        "fingerprint": fingerprint(items, asked),
        "first": " | ".join(parts(next(iter(asked.values()))[0][1])),
    }
    assert found == EXPECTED[name]
    for sample in items:
        ((task, prompt),) = asked[sample.sample_id]
        row = Row(
            request_id="", sample=sample, model="m", task=task, setting="default", variant="", status="ok", output="x"
        )
        scale = result.manifest.table.judge_scale
        verdict = Verdict(state="ok", accepted=True, reply=scale[0] if len(scale) > 1 else "1")
        reading = benchmark.read(replace(row, output=benchmark.expected(row)[0], verdict=verdict))
        score = PARTLY_RIGHT.get((name, sample.sample_id), 1.0)
        assert reading.values["official_score"] == pytest.approx(score)
        assert len(sample.media) == sum(part in ("image", "video") for part in parts(prompt))
        assert benchmark.headline == "official_score"


def test_media_are_at_their_marks_in_any_order(tmp_path: Path) -> None:
    benchmark = table_benchmark(ingest(tmp_path, "mmmu").manifest.table)
    by_id = {sample.sample_id: sample for sample in samples(tmp_path, "mmmu")}
    first, option, seven = (by_id[f"validation_{name}"] for name in ("Accounting_1", "Accounting_2", "Music_1"))

    def shown(sample: Sample) -> list[Any]:
        ((_, prompt),) = prompts(benchmark, sample)
        return [getattr(part, "source", getattr(part, "text", "")) for part in prompt.steps[0].turns[0].parts]

    hashes = [ref.sha256 for ref in first.media]
    assert shown(first)[:4] == ["Look at ", hashes[1], ", then ", hashes[0]]
    assert shown(option)[:4] == ["Which picture shows it?\nA. ", hashes[0], "\nB. ", hashes[1]]
    assert [part for part in shown(seven) if len(part) == 64] == [ref.sha256 for ref in seven.media]


def test_source_may_be_the_file_or_folder_that_the_definition_names(tmp_path: Path) -> None:
    whole = write_layout("docvqa", tmp_path / "source")
    expected = ingest(tmp_path, "docvqa", whole)
    folder = whole / "DocVQA"
    for source in (folder, *folder.iterdir()):
        assert ingest(tmp_path, "docvqa", source).manifest.dataset_fingerprint == expected.manifest.dataset_fingerprint
    assert "left alone: InfographicVQA" in expected.manifest.notices[0]
    clips = write_layout("mvbench", tmp_path / "clips")
    one = ingest(tmp_path, "mvbench", clips / "json" / "action_antonym.json")
    assert (one.manifest.samples, one.manifest.rejected) == (2, 0)


def test_data_of_another_benchmark_are_refused_with_the_missing_columns(tmp_path: Path) -> None:
    other = write_layout("chartqa", tmp_path / "source")
    with pytest.raises(
        LayoutError, match="not the data of ocrbench: no column question_type, dataset; it has the"
    ) as e:
        ingest(tmp_path, "ocrbench", other)
    assert "data/test-*.parquet: dataset question question_type answer image" in str(e.value)
    with pytest.raises(SourceError, match="not the data of vstar"):
        ingest(tmp_path, "vstar", other)


def test_files_of_another_split_are_not_read_in_its_place(tmp_path: Path) -> None:
    source = write_layout("chartqa", tmp_path / "source")
    (source / "data" / "test-00000-of-00001.parquet").rename(source / "data" / "train-00000-of-00001.parquet")
    with pytest.raises(SourceError, match=r"no file of chartqa, which are data/test-\*\.parquet"):
        ingest(tmp_path, "chartqa", source)
    assert ingest(tmp_path, "chartqa", next(source.glob("data/*"))).manifest.samples == 5


def test_subtitles_are_a_setting_of_their_own(tmp_path: Path) -> None:
    benchmark = table_benchmark(ingest(tmp_path, "video-mme").manifest.table)
    with_words, without = samples(tmp_path, "video-mme")[0], samples(tmp_path, "video-mme")[-1]
    ((_, prompt),) = prompts(benchmark, with_words, "subtitles")
    assert parts(prompt)[1].startswith("The subtitles of the video:\nHello there\nTwo words\nHow many?")
    ((_, prompt),) = prompts(benchmark, without, "subtitles")
    assert prompt.excluded == "no_subtitles"
    assert "subtitles" in benchmark.explicit_settings


def test_names_of_the_gallery_are_commands_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, data = write_layout("mme", tmp_path / "source"), str(tmp_path / "data")
    run_of = ["run", "--models", "random", "--data", data, "--out", str(tmp_path / "out"), "--dry-run", "--benchmarks"]
    assert run([*run_of, "mme"]) == 2
    assert "run `vlmsweep ingest mme SOURCE --data" in capsys.readouterr().err
    assert run(["ingest", "mme", str(source), "--data", data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 5
    assert run(["list", "benchmarks", "--data", data, "--json"]) == 0
    rows = {row["benchmark"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"maia", "mme", *gallery_names()} <= rows.keys()
    assert rows["mme"]["headline"] == "official_score"
    assert rows["mmmu"]["tasks"] == "choice, text"
    assert run(["ingest", "mme", str(source), "--data", data, "--kind", "text"]) == 2
    assert run(["ingest", "mmmmu", str(source), "--data", data]) == 2
    assert "did you mean 'mmmu'" in capsys.readouterr().err
    assert run([*run_of, "mme"]) == 0
    own = tmp_path / "own.yaml"
    own.write_text("frames: 64\nprompt: 'In short. {question}'\n")
    assert run(["ingest", "mme", str(source), "--data", data, "--as", "mme-short", "--columns", str(own)]) == 0
    table = Dataset.open(Store(data), "mme-short").manifest.table
    assert (table.frames, table.prompt, table.scorers) == (64, "In short. {question}", {"yes-no": "yes-no-first"})
    own.write_text("frame: 64\n")
    assert run(["ingest", "mme", str(source), "--data", data, "--columns", str(own)]) == 2
    assert "unknown key 'frame'; did you mean 'frames'" in capsys.readouterr().err


def test_only_the_files_that_are_read_are_fetched_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def fetched(name: str, **options: Any) -> str:
        asked.append((name, options["revision"], options["allow_patterns"]))
        return str(write_layout(name.partition("/")[2].lower(), tmp_path / f"hub{len(asked)}"))

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetched)
    data = Store(str(tmp_path / "data"))
    assert ingest_gallery("hf://lmms-lab/DocVQA@v1", data, name="docvqa").manifest.samples == 5
    assert ingest_gallery("hf://datasets/lmms-lab/GQA", data, name="gqa").manifest.samples == 5
    assert ingest_gallery("hf://lmms-lab/Video-MME@v1", data, name="video-mme").manifest.samples == 5
    assert asked == [
        ("lmms-lab/DocVQA", "v1", ["DocVQA/validation-*.parquet", "README.md"]),
        ("lmms-lab/GQA", None, ["testdev_balanced_instructions/testdev-*.parquet",
                                "testdev_balanced_images/testdev-*.parquet", "README.md"]),
        ("lmms-lab/Video-MME", "v1", None),
    ]  # fmt: skip
