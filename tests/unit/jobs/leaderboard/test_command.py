from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.cli.main import run
from tests.support.leaderboard_output import entry, metric, write_output


@pytest.fixture
def outs(tmp_path: Path) -> list[str]:
    models = {"one": entry("m1"), "two": entry("m2", limit="1-5")}
    return [
        write_output(str(tmp_path / name), [model_entry], [metric(model_entry.model, 0.5)])
        for name, model_entry in models.items()
    ]


def test_page_and_csv_are_written(outs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "to"
    assert run(["leaderboard", outs[0], "--to", str(to), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "page": f"{to}/leaderboard.html", "csv": f"{to}/leaderboard.csv",
        "rows": {"measured": 1, "published": 1, "reported": 0}, "conflicts": [],
    }  # fmt: skip
    assert {path.name for path in to.iterdir()} == {"leaderboard.html", "leaderboard.csv", ".vlmsweep-files.json"}


def test_mixed_rows_end_with_2_or_marked(outs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "to"
    assert run(["leaderboard", *outs, "--to", str(to)]) == 2
    assert "maia: samples: all samples in one (m1); --limit 1-5 in two (m2)" in capsys.readouterr().err
    assert not to.exists()
    assert run(["leaderboard", *outs, "--to", str(to), "--allow-mixed"]) == 0
    assert "marked: maia: samples" in capsys.readouterr().out
    assert "Rows that were not measured alike" in (to / "leaderboard.html").read_text()


def test_unknown_names_end_with_2(outs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["leaderboard", outs[0], "--to", str(tmp_path / "to"), "--benchmarks", "mai"]) == 2
    assert "maia" in capsys.readouterr().err
    assert run(["leaderboard", str(tmp_path / "none"), "--to", str(tmp_path / "to")]) == 2
    assert "no run.json; is this the --out of a run?" in capsys.readouterr().err
