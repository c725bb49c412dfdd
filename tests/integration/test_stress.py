"""`vlmsweep stress`: planted models at an endpoint, each request once, and which conclusions the report says flip."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from jobs.cli.main import run as vlmsweep
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from tests.support.endpoint import EndpointRequest, ScriptedEndpoint
from tests.support.paths import ROOT

COLOURS = {"red": (220, 20, 20), "green": (20, 180, 20), "blue": (20, 20, 220), "white": (250, 250, 250)}
ROWS = 60
MOST_OPEN = 2 * 16 + 64  # calls of units that are answered together: twice the window, and a unit
CONDITIONS = "order,letters,jpeg-20,pixels,frames"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """60 pictures of one colour each; the right option is the first in nine of ten questions."""
    folder = tmp_path_factory.mktemp("colours")
    with (folder / "colours.csv").open("w") as file:
        lines = csv.writer(file)
        lines.writerow(("id", "image", "question", "A", "B", "C", "D", "answer"))
        for n in range(ROWS):
            right = [*COLOURS][n % 4]
            others = [name for name in COLOURS if name != right]
            options = [right, *others] if n % 10 else [*others, right]
            picture = Image.new("RGB", (60, 40), COLOURS[right])
            picture.putpixel((n, 0), (n, n, n))
            picture.save(folder / f"{n}.png")
            lines.writerow((f"q{n}", f"{n}.png", "Which colour?", *options, "ABCD"[options.index(right)]))
    assert vlmsweep(["ingest", "table", str(folder), "--as", "colours", "--data", str(folder / "data")]) == 0
    return str(folder / "data")


def planted(request: EndpointRequest) -> str:
    """Answer as the model that was asked: `first` by letter, `top` by place, `eyes` by pixels, wrong on white."""
    options = dict(reversed(pair) for pair in re.findall(r"^([A-D])\. (\w+)$", request.text, re.MULTILINE))
    if request.body["model"] == "first":
        return "A"
    if request.body["model"] == "top":
        return next(iter(options.values()))
    picture = Image.open(io.BytesIO(base64.b64decode(request.pictures[0].partition(",")[2]))).convert("RGB")
    r, g, b = picture.getpixel((picture.width // 2, picture.height // 2))  # type: ignore[misc]
    return options["red" if r >= max(g, b) else "green" if g >= b else "blue"]


def arguments_of(data: str, out: Path, endpoint: ScriptedEndpoint, *flags: str) -> list[str]:
    names = ("first", "top", "eyes")
    models = out.parent / "models.yaml"
    models.write_text(
        "".join(f"{name}: {{engine: openai, model: {name}, base_url: {endpoint.base_url}}}\n" for name in names)
    )
    arguments = ["--models", ",".join(names), "--models-file", str(models), "--benchmarks", "colours"]
    return ["stress", *arguments, "--data", data, "--out", str(out), "--conditions", CONDITIONS, *flags]


def stress(data: str, out: Path, endpoint: ScriptedEndpoint, *flags: str) -> int:
    return vlmsweep(arguments_of(data, out, endpoint, *flags))


def predictions(out: Path) -> list[dict[str, Any]]:
    store = Store(str(out))
    return [row for info in store.list("predictions", "*.parquet") for row in read_part(store, info.path).to_pylist()]


@pytest.mark.full
def test_planted_models_flip_where_they_should_and_nothing_is_asked_twice(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with ScriptedEndpoint(planted) as endpoint:
        assert stress(data, out, endpoint, "--limit", "20") == 0
        rows = predictions(out)
        assert Counter(row["prompt_version"] for row in rows) == {
            f"table-choice-v1{suffix}": 3 * 20 for suffix in ("", "+order-1", "+letters-1", "+jpeg-20", "+pixels-25")
        }
        assert len({row["request_id"] for row in rows}) == len(rows) == len(endpoint.requests) == 300
        assert stress(data, out, endpoint) == 0
        assert len(endpoint.requests) == 900
        capsys.readouterr()
        assert stress(data, out, endpoint, "--json") == 0
        assert len(endpoint.requests) == 900
    cells = {cell["condition"]: cell for cell in json.loads(capsys.readouterr().out)["stress"]}
    assert list(cells) == ["order-1", "letters-1", "jpeg-20", "pixels-25"]
    changes = {
        (name, row["model"]): (row["before"], row["moved"]["value"], row["to_wrong"])
        for name, cell in cells.items()
        for row in cell["models"]
    }
    assert changes["order-1", "first"] == changes["order-1", "top"] == changes["letters-1", "first"] == (0.9, 1.0, 54)
    assert changes["letters-1", "top"] == (0.9, 0.0, 0)
    assert {changes[name, "eyes"] for name in cells} == {(0.75, 0.0, 0)}
    assert cells["jpeg-20"]["conclusion"] == cells["pixels-25"]["conclusion"] == "of 3: nothing flips"
    assert cells["order-1"]["conclusion"].startswith("of 3: 2 swapped (2 beyond chance), ")
    assert cells["letters-1"]["conclusion"].startswith("of 3: 1 swapped (1 beyond chance), ")
    page = (out / "report" / "stress.html").read_text()
    assert "Conclusions that flip" in page
    tables = {path.name for path in (out / "report" / "tables").glob("stress*.csv")}
    assert tables == {"stress.csv", "stress_models.csv", "stress_pairs.csv"}
    numbers = json.loads((out / "report" / "metrics.json").read_text())
    shares = {
        (row["model"], row["subset"]): row["value"]
        for row in numbers
        if row["metric"] == "accuracy" and not row["category"]
    }
    assert (shares["eyes", ""], shares["eyes", "prompt:order-1"]) == (0.75, 0.75)
    assert shares["first", "prompt:order-1"] < 0.1


KILLED = """
import os, signal
from jobs.cli.main import run
from jobs.shared.progress import Progress

