"""Run every command where a variable of the shell is wrong: `python -m tests.tools.shell_matrix`, about an hour.

A command ends as it does without the variable, or with 2 or 3 and the variable's name; never with a traceback. Commands
are the application's own, each as the example in its help calls it, so a new command is tried too. A part of the matrix
is tests/integration/test_special_files.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from jobs.cli.main import app
from jobs.demo.checkpoint import TRAINED_MODEL
from pipelines.benchmarks import benchmark
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import always
from tests.support.maia_source import write_source

ABSENT = "/nonexistent/file"
DEAD = "http://127.0.0.1:1"
VARIABLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("HTTP_PROXY", "https_proxy"), ("::::", "socks4://h:1", "http://user:pa ss@h:1", DEAD)),
    "HTTPS_PROXY": ("socks5://127.0.0.1:1", "ftp://h:1"),
    "http_proxy": ("http://:port", DEAD),
    "ALL_PROXY": ("socks5://127.0.0.1:1", "ht!tp://x y:99999"),
    "all_proxy": ("http://h:99999", DEAD),
    "NO_PROXY": ("[::,*.,", "*", "127.0.0.1"),
    **dict.fromkeys(
        ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"),
        (ABSENT, "/etc/passwd"),
    ),
    "HF_HUB_OFFLINE": ("perhaps", "0"),
    "HF_HOME": ("/dev/null/cache", "/proc"),
    "HF_HUB_CACHE": ("/dev/null/cache",),
    "HF_ENDPOINT": ("not an address", "ftp://h", "http://[::", DEAD),
    "HF_TOKEN": ("t\u00f6ken", "two\nlines", " "),
    "HF_HUB_DOWNLOAD_TIMEOUT": ("soon",),
    "HF_HUB_ETAG_TIMEOUT": ("1.5",),
    "HF_HUB_ENABLE_HF_TRANSFER": ("1",),
    "HF_HUB_VERBOSITY": ("loud",),
    "TRANSFORMERS_VERBOSITY": ("loud",),
    "XDG_CACHE_HOME": ("/dev/null/cache",),
    "LC_ALL": ("C", "tr_TR.UTF-8", "xx_YY.nonsense", "\udcff"),
    "LANG": ("", "de_DE.ISO-8859-1"),
    "LANGUAGE": ("tr:xx",),
    "PYTHONIOENCODING": ("ascii", "latin-1:strict", "utf-16"),
    "PYTHONUTF8": ("0",),
    "PYTHONWARNINGS": ("nonsense", "error"),
    "COLUMNS": ("many", "0", "-3", "1"),
    "LINES": ("many",),
    "TERM": ("dumb", "", "no-such-terminal"),
    "TERMINAL_WIDTH": ("many",),
    "FORCE_COLOR": ("1",),
    "TZ": ("Nowhere/Land", ":"),
    "TMPDIR": (ABSENT, "/dev/null"),
    "HOME": ("", ABSENT, "/dev/null"),
    "USER": ("",),
    "RAY_ADDRESS": ("not an address", "ray://", "http://", "127.0.0.1:1"),
    "RAY_TMPDIR": ("/dev/null",),
    "OMP_NUM_THREADS": ("many", "-1", "0"),
    "MKL_NUM_THREADS": ("many",),
    "CUDA_VISIBLE_DEVICES": ("none-such", "7,x", ""),
    "OPENAI_BASE_URL": (DEAD, "nonsense"),
    "OPENAI_API_KEY": ("stray", "t\u00f6ken"),
    "OPENAI_LOG": ("loud",),
    "ANTHROPIC_API_KEY": ("stray",),
    "ANTHROPIC_BASE_URL": ("nonsense",),
    "GEMINI_API_KEY": ("stray",),
    "GOOGLE_APPLICATION_CREDENTIALS": (ABSENT,),
    "AWS_PROFILE": ("absent",),
    "AWS_ENDPOINT_URL": ("not an address", "http://h:port"),
    "AWS_CONFIG_FILE": (ABSENT, "/etc/passwd"),
    "AWS_SHARED_CREDENTIALS_FILE": (ABSENT, "/etc/passwd"),
    "AWS_DEFAULT_REGION": ("no where",),
    "AWS_MAX_ATTEMPTS": ("often",),
    "AWS_RETRY_MODE": ("often",),
    "AWS_ACCESS_KEY_ID": ("half of a pair",),
    "VLLM_LOGGING_LEVEL": ("loud",),
}
"""An empty `HOME` is unset."""
STREAMS = (">&-", "2>&-", "<&-", ">&- 2>&-", ">/dev/full", "2>/dev/full")
MODELS_FILE_VARIABLES = re.compile(r"(OPENAI|ANTHROPIC|GEMINI)_.*|.*_proxy", re.IGNORECASE)
"""What no local endpoint depends on."""

MODELS = """
local: {{engine: openai, model: m, base_url: '{url}'}}
far: {{engine: openai, model: m, base_url: 'https://api.example.invalid/v1'}}
hub: {{engine: transformers, model: owner/name}}
tiny: {{engine: transformers, model: '{tiny}', device: cpu}}
r1: {{engine: random, seed: 1}}
r2: {{engine: random, seed: 2}}
r3: {{engine: random, seed: 3}}
two: {{engine: openai, model: m, base_url: '{url}', replicas: {{min: 2, max: 2}}}}
"""
POLICY = "- {benchmark: maia, task: vsv, setting: 1-frame, metric: pool_accuracy, at_least: 0.0}\n"
FLAGS = {
    "run": "--limit 1 --out new",
    "annotate": "--n 1",
    "submit": "--address http://127.0.0.1:9 --data /data --out /out",
    "generate mate": "--examples 1 --objects 3",
    "demo": "--out models.yaml",  # a file: refused
    "serve": "--host 192.0.2.1",  # no address of this machine
    "finetune": "--num-workers 1",
    "power": "--metric pool_accuracy",
}
"""By the start of an example: flags that make it small, or end it."""
ENDS = {"submit": 3, "demo": 3, "serve": 2, "finetune": 2, "status s3": 2, "export hf-eval": 2}
"""How a command ends without the variables, where not with 0."""
MORE = {
    "doctor far": "doctor --models far --models-file models.yaml",
    "doctor hub": "doctor --models hub --models-file models.yaml",
    "dry hub": "run --models hub --models-file models.yaml --benchmarks maia --data data --out new --dry-run",
    "status s3": "status s3://bench/out",
}
HEAVY = {
    "run tiny": "run --models tiny --models-file models.yaml --benchmarks maia --settings black-video --tasks vsv "
    "--limit 1 --data data --out new",
    "run ray": "run --models two --models-file models.yaml --benchmarks maia --settings 1-frame --tasks vsv "
    "--limit 1 --data data --out new",
}
INTERRUPTED = ("view",)
"""Commands that go on until Ctrl-C."""


@dataclass(frozen=True, slots=True)
class End:
    """How a command ended."""

    code: int
    text: str  # of both streams


def forms() -> dict[str, list[str]]:
    """Return arguments for each command of the application, by name."""
    return {
        **{name: shlex.split(text) for name, text in MORE.items()},
        **dict(_examples(typer.main.get_command(app), "")),
    }


def _examples(group: Any, prefix: str) -> Iterator[tuple[str, list[str]]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _examples(command, f"{prefix}{name} ")
            continue
        example = (
            command.epilog.rpartition("vlmsweep ")[2].replace("qwen2.5-vl-7b", "local").replace("qwen2.5-7b", "local")
        )
        example = example.replace("--models open", "--models local")
        options = {option for parameter in command.params for option in parameter.opts}
        small = {"--models-file": "models.yaml", "--settings": "1-frame", "--tasks": "vsv", "--limit": "2"}
        words = [word for flag, value in small.items() if {flag, "--models-file"} <= options for word in (flag, value)]
        if "--dry-run" in options and name not in ("run", "report"):
            words.append("--dry-run")
        flags = next((flags for start, flags in FLAGS.items() if example.startswith(start)), "")
        yield prefix + name, [*shlex.split(example), *words, *shlex.split(flags)]


class Shell:
    """A folder with what examples name, and a shell that runs them there."""

    def __init__(self, root: Path, url: str, environment: Mapping[str, str]) -> None:
        """Write inputs and outputs under `root`; `url` is a local endpoint's."""
        self.folder, self.copies = root / "given", root / "copies"
        self.copies.mkdir(parents=True)
        self.ends = 0
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
            "HOME": str(root),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            **turkish_locale(root),
            **environment,
        }
        source = write_source(self.folder / "MAIA_FOLDER", 2, 2)
        ingest_benchmark(benchmark("maia"), Folder(str(source)), Store(str(self.folder / "data")))
        (self.folder / "models.yaml").write_text(MODELS.format(url=url, tiny=TRAINED_MODEL))
        (self.folder / "POLICY.yaml").write_text(POLICY)
        run = "run --models local,random,r1,r2,r3 --models-file models.yaml --benchmarks maia --settings 1-frame"
        command = [sys.executable, "-m", "jobs.cli", *shlex.split(run), "--data", "data", "--out", "out"]
        subprocess.run(command, check=True, cwd=self.folder, env=self.environment, capture_output=True)
        for copy in ("OTHER_OUT", "LAST_OUT"):
            shutil.copytree(self.folder / "out", self.folder / copy)

    def end(self, name: str, arguments: Sequence[str], variables: Mapping[str, str], redirection: str = "") -> End:
        """Run a command in a copy of the folder; it is stopped after ten minutes."""
        self.ends += 1
        copy = Path(tempfile.mkdtemp(dir=self.copies))
        shutil.copytree(self.folder, copy, dirs_exist_ok=True)
        environment = {**self.environment, **variables}
        if variables.get("HOME") == "":
            del environment["HOME"]
        with (copy / ".log").open("w+b") as log:
            command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "jobs.cli", *arguments]
            process = subprocess.Popen(
                command, cwd=copy, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            try:
                code = self._wait(process, Path(log.name), interrupted=name in INTERRUPTED and not redirection)
            finally:
                process.kill()
                process.wait()
        text = (copy / ".log").read_text(errors="replace").replace("\0", "")  # of UTF-16
        shutil.rmtree(copy, ignore_errors=True)
        return End(code, text)

    @staticmethod
    def _wait(process: subprocess.Popen[bytes], log: Path, *, interrupted: bool) -> int:
        for _ in range(6000):
            if interrupted and b"http://" in log.read_bytes():
                process.terminate()
                return 0 if process.wait(60) in (0, 130) else process.returncode
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.1)
        return 124


