"""`vlmsweep generate`: its data can be ingested, and guesses on it score at chance."""

import json
from collections import Counter
from pathlib import Path

import pytest
import typer

from jobs.generate.command import generate
from jobs.shared.options import as_command, normalize_arguments
from models.messages import Text
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.mate.answers import judge
from pipelines.benchmarks.mate.benchmark import BENCHMARK
from pipelines.benchmarks.mate.error_analysis import chance
from pipelines.benchmarks.mate.scene import parse_scene
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.ingest.table import ingest_table
from pipelines.storage.store import Store


def run(*arguments: str) -> None:
    app = typer.Typer()
    app.command()(as_command(generate))
    app.command("other")(lambda: None)  # a command alone would go without its name
    app(args=normalize_arguments(["generate", *arguments]), standalone_mode=False)


def test_equal_seeds_write_equal_bytes(tmp_path: Path) -> None:
    for name, workers in (("a", "1"), ("b", "2")):
        run(
            "mate", "--objects", "3-5", "--examples", "4", "--seed", "9", "--out", str(tmp_path / name), "--workers",
            workers,
        )  # fmt: skip
    run("mate", "--objects", "3-5", "--examples", "4", "--seed", "10", "--out", str(tmp_path / "c"))
    a, b, c = (
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in "abc"
    )
    assert a == b
    assert a != c
    rows = [json.loads(line) for line in a[Path("mm_2shot.jsonl")].splitlines()]
    assert [row["object_count"] for row in rows] == [3, 4, 5, 3]
    assert {row["generator"]["seed"] for row in rows} == {9}


def test_data_is_ingested_and_guesses_score_at_chance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("mate", "--objects", "3-10", "--examples", "16", "--out", str(tmp_path / "s"), "--json")
    assert json.loads(capsys.readouterr().out)["rows"]["mm_2shot_cot"] == 16
    result = ingest_benchmark(BENCHMARK, Folder(str(tmp_path / "s")), Store(str(tmp_path / "d")))
    assert result.rejections == ()
    assert (result.manifest.samples, result.manifest.media) == (16, 17)
    groups: Counter[tuple[str, str]] = Counter()
    texts = PromptTexts(BENCHMARK.prompt_texts)
    written = {
        json.loads(line)["input_str"]
        for path in (tmp_path / "s").glob("*.jsonl")
        for line in path.read_text().splitlines()
    }
    for sample in Dataset.open(Store(str(tmp_path / "d")), "mate").samples():
        scene = parse_scene(sample.data["scene"])
        for row in sample.data["rows"]:
            (prompt,) = BENCHMARK.prompts(PromptInput(sample, row["task"], row["setting"], texts=texts, seed=42))
            (step,) = prompt.steps
            (turn,) = step.turns
            text = turn.parts[-1]
            assert isinstance(text, Text)
            assert text.text in written
            right = sum(judge(choice, row["gold"]).exact_match for choice in step.choices)
            assert right / len(step.choices) == chance(scene, row["target"], row["gold"]) > 0
            assert not row["shot_shows_target"]
            groups[row["task"], row["setting"]] += 1
    assert groups == {(task, setting): 8 for task, settings in BENCHMARK.tasks.items() for setting in settings}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("mate", "--objects", "9-3"), "lowest number must not exceed"),
        (("mate", "--objects", "many"), "give a range such as 3-10"),
        (("mate", "--examples", "0"), "examples: 1 or more"),
        (("mat",), "did you mean 'mate'"),
        (("mate", "--out", "s3://bucket/x"), "local folder"),
        (("mate", "--out", "/proc/no/such"), "--out /proc/no/such"),
    ],
)
def test_impossible_parameters_have_a_reason(arguments: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    flags = ["--examples", "2", "--out", str(tmp_path / "x"), *arguments[1:]]
    with pytest.raises(UsageError, match=reason):
        run(arguments[0], *flags)
    assert not (tmp_path / "x").exists()


def test_range_may_be_a_single_number(tmp_path: Path) -> None:
    run("mate", "--objects", "4", "--examples", "2", "--out", str(tmp_path / "s"))
    rows = [json.loads(line) for line in (tmp_path / "s" / "um_0shot.jsonl").read_text().splitlines()]
    assert [row["object_count"] for row in rows] == [4, 4]


def test_a_sample_table_is_ingested_whole(tmp_path: Path) -> None:
    for name in "ab":
        run("table", "--from", "mate", "--examples", "6", "--out", str(tmp_path / name))
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.*")} for name in "ab"]
    assert files[0] == files[1]
    result = ingest_table(str(tmp_path / "a"), Store(str(tmp_path / "data")), name="sample")
    assert (result.manifest.samples, result.manifest.media, result.rejections) == (6, 3, ())
    assert result.manifest.counts == {"colour": 3, "count": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table", "--from", "maia"), "unknown origin of a table"),
        (("mate", "--from", "maia", "--examples", "2"), "unknown origin of a table"),
        (("table", "--examples", "0"), "--examples 0"),
        (("mate",), "number of scenes"),
        (("mate", "--from", "mate", "--examples", "2"), "--from: only of `generate table`"),
        (("mate", "--like", "data", "--objects", "3"), "--objects: the scenes of --like say"),
        (("mate", "--like", "data", "--examples", "-3"), "examples: 1 or more"),
        (("table", "--workers", "2", "--objects", "3", "--like", "d"), "--like, --objects, --workers: only of"),
    ],
)
def test_a_wrong_flag_of_a_sample_table(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(*arguments, "--out", str(tmp_path / "x"))
