"""Exports go to a new local folder."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from jobs.cli.main import run


@pytest.mark.parametrize(
    ("folder", "code", "message"),
    [
        ("s3://bucket/x", 2, "only local folders"),
        ("{tmp}/full", 2, "holds files already"),
        ("{tmp}/full/file", 3, "no folder can be created there"),
    ],
)
def test_unusable_folders_are_refused(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, code: int, message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    assert run(["export", "hub", out, folder.format(tmp=tmp_path)]) == code
    assert message in capsys.readouterr().err
    assert (tmp_path / "full" / "file").read_text() == "kept"


def test_something_else_than_an_output_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert run(["export", "lm-eval", str(tmp_path / "empty"), str(tmp_path / "x")]) == 2
    assert "no run.json" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_interrupted_export_says_that_its_folder_cannot_be_used_again(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.export.lm_eval.export_lm_eval", interrupt)
    assert run(["export", "lm-eval", out, str(tmp_path / "x")]) == 130
    assert "x holds an unfinished export: remove it before the same command runs again" in caplog.text
