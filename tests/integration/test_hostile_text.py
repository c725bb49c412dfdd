"""Hostile text in names of models, ids, categories, questions, answers and errors is shown as text alone."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image

from jobs.cli.main import run
from pipelines.ingest.dataset import Dataset
from pipelines.storage.store import Store
from tests.support.checkpoints import build_tiny
from tests.support.endpoint import EndpointRequest, ScriptedEndpoint, Status
from tests.support.paths import ENGINES_PATH, ROOT

NAME = "=cmd()|\x1b[2J\x9b1m\u202e</script>\\input{hacked}&\n::error::x\n| x | 1 |"
"""As a folder it has 3 characters for many of these, and 255 at most."""
MARKUP = '</script><script>window.hacked=1</script><img src=x onerror="hacked()">'
HOSTILE = f"{NAME}{MARKUP}\x00\r\x1b]0;title\x07\n## hacked\n% $ # _ {{ }} ~ ^"
NUMBER = re.compile(r"[+-]?[\d.]+([eE][+-]?\d+)?")
FOR_PEOPLE = (".csv", ".html", ".json", ".jsonl", ".md", ".svg", ".tex", ".txt", ".yaml")
SWEEP = (
    "--models chance,loud,broken --models-file {tmp}/in/models.yaml --benchmarks mine --data {tmp}/data --out {tmp}/out"
)
COMMANDS = f"""
ingest table {{tmp}}/in/questions --columns {{tmp}}/in/columns.yaml --as mine --data {{tmp}}/data
run {SWEEP} --verbose
--log-format json report {SWEEP}
report {SWEEP}
score --predictions {{tmp}}/in/answers.jsonl --data {{tmp}}/data --out {{tmp}}/scored
status {{tmp}}/out
status {{tmp}}/scored
compare {{tmp}}/scored {{tmp}}/scored
score --predictions {{tmp}}/in/first.jsonl --data {{tmp}}/data --out {{tmp}}/first
score --predictions {{tmp}}/in/second.jsonl --data {{tmp}}/data --out {{tmp}}/second
compare {{tmp}}/first {{tmp}}/second --explain
compare {{tmp}}/out {{tmp}}/scored
power {{tmp}}/scored --difference 0.1
gate {{tmp}}/scored --policy {{tmp}}/in/policy.yaml
gate {{tmp}}/scored --policy {{tmp}}/in/unknown.yaml
items {{tmp}}/scored --to {{tmp}}/items
annotate {{tmp}}/scored --benchmark mine --n 4 --to {{tmp}}/forms
leaderboard {{tmp}}/scored {{tmp}}/out --to {{tmp}}/leaderboard
site {{tmp}}/scored --to {{tmp}}/site
export hub {{tmp}}/scored {{tmp}}/hub
export lm-eval {{tmp}}/scored {{tmp}}/lm-eval
export hf-eval {{tmp}}/scored {{tmp}}/hf-eval --datasets mine=owner/name
export eee {{tmp}}/scored {{tmp}}/eee
export inspect {{tmp}}/scored {{tmp}}/inspect --no-media
"""


def answer(request: EndpointRequest) -> str | Status:
    """Answer with hostile text, or refuse with it."""
    return Status(400, HOSTILE) if request.body["model"] == "broken" else f"A {HOSTILE}"


def write_inputs(folder: Path) -> None:
    """Write questions about a picture, two of which cannot be read in, their columns, and policies."""
    (folder / "questions").mkdir(parents=True)
    Image.new("RGB", (60, 60), "red").save(folder / "questions/red.png")
    rows = [
        {
            "id": f"{n}{NAME}",
            "image": "red.png" if n else f"{HOSTILE}.png",
            "question": f"{n} {HOSTILE}",
            "options": [f"right {HOSTILE}", f"wrong {n}"],
            "answer": "A" if n != 1 else HOSTILE,
            "category": f"{'=+-@'[n % 4]}{HOSTILE}",
            "l2-category": f"{HOSTILE}{n % 2}",
        }
        for n in range(14)
    ]
    (folder / "questions/questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "columns.yaml").write_text(f"title: {json.dumps(f'Title {HOSTILE}')}\ncitation: {json.dumps(HOSTILE)}\n")
    line = {"benchmark": "mine", "metric": "accuracy", "at_least": 0}
    (folder / "policy.yaml").write_text(json.dumps([line]))
    (folder / "unknown.yaml").write_text(json.dumps([{**line, "model": HOSTILE}]))


def write_answers(folder: Path, data: Path) -> None:
    """Write answers of five models: none to one question, and one to a question that there is not."""
    names = sorted(sample.sample_id for sample in Dataset.open(Store(str(data)), "mine").samples())
    row = {"benchmark": "mine", "task": "choice", "setting": "default", "variant": ""}
    rows = [
        {**row, "model": model, "sample_id": name, "output": f"A {HOSTILE}" if n % size else "B" if n else None}
        for size, model in enumerate((NAME, *(f"{first}{NAME}" for first in "m@+-")), 2)
        for n, name in enumerate([*names, HOSTILE])
    ]
    for name, chosen in (("answers", rows), ("first", rows[: len(names)]), ("second", rows[-len(names) :])):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, chosen)))


def assert_clean(text: str, where: str) -> None:
    """Check that no character of a text moves a cursor or turns the order of the others."""
    unsafe = {ascii(char) for char in text if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs")}
    assert not unsafe | {ascii(char) for char in text if char == "\u202e"}, where


def assert_is_text(path: Path) -> None:
    """Check a file by its kind."""
    text, where = path.read_bytes().decode(), str(path)
    if path.suffix == ".csv":
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        assert_clean("\n".join(cells), where)
        assert not [cell for cell in cells if cell[:1] in tuple("=+-@\t") and not NUMBER.fullmatch(cell)], where
        return
    assert_clean(text, where)
    if path.suffix == ".svg":
        tags = {str(element.tag).rpartition("}")[2] for element in ET.fromstring(text).iter()}
        assert not tags & {"script", "image", "img", "a"}, where
    elif path.suffix == ".tex":
        assert "\\input" not in text, where
    elif path.suffix in (".html", ".md"):
        assert "<script>window" not in text, where
        assert "<img src=x" not in text, where
    if path.suffix == ".md":
        assert not re.search(r"^\s*(## hacked|\| x \|)", text, re.MULTILINE), where


@pytest.mark.full
@pytest.mark.timeout(600)
def test_nothing_hostile_is_raw_anywhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    inputs = tmp_path / "in"
    write_inputs(inputs)
    with ScriptedEndpoint(answer) as endpoint:
        entry = f"{{engine: openai, base_url: {endpoint.base_url}, model: MODEL}}\n"
        entries = [f"{model}: {entry.replace('MODEL', model)}" for model in ("loud", "broken")]
        (inputs / "models.yaml").write_text("".join(["chance: {engine: random}\n", *entries]))
        for line in COMMANDS.strip().splitlines():
            if "answers.jsonl" in line:
                write_answers(inputs, tmp_path / "data")
            code = run(shlex.split(line.format(tmp=tmp_path)))
            shown = capfd.readouterr()
            assert code in ((2,) if "unknown" in line or "/out {tmp}/scored" in line else (0, 1, 4)), (line, shown.err)
            assert "Traceback" not in shown.err
            for text in (shown.out, shown.err):
                assert_clean(text, line)
                assert not [each for each in text.splitlines() if each.strip().startswith("::")], line
    files = [path for path in tmp_path.rglob("*") if path.suffix in FOR_PEOPLE and tmp_path / "in" not in path.parents]
    assert len(files) > 100
    for path in files:
        assert_is_text(path)


PLANTED = '\n\ndef _planted(*args, **kwargs):\n    raise KeyError("planted")\n\n\n{target} = _planted\n'
TARGETS = {
    "load": ("pipelines/predict/loader.py", "Loader.load"),
    "engine": ("models/engines/random_baseline.py", "RandomEngine.generate"),
    "score": ("pipelines/benchmarks/maia/letters.py", "read_letter"),
    "text scorer": ("pipelines/score/text_scorers.py", "look_for"),
    "reduce": ("pipelines/report/reduce.py", "reduce_entry"),
    "cache": ("models/engines/transformers/packed/kv_cache.py", "PackedSequences.write"),
}
SLOW = ("engine", "score", "text scorer", "reduce", "cache")
LIMITS = {
    "pipelines/score/stage.py": "MAX_PARTS_HERE",
    "pipelines/report/reduce.py": "MAX_ROWS_HERE",
}
"""Size of what a run does without Ray."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the product that leaves even small work to Ray, and in which a bug can be planted."""
    tree = tmp_path / "tree"
    for package in ("cluster", "jobs", "models", "pipelines"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path, limit in LIMITS.items():
        with (tree / path).open("a") as module:
            module.write(f"\n\n{limit} = -1\n")
    return tree


def run_sweep(
    tree: Path, env: dict[str, str], data: str, out: Path, limit: int, model: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    models = out.parent / "scripted.yaml"
    models.write_text("scripted: {engine: scripted}\n")  # a model that is answered in Ray's workers
    model = model or ("scripted", "--models-file", str(models))
    flags = ("--models", *model, "--benchmarks", "maia", "--settings", "1-frame", "--tasks", "vsv,oevqa")
    command = [sys.executable, "-m", "jobs.cli", "run", *flags, "--limit", str(limit), "--log-format", "json"]
    return subprocess.run(
        [*command, "--data", data, "--out", str(out)],
        env={**env, "PYTHONPATH": f"{tree}:{ENGINES_PATH}"},
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=300,
    )


def tiny_model(folder: Path) -> tuple[str, ...]:
    """Write a checkpoint and its entry; return the arguments of `--models`."""
    entry = {"engine": "transformers", "model": str(build_tiny(folder / "checkpoint")), "device": "cpu"}
    (folder / "models.yaml").write_text(json.dumps({"tiny": entry}))
    return "tiny", "--models-file", str(folder / "models.yaml")


@pytest.fixture(scope="module")
def first_run(command_env: dict[str, str], maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run of two samples."""
    out = tmp_path_factory.mktemp("first") / "out"
    assert run_sweep(ROOT, command_env, maia_data, out, 2).returncode == 0
    return out


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "stage", [pytest.param(stage, marks=pytest.mark.full if stage in SLOW else pytest.mark.slow) for stage in TARGETS]
)
def test_bug_in_a_worker_ends_with_70_and_keeps_committed_rows(
    stage: str, tree: Path, first_run: Path, command_env: dict[str, str], maia_data: str, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(first_run, tmp_path / "out"))
    parts = {path: path.read_bytes() for path in (out / "predictions").rglob("*.parquet")}
    path, target = TARGETS[stage]
    with (tree / path).open("a") as module:
        module.write(PLANTED.format(target=target))
    model = tiny_model(tmp_path) if stage == "cache" else ()
    result = run_sweep(tree, command_env, maia_data, out, 4, model)
    assert result.returncode == 70, result.stderr
    lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]  # Ray writes others
    (line,) = [line for line in lines if line.get("exit_code")]
    assert line["exit_code"] == 70
    for text in ("Traceback (most recent call last)", "in _planted", "KeyError: 'planted'"):
        assert text in line["trace"]
    assert "ModelUnavailableError" not in result.stderr
    assert {path: path.read_bytes() for path in parts} == parts
    if stage == "engine":
        assert run_sweep(ROOT, command_env, maia_data, out, 4).returncode == 0
