"""`run --until`: what is asked and excluded, kills, a narrower condition afterwards, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.analysis.explain.requests import read_entry
from models.spec import ModelSpec
from pipelines.errors import UsageError
from pipelines.ingest.dataset import load_tables
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import load_run
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.stopping.until import looks
from pipelines.predict import stage
from pipelines.predict.records import Receipt
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep
from pipelines.sweep.until import loop
from tests.chaos.processes import REPLICA, named
from tests.integration.conftest import Cli
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import always
from tests.support.paths import ROOT
from tests.support.scripted_engine import scripted


@pytest.fixture(scope="module")
def quiz(tmp_path_factory: pytest.TempPathFactory) -> str:
    """240 questions with four options, two in each of 120 clusters, and the first 24 as another table, ingested."""
    folder = tmp_path_factory.mktemp("quiz")
    lines = [
        f"q{number},c{number // 2},Which of four is item {number}?,w,x,y,z,{'ABCD'[number % 4]}"
        for number in range(240)
    ]
    (folder / "quiz.csv").write_text("\n".join(["id,group,question,A,B,C,D,answer", *lines]))
    (folder / "columns.yaml").write_text("cluster: group\n")
    (folder / "short.csv").write_text("\n".join(["id,group,question,A,B,C,D,answer", *lines[:24]]))
    for name in ("quiz", "short"):
        flags = ["--as", name, "--data", str(folder / "data"), "--columns", str(folder / "columns.yaml")]
        arguments = ["ingest", "table", str(folder / f"{name}.csv"), *flags]
        subprocess.run([sys.executable, "-m", "jobs.cli", *arguments], check=True, cwd=ROOT)
    return str(folder / "data")


def sweep(data: str, out: Path, until: str = "ci<=0.15", **fields: Any) -> RunSpec:
    fields.setdefault("benchmarks", ("quiz",))
    load_tables(data, [name for name in fields["benchmarks"] if name != "mate"])
    models = fields.pop("models", {name: ModelSpec(engine="random", seed=seed) for name, seed in (("a", 1), ("b", 2))})
    return RunSpec(
        data=data,
        out=str(out),
        models=models,
        until=until or None,
        **fields,
    )


def rows(out: Path) -> list[dict[str, Any]]:
    store, columns = Store(str(out)), ["request_id", "sample_id", "model", "status", "error", "output"]
    return [
        row
        for info in store.list("predictions", "*.parquet")
        for row in read_part(store, info.path, columns).to_pylist()
    ]


def stops(out: Path) -> list[dict[str, Any]]:
    return [entry["stop"] for entry in json.loads((out / "run.json").read_text())["entries"]]


def answered(out: Path) -> set[tuple[str, str]]:
    return {(row["model"], row["sample_id"]) for row in rows(out) if row["status"] == "ok"}


@pytest.mark.slow
def test_a_run_stops_and_goes_on_where_more_is_wanted(quiz: str, tmp_path: Path) -> None:
    result = run_sweep(sweep(quiz, tmp_path))
    first, (stop, _) = rows(tmp_path), stops(tmp_path)
    assert 10 < stop["reached"] < stop["clusters"] == 120
    assert (stop["until"], stop["seed"], len(stop["numbers"])) == ("ci<=0.15", 42, 1)
    assert len({row["request_id"] for row in first}) == len(first) == 480
    assert Counter(row["status"] for row in first) == {"ok": 4 * stop["reached"], "excluded": 480 - 4 * stop["reached"]}
    assert {row["error"] for row in first if row["status"] == "excluded"} == {"stopped"}
    assert sum(count.excluded for count in result.counts) == 480 - 4 * stop["reached"]
    assert any("stopped by ci<=0.15" in warning for warning in result.warnings)
    shown = {(m.model, m.task): m for m in result.metrics if m.metric == "accuracy" and m.is_whole}
    for number in stop["numbers"]:
        assert number["high"] - number["low"] <= 0.3
        row = shown["a", number["task"]]
        assert (row.set_ci_low, row.set_ci_high) == (number["low"], number["high"])
        assert row.ci_low not in (None, number["low"])  # of questions like these
    answers = {row["request_id"]: row["output"] for row in first if row["status"] == "ok"}
    run_sweep(sweep(quiz, tmp_path))
    assert answered(tmp_path) == {(row["model"], row["sample_id"]) for row in first if row["status"] == "ok"}
    assert len(rows(tmp_path)) == 480
    whole = run_sweep(sweep(quiz, tmp_path, ""))
    last = rows(tmp_path)
    assert {row["status"] for row in last} == {"ok"}
    assert len({row["request_id"] for row in last}) == len(last) == 480
    assert {name: {row["request_id"]: row["output"] for row in last}[name] for name in answers} == answers
    for metric in whole.metrics:
        if metric.model == "a" and metric.metric == "accuracy" and metric.is_whole:
            for number in stop["numbers"]:
                if number["task"] == metric.task:
                    assert metric.value is not None
                    assert number["low"] <= metric.value <= number["high"]
                    assert metric.set_ci_low is None


KILLED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from tests.integration.test_until import sweep
from pathlib import Path
from pipelines.progress import NullProgress
from pipelines.sweep.run import run_sweep
from pipelines.sweep.until import loop
from tests.chaos.processes import REPLICA, named

class Killer(NullProgress):
    left = {commits}
    def advance(self, rows, failed):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

run_sweep(sweep({data!r}, Path({out!r})), progress=Killer())
"""


