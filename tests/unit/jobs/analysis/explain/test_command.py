"""`vlmsweep compare A B --explain` on outputs of real sweeps."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.cli.main import run
from models.spec import ModelSpec
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep

Sweep = Callable[..., str]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Return what sweeps a table of 60 questions with models by name, in a folder of its own."""
    folder = tmp_path_factory.mktemp("explain")
    with (folder / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "A", "B", "C", "answer"))
        rows.writerows((n, f"Which is {n}?", f"one {n}", f"two {n}", f"three {n}", "ABC"[n % 3]) for n in range(60))
    data = str(folder / "data")
    ingest_table(str(folder / "questions.csv"), Store(data), name="asked")
    load_tables(data, ["asked"])

    def sweep_into(name: str, models: dict[str, Any], **fields: Any) -> str:
        specs = {model: ModelSpec(engine="random", **entry) for model, entry in models.items()}
        out = str(folder / name)
        run_sweep(RunSpec(data=data, out=out, models=specs, benchmarks=("asked",), **fields))
        return out

    return sweep_into


@pytest.fixture(scope="module")
def out(sweep: Sweep) -> str:
    return sweep("out", {"a": {"seed": 1}, "x:y": {"seed": 2}})


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run(["compare", *arguments, "--explain", "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def first_stage(rows: list[dict[str, Any]]) -> str:
    assert [row["stage"] for row in rows] == [
        *("items", "prompts", "media", "decoding", "errors", "reading", "judge", "answers", "aggregation")
    ]
    assert abs(math.fsum(row["share"] for row in rows) - rows[0]["difference"]) < 1e-12
    assert [row["n_rows"] for row in rows] == [len(row["rows"]) for row in rows]
    return str(max(rows, key=lambda row: abs(row["share"]))["stage"])


def test_tasks_and_settings_choose_benchmarks(sweep: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = Path(sweep("two", {"a": {"seed": 1}, "b": {"seed": 2}}))
    (tmp_path / "rows.csv").write_text("\n".join(["id,question,answer", *(f"{n},Is it {n}?,yes" for n in range(9))]))
    data, out = str(two.parent / "data"), str(two)
    ingest_table(str(tmp_path / "rows.csv"), Store(data), name="judged", kind="yes-no")
    load_tables(data, ["judged"])
    models = {name: ModelSpec(engine="random", seed=seed) for seed, name in enumerate("ab")}
    run_sweep(RunSpec(data=data, out=out, models=models, benchmarks=("judged",)))
    for tasks, names in (("choice", {"asked"}), ("yes-no", {"judged"}), ("choice,yes-no", {"asked", "judged"})):
        flags = ("--tasks", tasks, "--settings", "default")
        assert {row["benchmark"] for row in explained(capsys, f"{out}:a", f"{out}:b", *flags)} == names
    assert run(["compare", f"{out}:a", f"{out}:b", "--explain", "--tasks", "choices"]) == 2
    assert "unknown task 'choices'; did you mean 'choice'?" in capsys.readouterr().err


def test_models_of_one_output_have_the_verdict_first(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = explained(capsys, f"{out}:a", f"{out}:x:y")
    assert first_stage(rows) == "answers"
    assert {row["b"] for row in rows} == {"B, x:y"}
    assert run(["compare", f"{out}:a", f"{out}:x:y", "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("asked choice default accuracy: 0.")
    assert "Most comes from answers" in " ".join(" ".join(lines[:2]).split())
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("read as vlmevalkit does: A ") for line in lines)


def test_models_are_chosen_as_in_plain_comparisons(out: str, sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    by_names = explained(capsys, f"{out}:a", f"{out}:x:y")
    assert explained(capsys, out, "--models", "a,x:y") == by_names
    assert explained(capsys, out) == by_names
    assert explained(capsys, out, out, "--models", "a,x:y") == by_names
    other = sweep("other", {"a": {"seed": 3}, "x:y": {"seed": 2}, "z": {"seed": 4}})
    assert {(row["a"], row["b"]) for row in explained(capsys, out, other, "--models", "a")} == {("A, a", "B, a")}
    assert explained(capsys, out, other, "--models", "x:y,z") == explained(capsys, f"{out}:x:y", f"{other}:z")
    pairs = {(row["a"], row["b"]) for row in explained(capsys, other)}
    assert pairs == {("A, a", "B, x:y"), ("A, a", "B, z"), ("A, x:y", "B, z")}
    assert run(["compare", other, "--explain", "--models", "z,a,x:y"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A: z; B: a\nasked choice default accuracy: ")
    assert "\n\nA: z; B: x:y\n" in shown


TEXT = "{hint}{question} {options} Say one letter."


@pytest.mark.parametrize(
    ("stage", "entry", "fields"),
    [
        ("prompts", {}, {"prompts": {"asked": {"table-choice-v1": TEXT}}}),
        ("decoding", {"generation": {"temperature": 0.7}}, {}),
        ("items", {}, {"limit": "20"}),
    ],
)
def test_runs_that_differ_in_one_thing(
    out: str,
    sweep: Sweep,
    stage: str,
    entry: dict[str, Any],
    fields: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = explained(capsys, f"{out}:a", sweep(stage, {"a": {"seed": 1, **entry}}, **fields))
    assert first_stage(rows) == stage
    assert {row["stage"] for row in rows if row["n_rows"]} == {stage}


def test_repeats_are_averaged_as_in_the_report(sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    out = sweep("repeats", {"a": {"seed": 1}, "b": {"seed": 2}}, repeats=3, settings=("circular",))
    results = {
        (row["metric"], row["model"]): row["value"]
        for row in json.loads((Path(out) / "report/metrics.json").read_text())
        if not row["category"]
    }
    for metric in ("circular_accuracy", "majority"):
        rows = explained(capsys, f"{out}:a", f"{out}:b", "--metric", metric)
        assert rows[0]["value_a"] == pytest.approx(results[metric, "a"])
        assert rows[0]["value_b"] == pytest.approx(results[metric, "b"])
        assert results[metric, "a"] != results[metric, "b"]
        assert first_stage(rows) == "answers"


def test_answers_made_elsewhere(out: str, sweep: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = {str(number): "ABC"[number % 3] for number in range(60)}
    result = {"benchmark": "asked", "model": "m", "task": "choice", "setting": "default"}
    outs = []
    for name, failed in (("whole", ()), ("failed", ("0", "1", "2"))):
        rows = [
            {**result, "sample_id": key, "output": None if key in failed else letter if int(key) % 2 else "A or B"}
            for key, letter in right.items()
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        outs.append(str(tmp_path / name))
        data = json.loads((Path(out) / "run.json").read_text())["sweep"]["data"]
        run(["score", "--predictions", str(tmp_path / f"{name}.jsonl"), "--data", data, "--out", outs[-1]])
    capsys.readouterr()
    stages = explained(capsys, *outs)
    assert first_stage(stages) == "errors"
    assert {row["stage"]: row["n_rows"] for row in stages if row["n_rows"]} == {"errors": 3}
    assert any("answers were imported" in note for row in stages for note in row["notes"])
    (readings,) = (row["readings"] for row in stages if row["stage"] == "reading")
    assert {of["reading"]: of["n_guessed"] for of in readings} == {"ours": 0, "lmms-eval": 0, "vlmevalkit": 0}


PROMPT = "Which is {0}?\nA. one {0}\nB. two {0}\nC. three {0}\nAnswer with the letter of the right option alone."


def write_log(folder: Path, rows: list[dict[str, Any]]) -> str:
    """Write a log as lmms-eval does."""
    folder.mkdir()
    path = folder / "20260101_000000_samples_asked.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def log_rows(out: str, model: str, verdict: Callable[[int, str, float], float]) -> list[dict[str, Any]]:
    """Return the answers of a model as lines of a log, with a verdict of the harness each."""
    rows = [
        row for path in Path(out).glob(f"scores/*/model={model}/*.parquet") for row in pq.read_table(path).to_pylist()
    ]
    return [
        {"doc_id": number, "doc": {"id": row["sample_id"], "question": f"Which is {row['sample_id']}?"},
         "input": PROMPT.format(row["sample_id"]), "resps": [row["answer"]], "filtered_resps": [row["answer"]],
         "target": "", "exact_match": verdict(number, row["answer"], dict(row["values"])["correct"])}
        for number, row in enumerate(rows)
    ]  # fmt: skip


def test_log_of_a_harness_that_reads_otherwise(out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = log_rows(out, "a", lambda number, _answer, right: right if number > 9 else 1.0)
    differing = sum(row["exact_match"] for row in rows[:10])
    differing -= sum(row["exact_match"] for row in log_rows(out, "a", lambda *of: of[2])[:10])
    stages = explained(capsys, write_log(tmp_path / "log", rows), f"{out}:a")
    assert first_stage(stages) == "reading"
    assert {row["stage"]: row["n_rows"] for row in stages if row["n_rows"]} == {"reading": differing}
    assert any("neither weights, media nor settings" in note for row in stages for note in row["notes"])


def test_failed_request_in_a_log_is_an_error(out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = log_rows(out, "a", lambda _number, _answer, right: right)
    for row in rows[:5]:
        row.update(resps=[None], filtered_resps=[None], exact_match=0.0)
    stages = explained(capsys, f"{out}:a", write_log(tmp_path / "log", rows))
    assert first_stage(stages) == "errors"


def test_logs_need_questions(out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log", log_rows(out, "a", lambda _number, _answer, right: right))
    assert run(["compare", log, log, "--explain"]) == 2
    assert "comparing two logs requires --data and --benchmarks" in capsys.readouterr().err
    data = json.loads((Path(out) / "run.json").read_text())["sweep"]["data"]
    rows = explained(capsys, log, log, "--data", data, "--benchmarks", "asked")
    assert {row["share"] for row in rows} == {0.0}
    assert run(["compare", log, out, "--explain"]) == 2
    assert "name it as OUT:MODEL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{out}:a", "{out}:c"], "no model 'c'"),
        (["{out}:a", "{out}:x:y", "--metric", "acuracy"], "did you mean 'accuracy'"),
        (["{out}:a", "{out}:x:y", "--reading", "vlmeval"], "did you mean 'vlmevalkit'"),
        (["{out}:a", "{out}:x:y", "--settings", "zzz"], "unknown setting 'zzz'; known: default"),
        (["{out}:a", "{out}:x:y", "--benchmarks", "aske"], "aske is not in both"),
        (["{out}:a", "{out}/none"], "neither the --out of a run"),
        (["{out}", "{out}"], "the models are ambiguous"),
        (["{out}:a"], "--explain needs two sides"),
        (["{out}", "--models", "a"], "only one model, a, of one output"),
        (["{out}", "--models", "a,c"], "unknown model 'c'; known: a, x:y"),
        (["{out}", "{out}", "--models", "a,c"], "unknown model 'c'"),
        (["{out}", "{out}", "--models", "a,x:y,a2"], "--models: give one model, or two: one of each side"),
        (["{out}:a", "{out}", "--models", "x:y"], "--models x:y: a is named already, as OUT:MODEL"),
        (["{out}", "published", "--models", "c"], "unknown model 'c'"),
    ],
)
def test_bad_input_is_a_sentence(
    out: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *(text.format(out=out) for text in arguments), "--explain"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_data_that_changed_since_are_not_the_runs_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out, table = str(tmp_path / "data"), str(tmp_path / "out"), tmp_path / "q.csv"
    for answer in ("yes", "no"):
        table.write_text(f"id,question,answer\n{answer},Is it?,{answer}\n2,Is it so?,no\n")
        assert run(["ingest", "table", str(table), "--as", "changed", "--data", data]) == 0
        if answer == "yes":
            assert run(["run", "--models", "random", "--benchmarks", "changed", "--data", data, "--out", out]) == 0
    capsys.readouterr()
    forms = ["annotate", out, "--benchmark", "changed", "--n", "1", "--to", str(tmp_path / "forms")]
    for command in (["compare", out, out, "--explain"], forms):
        assert run(command) == 2
        assert "changed since the run read it; run its models again" in capsys.readouterr().err
