"""Logged answers are matched to requests by id, by question and by prompt; what fits none is listed with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Rejection
from pipelines.ingest.dataset import Dataset, load_tables
from pipelines.ingest.table import ingest_table
from pipelines.logged_answers import readers
from pipelines.logged_answers.matching import ReadVerdict, difference, match_logs, prompt_text, reader, words
from pipelines.logged_answers.readers import LoggedAnswer, json_lines, verdict
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import all_groups
from pipelines.plan.stored_plan import PlanRow
from pipelines.storage.store import Store

SAMPLE = "video1/Sentiment_A"


@pytest.fixture
def spec(maia_data: str) -> RunSpec:
    return RunSpec(data=maia_data, out="", models={}, benchmarks=("maia", "vague"))


@pytest.fixture
def requests(maia_data: str) -> list[PlanRow]:
    """The requests of one sample."""
    dataset = Dataset.open(Store(maia_data), "maia")
    cells = tuple(all_groups(benchmark("maia")))
    plan = PromptPlan(benchmark_name="maia", dataset_fingerprint="x", task_settings=cells, seed=42)
    return [row for sample in dataset.samples() if sample.sample_id == SAMPLE for row in plan.rows(sample)]


def answer(**fields: object) -> LoggedAnswer:
    values = {"file": "f", "line": "line 1", "model": "m", "output": "A", **fields}
    return LoggedAnswer(**values)  # type: ignore[arg-type]


def reasons(rejections: list[Rejection]) -> list[str]:
    return [rejection.reason for rejection in rejections]


def test_prompt_finds_its_request(spec: RunSpec, requests: list[PlanRow]) -> None:
    """Prompts of settings that differ in frames alone are the same words: `--settings` decides."""
    chosen = [row for row in requests if (row.task, row.setting) == ("vsv", "1-frame")]
    logged = [answer(prompt=f"<image:{n}>\n{prompt_text(row)}", their_correct=1.0) for n, row in enumerate(chosen)]
    rejections, groups = match_logs(spec, logged)
    assert not groups
    assert all("--tasks and --settings decide" in reason for reason in reasons(rejections))
    narrow = RunSpec(data=spec.data, out="", models={}, benchmarks=("maia",), settings=("1-frame",))
    rejections, groups = match_logs(narrow, logged)
    assert not rejections
    rows = [row for _, row in groups["maia", "m"]]
    assert [(row["task"], row["setting"], row["sample_id"], row["variant"]) for row in rows] == [
        (row.task, row.setting, SAMPLE, row.variant) for row in chosen
    ]
    assert {row["their_correct"] for row in rows} == {1.0}


def test_id_with_its_cell_finds_its_request(spec: RunSpec) -> None:
    group = {"task": "vsv", "setting": "32-frames", "variant": "3"}
    rejections, groups = match_logs(spec, [answer(ids=("none", SAMPLE), group=group), answer(ids=(SAMPLE,))])
    ((_, row),) = groups["maia", "m"]
    assert {name: row[name] for name in group} == group
    assert [reason.split(" of ")[0] for reason in reasons(rejections)] == ["fits 27 requests"]


def test_question_finds_its_request_whatever_the_prompt(spec: RunSpec, requests: list[PlanRow]) -> None:
    narrow = RunSpec(data=spec.data, out="", models={}, benchmarks=("maia",), tasks=("oevqa",), settings=("1-frame",))
    (row,) = [row for row in requests if (row.task, row.setting) == ("oevqa", "1-frame")]
    line = next(line for line in prompt_text(row).splitlines() if "?" in line)
    question = line.partition(": ")[2] or line
    logged = [
        answer(question=question),
        answer(model="n", prompt=f"Look at it.\nQuestion: {question}\nAnswer in a word."),
        answer(ids=(SAMPLE,), question="Of what colour is the sky?"),
    ]
    rejections, groups = match_logs(narrow, logged)
    assert [(key, row["sample_id"]) for key, rows in groups.items() for _, row in rows] == [
        (("maia", "m"), SAMPLE),
        (("maia", "n"), SAMPLE),
    ]
    assert reasons(rejections) == ["has the id of a question with other words"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ids": ("nobody",)}, "matches no question of maia, by id or by text"),
        ({"ids": (SAMPLE,), "group": {"task": "vsv", "variant": "3#1"}}, "a repeated answer; the first counts"),
        ({"ids": (SAMPLE,), "group": {"setting": "none"}}, "is of a task or setting that is not selected"),
        ({"position": SAMPLE}, "has no question, and its number alone names none"),
        ({"ids": (SAMPLE,), "model": ""}, "the log names no model"),
        ({"ids": (SAMPLE,), "model": "human:ann"}, "its model has a name that no model may have"),
        ({"ids": (SAMPLE,), "model": "\ud800"}, "its model has a name that no model may have"),
    ],
)
def test_what_fits_nothing_is_listed(fields: dict, reason: str, spec: RunSpec) -> None:
    rejections, groups = match_logs(spec, [answer(**fields), Rejection(file="f", item="line 2", reason="broken")])
    assert not groups
    assert reasons(rejections) == ["broken", reason]


def test_letters_that_logged_options_carry_are_no_words(tmp_path: Path) -> None:
    options = ("A. cat", "B. dog")
    source = tmp_path / "q.jsonl"
    source.write_text(json.dumps({"id": "x", "question": "Which?", "options": options, "answer": "B"}))
    ingest_table(str(source), Store(str(tmp_path / "data")), name="lettered")
    load_tables(str(tmp_path / "data"), ["lettered"])
    spec = RunSpec(data=str(tmp_path / "data"), out="", models={}, benchmarks=("lettered",), settings=("default",))
    rejections, groups = match_logs(spec, [answer(ids=("x",), options=options)])
    assert not rejections
    assert [*groups] == [("lettered", "m")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("What's  THIS?\n", "what s this"), ("<image 1>ﬁne", "fine"), ("<video:ab12>\nＡ.", "a"), ("…", "")],
)
def test_words_of_a_text(text: str, expected: str) -> None:
    assert words(text) == expected


def test_long_line_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_TEXT", 100)
    monkeypatch.setattr(readers, "_CHUNK", 7)
    path = tmp_path / "x.jsonl"
    path.write_text('\ufeff{"a": 1}\n' + json.dumps("x" * 300) + '\n\n[\n{"b": 2}', encoding="utf-8")
    lines = [*json_lines(path)]
    assert [number for number, _ in lines] == [1, 2, 4, 5]
    assert [value for _, value in lines if isinstance(value, dict)] == [{"a": 1}, {"b": 2}]
    assert "longer than" in str(lines[1][1])


@pytest.mark.parametrize(
    ("ours", "logged", "kind"),
    [
        ((1.0, "B"), (1.0, "B"), None),
        ((1.0, "B"), (None, None), None),
        ((None, "B"), (1.0, "B"), None),
        ((1.0, "B"), (0.6, "B"), "its verdict is partial"),
        ((0.0, None), (1.0, "B"), "it takes an answer where we read none (letter)"),
        ((0.0, "A"), (1.0, "B"), "it reads another answer"),
        ((0.0, "red"), (1.0, "Red"), "it accepts what we count as another answer"),
        ((1.0, "B"), (0.0, None), "it reads no answer where we do (letter)"),
        ((1.0, "B"), (0.0, "A"), "it reads another answer"),
        ((1.0, "7"), (0.0, "7"), "it refuses what we count as the same answer"),
    ],
)
def test_difference_is_named(ours: tuple, logged: tuple, kind: str | None) -> None:
    reading = ReadVerdict(correct=ours[0], answer=ours[1], rule="letter")
    assert difference(reading, ReadVerdict(correct=logged[0], answer=logged[1], rule="x")) == kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [*((text, 1.0) for text in ("C", "True", True, 1, "1", "1.0", "correct")),
     *((text, 0.0) for text in ("I", "N", "false", False, 0, "0.0")),
     *((text, None) for text in (None, "", "yes", 2, -0.1, float("nan"), "nan", 10**400, [1], {"score": 1}, "A")),
     ("P", 0.5), (0.25, 0.25)],
)  # fmt: skip
def test_values_that_are_verdicts(value: object, expected: float | None) -> None:
    assert verdict(value) == expected


def test_readers_are_described() -> None:
    assert reader("inspect: choice") == "takes the letter after `ANSWER:` alone"
    assert reader("lm-eval: strict, exact_match") == "compares what the task's filter takes from the reply"
    assert reader("inspect: mine") == "the task's own reader"
