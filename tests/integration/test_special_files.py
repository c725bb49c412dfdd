"""Pipes and folders in place of files, and foreign scratch folders, end commands with a sentence and stay."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.cli.main import run
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store
from tests.tools.shell_matrix import Shell, forms, groups, open_shell, problems

SWEEP = ("--models", "m", "--models-file", "models.yaml", "--benchmarks", "t", "--data", "data", "--out", "out")
COMMANDS = {
    "run": ("run", *SWEEP),
    "report": ("report", *SWEEP),
    "status": ("status", "out"),
    "site": ("site", "out", "--to", "site"),
    "leaderboard": ("leaderboard", "out", "--to", "board"),
    "annotate": ("annotate", "out", "--benchmark", "t", "--n", "2", "--to", "forms"),
}
FILES = {
    "out/run.json": ("run", "report", "status", "leaderboard", "annotate"),
    "out/status.json": ("status",),
    "out/.vlmsweep-files.json": ("report",),
    "out/report/index.html": ("report",),
    "out/plan/benchmark=t/plan-*.json": ("report",),
    "out/predictions/benchmark=t/model=m/*.parquet": ("run",),
    "out/lock.json": ("run", "report"),
    "data/t/manifest.json": ("run",),
    "data/t/samples/*.parquet": ("run",),
    "site/lock.json": ("site",),
    "board/lock.json": ("leaderboard",),
    "forms/lock.json": ("annotate",),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a small table."""
    folder = tmp_path_factory.mktemp("special")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("models.yaml").write_text("m: {engine: random}\n")
        assert run(["generate", "table", "--from", "mate", "--examples", "4", "--out", "source"]) == 0
        assert run(["ingest", "table", "source", "--as", "t", "--data", "data"]) == 0
        assert run([*COMMANDS["run"]]) == 0
    return folder


@pytest.fixture
def place(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["pipe", "folder"])
@pytest.mark.parametrize("pattern", FILES)
def test_what_is_no_file_ends_a_command_with_a_sentence_and_stays(
    place: Path, pattern: str, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = next(place.glob(pattern), place / pattern)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    for name in FILES[pattern]:
        before = stat.S_IFMT(path.lstat().st_mode)
        code = run([*COMMANDS[name]])
        error = capfd.readouterr().err
        assert code in (2, 3), (name, error)
        assert path.name in error, (name, error)
        assert "Traceback" not in error
        assert stat.S_IFMT(path.lstat().st_mode) == before, name


@pytest.mark.parametrize("name", ["site", "leaderboard", "annotate"])
def test_second_command_into_one_place_is_told_which_run_writes_there(
    place: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[name]
    with run_lock(Store(command[-1])) as token:
        assert run([*command]) == 3
    error = capfd.readouterr().err
    assert f"is being written by run {token[:8]}" in error
    assert error.rstrip().endswith("wait for it, stop it, or choose another --to")
    unfinished = place / command[-1] / f".vlmsweep-{'0' * 32}.tmp"
    unfinished.write_text("of a killed command")
    assert run([*command]) == 0
    assert run([*command]) == 0
    assert not unfinished.exists()
    assert not (place / command[-1] / "lock.json").exists()


@pytest.mark.parametrize("obstacle", ["dangling link", "link", "file"])
def test_foreign_scratch_folder_ends_commands_with_a_sentence(
    place: Path, tmp_path: Path, obstacle: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "tmp" / f"vlmsweep-{os.getuid()}"
    base.parent.mkdir()
    if obstacle == "file":
        base.write_text("mine")
    else:
        (tmp_path / "target").mkdir()
        base.symlink_to(tmp_path / ("target" if obstacle == "link" else "absent"))
    monkeypatch.setattr(tempfile, "tempdir", str(base.parent))
    for command in (
        ("ingest", "table", "source", "--as", "u", "--data", "data"),
        ("report", *SWEEP),
        COMMANDS["site"],
        ("view", "out", "--port", "0"),
        ("export", "inspect", "out", "logs", "--media"),
    ):
        code, error = run([*command]), capfd.readouterr().err
        assert "Traceback" not in error, (command, error)
        if code:
            assert code == 3, (command, error)
            assert f"{base} is a" in error
            assert "set TMPDIR to a folder of your own" in error
    assert os.path.lexists(base)


FORMS, GROUPS = forms(), groups()
ROTATED = ("audit", "gate", "generate", "leaderboard")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with open_shell(tmp_path_factory.mktemp("shell"), {}) as opened:
        yield opened


@pytest.mark.full
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_every_variable(shell: Shell, group: int) -> None:
    for name in ("status", ROTATED[group % len(ROTATED)]):
        assert [*problems(shell, name, FORMS[name], GROUPS[group])] == []
