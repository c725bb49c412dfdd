"""People's answers of all benchmarks: reading, paired values and agreement, every number worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath

import pandas as pd
import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.human import HumanBaseline, HumanInputs
from pipelines.benchmarks.maia.people.human import HUMAN_BASELINE as MAIA
from pipelines.benchmarks.maia.people.human import with_judge
from pipelines.benchmarks.maia.people.leave_one_out import MEASURE, answers_of, left_out
from pipelines.benchmarks.maia.results import OEVQA, MaiaResults
from pipelines.benchmarks.mate.people.authors_files import READER, read_prediction, typed_answer
from pipelines.benchmarks.mate.people.human import HUMAN_BASELINE as MATE
from pipelines.benchmarks.people.comparison import agreement_table, light_kappa, people_table
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeRequest, Metric, Row
from pipelines.benchmarks.results import Key
from pipelines.benchmarks.tables import Table, TableValue
from pipelines.benchmarks.unpie.people.human import HUMAN_BASELINE as UNPIE
from pipelines.benchmarks.vague.people.human import HUMAN_BASELINE as VAGUE
from pipelines.metrics.agreement import krippendorff_alpha
from tests.support import maia_rows, mate_scenes, unpie_rows, vague_rows
from tests.support.maia_rows import Question
from tests.support.report_results import results_of

# Two people on four items: three agree. Each says A twice and B twice, and B thrice: chance agreement is 1/2.
ANN = {"1": "A", "2": "A", "3": "B", "4": "B"}
BOB = {"1": "A", "2": "B", "3": "B", "4": "B"}


def values(metrics: Sequence[Metric], **where: str) -> dict[str, tuple[float | None, int]]:
    return {
        metric.metric: (None if metric.value is None else round(metric.value, 6), metric.n)
        for metric in metrics
        if all(getattr(metric, name) == value for name, value in where.items())
    }


def only(tables: Sequence[Table], table_id: str) -> Table:
    (table,) = (table for table in tables if table.id == table_id)
    return table


def test_krippendorff_alpha_is_that_of_the_definition() -> None:
    # Nine labels A4 B4 C1 in units of at least two: expected 81 - 33 = 48; observed 2/1 + 2/1 = 4; 1 - 8*4/48 = 1/3.
    units = [["A", "A", "A"], ["A", "B"], ["B", "B"], ["B", "C"], ["A"]]
    assert krippendorff_alpha(units) == pytest.approx(1 / 3)
    assert krippendorff_alpha([["A", "A"], ["A"]]) is None
    assert krippendorff_alpha([]) is None


def test_agreement_of_two_people_and_of_more() -> None:
    (table,) = agreement_table("x", "X", {"Two": {"ann": ANN, "bob": BOB}, "One": {"ann": ANN}})
    (row,) = table.rows
    people, items, same, kappa, alpha = row.cells
    assert (row.label, people, items, same, kappa) == ("Two", 2, 4, 0.75, pytest.approx(0.5))
    assert alpha == pytest.approx(1 - 7 * 2 / (64 - 9 - 25))  # labels A3 B5; one pair differs
    # The third agrees with Ann throughout: kappas 0.5, 1 and 0.5.
    assert light_kappa({"ann": ANN, "bob": BOB, "cia": dict(ANN)}) == pytest.approx(2 / 3)
    assert light_kappa({"ann": {"1": "A"}, "bob": {"2": "A"}}) is None


def test_people_table_shows_each_persons_values_with_intervals() -> None:
    columns = {"Accuracy": Key("accuracy", "mcq")}
    frame = pd.DataFrame(
        {
            "model": ["m", "human:ann"],
            "task": "mcq",
            "setting": "vlm",
            "subset": "",
            "metric": "accuracy",
            "value": [0.5, 0.75],
            "n": [8, 4],
            "ci_low": [0.2, 0.5],
            "ci_high": [0.8, 1.0],
        }
    )
    (table,) = people_table("vague", "VAGUE", results_of("vague", frame), columns, ["lm", "vlm"])
    assert [(row.label, row.cells) for row in table.rows] == [
        ("ann, vlm", (TableValue(value=0.75, low=0.5, high=1.0, n=4),))
    ]
    assert people_table("vague", "VAGUE", results_of("vague", frame[:1]), columns, ["vlm"]) == []


def test_vague_choices_are_scored_and_paired() -> None:
    items = vague_rows.items(4)  # gold letters A, B, C, D
    text = "image_name,annotator,letter\n" + "".join(
        f"{item.sample_id},{person},{letter}\n"
        for person, letters in (("ann", "ABCA"), ("bob", "AB"))
        for item, letter in zip(items, letters, strict=False)
    )
    samples = {item.sample_id: item for item in items}
    VAGUE.check("choices", text, samples)
    rows = VAGUE.predictions("choices", text)
    assert rows[3] == {
        "benchmark": "vague",
        "model": "human:ann",
        "task": "mcq",
        "setting": "vlm",
        "sample_id": "VCR-00003",
        "variant": "",
        "output": "A",
    }
    chosen = {(row["model"], row["sample_id"]): row["output"] for row in rows}
    people = {
        person: vague_rows.frame(
            [item for item in items if (person, item.sample_id) in chosen],
            lambda item, _task, _setting, person=person: chosen[person, item.sample_id],  # type: ignore[misc]
            cells=[("mcq", "vlm")],
        )
        for person in ("human:ann", "human:bob")
    }
    model = vague_rows.frame(items, lambda *_: "A", cells=[("mcq", "vlm"), ("mcq", "lm")])
    # On six answers: the model, always A, is right on the first item of both; people on 3 of 4 and 2 of 2.
    for setting in ("lm", "vlm"):
        assert values(
            VAGUE.metrics(HumanInputs(scores=model, samples=samples, people=people)),
            setting=setting,
            subset="human-items",
        ) == {
            "accuracy": (round(2 / 6, 6), 6),
            "accuracy_of_people": (round(5 / 6, 6), 6),
            "accuracy_minus_people": (-0.5, 6),
        }
    (agreement,), _ = VAGUE.display({"choices": text}, {}, results_of("vague", pd.DataFrame(columns=["model"])))
    assert agreement.rows[0].cells[:4] == (2, 2, 1.0, 1.0)


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
    metrics = MATE.metrics(HumanInputs(scores=model, samples={}, people={"human:ann": person}))
    assert {metric.setting for metric in metrics} == {"2-shot", "2-shot-cot"}
    assert values(metrics, task="crossmodal", setting="2-shot") == {
        "exact_match": (0.375, 6),  # mean of 1/2 and 1/4
        "exact_match_of_people": (0.875, 6),  # mean of 1 and 3/4
        "exact_match_minus_people": (-0.5, 6),
    }
    assert values(metrics, task="txt2img", setting="2-shot-cot")["exact_match_minus_people"] == (-0.5, 4)
    gap = next(m for m in metrics if (m.task, m.metric, m.setting) == ("txt2img", "exact_match_minus_people", "2-shot"))
    assert (gap.ci_low, gap.ci_high) == (-1.0, 0.0)
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
    kind, text = MATE.from_json_lines("mm_2shot_human.jsonl", "\n".join(lines))
    assert kind == "predictions"
    MATE.check(kind, text, {sample.sample_id: sample})
    first, second = MATE.predictions(kind, text)
    assert (first["model"], first["task"], first["setting"]) == ("human:9f", task, "2-shot")
    assert second["output"] == '{"answer": "red"}'
    tables, _ = MATE.display({kind: text}, {}, results_of("mate", pd.DataFrame(columns=["model"])))
    assert only(tables, "mate_people_agreement").rows[0].cells[:3] == (2, 1, 1.0)
    with pytest.raises(ValueError, match="line 1: no evaluator"):
        MATE.from_json_lines("mm_2shot_x.jsonl", lines[0].replace("evaluator", "model"))
    with pytest.raises(ValueError, match="line 1: Expecting"):
        MATE.from_json_lines("mm_2shot_human.jsonl", '{"example_id"')


def test_unpie_answers_are_paired_by_task_and_language() -> None:
    of = unpie_rows.samples(1)  # two puns
    text = "sample_id,task,variant,annotator,answer\n" + "".join(
        f"{name},grounding,,ann,{item.data['phrase'] if index else 'else'}\n"
        f"{name},disambiguation,de/0,ann,Ein Satz\n{name},disambiguation,fr/1,ann,Une phrase\n"
        for index, (name, item) in enumerate(of.items())
    )
    UNPIE.check("answers", text, of)
    assert {row["setting"] for row in UNPIE.predictions("answers", text)} == {"vlm"}
    rows = unpie_rows.cell(of, "grounding", "vlm", lambda item, _: {"output": item.data["phrase"]})
    rows += unpie_rows.cell(
        of, "disambiguation", "vlm", lambda _item, _variant: {"output": "x"} | unpie_rows.similar(0.9, 0.8)
    )
    person = unpie_rows.cell(of, "grounding", "vlm", lambda _item, _: {"output": "else"})
    person += unpie_rows.cell(
        of, "disambiguation", "vlm", lambda _item, _variant: {"output": "y"} | unpie_rows.similar(0.8, 0.9)
    )
    answered = {("grounding", ""), ("disambiguation", "de/0"), ("disambiguation", "fr/1")}
    people = pd.DataFrame([row for row in person if (row["task"], row["variant"]) in answered])
    metrics = UNPIE.metrics(HumanInputs(scores=pd.DataFrame(rows), samples=of, people={"human:ann": people}))
    assert values(metrics, task="grounding") == {
        "exact_match": (1.0, 2),
        "exact_match_of_people": (0.0, 2),
        "exact_match_minus_people": (1.0, 2),
    }
    # The model's output is nearer to meaning 0, the person's to meaning 1; asked for were 0 in German, 1 in French.
    assert values(metrics, task="disambiguation", category="")["accuracy_minus_people"] == (0.0, 4)
    assert values(metrics, category="En-De")["accuracy_minus_people"] == (1.0, 2)
    assert values(metrics, category="En-Fr")["accuracy_minus_people"] == (-1.0, 2)


def test_unpie_labels_of_several_people_count_by_majority() -> None:
    of = unpie_rows.samples(1)
    name = next(iter(of))
    labels = "sample_id,variant,model,setting,human,task,annotator\n" + "".join(
        f"{name},{variant},m,vlm,{label},reconstruction,{person}\n"
        for variant, marks in (("de/0", "110"), ("fr/0", "10"), ("ko/0", "00"))
        for person, label in zip(("ann", "bob", "cia"), marks, strict=False)
    )
    UNPIE.check("labels", labels, of)
    rows = unpie_rows.cell(of, "reconstruction", "vlm", lambda _item, _variant: {"output": "a pun"})
    scores = UNPIE.with_labels(pd.DataFrame(rows), {"labels": labels}, "m")
    labelled = scores[scores["sample_id"] == name].set_index("variant")["human"]
    assert labelled[["de/0", "ko/0"]].tolist() == [1.0, 0.0]
    assert labelled[["fr/0", "de/1"]].isna().all()
    tables, _ = UNPIE.display({"labels": labels}, {}, results_of("unpie", pd.DataFrame(columns=["model"])))
    people, items, same, _, alpha = only(tables, "unpie_people_agreement").rows[0].cells
    assert (people, items, same) == (3, 3, pytest.approx(2 / 5))  # pairs that agree: 1 of 3, 0 of 1, 1 of 1
    assert alpha == pytest.approx(1 - 6 * (4 / 2 + 2) / (49 - 9 - 16))  # seven labels, three of them 1


@pytest.mark.parametrize(
    ("baseline", "kind", "text", "message"),
    [
        (VAGUE, "choices", "image_name,annotator,letter\nVCR-00000,ann,E\n", "line 2: letter is 'E', expected A, B"),
        (VAGUE, "choices", "image_name,annotator,letter\nx,ann,A\nx,ann,B\n", "no item 'x'"),
        (
            VAGUE,
            "choices",
            "image_name,annotator,letter\nVCR-00000,a,A\nVCR-00000,a,B\n",
            "line 3: a second row of 'a' for 'VCR-00000'; the first is on line 2, keep one",
        ),
        (
            MATE,
            "predictions",
            "example_id,task,setting,evaluator,prediction\nx,img2img,3-shot,a,b\n",
            "expected one of 0",
        ),
        (
            MATE,
            "predictions",
            "example_id,task,setting,evaluator,prediction\nx,img,2-shot,a,b\n",
            "line 2: unknown task",
        ),
        (
            MATE,
            "predictions",
            "example_id,task,setting,evaluator,prediction\nx,img2img,2-shot,a,b\n",
            "no question 'x/",
        ),
        (UNPIE, "answers", "sample_id,task,variant,annotator,answer\nx,pun,,a,b\n", "line 2: task is 'pun'"),
        (UNPIE, "answers", "sample_id,task,variant,annotator,answer\nx,grounding,de/0,a,b\n", "expected an empty one"),
        (
            UNPIE,
            "answers",
            "sample_id,task,variant,annotator,answer\nx,reconstruction,it/0,a,b\n",
            "expected one of de/0",
        ),
        (UNPIE, "answers", "sample_id,task,variant,annotator,answer\nx,grounding,,a,b\n", "no sample 'x'"),
    ],
)
def test_unusable_answers_are_refused(baseline: HumanBaseline, kind: str, text: str, message: str) -> None:
    samples = {item.sample_id: item for item in vague_rows.items(2)} if baseline is VAGUE else {}
    with pytest.raises(ValueError, match=message):
        baseline.check(kind, text, samples)


def test_maia_judges_each_human_answer_by_the_other_seven() -> None:
    (sample,) = maia_rows.samples([Question()]).values()
    rows = answers_of([sample])
    assert [(row["variant"], row["output"]) for row in rows] == [
        (str(i), text) for i, text in enumerate(maia_rows.ANSWERS)
    ]
    assert {(row["model"], row["task"], row["setting"]) for row in rows} == {
        ("human:leave-one-out", "oevqa", "leave-one-out")
    }
    assert left_out(sample, "2").data["answers"] == [t for i, t in enumerate(maia_rows.ANSWERS) if i != 2]
    definition = benchmark("maia")
    assert definition.judge is not None
    question = Row(
        request_id="r",
        sample=left_out(sample, "2"),
        model="human:leave-one-out",
        task="oevqa",
        setting="32-frames",
        variant="",
        status="ok",
        output=maia_rows.ANSWERS[2],
    )
    prompts = PromptTexts(definition.prompt_texts)
    sample = maia_rows.samples([Question()])["video1/CausaleEsplicita_A"]
    sample.data["question"] = question.sample.data["question"] = "Dov'è la pizza?"  # type: ignore[index]
    expected = definition.judge.judge_request(question, prompts)
    row = Row(
        request_id="r",
        sample=sample,
        model="human:leave-one-out",
        task="oevqa",
        setting="leave-one-out",
        variant="2",
        status="ok",
        output=maia_rows.ANSWERS[2],
    )
    assert isinstance(expected, JudgeRequest)
    assert definition.judge.judge_request(row, prompts) == expected


def leave_one_out_frame(accepted: dict[str, int]) -> pd.DataFrame:
    """Return scores of questions of which so many of the eight answers were accepted."""
    return pd.DataFrame(
        [
            {
                "sample_id": f"{video}/CausaleEsplicita_A",
                "task": "oevqa",
                "setting": "leave-one-out",
                "variant": str(index),
                "subset": "",
                "category": "Causal",
                "cluster": video,
                "status": "ok",
                "verdict_state": "ok",
                "accepted": float(index < count),
            }
            for video, count in accepted.items()
            for index in range(8)
        ]
    )


def test_maia_leave_one_out_fills_the_human_column_and_is_paired() -> None:
    frame = leave_one_out_frame({"video1": 8, "video2": 4})
    metrics = benchmark("maia").reporter.reduce(frame, {})
    assert values(metrics) == {"human_leave_one_out": (0.75, 16)}
    assert [metric.category for metric in metrics] == ["", "Causal"]
    assert (metrics[0].ci_low, metrics[0].ci_high) == (0.5, 1.0)
    model = maia_rows.frame(
        [Question(pairs="", judged="rejected"), Question(pairs="", judged="accepted", video="video2")]
    )
    paired = MAIA.metrics(HumanInputs(scores=model, samples={}, people={MEASURE.model: frame}))
    assert values(paired) == {
        "oevqa_accuracy": (0.5, 2),
        "oevqa_accuracy_of_people": (0.75, 2),
        "oevqa_accuracy_minus_people": (-0.25, 2),
    }
    row = {"model": MEASURE.model, "task": "oevqa", "setting": "leave-one-out", "metric": MEASURE.metric}
    results = results_of("maia", pd.DataFrame([{**row, "value": 0.75, "n": 16}]))
    human = MaiaResults(results).human(OEVQA)
    assert human is not None
    assert (human.value, human.n) == (0.75, 16)
    level = next(level for level in MAIA.reference_values(results) if level.metric == "oevqa_accuracy")
    assert (level.value, level.items) == (0.75, "approximate")


def test_maia_judge_is_a_rater_where_it_judged_every_rated_answer() -> None:
    ratings = "item_id,rater,correct\n" + "".join(
        f"m/32-frames/{item},{r},1\n" for item in "ab" for r in ("ann", "bob")
    )
    verdicts = {"m/32-frames/a": 1.0, "m/32-frames/b": 0.0}
    added = with_judge(ratings, verdicts).splitlines()
    assert added[-2:] == ["m/32-frames/a,judge,1", "m/32-frames/b,judge,0"]
    assert with_judge(ratings, {"m/32-frames/a": 1.0}) == ratings
    tables, _ = MAIA.display(
        {"ratings": ratings},
        {"m": {"32-frames/a": 1.0, "32-frames/b": 0.0}},
        results_of("maia", pd.DataFrame(columns=["model"])),
    )
    # Counts 3-0 and 2-1: P = (1 + 1/3) / 2 = 2/3, Pe = 25/36 + 1/36 = 13/18, kappa = -1/5.
    assert only(tables, "maia_judge_agreement").rows[-1].cells == (pytest.approx(-0.2), "2 samples")
