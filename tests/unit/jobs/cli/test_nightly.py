"""The command of the nightly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.cli.main import run

MODELS = """a: {engine: random}
t: {engine: random, seed: 1}
u: {engine: random, seed: 2}
"""


def arguments(data: str, folder: Path, *more: str) -> list[str]:
    models = folder / "models.yaml"
    models.write_text(MODELS)
    locations = ["--data", data, "--out", str(folder / "out"), "--models-file", str(models)]
    return ["nightly", "--models", "a", "--benchmarks", "maia", *locations, *more]


def test_text_models_run_in_the_settings_of_their_joint_row_alone(
    maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ["--tasks", "vsv", "--settings", "black-video", "--text-models", "t,u", "--json"]
    assert run(arguments(maia_data, tmp_path, *flags)) == 0
    night = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert {pair["model"]: (pair["state"], pair["requests"]) for pair in night["pairs"]} == {
        "a": ("ran", 384),
        "t": ("ran", 384),
        "u": ("ran", 384),
    }
    joint = json.loads((tmp_path / "out" / "report" / "metrics.json").read_text())
    settings = {row["model"]: row["setting"] for row in joint if row["metric"] == "statement_accuracy"}
    assert settings == {
        "a": "black-video",
        "t": "unimodal",
        "u": "unimodal",
        "best of 2 text models": "unimodal",
        "vote of 2 text models": "unimodal",
    }


def test_group_of_models_leaves_text_models_and_what_cannot_run_out(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    flags = ["--models", "paper:maia", "--text-models", "t,u", "--dry-run", "--json"]
    arguments_ = arguments(maia_data, tmp_path, *flags)
    (tmp_path / "models.yaml").write_text(
        "a: {engine: random, papers: [maia]}\nt: {engine: random, seed: 1, papers: [maia]}\nu: {engine: random}\n"
        "x: {engine: transformers, model: /no/such/folder, papers: [maia]}\n"
    )
    assert run(arguments_) == 0
    pairs = [pair["model"] for pair in json.loads(capsys.readouterr().out)["pairs"]]
    assert {"a", "t", "u"} <= {*pairs}
    assert pairs.count("t") == 1
    assert "x" not in pairs
    assert "x: no folder /no/such/folder" in caplog.text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--text-models", "a"), "named by --models and by --text-models"),
        (("--models", "fits:80GB", "--text-models", "fits:80GB"), "--text-models names all of these"),
        (("--text-models", "t", "--benchmarks", "mate"), "none of these benchmarks"),
        (("--human", "vague=answers.csv"), "vague"),
    ],
)
def test_unusable_flags_end_with_2(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], message: str
) -> None:
    assert run(arguments(maia_data, tmp_path, *more)) == 2
    assert message in capsys.readouterr().err


def test_dry_run_shows_order_estimates_and_what_waits(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "paid.yaml"
    models.write_text("paid: {engine: random, price: {input_per_million: 1000000.0, output_per_million: 0.0}}\n")
    flags = ["--models-file", str(models), "--models", "paid,a", "--budget-usd", "1", "--dry-run"]
    assert run(arguments(maia_data, tmp_path, *flags, "--json")) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert [(pair["model"], pair["waits"]) for pair in pairs] == [("paid", True), ("a", False)]
    assert pairs[0]["usd"] > 1
    assert run(arguments(maia_data, tmp_path, *flags)) == 0
    assert "more than the whole budget" in capsys.readouterr().out
    assert not (tmp_path / "out" / "predictions").exists()
