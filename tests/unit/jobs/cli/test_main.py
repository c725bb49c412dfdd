"""The command line: light imports, stable names, errors as messages."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer.main
from ray.exceptions import ActorDiedError, RayTaskError

from jobs.cli.main import app, run
from jobs.shared.options import names, normalize_arguments
from tests.support.paths import ROOT

RUN = {
    *("models", "benchmarks", "tasks", "settings", "limit", "sample-id", "data", "out", "models-file", "judge"),
    *("captioner", "scorer", "address", "fail-on-error", "cost-limit", "wait-for-nodes", "seed", "prompts", "batch"),
    *("trust-remote-code", "prompt-version", "human", "judge-checks", "repeats", "until"),
}
COMMANDS = {
    "audit": set(),
    "compare": {"models", "published", "margin", "explain", "metric", "benchmarks", "tasks", "settings", "reading"}
    | {"data", "from"},
    "demo": {"out", "all"},
    "doctor": {"eyes", "models", "models-file", "data", "out", "address"},
    "generate": {"like", "from", "examples", "out", "objects", "seed", "workers"},
    "ingest": {"data", "column-map", "as", "kind", "columns", "split"},
    "gate": {"policy", "baseline"},
    "power": {"difference", "metric", "models"},
    "items": {"to", "benchmarks"},
    "leaderboard": {"to", "benchmarks", "allow-mixed", "eee"},
    "list": {"models-file", "data", "check", "wide"},
    "nightly": RUN
    | {"dry-run", "history", "summary", "gpu-hour-usd", "budget-usd", "budget-hours", "refresh-days", "policy"}
    | {"baseline", "text-models"},
    "run": RUN | {"dry-run"},
    "predict": RUN | {"dry-run"},
    "score": RUN | {"dry-run", "predictions", "from"},
    "report": RUN | {"dry-run"},
    "stress": RUN | {"dry-run", "conditions"},
    "serve": {
        *("host", "port", "models-file", "key-env", "no-key", "idle-s", "address", "timeout-s"),
        *("max-pictures", "max-total-pixels", "max-messages", "max-body-mib"),
    },
    "status": {"watch"},
    "view": {"port", "data"},
    "submit": RUN
    | {"env", "submission-id", "pending-timeout", "entrypoint-num-cpus", "entrypoint-memory", "code", "follow"}
    | {"no-follow", "stop"},
}
EVERYWHERE = {"help", "config", "verbose", "json"}
HEAVY = ("torch", "transformers", "ray", "pyarrow", "numpy", "pandas", "pydantic", "matplotlib", "openai", "s3fs")


def test_flags_of_every_command_are_unchanged() -> None:
    group = typer.main.get_command(app)
    options = {
        name: {
            option[2:]
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("--")
        }
        for name, command in group.commands.items()
    }
    for name, flags in COMMANDS.items():
        assert options[name] - {"no-dry-run"} == flags | EVERYWHERE - {"help"}, name


def test_flags_of_exports_are_unchanged() -> None:
    forms = typer.main.get_command(app).commands["export"].commands
    options = {
        name: {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        for name, command in forms.items()
    }
    flags = {"--data", "--models", "--benchmarks", "--config", "--verbose", "--json"}
    others = {"inspect": {"--media"}, "lm-eval": set(), "hub": {"--media"}, "eee": {"--organization"}}
    assert options == {name: flags | more for name, more in {**others, "hf-eval": {"--datasets"}}.items()}


@pytest.mark.parametrize(
    ("command", "ignored"),
    [
        ("run", set()),
        ("score", set()),
        ("predict", {"judge", "judge-checks", "scorer", "human"}),
        ("report", {"judge", "judge-checks", "scorer", "cost-limit", "wait-for-nodes"}),
    ],
)
def test_help_of_a_stage_lists_no_option_that_it_ignores(
    command: str, ignored: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    listed = {*re.findall(r"^  --([a-z-]+)", capsys.readouterr().out.partition("\nModels:")[2], re.MULTILINE)}
    assert RUN - listed == ignored


@pytest.fixture
def shared_config(maia_data: str, tmp_path: Path) -> Path:
    """One file for `run` and its stages; the judge's key is not set."""
    config = tmp_path / "sweep.yaml"
    lines = ("models: random", "benchmarks: maia", "settings: 1-frame", "judge: gpt-4o", "cost_limit: 5", "limit: 4")
    more = (f"data: {maia_data}", f"out: {tmp_path / 'out'}", "dry_run: true", "scorer: bertscore=/none")
    config.write_text("\n".join((*lines, *more)))
    return config


