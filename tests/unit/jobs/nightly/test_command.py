from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from jobs.cli.main import run
from jobs.nightly.budget import due_pairs
from jobs.nightly.history import History, Pair
from jobs.nightly.items import ItemScores, ScoreKey
from jobs.nightly.regressions import Comparison, Level
from pipelines.plan.run_spec import RunSpec
from tests.support.damage_matrix import DAMAGES, damage
from tests.support.turns import in_turns
from tests.unit.jobs.nightly.cases import EARLIER, NOW, metric, random

MODELS = """a: {engine: random}
t: {engine: random, seed: 1}
u: {engine: random, seed: 2}
"""


def arguments(data: str, folder: Path, *more: str) -> list[str]:
    models = folder / "models.yaml"
    models.write_text(MODELS)
    locations = ["--data", data, "--out", str(folder / "out"), "--models-file", str(models)]
    return ["nightly", "--models", "a", "--benchmarks", "maia", *locations, *more]


def test_text_models_run_for_their_row_alone(maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
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
        "a": "black-video", "t": "unimodal", "u": "unimodal", "best of 2 text models": "unimodal",
        "vote of 2 text models": "unimodal",
    }  # fmt: skip


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


def test_names_of_one_benchmark_leave_others_running(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data, file = str(tmp_path / "data"), tmp_path / "rows.csv"

    def ingest(name: str, question: str) -> None:
        file.write_text(f"id,question,answer\n1,{question}?,yes\n2,{question} not?,no\n")
        kind = {"judged": "yes-no", "named": "label"}[name]
        assert run(["ingest", "table", str(file), "--as", name, "--data", data, "--kind", kind]) == 0

    def night() -> dict[str, str]:
        assert run(arguments(data, tmp_path, *flags)) == 0
        pairs = json.loads(capfd.readouterr().out.splitlines()[-1])["pairs"]
        return {pair["benchmark"]: pair["state"] for pair in pairs}

    flags = ["--benchmarks", "judged,named", "--tasks", "yes-no,label", "--budget-hours", "1", "--json"]
    for name in ("judged", "named"):
        ingest(name, "Is it")
    assert night() == {"judged": "ran", "named": "ran"}
    ingest("named", "Is that")
    assert night() == {"judged": "unchanged", "named": "ran"}


def test_text_models_need_a_joint_row(maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(maia_data, tmp_path / "data")
    rows = tmp_path / "rows.csv"
    rows.write_text("id,question,answer\n1,Is it?,yes\n2,Is it not?,no\n")
    assert run(["ingest", "table", str(rows), "--as", "mine", "--data", str(tmp_path / "data")]) == 0
    version = "table-yes-no-v1"
    flags = ["--benchmarks", "maia,mine", "--prompt-version", f"{version}={version}", "--text-models", "t"]
    capsys.readouterr()
    assert run(arguments(str(tmp_path / "data"), tmp_path, *flags, "--dry-run", "--json")) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert {(pair["model"], pair["benchmark"]) for pair in pairs} == {("a", "maia"), ("a", "mine"), ("t", "maia")}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--text-models", "a"), "named by --models and by --text-models"),
        (("--models", "fits:80GB", "--text-models", "fits:80GB"), "--text-models names all of these"),
        (("--text-models", "t", "--benchmarks", "mate"), "none of these benchmarks"),
        (("--human", "vague=answers.csv"), "vague"),
        (("--baseline", "out"), "--baseline: is what lines of --policy compare with"),
    ],
)
def test_unusable_flags_end_with_2(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], message: str
) -> None:
    assert run(arguments(maia_data, tmp_path, *more)) == 2
    assert message in capsys.readouterr().err