@pytest.mark.slow
def test_a_run_killed_several_times_stops_at_the_same_place(quiz: str, tmp_path: Path) -> None:
    run_sweep(sweep(quiz, tmp_path / "whole"))
    out = tmp_path / "killed"
    for commits in (1, 3, 5, 9, 13):
        script = KILLED.format(root=str(ROOT), commits=commits, data=quiz, out=str(out))
        killed = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
        assert killed.returncode == -9, killed.stderr
    run_sweep(sweep(quiz, out))
    assert stops(out) == stops(tmp_path / "whole")
    assert answered(out) == answered(tmp_path / "whole")
    names = [row["request_id"] for row in rows(out)]
    assert len(set(names)) == len(names) == 480


@pytest.mark.full
def test_a_ranking_stops_a_run(quiz: str, tmp_path: Path) -> None:
    with ScriptedEndpoint(always("none")) as endpoint:
        wrong = ModelSpec(engine="openai", model="m", base_url=endpoint.base_url)
        run_sweep(sweep(quiz, tmp_path, "ranking", models={"guess": ModelSpec(engine="random"), "wrong": wrong}))
        assert len(endpoint.requests) == 2 * stops(tmp_path)[0]["reached"] < 240


@pytest.mark.full
def test_an_unavailable_model_leaves_the_others_their_stop(quiz: str, tmp_path: Path, closed_port: str) -> None:
    gone = ModelSpec(engine="openai", model="m", base_url=f"http://{closed_port}/v1", retries=0)
    models = {"a": ModelSpec(engine="random", seed=1), "gone": gone}
    run_sweep(sweep(quiz, tmp_path / "alone", models={"a": models["a"]}))
    result = run_sweep(sweep(quiz, tmp_path / "both", models=models))
    assert len(result.unavailable) == 1
    (alone,) = stops(tmp_path / "alone")
    assert alone["reached"] < alone["clusters"]
    entries = json.loads((tmp_path / "both" / "run.json").read_text())["entries"]
    assert {entry["model"]: entry.get("stop") for entry in entries} == {"a": alone, "gone": None}
    assert {row["model"] for row in rows(tmp_path / "both")} == {"a"}
    assert answered(tmp_path / "both") == answered(tmp_path / "alone")


def test_without_its_judge_a_run_is_reported_and_resumed(tmp_path: Path, inline_cli: Cli, closed_port: str) -> None:
    lines = "".join(f"{number},c{number},What is item {number}?,a box\n" for number in range(40))
    (tmp_path / "open.csv").write_text(f"id,group,question,answer\n{lines}")
    (tmp_path / "columns.yaml").write_text("cluster: group\n")
    data, out = str(tmp_path / "data"), tmp_path / "out"
    columns = ("--kind", "open", "--columns", str(tmp_path / "columns.yaml"))
    inline_cli("ingest", "table", str(tmp_path / "open.csv"), "--as", "items", *columns, "--data", data)
    with ScriptedEndpoint(lambda request: "Yes" if "box" in request.text else "a crate") as endpoint:
        entry = {"engine": "openai", "model": "m", "retries": 0}
        judges = {"gone": f"http://{closed_port}/v1", "judge": endpoint.base_url, "a": endpoint.base_url}
        (tmp_path / "models.json").write_text(
            json.dumps({name: {**entry, "base_url": at} for name, at in judges.items()})
        )
        flags = ["--models", "a", "--models-file", str(tmp_path / "models.json"), "--benchmarks", "items"]
        flags += ["--data", data, "--out", str(out), "--until", "ci<=0.3"]
        ended = inline_cli("run", *flags, "--judge", "gone", code=3)
        assert ended.stderr.count("no connection in 1 attempts") == 1
        assert (out / "report" / "index.html").is_file()
        assert Counter(row["status"] for row in rows(out)) == {"ok": looks(40)[0]}
        inline_cli("run", *flags, "--judge", "judge")
    assert Counter(row["status"] for row in rows(out)) == {
        "ok": stops(out)[0]["reached"],
        "excluded": 40 - stops(out)[0]["reached"],
    }