@pytest.mark.parametrize("command", ["run", "predict", "score", "report"])
def test_one_config_serves_run_and_its_stages(
    command: str, shared_config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--config", str(shared_config), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert not (shared_config.parent / "out").exists()
    helpers = {helper["role"]: helper for helper in document.get("helpers", ())}
    if command in ("run", "predict"):
        assert [row["to_do"] for row in document["plan"]] == [36]
    else:
        assert sum(cell["pending"] for cell in document["cells"]) == 36
    assert ("judge" in helpers) == (command in ("run", "score"))
    if command == "run":
        assert helpers["judge"]["calls"] == 4 * 3
        assert "about $" in helpers["judge"]["price"]


def test_external_predictions_are_counted_in_a_dry_run(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"benchmark": "maia", "model": "m", "task": "vsv", "setting": "1-frame", "sample_id": "x", "output": "A"}
    file = tmp_path / "answers.jsonl"
    file.write_text(json.dumps(row) + "\n{no json\n")
    flags = ["--predictions", str(file), "--data", maia_data, "--out", str(tmp_path / "out"), "--dry-run", "--json"]
    assert run(["score", *flags]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert [source["answers"] for source in summary["answers"]] == [summary["rejected"]] == [1]
    assert not (tmp_path / "out").exists()


def all_commands() -> dict[str, Any]:
    commands = dict(typer.main.get_command(app).commands)
    return commands | {f"export {name}": form for name, form in commands.pop("export").commands.items()}


def test_options_are_listed_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--help"]) == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Models:", "Data:", "Judging:", "Limits:", "Cluster:", "Output:", "Options:"]


def test_version_and_no_arguments_end_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"vlmsweep {version('vlmsweep')}\n"
    assert run([]) == 0
    assert capsys.readouterr().out.startswith("Usage: ")


def test_shell_completes_commands() -> None:
    variables = {"_VLMSWEEP_COMPLETE": "complete_bash", "COMP_WORDS": "vlmsweep le", "COMP_CWORD": "1"}
    command = [Path(sys.executable).with_name("vlmsweep")]
    result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    assert result.stdout.split() == ["leaderboard"], result.stderr


def test_warning_of_a_library_is_no_error_where_the_shell_asks_for_errors() -> None:
    """The hub's client warns of this variable where it is imported."""
    variables = {"PYTHONWARNINGS": "error", "HF_HUB_ENABLE_HF_TRANSFER": "1", "HF_HUB_OFFLINE": "1"}
    command = [Path(sys.executable).with_name("vlmsweep"), "list", "models"]
    result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "HF_HUB_ENABLE_HF_TRANSFER" in result.stderr


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom jobs.cli.main import run\nassert run(['--help']) == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"
    assert "compare" in result.stdout


@pytest.mark.parametrize("command", sorted(all_commands()))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


def test_both_dashes_are_accepted() -> None:
    assert normalize_arguments(["--fail_on_error=0.5", "--models-file", "a_b.yaml", "--", "--x_y"]) == [
        "--fail-on-error=0.5",
        "--models-file",
        "a_b.yaml",
        "--",
        "--x_y",
    ]


def test_global_flags_are_accepted_anywhere() -> None:
    assert normalize_arguments(["run", "--out", "o", "--log_format", "json", "--seed", "1"]) == [
        *("--log-format", "json", "run", "--out", "o", "--seed", "1")
    ]
    assert normalize_arguments(["run", "--log-format=json", "--", "--log-format"]) == [
        *("--log-format=json", "run", "--", "--log-format")
    ]
    assert normalize_arguments(["run", "--log-format"]) == ["--log-format", "run"]


def test_error_is_one_json_line_in_json_logs() -> None:
    code = "import sys; from jobs.cli.main import main; main(['list', 'nothing', '--log-format', 'json'])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    (line,) = process.stderr.splitlines()
    assert process.returncode == json.loads(line)["exit_code"] == 2
    assert json.loads(line)["level"] == "error"


def test_lists_are_cleaned() -> None:
    assert names(" a, b,,a ") == ("a", "b")
    assert names(None) == ()


SCORE = ["score", "--models", "random", "--benchmarks", "maia", "--data", "d", "--out", "o"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "rnu"),
        (["ingest"], "BENCHMARK"),
        (["run", "--models", "random"], "--benchmarks"),
        (["list", "modles"], "models"),
        (["ingest", "maja", "x", "--data", "y"], "'maia'"),
        (["ingest", "maia", "x", "--data", "y", "--kind", "text", "--as", "z"], "--kind, --as: only of `ingest table`"),
        (["ingest", "table", "x", "--data", "y", "--as", "z", "--column-map", "m"], "--column-map: a table takes"),
        (
            ["list", "benchmarks", "--check"],
            "--check: only models have revisions; give `vlmsweep list models --check`, not benchmarks",
        ),
        (["doctor", "--eyes", "random", "--models", "random", "--out", "o"], "--models, --out: --eyes checks nothing"),
        ([*SCORE, "--from", "inspect"], "--from: names the harness that wrote --predictions"),
        ([*SCORE, "--judge-checks", "3"], "--judge-checks: judges are asked again; name one by --judge"),
    ],
)
def test_usage_errors_end_with_2_and_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert message.lower() in shown.lower()
    assert "Traceback" not in shown