def test_dry_run_shows_what_runs_and_waits(maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def write_nights(data: str, root: Path, value: float, nights: tuple[str, str]) -> None:
    """Record two nights that measured a model, which moved in the second."""
    history = History(str(root / "out" / "history"))
    spec = RunSpec(data=data, out=str(root / "out"), models={"a": random()}, benchmarks=("maia",))
    key = ScoreKey("a", "maia", "vsv", "1-frame", "correct")
    for night, before in zip(nights, ("", nights[0]), strict=True):
        (status,) = due_pairs(spec, history)
        pair = Pair(
            night=night, model="a", benchmark="maia", state="ran", measured=night, fingerprint=status.fingerprint,
            parts=status.parts,
        )  # fmt: skip
        level = Level(model="a", benchmark="maia", night=night, basis=status.basis, before=before)
        items = {key: ItemScores.of(np.array(["x", "y"]), np.array([value, 1.0]))}
        metrics = [metric(value, model="a")]
        history.write(night, [pair], metrics, "# Nightly", Comparison(items=items, levels=[level]))


@pytest.mark.parametrize("place", in_turns((0, -1), (-1,)), ids=["first night", "last night"])
@pytest.mark.parametrize("kind", in_turns(("metrics", "items", "changes", "pairs", "summaries"), ("items", "pairs")))
def test_damage_to_nights_ends_the_next_one_before_it_is_recorded(
    maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, kind: str,
    place: int,
) -> None:  # fmt: skip
    base, other, root = (tmp_path / name for name in ("base", "other", "root"))
    write_nights(maia_data, base, 0.5, (EARLIER, NOW))
    write_nights(maia_data, other, 0.75, (EARLIER.replace("2026", "2025"), NOW.replace("2026", "2025")))
    command = arguments(maia_data, base, "--out", str(root / "out"))

    def message_of(code: int, *flags: str) -> str:
        capfd.readouterr()
        caplog.clear()
        assert run([*command, *flags]) == code
        message = capfd.readouterr().err + caplog.text
        assert "Traceback" not in message
        return message

    for way in DAMAGES:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(base, root)
        path = damage(f"out/history/{kind}/*", way, root, other, place)
        where, remedy = (kind, way), "nothing writes it again: delete it, and nights go on without it"
        if way != "deleted" and kind != "summaries":
            message = message_of(3)
            assert message.count("\n") == 1
            assert f"{kind}/{path.name}: " in message
            assert remedy in message
            assert len([*(root / "out/history/pairs").iterdir()]) == 2
            assert message_of(3, "--dry-run") == message
            path.unlink()
        message = message_of(0)
        is_compared = kind == "items" or (place and kind in ("metrics", "changes"))
        assert (f"{kind}/{path.name} is missing: nothing is compared with it" in message) == bool(is_compared), where
        assert ("is of an incomplete night" in message) == bool(place and kind == "pairs"), where
        assert "maia" in (root / "out/history/index.html").read_text(), where


@pytest.mark.parametrize(("least", "code", "decision"), [(0.01, 0, "GO"), (0.99, 1, "NO-GO"), (0.5, 4, "INCONCLUSIVE")])
def test_a_policy_decides_how_a_night_ends(
    maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], least: float, code: int, decision: str
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"- {{benchmark: maia, task: vsv, metric: statement_accuracy, at_least: {least}}}\n")
    flags = ["--tasks", "vsv", "--settings", "1-frame", "--policy", str(policy), "--json"]
    assert run(arguments(maia_data, tmp_path, *flags)) == code
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["decision"] == decision


def test_an_unusable_policy_wastes_no_night(maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(arguments(maia_data, tmp_path, "--policy", str(tmp_path / "absent.yaml"))) == 2
    assert "--policy" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unmeasured_policy_hides_no_night(maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    policy, summary = tmp_path / "policy.yaml", tmp_path / "summary.md"
    policy.write_text("- {benchmark: maia, metric: statement_accuracy, model: absent, at_least: 0.5}\n")
    flags = ["--tasks", "vsv", "--settings", "1-frame", "--policy", str(policy), "--summary", str(summary)]
    assert run(arguments(maia_data, tmp_path, *flags)) == 2
    result = capfd.readouterr()
    assert "no model 'absent'" in result.err
    assert "# Nightly" in result.out
    assert "1 pair run" in summary.read_text()
