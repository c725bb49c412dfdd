"""Predictions in the form in which the authors of MATE and V-FLUTE distribute them, made up with known results."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.records import Sample
from pipelines.ingest.dataset import Dataset
from pipelines.storage.store import Store
from tests.integration.conftest import Cli
from tests.support.small_data import ingest_all

FILES = {
    "mm_0shot": "0-shot",
    "mm_1shot": "1-shot",
    "mm_2shot": "2-shot",
    "mm_2shot_cot": "2-shot-cot",
    "um_0shot": "0-shot",
    "um_1shot": "1-shot",
    "um_2shot": "2-shot",
}
WRONG = '{"answer": "nothing of the scene"}'


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(ingest_all(tmp_path_factory.mktemp("small")))


def mate_questions(data: str, file: str) -> Iterator[tuple[Sample, Mapping[str, Any]]]:
    for sample in Dataset.open(Store(data), "mate").samples():
        for row in sample.data["rows"]:
            is_crossmodal = row["task"] in ("img2txt", "txt2img")
            if row["setting"] == FILES[file] and is_crossmodal == file.startswith("mm"):
                yield sample, row


def line(sample: Sample, row: Mapping[str, Any], prediction: str | None, **more: object) -> str:
    """Return a line with the fields of the authors' files, tasks in their spelling."""
    return json.dumps(
        {
            "example_id": sample.sample_id,
            "task": row["task"].replace("txt", "data"),
            "input_str": "the whole prompt",
            "gold_reference": gold_json(row["gold"]),
            "scene": sample.data["scene"],
            "prompt": "the whole prompt",
            "prediction": prediction,
            **more,
        }
    )


def write(folder: Path, data: str) -> None:
    """Write a model that is always right but wrong with steps, ten runs of a guess, and a person in two files."""
    for file in FILES:
        questions = list(mate_questions(data, file))
        right = [
            line(s, r, WRONG if "cot" in file else gold_json(r["gold"]), model="Right model") for s, r in questions
        ]
        (folder / f"{file}_Right_model.jsonl").write_text("\n".join(right))
        if file.endswith("2shot"):
            runs = [
                line(s, r, gold_json(r["gold"]) if run < 3 else WRONG, model="random", run=run)
                for run in range(10)
                for s, r in questions
            ]
            (folder / f"{file}_random.jsonl").write_text("\n".join(runs))
            typed = [
                line(s, r, r["gold"] if isinstance(r["gold"], str) else json.dumps(r["gold"]), evaluator="7f3a")
                for s, r in questions
            ]
            (folder / f"{file}_human.jsonl").write_text("\n".join(typed))
    (folder / "notes.txt").write_text("not read")


def write_second_person(folder: Path, data: str) -> None:
    """Append a person who is right on every second question, and answers another color or word on the others."""
    for file in ("mm_2shot", "um_2shot"):
        typed = [
            line(s, r, json.dumps(r["gold"]) if index % 2 else "nothing", evaluator="b2")
            for index, (s, r) in enumerate(mate_questions(data, file))
        ]
        path = folder / f"{file}_human.jsonl"
        path.write_text("\n".join([path.read_text(), *typed]))


def metrics(out: Path) -> dict[tuple[str, ...], tuple[float | None, int]]:
    rows = json.loads((out / "report" / "metrics.json").read_text())
    names = ("model", "task", "setting", "subset", "category", "metric")
    return {tuple(row[name] for name in names): (row["value"], row["n"]) for row in rows}


