"""Commands in folders full of a user's files with names like ours leave every one of them as it was."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from cluster.connection import connect
from jobs.cli.main import app, run
from pipelines.plan import context

MODELS = "m: {engine: random}\nn: {engine: random, seed: 3}\n"
SWEEP = "--models m,n --benchmarks maia --tasks vsv,oevqa --settings black-video,1-frame"
ON_NEW_FOLDERS = """
ingest maia {source} --data {data}
ingest maia {source} --data {data}
list models
predict {sweep} {common} --out {out}
run {sweep} {common} --out {out} --judge n
run {sweep} {common} --out {out} --limit 2
run {sweep} {common} --out {out}
score {sweep} {common} --out {out}
report {sweep} {common} --out {out}
status {out}
compare {out} {out}
leaderboard {out} --to {to}
annotate {out} --benchmark maia --n 2 --to {to}
audit
export lm-eval {out} {tmp}/exported
export hub {out} {tmp}/hub
nightly {sweep} {common} --out {out}/nights --history {history}
nightly {sweep} {common} --out {out}/nights --history {history}
generate mate --examples 2 --out {to}/generated
doctor
"""
ON_FINISHED_RUNS = """
ingest maia {source} --data {data}
run {common} --out {out}
stress {common} --out {tmp}/stressed --conditions pixels --models m
compare {out}:m {out}:n --explain
power {out} --difference 0.1 --metric statement_accuracy
gate {out} --policy {tmp}/policy.yaml
items {out} --to {to}
site {out} --to {to}/site
site {out} --to {to}/site
export eee {out} {tmp}/eee
export inspect {out} {tmp}/inspect
nightly {common} --models m --out {out}/nights --history {history}
"""
ON_COUNTERPARTS = """
twin {published} {twin}
twin {published} {twin}
export hf-eval {published} {tmp}/hf-eval --datasets mate=owner/name
"""
ELSEWHERE = {
    "finetune": "test_trainings_leave_look_alikes_untouched, and the refusal below",
    "submit": "writes nothing here: its job runs the commands above",
    "serve": "writes nothing but what Ray writes",
    "view": "writes in its own scratch alone: tests/unit/jobs/view",
    "demo": "ingests and runs as the commands above",
}
"""Commands that are not tried here, and why."""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="vsa-", dir="/tmp"))  # Ray's socket paths must stay short
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


def format_commands(lines: str, **places: object) -> list[list[str]]:
    """Return the arguments of commands, one a line."""
    return [shlex.split(line.format(sweep=SWEEP, **places)) for line in lines.strip().splitlines()]


def commands_of(command: Any, *names: str) -> set[str]:
    """Return the names of all commands of the command line."""
    if not hasattr(command, "commands"):
        return {" ".join(names)}
    return {name for each, below in command.commands.items() for name in commands_of(below, *names, each)}


def test_no_command_is_forgotten() -> None:
    lines = f"{ON_NEW_FOLDERS}{ON_FINISHED_RUNS}{ON_COUNTERPARTS}".split("\n")
    tried = {" ".join(line.split()[: 2 if line.startswith("export ") else 1]) for line in lines if line}
    assert commands_of(typer.main.get_command(app)) == tried | ELSEWHERE.keys()


@pytest.mark.timeout(600)
def test_every_command_leaves_look_alikes_untouched(
    maia_source: Path, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "GRACE", timedelta(0))
    data, out, history, to = (str(tmp_path / name) for name in ("data", "out", "history", "to"))
    (tmp_path / "models.yaml").write_text(MODELS)
    planted = plant(temporary, Path(data, "maia"), Path(out), Path(history), Path(to))
    common = f"--models-file {tmp_path}/models.yaml --data {data}"
    places = {"source": maia_source, "common": common, "tmp": tmp_path}
    with connect(None):
        for command in format_commands(ON_NEW_FOLDERS, data=data, out=out, history=history, to=to, **places):
            code = run(command)
            assert code in (0, 1), (command, code)
            assert_untouched(planted)
    assert_untouched(planted)
    assert not list(temporary.glob(f"vlmsweep-{os.getuid()}/????????/owner-*.json")), "our own folders are gone"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_commands_on_finished_runs_leave_look_alikes_untouched(
    maia_source: Path, temporary: Path, tmp_path: Path
) -> None:
    data, out, history, to = (str(tmp_path / name) for name in ("data", "out", "history", "to"))
    (tmp_path / "models.yaml").write_text("".join(f"{name}: {{engine: random}}\n" for name in "mnopq"))
    (tmp_path / "policy.yaml").write_text("- {benchmark: maia, task: vsv, metric: statement_accuracy, at_least: 0}\n")
    planted = plant(temporary, Path(data, "maia"), Path(out), Path(history), Path(to))
    needed = (Path(data, "maia/rejected.jsonl"), Path(data, "maia/manifest.json"), Path(out, "status.json"))
    for path in (*needed, Path(history, "index.html")):
        path.write_bytes(b"a user's")
    common = "--benchmarks maia --tasks vsv --settings 1-frame --limit 2 --models m,n,o,p,q"
    common += f" --data {data} --models-file {tmp_path}/models.yaml"
    places = {"source": maia_source, "common": common, "tmp": tmp_path}
    for command in format_commands(ON_FINISHED_RUNS, data=data, out=out, history=history, to=to, **places):
        code = run(command)
        assert code in (0, 1, 4), (command, code)
        assert_untouched(planted)
    copies = (path.parent / "replaced" / path.name for path in (*needed, Path(history, "index.html")))
    assert_untouched(dict.fromkeys(copies, b"a user's"))
    assert run(["site", out, "--to", to]) == 2
    assert_untouched(planted)


@pytest.mark.slow
def test_a_twin_leaves_look_alikes_untouched(temporary: Path, tmp_path: Path) -> None:
    from tests.integration.test_twin import scored, write_counterparts

    data, fresh = write_counterparts(tmp_path)
    outs = [tmp_path / "out-True", tmp_path / "out-False"]
    planted = {path: content for out in outs for path, content in plant(*(temporary, data, out, data, data)).items()}
    for folder in (data, fresh):
        scored(tmp_path, folder, is_published=folder == data)
        assert_untouched(planted)
    for command in format_commands(ON_COUNTERPARTS, published=outs[0], twin=outs[1], tmp=tmp_path):
        assert run(command) == 0, command
        assert_untouched(planted)


def test_trainings_leave_look_alikes_untouched(tmp_path: Path) -> None:
    from jobs.finetune.checkpoints import delete_checkpoints
    from jobs.finetune.example_store import delete_examples
    from pipelines.storage.store import Store

    planted, out = plant(tmp_path / "tmp", tmp_path, tmp_path, tmp_path, tmp_path), Store(str(tmp_path))
    for path in ("checkpoints/step-0000004.safetensors", "checkpoints/examples.sha256", "examples/train.parquet"):
        out.put(path, b"ours")
    delete_checkpoints(out)
    delete_examples(out)
    assert_untouched(planted)
    assert not out.exists("checkpoints/step-0000004.safetensors")
    assert not out.exists("examples/train.parquet")


@pytest.mark.slow
def test_training_in_a_folder_with_a_users_checkpoints_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.integration.test_finetune import flags_of

    (tmp_path / "tuned/checkpoints").mkdir(parents=True)
    (tmp_path / "tuned/checkpoints/step-0000004.safetensors").write_bytes(b"a user's")
    assert run(flags_of(tmp_path)) == 2
    assert "holds files that no training wrote, such as checkpoints/step-0000004.safetensors" in capsys.readouterr().err
    assert (tmp_path / "tuned/checkpoints/step-0000004.safetensors").read_bytes() == b"a user's"


def test_users_file_with_a_name_that_is_needed_is_kept_as_a_copy(
    maia_data: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "models.yaml").write_text(MODELS)
    out = tmp_path / "out"
    (out / "report").mkdir(parents=True)
    (out / "report/index.html").write_text("a user's page")
    flags = (*SWEEP.split(), "--models-file", str(tmp_path / "models.yaml"), "--data", maia_data, "--out", str(out))
    assert run(["run", *flags]) == 0
    assert "report/index.html was not written by vlmsweep; a copy is in replaced/" in caplog.text
    assert (out / "replaced/report/index.html").read_text() == "a user's page"
    caplog.clear()
    assert run(["report", *flags]) == 0
    assert "replaced" not in caplog.text


def test_users_lock_file_ends_a_run_and_stays(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models.yaml").write_text(MODELS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/lock.json").write_text(json.dumps({"packages": []}))
    flags = (*SWEEP.split(), "--models-file", str(tmp_path / "models.yaml"), "--data", maia_data)
    assert run(["run", *flags, "--out", str(tmp_path / "out")]) == 3
    assert "is not a lock of vlmsweep; move it away" in capsys.readouterr().err
    assert json.loads((tmp_path / "out/lock.json").read_text()) == {"packages": []}


MODEL_FOLDER = "benchmark=maia/model=m"
IN_TEMPORARY = (
    "vlmsweep-2026-11-24/run.json",
    "vlmsweep-2026-11-24/predictions/part.parquet",
    "vlmsweep-123-abc/notes.txt",
    "vlmsweep-4194304-clips-x/a.frames",
    "vlmsweep-4194303-file",
    f"vlmsweep-{os.getuid()}/mine/notes.txt",
    f"vlmsweep-{os.getuid()}/with-an-owner/owner-1-abcd.json",
    "vlmsweep-plan-x/run.json",
)
IN_DATA = ("samples/own.parquet", "samples/notes.txt", "samples/01234-00000.parquet", "media/own.png", ".notes.tmp")
IN_OUT = (
    ".notes.tmp",
    ".x.parquet.tmp",
    ".vlmsweep-notes.tmp",
    ".vlmsweep-files.json.bak",
    f"predictions/{MODEL_FOLDER}/.0123456789abcdef01234567.parquet.0123.tmp",
    f"predictions/{MODEL_FOLDER}/own.parquet",
    f"predictions/{MODEL_FOLDER}/0123456789abcdef.parquet",
    f"predictions/{MODEL_FOLDER}/external-own.parquet",
    f"predictions/{MODEL_FOLDER}/0123456789abcdef01234567.parquet.bak",
    f"scores/{MODEL_FOLDER}/copy of a part.parquet",
    "judgements/benchmark=maia/model=n/own.parquet",
    "captions/benchmark=maia/model=n/own.parquet",
    "plan/benchmark=maia/plan-own.json",
    "plan/benchmark=maia/part-own.parquet",
    "plan/benchmark=maia/judge-own.parquet",
    "batches/model=m/own.json",
    "checkpoints/own.safetensors",
    "checkpoints/step-1.safetensors",
    "examples/own.txt",
    "examples/pictures/own.png",
    "staging/own/notes.txt",
    "staging/0123456789abcdef/notes.txt",
    "nights/staging/own/run.json",
    "nights/staging/0123456789abcdef/notes.txt",
    "nights/report/own.csv",
    "damaged/own.parquet",
    "report/own.csv",
    "report/tables/own.tex",
    "notes.md",
    "replaced/notes.txt",
    "items.csv",
    "report/twin.csv",
    "report/stress.csv",
    "site/notes.txt",
)
IN_HISTORY = ("items/own.parquet", "pairs/own.parquet", "metrics/own.parquet", "notes.txt", ".notes.tmp")
IN_TO = ("own.html", "maia-annotator.html", "generated/notes.txt", "generated/x.jsonl.part", "generated/img/own.txt")


def plant(temporary: Path, data: Path, out: Path, history: Path, to: Path) -> dict[Path, bytes]:
    """Write the files, each with a content of its own; return them."""
    folders = ((temporary, IN_TEMPORARY), (data, IN_DATA), (out, IN_OUT), (history, IN_HISTORY), (to, IN_TO))
    planted = {folder / name: f"a user's {name}".encode() for folder, names in folders for name in names}
    for path, content in planted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return planted


def assert_untouched(planted: dict[Path, bytes]) -> None:
    """Check that all of them are there, unchanged."""
    lost = [str(path) for path in planted if not path.is_file()]
    assert not lost
    assert not [str(path) for path, content in planted.items() if path.read_bytes() != content]
