"""What engines say of how a model runs reaches `run.json` and the report, and stays there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.cli.main import run
from tests.support.endpoint import BatchEndpoint, ScriptedEndpoint
from tests.support.endpoint_script import Say, Status, always
from tests.support.turns import in_turns
from tests.unit.models.engines.endpoints.rig import ENGINES, PATHS


def test_refused_and_omitted_parameters_are_in_run_and_report(maia_data: str, tmp_path: Path, capsys: Any) -> None:
    def script(request: Any) -> Any:
        if "seed" in request.body:
            return Status(status=400, message="Unrecognized request argument supplied: seed")
        return always("A")(request)

    out, models = tmp_path / "out", tmp_path / "models.yaml"
    with ScriptedEndpoint(script) as endpoint:
        entry = f"{{engine: openai, model: deployed, base_url: '{endpoint.base_url}'"
        models.write_text(f"picky: {entry}}}\ncold: {entry}, omit_parameters: [temperature, seed]}}\n")
        flags = ["--benchmarks", "maia", "--settings", "1-frame", "--limit", "1", "--data", maia_data, "--json"]
        sweep = ["run", "--models", "picky,cold", "--models-file", str(models), *flags, "--out", str(out)]
        assert run(sweep) == 0
        bodies = [request.body for request in endpoint.requests]
    assert any("temperature" in body for body in bodies)
    expected = [
        "model cold: seed, temperature of its requests is left out (omit_parameters)",
        "model picky: deployed: the endpoint refuses seed, which is not sent",
    ]
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert [text for text in warnings if text in expected] == expected
    manifest = json.loads((out / "run.json").read_text())
    assert manifest["engine_warnings"] == {"picky": ["deployed: the endpoint refuses seed, which is not sent"]}
    assert manifest["models"]["cold"]["omit_parameters"] == ["temperature", "seed"]
    for command in ([], ["report", str(out), "--json"]):  # again, when no model runs
        assert not command or run(command) == 0
        text = (out / "report" / "report.md").read_text().replace("\\", "")
        assert all(sentence in text for sentence in expected)


@pytest.mark.parametrize("engine", in_turns(ENGINES, ("openai",)))
def test_parameters_refused_inside_batches_are_reported(
    engine: str, maia_data: str, tmp_path: Path, capsys: Any
) -> None:
    def script(request: Any) -> Any:
        if "temperature" in request.body:
            return Status(status=400, message="Unsupported parameter: 'temperature' is not supported with this model")
        return "A"

    out, models = tmp_path / "out", tmp_path / "models.yaml"
    with BatchEndpoint(script, engine=engine) as endpoint:
        address = f"{endpoint.address}{PATHS[engine]}"
        models.write_text(f"picky: {{engine: {engine}, model: deployed, base_url: '{address}', batch_poll_s: 0.01}}\n")
        flags = ["--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame", "--data", maia_data, "--json"]
        sweep = ["run", "--models", "picky", "--models-file", str(models), *flags, "--out", str(out), "--batch"]
        assert run(sweep) == 0
        bodies = [line["body"] for batch in endpoint.batches.batches for line in batch.lines]
        assert endpoint.batches.billed.total() == sum("temperature" not in body for body in bodies)
    expected = "deployed: the endpoint refuses temperature, which is not sent"
    assert f"model picky: {expected}" in json.loads(capsys.readouterr().out)["warnings"]
    assert json.loads((out / "run.json").read_text())["engine_warnings"] == {"picky": [expected]}
    for command in ([], ["report", str(out), "--json"]):  # again, when no model runs
        assert not command or run(command) == 0
        assert f"model picky: {expected}" in (out / "report" / "report.md").read_text()


def test_replies_cut_before_an_answer_are_counted_and_said(maia_data: str, tmp_path: Path, capsys: Any) -> None:
    """Two kinds: nothing but thoughts, and thoughts that the text begins with."""

    def script(request: Any) -> Say:
        answers = ("A", None, "<think>It may be")
        return Say(text=answers[request.number % 3], finish_reason="stop" if request.number % 3 == 0 else "length")

    out, models = tmp_path / "out", tmp_path / "models.yaml"
    with ScriptedEndpoint(script) as endpoint:
        models.write_text(f"m: {{engine: openai, model: m, base_url: '{endpoint.base_url}', concurrency: 1}}\n")
        flags = ["--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame", "--limit", "1", "--data", maia_data]
        assert run(["run", "--models", "m", "--models-file", str(models), *flags, "--out", str(out), "--json"]) == 0
        total = len(endpoint.requests)
    cut = total - len(range(0, total, 3))
    expected = f"m: {cut} of {total} replies were cut by the limit of tokens before an answer"
    assert [text for text in json.loads(capsys.readouterr().out)["warnings"] if text.startswith(expected)]
    assert expected in (out / "report" / "report.md").read_text()