def test_refusals(quiz: str, tmp_path: Path, inline_cli: Cli) -> None:
    with pytest.raises(UsageError, match="share one clip, picture or scene"):
        run_sweep(replace(sweep(quiz, tmp_path / "one"), limit="1"))
    flags = ("--models", "random", "--data", quiz, "--out", str(tmp_path / "out"), "--until", "ci<=0.02")
    corpus = inline_cli("run", *flags, "--benchmarks", "vflute", code=2)
    assert "is a number of the whole corpus" in corpus.stderr
    alone = inline_cli("predict", *flags, "--benchmarks", "quiz", code=2)
    assert "`predict` computes no scores" in alone.stderr


@pytest.mark.full
def test_each_of_two_benchmarks_stops_where_it_stops_alone(quiz: str, tmp_path: Path) -> None:
    models = {"a": ModelSpec(engine="random", seed=1)}
    for name, benchmarks in (("alone", ("quiz",)), ("both", ("quiz", "short"))):
        run_sweep(sweep(quiz, tmp_path / name, "ci<=0.2", models=models, benchmarks=benchmarks))
    (alone,), (first, short) = stops(tmp_path / "alone"), stops(tmp_path / "both")
    assert first == alone
    assert alone["reached"] < alone["clusters"]
    assert (short["reached"], short["clusters"]) == (10, 12)  # its place while the other goes on
    count = sum(row["status"] == "excluded" for row in rows(tmp_path / "both"))
    assert count == 2 * (alone["clusters"] - alone["reached"]) + 4
    ids = [row["request_id"] for row in rows(tmp_path / "both")]
    assert len(set(ids)) == len(ids) == 264


@pytest.fixture(scope="module")
def mate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """60 scenes, about half of them of each of two tasks, ingested."""
    folder = tmp_path_factory.mktemp("mate")
    generate = ["generate", "mate", "--objects", "3", "--examples", "60", "--out", str(folder / "scenes")]
    for arguments in (generate, ["ingest", "mate", str(folder / "scenes"), "--data", str(folder / "data")]):
        subprocess.run([sys.executable, "-m", "jobs.cli", *arguments], check=True, cwd=ROOT)
    return str(folder / "data")


def intervals(out: Path) -> dict[tuple[str, str], tuple[float, float]]:
    (stop,) = stops(out)
    return {(number["task"], number["metric"]): (number["low"], number["high"]) for number in stop["numbers"]}


@pytest.mark.slow
def test_other_tasks_keep_the_rows_and_intervals_of_those_that_stopped(mate: str, tmp_path: Path) -> None:
    models = {"a": ModelSpec(engine="random")}
    fields: dict[str, Any] = {"models": models, "benchmarks": ("mate",), "settings": ("0-shot",)}
    run_sweep(sweep(mate, tmp_path, "ci<=0.35", tasks=("img2txt",), **fields))
    before, first = {row["request_id"]: row for row in rows(tmp_path)}, intervals(tmp_path)
    assert {row["status"] for row in before.values()} == {"ok", "excluded"}
    run_sweep(sweep(mate, tmp_path, "ci<=0.35", tasks=("txt2img",), **fields))
    after, both = {row["request_id"]: row for row in rows(tmp_path)}, intervals(tmp_path)
    assert before.items() <= after.items()
    assert {task for task, _ in both} == {"img2txt", "txt2img"}  # one of both together was not tested
    assert both["img2txt", "exact_match"] == first["img2txt", "exact_match"]
    run_sweep(sweep(mate, tmp_path, "", tasks=("img2txt",), **fields))
    assert {task for task, _ in intervals(tmp_path)} == {"txt2img"}
    last = {row["request_id"]: row for row in rows(tmp_path)}
    assert last.keys() == after.keys()
    assert all(last[name]["status"] == "ok" for name in before)
    assert all(last[name] == row for name, row in after.items() if name not in before)