IN_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0"}


@pytest.mark.parametrize(("name", "variables"), [(b"f\xfcr", {"LC_ALL": "C.UTF-8"}), ("für".encode(), IN_ASCII)])
@pytest.mark.parametrize("way", ["argument", "folder", "config"])
def test_a_path_in_another_encoding_than_the_shells_ends_with_2(
    name: bytes, variables: dict[str, str], way: str, tmp_path: Path
) -> None:
    """Some products of a run would end with 70 there, at its end."""
    folder = os.fsencode(tmp_path) + b"/" + name
    Path(os.fsdecode(folder)).mkdir()
    config = tmp_path / "config.json"
    config.write_bytes(b'{"models": ["random"], "benchmarks": ["maia"], "data": "%s", "out": "out"}' % name)
    arguments = {
        "argument": ["status", folder],
        "folder": ["list", "benchmarks"],
        "config": ["run", "--config", config],
    }
    result = subprocess.run(
        [sys.executable, "-m", "jobs.cli", *arguments[way]],
        cwd=folder if way == "folder" else tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
    )
    assert result.returncode == 2, result.stderr
    if way != "config" or variables is IN_ASCII:  # no YAML holds other bytes
        assert b"cannot be used in a shell whose encoding is" in result.stderr


def test_selections_of_a_report_of_everything_are_said_to_have_no_effect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(["report", str(tmp_path), "--tasks", "mcq", "--limit", "2"]) == 2  # no run.json there
    message = "%s: without effect, because a report without --models is of all that OUT holds"
    assert message % "--tasks, --limit" in caplog.messages
    further = ["--seed", "7", "--captioner", "self", "--repeats", "3", "--prompt-version", "a=b", "--until", "ranking"]
    assert run(["report", str(tmp_path), *further]) == 2
    assert message % "--captioner, --until, --prompt-version, --repeats, --seed" in caplog.messages


def test_list_commands_print_their_lists(capsys: pytest.CaptureFixture[str]) -> None:
    for what, listed_name in (("benchmarks", "maia"), ("settings", "32-frames"), ("models", "gpt-4o")):
        assert run(["list", what]) == 0
        assert listed_name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("out", "code", "message"),
    [
        ("/proc/x", 3, "/proc/x: [Errno 2] No such file or directory: '/proc/x'; no folder can be created there"),
        ("{folder}/file", 3, "{folder}/file: expected a folder, found a file"),
        ("{folder}/file/below", 3, "{folder}/file: expected a folder, found a file"),
        ("s3://bucket/x", 2, "--out s3://bucket/x: the demo keeps its data in a local folder"),
    ],
)
def test_demo_refuses_unusable_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, code: int, message: str
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["demo", "--out", out.format(folder=tmp_path)]) == code
    assert capsys.readouterr().err.startswith(f"vlmsweep: {message.format(folder=tmp_path)}")
    assert run(["demo", "--help"]) == 0
    assert "s3" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "{file}"],
        ["compare", "{file}", "{file}"],
        ["ingest", "maia", "{folder}", "--data", "{file}"],
        [
            "nightly",
            "--models",
            "random",
            "--benchmarks",
            "maia",
            "--data",
            "{data}",
            "--out",
            "{folder}/o",
            "--history",
            "{file}",
            "--dry-run",
        ],
    ],
)
def test_file_in_place_of_a_folder_is_reported_by_every_command(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("")
    assert run([argument.format(file=file, folder=tmp_path, data=maia_data) for argument in arguments]) == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("vlmsweep: ")]
    assert lines == [f"vlmsweep: {file}: expected a folder, found a file"]


