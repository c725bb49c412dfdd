"""The action for GitHub: its steps run as they are written, and no input is read as a command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from jobs.cli.main import app, run
from tests.support.paths import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXAMPLES = sorted((ROOT / "examples" / "workflows").glob("*.yml"))
STUB = """#!/bin/sh
echo "$0 $@" >> "$CALLS"
case "$1" in
gate) echo "gated <b>"; exit "$GATE";;
run) mkdir -p vlmsweep-out/report/figures && echo "drawn <b>" > vlmsweep-out/report/figures/summary_figure.txt
  echo "| swept"; exit "$RUN";;
esac
case "$*" in "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python";; esac
"""


class Runner:
    """Runs the steps of the action in a folder as a runner does: conditions, variables, outputs and exit codes."""

    def __init__(self, folder: Path, path: str, **inputs: str) -> None:
        self.folder, self.path = folder, path
        self.values = {f"inputs.{name}": str(field.get("default", "")) for name, field in ACTION["inputs"].items()}
        self.values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        self.values |= {"github.action_path": str(ROOT), "runner.temp": str(folder)}

    def run(self, **env: str) -> int:
        """Run all steps with a shell; return the first exit code that is not 0."""
        result = 0
        for step in STEPS:
            condition = step.get("if", "")
            name = re.search(r"(inputs\.[\w-]+) != ''", condition)
            if "run" not in step or (result and "always()" not in condition) or (name and not self.values[name[1]]):
                continue
            variables = {key: self._filled(text) for key, text in step["env"].items()}
            variables |= {f"GITHUB_{key}": str(self.folder / key.lower()) for key in ("PATH", "OUTPUT", "STEP_SUMMARY")}
            output = self.folder / "output"
            output.write_text("")
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            base = {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"}
            process = subprocess.run(command, cwd=self.folder, env={**base, **env, **variables}, check=False)
            result = result or process.returncode
            lines = (line.partition("=") for line in output.read_text().splitlines())
            self.values |= {f"steps.{step['id']}.outputs.{key}": value for key, _, value in lines}
        return result

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda match: self.values.get(match[1], ""), text)

    @property
    def summary(self) -> str:
        return (self.folder / "step_summary").read_text()


@pytest.fixture
def stubs(tmp_path: Path) -> str:
    """A folder with commands that write down how they are called."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    for name in ("python", "vlmsweep"):
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    return str(folder)


def test_scripts_hold_no_expression_and_actions_are_pinned() -> None:
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []
    for path in (ROOT / "action.yml", *EXAMPLES):
        uses = re.findall(r"uses: (\S+)", path.read_text())
        assert [name for name in uses if not re.search(r"@([0-9a-f]{40}|REVISION)$", name)] == []
        assert uses


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_use_inputs_of_the_action_and_have_few_rights(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    (step,) = [step for step in steps if step.get("uses", "").startswith("OWNER/vlmsweep@")]
    assert {*step["with"]} <= {*ACTION["inputs"]}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_pages_publishes_the_site_of_the_results() -> None:
    (path,) = [path for path in EXAMPLES if path.name == "pages.yml"]
    steps = yaml.safe_load(path.read_text())["jobs"]["report"]["steps"]
    (command,) = [step["run"] for step in steps if "run" in step]
    _, name, out, *flags = command.replace('"', "").split()
    assert (name, out) == ("site", ACTION["inputs"]["out"]["default"])
    options = {option for each in typer.main.get_command(app).commands[name].params for option in each.opts}
    options |= {option for each in typer.main.get_command(app).commands[name].params for option in each.secondary_opts}
    assert {flag for flag in flags if flag.startswith("--")} <= options
    assert steps[-1]["with"]["path"] == "${{ runner.temp }}/site"


@pytest.mark.parametrize(
    ("swept", "gated", "strict", "code", "decision"),
    [
        (0, 0, "false", 0, "GO"),
        (0, 1, "false", 1, "NO-GO"),
        (0, 4, "false", 0, "INCONCLUSIVE"),
        (0, 4, "true", 4, "INCONCLUSIVE"),
        (1, 0, "false", 1, "GO"),
        (3, 0, "false", 3, ""),
        (0, 2, "false", 2, ""),
    ],
)
def test_exit_codes(tmp_path: Path, stubs: str, swept: int, gated: int, strict: str, code: int, decision: str) -> None:
    hostile = "c.yaml; touch hacked $(touch hacked)"
    runner = Runner(tmp_path, stubs, config=hostile, policy="p.yaml", fail_on_inconclusive=strict)
    calls = tmp_path / "calls"
    assert runner.run(CALLS=str(calls), RUN=str(swept), GATE=str(gated)) == code
    assert runner.values.get("steps.gate.outputs.decision", "") == decision
    assert not (tmp_path / "hacked").exists()
    assert f"vlmsweep run --config {hostile} --out vlmsweep-out\n" in calls.read_text()
    assert runner.summary.startswith(f"## vlmsweep: {decision}\n" if decision else "## vlmsweep\n")
    assert "\n    | swept\n" in runner.summary
    assert ("\n    drawn <b>\n" in runner.summary) == (swept <= 1)  # else it is of an earlier run
    assert "<b>" not in runner.summary.replace("\n    gated <b>\n", "").replace("\n    drawn <b>\n", "")


def test_install_takes_the_locked_packages(tmp_path: Path, stubs: str) -> None:
    calls = tmp_path / "calls"
    assert Runner(tmp_path, stubs, config="c.yaml").run(CALLS=str(calls), RUN="0", GATE="0") == 0
    lines = calls.read_text().splitlines()
    assert any(line.endswith(f"-m pip install --quiet --require-hashes -r {ROOT}/requirements.lock") for line in lines)
    assert (tmp_path / "path").read_text() == f"{tmp_path}/vlmsweep/bin\n"


@pytest.mark.full
def test_steps_sweep_gate_and_summarize(tmp_path: Path, maia_data: str) -> None:
    config = {"models": ["random"], "benchmarks": ["maia"], "tasks": "vsv", "limit": "6", "data": maia_data}
    (tmp_path / "smoke.yaml").write_text(yaml.safe_dump(config))
    line = {"benchmark": "maia", "task": "vsv", "metric": "statement_accuracy", "at_least": 0.0}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump([line]))
    path = str(Path(sys.executable).parent)
    runner = Runner(tmp_path, path, config="smoke.yaml", policy="policy.yaml", python_version="")
    assert runner.run() == 0
    assert runner.values["steps.gate.outputs.decision"] == "INCONCLUSIVE"
    assert "statement_accuracy" in runner.summary
    assert (tmp_path / "vlmsweep-out" / "report" / "index.html").is_file()
    assert run(["status", str(tmp_path / "vlmsweep-out")]) == 0
