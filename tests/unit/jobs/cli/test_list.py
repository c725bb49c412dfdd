"""`vlmsweep list models` on a narrow terminal: names, whether they run, and each reason once with its models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs import doctor
from jobs.cli import list as list_command
from jobs.cli.main import run
from jobs.dry_run.plan_table import engine_summary
from jobs.shared import output
from models.catalog_loader import load_models
from models.engines.hub import HubAnswer
from tests.support.checkpoint_folder import POINTER, write_checkpoint

KNOWN = HubAnswer(state="known")
SMALL = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 8,
    "vocab_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
}


def test_models_fit_a_terminal_and_share_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    away = HubAnswer(state="unreachable", problem="no route")
    monkeypatch.setattr(doctor, "ask_hub", lambda questions, deadline_s: dict.fromkeys(questions, away))
    monkeypatch.setattr(doctor, "local_gpus", list)
    monkeypatch.setattr(doctor, "local_memory", lambda: (24 * 10**9, 0))
    for module in (output, list_command):
        monkeypatch.setattr(module, "terminal_width", lambda _stream: 60)
    entries = "".join(f"{name}: {{engine: transformers, model: o/{name}, parameters_b: 2}}\n" for name in ("aa", "ab"))
    (tmp_path / "m.yaml").write_text(entries)
    assert run(["list", "models", "--models-file", str(tmp_path / "m.yaml")]) == 0
    table, _, reasons = capsys.readouterr().out.partition("\nwhy not:\n")
    assert max(map(len, table.splitlines())) <= 60
    assert table.splitlines()[0].split("  ")[0] == "model"
    assert ["aa", "no"] in [line.split()[:2] for line in table.splitlines()]
    assert max(map(len, reasons.splitlines())) <= 60
    text = " ".join(reasons.split())
    assert "aa, ab, " in text
    assert "its files are not in this machine's cache, and the hub cannot be reached (no route)" in text


def listed(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert run(["list", "models", *flags]) == 0
    return capsys.readouterr().out


def test_list_fits_a_hundred_columns_unless_it_is_wide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "ask_hub", lambda questions, deadline_s: dict.fromkeys(questions, KNOWN))
    monkeypatch.setattr(doctor, "local_memory", lambda: (24 * 10**9, 0))
    narrow, wide = listed(capsys), listed(capsys, "--wide")
    assert narrow.splitlines()[0].split("  ")[0::1][0] == "model"
    assert max(map(len, narrow.splitlines())) <= 100
    assert "license" not in narrow.splitlines()[0]
    assert narrow.splitlines()[-1] == "--wide shows engine, license, checkpoint, revision too."
    assert all(head in wide.splitlines()[0] for head in ("engine", "license", "checkpoint", "revision"))
    assert "--wide" not in wide
    assert set(narrow.split()) - {"--wide", "shows", "too."} <= {*wide.split(), *["engine,", "license,", "checkpoint,"]}


def test_wide_is_for_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "benchmarks", "--wide"]) == 2
    assert "--wide: only the list of models has further columns, not benchmarks" in capsys.readouterr().err


def test_checkpoint_that_cannot_be_loaded_is_not_listed_as_runnable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Case 16: quantized weights without their package, a pointer of git-lfs, and no tokenizer."""
    monkeypatch.setattr(doctor, "ask_hub", lambda questions, deadline_s: dict.fromkeys(questions, KNOWN))
    for name in ("whole", "awq", "lfs", "untold"):
        write_checkpoint(tmp_path / name)
        (tmp_path / name / "config.json").write_text(json.dumps(SMALL))
    quantized = {**SMALL, "quantization_config": {"quant_method": "awq", "bits": 4}}
    (tmp_path / "awq" / "config.json").write_text(json.dumps(quantized))
    (tmp_path / "lfs" / "model.safetensors").write_text(POINTER)
    for path in (tmp_path / "untold").glob("tokenizer*"):
        path.unlink()
    names = ("whole", "awq", "lfs", "untold")
    file = tmp_path / "m.yaml"
    file.write_text("".join(f"{name}: {{engine: auto, model: {name}}}\n" for name in names))
    rows = {row["model"]: row for row in json.loads(listed(capsys, "--models-file", str(file), "--json"))}
    assert [rows[name]["runs here"] for name in names] == ["yes", "no", "no", "no"]
    reasons = ["pip install 'gptqmodel'", "is a pointer of git-lfs", "has no tokenizer: copy tokenizer.json"]
    assert all(reason in rows[name]["why not"] for name, reason in zip(names[1:], reasons, strict=True))
    assert run(["doctor", "--json", "--models", ",".join(names), "--models-file", str(file)]) == 3
    findings = {each["what"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert [findings[name]["state"] for name in names] == ["ok", "bad", "bad", "bad"]
    models = load_models([file])
    assert engine_summary(models["whole"]) == "engine transformers; vllm is not installed"
    for name, reason in zip(names[1:], reasons, strict=True):
        assert reason in findings[name]["detail"]
        assert "; cannot run here: " in engine_summary(models[name])  # of --dry-run
        assert reason in engine_summary(models[name])
