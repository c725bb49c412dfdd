"""Commands in folders full of a user's files with names like ours leave every one of them as it was."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cluster.connect import connect
from jobs.cli.main import run
from pipelines.plan import prune
from tests.support.look_alikes import assert_untouched, plant

MODELS = "m: {engine: random}\nn: {engine: random, seed: 3}\n"
SWEEP = ("--models", "m,n", "--benchmarks", "maia", "--tasks", "vsv,oevqa", "--settings", "black-video,1-frame")


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="vsa-", dir="/tmp"))  # Ray's socket paths must stay short
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.timeout(600)
def test_every_command_leaves_look_alikes_untouched(
    maia_source: Path, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "GRACE", timedelta(0))
    data, out, history, to = (str(tmp_path / name) for name in ("data", "out", "history", "to"))
    (tmp_path / "models.yaml").write_text(MODELS)
    planted = plant(temporary, Path(data, "maia"), Path(out), Path(history), Path(to))
    common = ("--models-file", str(tmp_path / "models.yaml"), "--data", data)
    commands = [
        ("ingest", "maia", str(maia_source), "--data", data),
        ("ingest", "maia", str(maia_source), "--data", data),
        ("list", "models"),
        ("predict", *SWEEP, *common, "--out", out),
        ("run", *SWEEP, *common, "--out", out, "--judge", "n"),
        ("run", *SWEEP, *common, "--out", out, "--limit", "2"),
        ("run", *SWEEP, *common, "--out", out),
        ("score", *SWEEP, *common, "--out", out),
        ("report", *SWEEP, *common, "--out", out),
        ("status", out),
        ("compare", out, out),
        ("leaderboard", out, "--to", to),
        ("annotate", out, "--benchmark", "maia", "--n", "2", "--to", to),
        ("audit",),
        ("export", "lm-eval", out, str(tmp_path / "exported")),
        ("export", "hub", out, str(tmp_path / "hub")),
        ("nightly", *SWEEP, *common, "--out", out + "/nights", "--history", history),
        ("nightly", *SWEEP, *common, "--out", out + "/nights", "--history", history),
        ("generate", "mate", "--examples", "2", "--out", str(Path(to, "generated"))),
        ("doctor",),
    ]
    with connect(None):
        for command in commands:
            code = run(list(command))
            assert code in (0, 1), (command, code)
            assert_untouched(planted)
    assert_untouched(planted)
    assert not list(temporary.glob(f"vlmsweep-{os.getuid()}/????????/owner-*.json")), "our own folders are gone"


@pytest.mark.slow
def test_commands_on_finished_runs_leave_look_alikes_untouched(
    maia_source: Path, temporary: Path, tmp_path: Path
) -> None:
    data, out, history, to = (str(tmp_path / name) for name in ("data", "out", "history", "to"))
    (tmp_path / "models.yaml").write_text("".join(f"{name}: {{engine: random}}\n" for name in "mnopq"))
    (tmp_path / "policy.yaml").write_text("- {benchmark: maia, task: vsv, metric: statement_accuracy, at_least: 0}\n")
    planted = plant(temporary, Path(data, "maia"), Path(out), Path(history), Path(to))
    needed = dict.fromkeys((Path(data, "maia/rejected.jsonl"), Path(history, "index.html")), b"a user's")
    for path, content in needed.items():
        path.write_bytes(content)
    sweep = ("--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame", "--limit", "2", "--data", data)
    sweep += ("--models-file", str(tmp_path / "models.yaml"), "--models", "m,n,o,p,q")
    stressed = ("--out", str(tmp_path / "stressed"), "--conditions", "pixels", "--models", "m")
    commands = [
        ("ingest", "maia", str(maia_source), "--data", data),
        ("run", *sweep, "--out", out),
        ("stress", *sweep, *stressed),
        ("compare", f"{out}:m", f"{out}:n", "--explain"),
        ("power", out, "--difference", "0.1", "--metric", "statement_accuracy"),
        ("gate", out, "--policy", str(tmp_path / "policy.yaml")),
        ("items", out, "--to", to),
        ("site", out, "--to", str(Path(to, "site"))),
        ("site", out, "--to", str(Path(to, "site"))),
        ("export", "eee", out, str(tmp_path / "eee")),
        ("nightly", *sweep, "--models", "m", "--out", out + "/nights", "--history", history),
    ]
    for command in commands:
        code = run(list(command))
        assert code in (0, 1, 4), (command, code)
        assert_untouched(planted)
    assert_untouched({path.parent / "replaced" / path.name: content for path, content in needed.items()})
    assert run(["site", out, "--to", to]) == 2
    assert_untouched(planted)


def test_trainings_leave_look_alikes_untouched(tmp_path: Path) -> None:
    from pipelines.finetune.checkpoints import delete_checkpoints
    from pipelines.finetune.example_store import delete_examples
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
    flags = (*SWEEP, "--models-file", str(tmp_path / "models.yaml"), "--data", maia_data, "--out", str(out))
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
    flags = (*SWEEP, "--models-file", str(tmp_path / "models.yaml"), "--data", maia_data)
    assert run(["run", *flags, "--out", str(tmp_path / "out")]) == 3
    assert "is not a lock of vlmsweep; move it away" in capsys.readouterr().err
    assert json.loads((tmp_path / "out/lock.json").read_text()) == {"packages": []}