def table(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "report" / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_mate_predictions_of_the_authors_make_tables_and_figures(inline_cli: Cli, data: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "predictions", tmp_path / "out"
    folder.mkdir()
    write(folder, data)
    inline_cli("score", "--predictions", str(folder), "--data", data, "--out", str(out))
    values = metrics(out)
    n = len(list(mate_questions(data, "mm_2shot")))
    for setting, right in {"0-shot": 1.0, "1-shot": 1.0, "2-shot": 1.0, "2-shot-cot": 0.0}.items():
        assert values["Right model", "crossmodal", setting, "", "", "exact_match"] == (right, n)
    assert values["Right model", "unimodal", "2-shot", "", "", "exact_match"][0] == 1.0
    assert values["Right model", "crossmodal", "2-shot-cot", "", "", "ose"][0] == 1.0
    assert values["human:7f3a", "crossmodal", "2-shot", "", "", "exact_match"] == (1.0, n)
    assert values["random run 2", "crossmodal", "2-shot", "", "", "exact_match"] == (1.0, n)
    mean = values["random, mean of 10 runs", "crossmodal", "2-shot", "", "", "exact_match"]
    assert mean == (pytest.approx(0.3), n)
    gap = ("Right model", "crossmodal", "2-shot-cot", "human-items", "", "exact_match_minus_people")
    assert values[gap] == (-1.0, n)
    for number in (1, 2, 3, 4, 8, 9):
        models = {row["Model"] for row in table(out, f"mate_table{number}")}
        assert "Right model" in models, number
        assert not any(" run " in model for model in models), number
    figures = {path.stem for path in (out / "report" / "figures").glob("mate_figure*.svg")}
    assert {"mate_figure2", "mate_figure3", "mate_figure4b"} <= figures  # no scene is linked by coordinates alone
    assert any("human:7f3a" in row["Model"] for row in table(out, "mate_table1"))


def test_people_of_predictions_files_get_the_tables_of_human_files(inline_cli: Cli, data: str, tmp_path: Path) -> None:
    folder, people, models = (tmp_path / name for name in ("predictions", "people", "models"))
    for each in (folder, people, models):
        each.mkdir()
    write(folder, data)
    write_second_person(folder, data)
    for path in folder.glob("*_random.jsonl"):
        path.unlink()
    for path in folder.glob("*2shot_*"):
        (people if "human" in path.name else models).joinpath(path.name).write_text(path.read_text())
    flags = ("--data", data, "--out")
    inline_cli("score", "--predictions", str(folder), *flags, str(tmp_path / "a"))
    inline_cli("score", "--predictions", str(models), "--human", f"mate={people}", *flags, str(tmp_path / "b"))
    questions = {
        row["task"]: [r["task"] for _, r in mate_questions(data, file)].count(row["task"])
        for file in ("mm_2shot", "um_2shot")
        for _, row in mate_questions(data, file)
    }
    agreement = {row["Answers"]: row for row in table(tmp_path / "a", "mate_people_agreement")}
    assert {task: (row["People"], int(row["Items"])) for task, row in agreement.items()} == {
        task: ("2", n) for task, n in questions.items()
    }
    same = sum(float(row["Same answer"]) * int(row["Items"]) for row in agreement.values())
    assert same == pytest.approx(sum(questions.values()) / 2)
    for name in ("mate_people", "mate_people_agreement"):
        assert table(tmp_path / "a", name) == table(tmp_path / "b", name), name
    more = tmp_path / "more.csv"
    sample, row = next(iter(mate_questions(data, "mm_0shot")))
    more.write_text(
        f"example_id,task,setting,evaluator,prediction\n{sample.sample_id},{row['task']},0-shot,c3,nothing\n"
    )
    inline_cli("score", "--predictions", str(models), "--human", f"mate={more}", *flags, str(tmp_path / "a"))
    labels = [row["Person, setting"] for row in table(tmp_path / "a", "mate_people")]
    assert labels == [
        *("c3, 0-shot", "all together, 0-shot"),
        *("7f3a, 2-shot", "b2, 2-shot", "all together, 2-shot"),
    ]


def test_limit_and_sample_id_select_rows_of_a_predictions_file(inline_cli: Cli, data: str, tmp_path: Path) -> None:
    folder = tmp_path / "predictions"
    folder.mkdir()
    write(folder, data)
    for path in folder.glob("*_random.jsonl"):
        path.unlink()
    samples = [sample.sample_id for sample in Dataset.open(Store(data), "mate").samples()]
    flags = ("--predictions", str(folder), "--data", data, "--out")
    inline_cli("score", *flags, str(tmp_path / "first"), "--limit", "3")
    answered = [sample.sample_id for sample, _ in mate_questions(data, "mm_2shot")]
    n = len([name for name in answered if name in samples[:3]])
    values = metrics(tmp_path / "first")
    assert values["Right model", "crossmodal", "2-shot", "", "", "exact_match"][1] == n
    assert values["human:7f3a", "crossmodal", "2-shot", "", "", "exact_match"][1] == n
    assert (tmp_path / "first" / "rejected.jsonl").read_text() == ""
    later_sample = next(name for name in answered if name in samples[3:])
    inline_cli("score", *flags, str(tmp_path / "one"), "--sample-id", later_sample, "--settings", "2-shot")
    rows = json.loads((tmp_path / "one" / "report" / "metrics.json").read_text())
    assert {row["n"] for row in rows if row["metric"] == "exact_match" and row["task"].endswith(("txt", "img"))} == {1}
    refused = inline_cli("score", *flags, str(tmp_path / "none"), "--limit", "9000-9001", code=2)
    assert "--limit leaves nothing" in refused.stderr


def test_the_judge_decides_translations_that_a_file_labels(inline_cli: Cli, data: str, tmp_path: Path) -> None:
    samples = list(Dataset.open(Store(data), "unpie").samples())
    rows, labels = [], ["sample_id,variant,model,setting,human,task"]
    for index, sample in enumerate(samples):
        translation = sample.data["translation"][0]["de"]
        rows.append(
            {"benchmark": "unpie", "model": "m", "task": "disambiguation", "setting": "vlm", "variant": "de/0"}
            | {"sample_id": sample.sample_id, "output": translation, "bertscore_0": 0.9, "bertscore_1": 0.1}
        )
        if index % 2:
            labels.append(f"{sample.sample_id},de/0,m,vlm,{int(index % 4 == 1)},disambiguation")
    predictions, file, out = tmp_path / "rows.jsonl", tmp_path / "labels.csv", tmp_path / "out"
    predictions.write_text("\n".join(map(json.dumps, rows)))
    file.write_text("\n".join(labels))
    flags = ("--predictions", str(predictions), "--data", data, "--out", str(out), "--judge", "random")
    inline_cli("score", *flags)
    assert not any("m" in row["Metric"].split(", ") for row in table(out, "unpie_table8"))
    inline_cli("score", *flags, "--human", f"unpie={file}")
    values = metrics(out)
    assert values["m", "disambiguation", "vlm", "", "BERTScore", "agreement_accuracy"] == (0.5, len(labels) - 1)
    assert values["m", "disambiguation", "vlm", "", "GPTEval", "agreement_accuracy"][1] > 0
    assert "GPTEval, m" in {row["Metric"] for row in table(out, "unpie_table8")}


def test_vflute_outputs_of_the_authors_are_scored(inline_cli: Cli, data: str, tmp_path: Path) -> None:
    samples = list(Dataset.open(Store(data), "vflute").samples())
    columns = [
        "id",
        "phenomenon",
        "source_dataset",
        "image_path",
        "label",
        "explanation",
        "output",
        "bertscore",
        "bleurt",
    ]
    for file_name, model_is_right in (("gpt4/gpt4_fs5.csv", True), ("llava-v1.6-34b_sg/preds.csv", False)):
        path = tmp_path / "preds" / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            for sample in samples:
                label = sample.data["label"]
                if not model_is_right:
                    label = {"entailment": "contradiction", "contradiction": "entailment"}[label]
                output = f"{sample.data['explanation']}\nLABEL: {label}"
                writer.writerow({"id": sample.sample_id, "output": output, "bertscore": 0.9, "bleurt": 0.7})
    out = tmp_path / "out"
    flags = ("--data", data, "--out", str(out))
    inline_cli("score", "--predictions", str(tmp_path / "preds"), *flags)
    values = metrics(out)
    assert values["gpt4", "entailment", "5-shot", "", "", "f1_at_60"] == (1.0, len(samples))
    assert values["llava-v1.6-34b", "entailment", "scene-graph", "", "", "f1_at_0"] == (0.0, len(samples))
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = inline_cli("score", "--predictions", str(empty), *flags, code=2)
    assert "holds no file in the form of a benchmark's authors" in refused.stderr
    (empty / "gpt4.csv").write_text("id,label\nx,1\n")
    refused = inline_cli("score", "--predictions", str(empty / "gpt4.csv"), *flags, code=2)
    assert "no row can be used; the first: line 1: no column output; there are id, label" in refused.stderr
