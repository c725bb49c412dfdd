"""MATE's human files: people's predictions in our form and in the authors'."""

from __future__ import annotations

import json
from pathlib import PurePath

import pandas as pd
import pytest

from pipelines.benchmarks.human import HumanInputs
from pipelines.benchmarks.mate.authors_files import READER, read_prediction, typed_answer
from pipelines.benchmarks.mate.benchmark import BENCHMARK
from pipelines.benchmarks.mate.scene import TASKS
from tests.support import mate_scenes
from tests.support.interval_oracle import mean_ends
from tests.support.people_results import values


def mate_frame(answers: dict[str, float], task: str, setting: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"sample_id": name, "variant": "", "task": task, "setting": setting, "cluster": name, "status": "ok"}
            | {"correct": correct}
            for name, correct in answers.items()
        ]
    )


def test_mate_people_are_paired_within_their_setting_and_averaged_over_tasks() -> None:
    to_text, to_picture = {"a": 1.0, "b": 0.0}, {"c": 0.0, "d": 0.0, "e": 0.0, "f": 1.0}
    model = pd.concat(
        [
            mate_frame(cells, task, setting)
            for setting in ("1-shot", "2-shot", "2-shot-cot")
            for task, cells in (("img2txt", to_text), ("txt2img", to_picture))
        ]
    )
    person = pd.concat(
        [
            mate_frame({"a": 1.0, "b": 1.0}, "img2txt", "2-shot"),
            mate_frame({"c": 1.0, "d": 0.0, "e": 1.0, "f": 1.0}, "txt2img", "2-shot"),
        ]
    )
    metrics = BENCHMARK.human.metrics(HumanInputs(scores=model, samples={}, people={"human:ann": person}))
    assert {metric.setting for metric in metrics} == {"2-shot", "2-shot-cot"}
    assert values(metrics, task="crossmodal", setting="2-shot") == {
        "exact_match": (0.375, 6),  # mean of 1/2 and 1/4
        "exact_match_of_people": (0.875, 6),  # mean of 1 and 3/4
        "exact_match_minus_people": (-0.5, 6),
    }
    assert values(metrics, task="txt2img", setting="2-shot-cot")["exact_match_minus_people"] == (-0.5, 4)
    gap = next(m for m in metrics if (m.task, m.metric, m.setting) == ("txt2img", "exact_match_minus_people", "2-shot"))
    low, high = mean_ends([-1.0, 0.0, -1.0, 0.0], "cdef")
    assert (gap.ci_low, gap.ci_high) == (max(low, -1.0), pytest.approx(high))
    assert "unimodal" not in {metric.task for metric in metrics}


@pytest.mark.parametrize(
    ("typed", "output"),
    [
        ("red", '{"answer": "red"}'),
        (" Object_1 ", '{"answer": "Object_1"}'),
        ('"red"', '{"answer": "red"}'),
        ("0.35", '{"answer": 0.35}'),
        ("[1.0, 2.0, 0.7]", '{"answer": [1.0, 2.0, 0.7]}'),
        ('{"answer": "red"}', '{"answer": "red"}'),
        ("", ""),
    ],
)
def test_typed_answers_become_the_object_that_mate_demands(typed: str, output: str) -> None:
    assert typed_answer(typed) == output


def test_authors_prediction_files_of_mate() -> None:
    line = {
        "example_id": "e1",
        "task": "img2data",
        "prediction": '{"answer": "red"}',
        "model": "Qwen2.5-VL",
        "scene": 1,
    }
    row = read_prediction("mm_2shot_cot_Qwen2.5-VL.jsonl", line)
    assert row == {
        "benchmark": "mate",
        "model": "Qwen2.5-VL",
        "task": "img2txt",
        "setting": "2-shot-cot",
        "sample_id": "e1",
        "variant": "",
        "output": '{"answer": "red"}',
    }
    assert read_prediction("um_0shot_random.jsonl", {**line, "model": "random", "run": 3})["model"] == "random run 3"
    human = read_prediction("mm_2shot_human.jsonl", {**line, "model": "human", "evaluator": "9f", "prediction": "red"})
    assert (human["model"], human["output"], human["setting"]) == ("human:9f", '{"answer": "red"}', "2-shot")
    assert read_prediction("mm_1shot_My_model.jsonl", {**line, "model": None})["model"] == "My_model"
    text = json.dumps({**line, "prediction": "one\u2028line"}, ensure_ascii=False)
    assert [number for number, _ in READER.rows(PurePath("mm_2shot_x.jsonl"), f"{text}\n{text}\n")] == [1, 2]
    assert [READER.accepts(PurePath(name)) for name in ("mm_2shot_x.jsonl", "mm_2shot.jsonl", "um_1shot_x.json")] == [
        True,
        False,
        False,
    ]
    with pytest.raises(ValueError, match="no field prediction"):
        read_prediction("mm_2shot_x.jsonl", {"example_id": "e1", "task": "img2data"})


def test_mate_reads_people_from_the_authors_file() -> None:
    sample = mate_scenes.samples(1)[0]
    task = sample.data["rows"][0]["task"]
    lines = [
        json.dumps({"example_id": sample.sample_id, "task": task.replace("txt", "data"), "evaluator": person})[:-1]
        + ', "prediction": "red"}'
        for person in ("9f", "c2")
    ]
    kind, text = BENCHMARK.human.from_json_lines("mm_2shot_human.jsonl", "\n".join(lines))
    assert kind == "predictions"
    BENCHMARK.human.check(kind, text, {sample.sample_id: sample})
    absent = next(name for name in TASKS if name not in {row["task"] for row in sample.data["rows"]})
    with pytest.raises(ValueError, match=f"line 2: the data has no question '{sample.sample_id}/{absent}/2-shot'"):
        BENCHMARK.human.check(kind, text.replace(f",{task},", f",{absent},"), {sample.sample_id: sample})
    first, second = BENCHMARK.human.predictions(kind, text)
    assert (first["model"], first["task"], first["setting"]) == ("human:9f", task, "2-shot")
    assert second["output"] == '{"answer": "red"}'
    with pytest.raises(ValueError, match="line 1: no evaluator"):
        BENCHMARK.human.from_json_lines("mm_2shot_x.jsonl", lines[0].replace("evaluator", "model"))
    with pytest.raises(ValueError, match="line 1: Expecting"):
        BENCHMARK.human.from_json_lines("mm_2shot_human.jsonl", '{"example_id"')