def groups() -> list[dict[str, str]]:
    """Return values of all variables, one of each variable in a group."""
    most = max(map(len, VARIABLES.values()))
    return [{name: values[i] for name, values in VARIABLES.items() if i < len(values)} for i in range(most)]


def problems(shell: Shell, name: str, arguments: Sequence[str], variables: Mapping[str, str]) -> Iterator[str]:
    """Run a command under a group of variables; yield what is wrong.

    A variable that is named as the cause of a refusal is taken out, and the command run under the others.
    """
    left, usual = dict(variables), ENDS.get(name, 0)
    while True:
        end = shell.end(name, arguments, left)
        shown = "\n    ".join([f"{name}: exit {end.code} under {left}", *end.text.strip().splitlines()[-15:]])
        if end.code == usual and "Traceback" not in end.text:
            return
        if end.code not in (2, 3) or "Traceback" in end.text:
            yield shown
            return
        causes = [variable for variable in left if re.search(rf"(?<![\w]){variable}(?!\w)", end.text)]
        if not causes or (name == "run" and any(map(MODELS_FILE_VARIABLES.fullmatch, causes))):
            yield shown
            return
        for variable in causes:
            del left[variable]


def stream_problem(shell: Shell, name: str, arguments: Sequence[str], redirection: str) -> str:
    """Run a command whose streams are closed or full; return what is wrong, '' if nothing is."""
    end = shell.end(name, arguments, {}, redirection)
    is_usual = end.code == ENDS.get(name, 0) or (end.code == 3 and redirection == ">/dev/full")
    return (
        "" if is_usual and "Traceback" not in end.text else f"{name} {redirection}: exit {end.code}\n{end.text[-2000:]}"
    )