def test_dead_ray_actor_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def dead_actor() -> NoReturn:
        raise ActorDiedError

    monkeypatch.setattr("jobs.doctor.local_gpus", dead_actor)
    assert run(["doctor"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("vlmsweep: Ray failed (ActorDiedError: ")
    assert "Run the same command again to resume" in line


@pytest.mark.parametrize(
    "bug",
    [RayTaskError("load", "KeyError: 'missing'", KeyError("missing")), ValueError("missing"), KeyError("missing")],
)
def test_bug_ends_with_70_and_its_traceback(
    bug: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> NoReturn:
        raise bug

    monkeypatch.setattr("jobs.doctor.local_gpus", fail)
    assert run(["doctor"]) == 70
    error = capsys.readouterr().err
    assert error.startswith("Traceback (most recent call last)")
    assert "in fail" in error
    assert "missing" in error


def test_interrupted_command_ends_with_130_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.doctor.local_gpus", interrupt)
    assert run(["doctor"]) == 130
    assert capsys.readouterr().err == "vlmsweep: Interrupted. Run the same command again to resume.\n"


@pytest.mark.parametrize(("handler", "code"), [("SIG_DFL", 130), ("SIG_IGN", 0)], ids=["closed", "closed under nohup"])
def test_closed_terminal_ends_a_command_as_ctrl_c_does(handler: str, code: int) -> None:
    text = (
        f"import signal, sys\nsignal.signal(signal.SIGHUP, signal.{handler})\nfrom jobs.cli import main\n"
        "sys.modules['jobs.cli.main'].app = lambda **_: signal.raise_signal(signal.SIGHUP)\nmain([])"
    )
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=240)
    assert result.returncode == code, result.stderr
    assert ("Run the same command again to resume" in result.stderr) is (code == 130)


def test_bug_keeps_its_traceback_in_json_logs() -> None:
    code = (
        "import jobs.doctor\njobs.doctor.local_gpus = lambda: {}['missing']\n"
        "from jobs.cli import main\nmain(['doctor', '--log-format', 'json'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    (line,) = (json.loads(line) for line in result.stderr.splitlines())
    assert result.returncode == line["exit_code"] == 70
    assert "KeyError: 'missing'" in line["trace"]


def test_model_too_large_for_this_machine_is_not_listed_as_runnable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(
        "huge: {engine: transformers, model: x, parameters_b: 72}\nodd: {engine: transformers, model: y}\n"
    )
    monkeypatch.setattr("jobs.doctor.local_gpus", list)
    monkeypatch.setattr("jobs.doctor.ask_hub", lambda questions, deadline_s: dict.fromkeys(questions))
    monkeypatch.setattr("jobs.doctor.local_memory", lambda: (24 * 10**9, 0))
    assert run(["list", "models", "--json", "--models-file", str(tmp_path / "m.yaml")]) == 0
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["huge"]["runs here"] == "no"
    assert rows["huge"]["why not"] == "no GPU; 144.0 GB of weights against 24 GB of memory: does not fit"
    assert rows["odd"]["runs here"] == "not known"
    assert (rows["random"]["runs here"], rows["random"]["why not"]) == ("yes", "")


def test_interrupt_while_modules_are_loaded_prints_no_traceback() -> None:
    code = (
        "import signal, sys\nclass Finder:\n    def find_spec(self, name, *_):\n"
        "        if name == 'jobs.cli.main': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\nimport jobs.cli"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert (process.returncode, process.stderr) == (130, "")


def test_second_interrupt_while_exit_hooks_run_prints_no_traceback() -> None:
    code = (
        "import atexit, os, signal, sys, time; import jobs.cli.main\n"
        "interrupt = lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(600))\n"
        "sys.modules['jobs.cli.main'].run = lambda _: atexit.register(interrupt) and 130\n"
        "jobs.cli.main([])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert (process.returncode, process.stderr) == (130, "")


@pytest.mark.parametrize(("code", "status"), [(130, 130), (0, -signal.SIGABRT)])
def test_exit_handlers_of_native_code_do_not_run_after_an_interrupt(code: int, status: int) -> None:
    """Those of a Ray that was interrupted while it started crash; they are needed after any other end."""
    program = (
        "import atexit, ctypes, jobs.cli.main, sys\n"
        "say = lambda: print('a hook ran', file=sys.stderr)\n"
        f"sys.modules['jobs.cli.main'].run = lambda _: atexit.register(say) and {code}\n"
        "crash = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(('abort', ctypes.CDLL(None)))\n"
        "ctypes.CDLL(None).on_exit(crash, None)\n"
        "jobs.cli.main([])"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert (process.returncode, process.stderr) == (status, "a hook ran\n")


def test_help_lists_every_command_in_one_of_four_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    sections = re.split(r"^(Evaluate|Understand|Share|Set up):\n", shown, flags=re.MULTILINE)
    assert sections[1::2] == ["Evaluate", "Understand", "Share", "Set up"]
    listed = [name for text in sections[2::2] for name in re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE)]
    assert sorted(listed) == sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert "..." not in "".join(sections[2::2])