left = {commits}

def advance(self, rows, failed):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

Progress.advance = advance
run({arguments!r})
"""


@pytest.mark.full
def test_a_stress_test_that_is_killed_asks_no_stored_request_again(data: str, tmp_path: Path) -> None:
    """What other units had answered and not stored at a kill is asked once more."""
    flags = ("--limit", "20")
    with ScriptedEndpoint(planted) as endpoint:
        counts, lost = [], 0
        for commits in (2, 5):
            script = KILLED.format(commits=commits, arguments=arguments_of(data, tmp_path / "out", endpoint, *flags))
            killed = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
            assert killed.returncode == -9, killed.stderr
            counts.append(len(endpoint.requests))
            lost = counts[-1] - len(predictions(tmp_path / "out"))
        assert 0 < counts[0] < counts[1] < 300 + lost
        assert 0 <= lost <= 2 * MOST_OPEN
        assert stress(data, tmp_path / "out", endpoint, *flags) == 0
        assert len(endpoint.requests) == 300 + lost
        assert stress(data, tmp_path / "whole", endpoint, *flags) == 0
    rows = predictions(tmp_path / "out")
    assert len({row["request_id"] for row in rows}) == len(rows) == 300
    resumed, whole = (json.loads((tmp_path / name / "report" / "stress.json").read_text()) for name in ("out", "whole"))
    assert resumed == whole


def test_unusable_conditions_end_with_2(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--models", "random", "--benchmarks", "colours", "--data", data, "--out", str(tmp_path / "out")]
    for wrong, message in (("jpg", "did you mean 'jpeg'"), ("jpeg-99", "from 1 to 95"), (",", "name at least one")):
        assert vlmsweep(["stress", *flags, "--conditions", wrong]) == 2
        assert message in capsys.readouterr().err
    assert vlmsweep(["stress", *flags, "--until", "ranking"]) == 2
    assert "--until: a stress test compares all rows" in capsys.readouterr().err


def test_a_plan_shows_the_requests_of_every_condition(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--models", "random", "--benchmarks", "colours", "--data", data, "--out", str(tmp_path / "out")]
    assert vlmsweep(["stress", *flags, "--conditions", "order,frames", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert sum(row["requests"] for row in plan["plan"]) == 2 * ROWS
