"""Commands of other packages: one works, one that cannot be imported costs itself alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.cli import register
from jobs.cli.main import run
from pipelines import registry
from tests.support.distributions import plant

GREETER = '''
from jobs.shared.commands import listed

def hello(name: str, times: int = 1) -> int:
    """Greet somebody. Nothing else."""
    print(" ".join(["hello", name] * times))
    return 0

@listed("Share", "wave everybody")
def wave(name: str) -> None:
    """Wave to somebody."""
'''
COMMANDS = {"hello": "greeter:hello", "wave": "greeter:wave", "run": "greeter:hello"}
ROOMS = ("analysis", "annotate", "audit", "export", "finetune", "generate", "import_logs", "leaderboard", "nightly",
         "serve", "site", "view")  # fmt: skip


@pytest.fixture(autouse=True)
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plant(tmp_path, "greeter", {"vlmsweep.commands": COMMANDS}, GREETER)
    plant(tmp_path, "broken", {"vlmsweep.commands": {"fail": "broken:fail"}}, "import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    caches = (registry._entries, register._build)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def test_command_of_another_package_takes_its_arguments_and_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hello", "Ada", "--times", "2", "-v"]) == 0
    assert capsys.readouterr().out == "hello Ada hello Ada\n"
    assert run(["hello"]) == 2
    assert run(["wave", "--help"]) == 0
    assert "vlmsweep wave everybody" in capsys.readouterr().out


def test_help_lists_commands_by_their_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    sections: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        if line.endswith(":") and line[:1].isalpha():
            sections[line[:-1]] = []
        elif line.startswith("  ") and line[2].isalpha() and sections:
            sections[[*sections][-1]].append(line.split()[0])
    assert list(sections)[1:] == ["Evaluate", "Understand", "Share", "Set up", "Other"]
    assert sections["Other"] == ["fail", "hello"]
    assert sections["Evaluate"][0] == "run"
    assert "wave" in sections["Share"]


def test_command_that_cannot_be_imported_costs_itself_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    problem = "'fail' of broken: broken:fail cannot be imported (ModuleNotFoundError: No module named 'no_such_module')"
    assert problem in " ".join(capsys.readouterr().out.split())
    assert run(["fail", "out", "--flag", "1"]) == 2
    assert capsys.readouterr().err == f"vlmsweep: {problem}; update or uninstall broken\n"
    assert run(["list", "benchmarks"]) == 0


def test_command_of_the_core_stays(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--help"]) == 0
    assert "Evaluate models" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--version"], ["list", "models"], ["run", "--help"]], ids=" ".join)
def test_core_commands_import_no_side_command(arguments: list[str]) -> None:
    names = [f"jobs.{room}" for room in ROOMS]
    code = f"import sys; from jobs.cli.main import run; run({arguments!r}); print({{*{names!r}}} & {{*sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert result.stdout.splitlines()[-1] == "set()"