@contextlib.contextmanager
def open_shell(root: Path, environment: Mapping[str, str]) -> Iterator[Shell]:
    """Yield the shell, beside an endpoint of this machine."""
    with ScriptedEndpoint(always("A")) as endpoint:
        yield Shell(root, endpoint.base_url, environment)


def main() -> int:
    """Run the whole matrix, or that of the commands named; print each problem."""
    from tests.integration.conftest import s3_server

    commands = {**forms(), **{name: shlex.split(text) for name, text in HEAVY.items()}}
    commands = {name: arguments for name, arguments in commands.items() if name in sys.argv[1:] or len(sys.argv) == 1}
    with (
        tempfile.TemporaryDirectory() as folder,
        s3_server(Path(folder) / "s3.log") as s3,
        open_shell(Path(folder) / "shell", s3.env) as shell,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):

        def wrong(name: str) -> list[str]:
            results = [text for group in groups() for text in problems(shell, name, commands[name], group)]
            results += filter(None, (stream_problem(shell, name, commands[name], stream) for stream in STREAMS))
            print(f"{name}: {len(results)} problems", *results, sep="\n  ", flush=True)
            return results

        count = sum(map(len, pool.map(wrong, commands)))
        print(f"{len(commands)} commands, {shell.ends} ends, {count} problems")
    return bool(count)


def turkish_locale(folder: Path) -> dict[str, str]:
    """Compile the locale, which few machines have; without its sources the C library uses its default."""
    command = ["localedef", "-i", "tr_TR", "-f", "UTF-8", str(folder / "tr_TR.UTF-8")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no Turkish locale: {error}", file=sys.stderr)
        return {}
    return {"LOCPATH": str(folder)}


if __name__ == "__main__":
    sys.exit(main())