@pytest.mark.full
def test_a_stopped_run_in_two_sets_of_prompts_is_reported(mate: str, tmp_path: Path) -> None:
    spec = sweep(mate, tmp_path, "ci<=0.45", models={"a": ModelSpec(engine="random")}, benchmarks=("mate",), seed=1)
    result = run_sweep(replace(spec, prompt_sets={"mate": ("default", "black")}))
    (stop,) = stops(tmp_path)
    assert stop["reached"] < stop["clusters"]
    assert sum(count.missing + count.error for count in result.counts) == 0
    assert {row["status"] for row in rows(tmp_path)} == {"ok", "excluded"}
    out = Store(str(tmp_path))
    with PlanStore.reading(out) as plans:
        side = read_entry(out, load_run(out).entries[0], plans, label="A")
    assert {*side.frame["status"]} == {"ok"}  # an explanation is of the rows that the report counts


def isolated(journal: Path) -> ModelSpec:
    """Return a model that Ray's replicas answer, with a file of the calls that they were asked."""
    return scripted(replicas=2, seed=1, call_s=0.001, journal=str(journal))


@pytest.fixture
def unheld(quiz: str, tmp_path: Path) -> Path:
    """The output of a run whose model answers in this process: no replica, nothing is held."""
    out = tmp_path / "unheld"
    run_sweep(sweep(quiz, out, models={"a": scripted(seed=1, in_driver=True)}))
    assert looks(120).index(stops(out)[0]["reached"]) >= 3
    return out


def answers(out: Path) -> dict[str, tuple[str, str]]:
    return {row["request_id"]: (row["status"], row["output"]) for row in rows(out)}


@pytest.mark.full
def test_a_replica_is_loaded_once_for_all_looks_and_again_where_it_was_killed(
    quiz: str, tmp_path: Path, unheld: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of a replica loads once; a receipt names the replica, which outlives it."""
    receipts, processes = list[Receipt](), list[list[int]]()

    def look(*arguments: Any) -> None:
        processes.append(named(os.getpid(), REPLICA))
        if len(processes) == 2:
            os.kill(processes[-1][0], signal.SIGKILL)
        decide(*arguments)

    decide = loop._look
    monkeypatch.setattr(loop, "_look", look)
    monkeypatch.setattr(stage, "count_commit", lambda _, receipt: receipts.append(receipt))
    run_sweep(sweep(quiz, tmp_path / "held", models={"a": isolated(tmp_path / "journal")}))
    assert stops(tmp_path / "held") == stops(unheld)
    assert answers(tmp_path / "held") == answers(unheld)
    assert processes[0] == processes[1], "loaded again for a look"
    assert len({*processes[2]} - {*processes[1]}) == 1
    assert all(each == processes[2] for each in processes[2:])
    assert {len(each) for each in processes} == {1}
    assert len({receipt.replica for receipt in receipts}) == 1, "the actor stays"
    assert sum(sum(receipt.counts.values()) for receipt in receipts) == 2 * stops(unheld)[0]["reached"]
    calls = (tmp_path / "journal").read_text().split()
    assert len({*calls}) == len(calls) == 2 * stops(unheld)[0]["reached"]


ENDED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from pipelines.sweep.until import loop
from jobs.cli.main import main
from tests.support.scripted_engine import scripted

decide, looks = loop._look, []

def look(*arguments):
    looks.append(arguments)
    if len(looks) == 2:
        os.kill(os.getpid(), {number})
    decide(*arguments)

loop._look = look
sys.exit(main({arguments!r}))
"""


@pytest.mark.full
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_run_that_ends_while_replicas_wait_is_resumed(
    quiz: str,
    tmp_path: Path,
    unheld: Path,
    command_env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: int,
) -> None:
    models, out = tmp_path / "models.json", tmp_path / "out"
    models.write_text(
        json.dumps(
            {
                "a": {
                    "engine": "scripted",
                    "seed": 1,
                    "fault_injection": {"call_s": 0.001, "journal": str(tmp_path / "journal")},
                }
            }
        )
    )
    flags = ["run", "--models", "a", "--models-file", str(models), "--benchmarks", "quiz", "--data", quiz]
    flags += ["--out", str(out), "--until", "ci<=0.15"]
    script = ENDED.format(root=str(ROOT), number=int(number), arguments=flags)
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, env=command_env)
    assert ended.returncode == code, ended.stderr
    calls, requests = (tmp_path / "journal").read_text().split(), list[int]()
    assert len({*calls}) == len(calls) == len(answers(out)) == 2 * looks(120)[1]
    monkeypatch.setattr(stage, "count_commit", lambda _, receipt: requests.append(sum(receipt.counts.values())))
    run_sweep(sweep(quiz, out, models={"a": scripted(seed=1, in_driver=True)}))
    assert sum(requests) + len(calls) == 2 * stops(unheld)[0]["reached"]
    assert stops(out) == stops(unheld)
    assert answers(out) == answers(unheld)
