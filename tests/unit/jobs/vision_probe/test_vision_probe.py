"""Findings about models whose sight is known: endpoints that change pictures first, and models that read nothing."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from jobs.cli.main import run
from jobs.vision_probe.run import FRAMES, PICTURES, clip_probe, picture_probe, pictures_probe
from tests.support.checkpoints import build_tiny
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import EndpointRequest, Status

LEAST_HEIGHT = 9  # pixels of a digit, below which it is not read


CELL = (20, 30)


Change = Callable[[list[Image.Image]], Sequence[Image.Image]]


def seeing(change: Change = lambda pictures: pictures) -> Callable[[EndpointRequest], str]:
    """Return a script that answers with the numbers in the pictures that are left after a change."""

    def script(request: EndpointRequest) -> str:
        pictures = [Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) for uri in request.pictures]
        return ", ".join(filter(None, map(number_in, change(pictures)))) or "I see no number."

    return script


def downsized(side: int) -> Change:
    """Return what servers do with large pictures."""

    def change(pictures: list[Image.Image]) -> list[Image.Image]:
        for picture in pictures:
            picture.thumbnail((side, side))
        return pictures

    return change


def number_in(picture: Image.Image) -> str:
    """Return the number in a picture, '' where its digits are too small."""
    dark = np.asarray(picture.convert("L")) < 140
    rows = np.flatnonzero(dark.any(axis=1))
    if not rows.size or rows[-1] - rows[0] + 1 < LEAST_HEIGHT:
        return ""
    columns = np.flatnonzero(dark.any(axis=0))
    digits = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
    return "".join(_digit(dark[rows[0] : rows[-1] + 1, digit[0] : digit[-1] + 1]) for digit in digits)


def _digit(dark: np.ndarray) -> str:
    return min(templates(), key=lambda name: np.abs(templates()[name] - _scaled(dark)).sum())


@cache
def templates() -> dict[str, np.ndarray]:
    """Return how each digit looks."""
    looks = {}
    for name in "0123456789":
        picture = Image.new("L", (200, 200), 255)
        ImageDraw.Draw(picture).text((100, 100), name, 0, ImageFont.load_default(120), anchor="mm")
        dark = np.asarray(picture) < 140
        rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
        looks[name] = _scaled(dark[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    return looks


def _scaled(dark: np.ndarray) -> np.ndarray:
    picture = Image.fromarray((dark * 255).astype(np.uint8)).resize(CELL, Image.Resampling.BILINEAR)
    ratio = dark.shape[1] / dark.shape[0]  # a 1 is narrow
    return np.append(np.asarray(picture, np.float64) / 255, ratio * 60)


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return the findings about an entry, by what they are of."""

    def findings(**entry: Any) -> dict[str, Any]:
        models = tmp_path / "models.json"
        models.write_text(json.dumps({"seer": entry}))
        assert run(["doctor", "--eyes", "seer", "--models-file", str(models), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["model"] == "seer"
        return {finding["what"]: finding for finding in document["findings"]}

    return findings


def ask_endpoint(ask: Ask, script: Any, **entry: Any) -> dict[str, Any]:
    with ScriptedEndpoint(script) as endpoint:
        return ask(engine="openai", model="m", base_url=endpoint.base_url, retries=0, **entry)


def certain(findings: dict[str, Any]) -> dict[str, str]:
    return {what: finding["finding"] for what, finding in findings.items() if finding["is_determined"]}


ALL = {
    "print": "reads digits",
    "pixels": "at least 2048 x 2048, the largest picture shown",
    f"frames of {FRAMES}": f"all {FRAMES}",
    "order of frames": "as sent",
    f"pictures of {PICTURES}": f"all {PICTURES}",
    "order of pictures": "as sent",
}
LOST = "in {side} x {side} print of 16 pixels is lost, so it is made smaller"


def every_fourth(pictures: list[Image.Image]) -> list[Image.Image]:
    return pictures[::4] if len(pictures) > PICTURES else pictures


def mixed(pictures: list[Image.Image]) -> list[Image.Image]:
    return pictures[1::2] + pictures[::2]


@pytest.mark.parametrize(
    ("change", "differences"),
    [
        (lambda pictures: pictures, {}),
        (downsized(1100), {"pixels": f"1024 x 1024; {LOST.format(side=2048)}"}),
        (downsized(560), {"pixels": f"512 x 512; {LOST.format(side=1024)}"}),
        (downsized(150), {"pixels": "less than 256 x 256: print of 16 pixels is not read in any picture"}),
        (every_fourth, {f"frames of {FRAMES}": "8: number 1, 5, 9, 13, 17, 21, 25, 29"}),
        (lambda pictures: pictures[::-1], {"order of frames": "reversed", "order of pictures": "reversed"}),
        (
            lambda pictures: pictures[-3:],
            {f"frames of {FRAMES}": "3: number 30, 31, 32", f"pictures of {PICTURES}": "3: number 6, 7, 8"},
        ),
        (mixed, {"order of frames": "mixed: 2, 4, ", "order of pictures": "mixed: 2, 4, 6, 8, 1, 3, 5, 7"}),
        (
            lambda pictures: pictures[:1],
            {
                f"frames of {FRAMES}": "1: number 1",
                f"pictures of {PICTURES}": "1: number 1",
                "order of frames": None,
                "order of pictures": None,
            },
        ),
    ],
)  # fmt: skip
def test_what_an_endpoint_does_to_pictures_is_detected(change: Any, differences: dict[str, str], ask: Ask) -> None:
    findings = ask_endpoint(ask, seeing(change))
    shown = certain(findings)
    assert shown.pop("tokens").startswith("prompt tokens by picture: 256 x 256: ")
    for what, expected in {**ALL, **differences}.items():
        if expected is None:
            assert findings[what]["finding"] == "undetermined: one alone was read"
        else:
            assert shown[what].startswith(expected), what


def test_limits_of_the_entry_count(ask: Ask) -> None:
    limits = {"max_pixels": 600 * 600, "max_frames": 3}
    shown = certain(ask_endpoint(ask, seeing(), limits=limits))
    assert shown["pixels"].startswith("512 x 512; ")
    assert shown[f"frames of {FRAMES}"] == "3: number 1, 16, 32"


def test_nothing_is_determined_of_a_model_that_reads_no_numbers(ask: Ask) -> None:
    findings = ask_endpoint(ask, lambda request: "It is a white square.")
    assert set(certain(findings)) == {"print", "tokens"}
    assert "reads no number" in findings["print"]["finding"]
    assert findings["pixels"]["finding"] == "undetermined: the model reads no numbers"


def test_a_refused_question_leaves_its_finding_undetermined(ask: Ask) -> None:
    refusal, sees = "at most one picture", seeing()
    findings = ask_endpoint(
        ask, lambda request: Status(status=400, message=refusal) if len(request.pictures) > 1 else sees(request)
    )
    assert certain(findings)["print"] == "reads digits"
    assert f"pictures of {PICTURES}" not in certain(findings)


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_model_that_answers_nothing_ends_with_3_and_the_reason(
    status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "models.json"
    with ScriptedEndpoint(lambda request: Status(status=status, message="this model accepts no image")) as endpoint:
        entry = {"engine": "openai", "model": "m", "base_url": endpoint.base_url, "retries": 0}
        models.write_text(json.dumps({"seer": entry}))
        assert run(["doctor", "--eyes", "seer", "--models-file", str(models), "--json"]) == 3
    captured = capsys.readouterr()
    assert not captured.out
    assert f"'seer' answered none of 7 questions: http_{status}: this model accepts no image" in captured.err


def test_chance_reads_nothing(ask: Ask) -> None:
    assert not {"pixels", f"frames of {FRAMES}", f"pictures of {PICTURES}"} & set(certain(ask(engine="random")))


def test_a_local_model_tells_its_tokens(ask: Ask, tmp_path: Path) -> None:
    """Its weights are random: it reads nothing, and its prompt grows with the picture."""
    findings = ask(
        engine="transformers",
        model=str(build_tiny(tmp_path / "tiny", "qwen2_vl")),
        device="cpu",
        limits={"max_pixels": 40_000},
    )
    assert findings["pixels"]["finding"] == "undetermined: the model reads no numbers"
    assert findings["tokens"]["is_determined"]
    assert findings[f"frames of {FRAMES}"]["prompt_tokens"] > findings["print"]["prompt_tokens"] > 0


def test_the_table_has_a_row_for_each_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedEndpoint(seeing()) as endpoint:
        models = tmp_path / "models.yaml"
        models.write_text(f"seer: {{engine: openai, model: m, base_url: '{endpoint.base_url}'}}\n")
        assert run(["doctor", "--eyes", "seer", "--models-file", str(models)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 7
    assert lines[2].split() == ["print", "reads", "digits", "1", "of", "1", lines[2].split()[-1]]


@pytest.mark.parametrize("name", ["nobody", "absent"])
def test_a_model_that_cannot_be_asked_ends_with_2_or_3(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("absent: {engine: openai, model: m, base_url: 'http://127.0.0.1:1/v1', retries: 0}\n")
    assert run(["doctor", "--eyes", name, "--models-file", str(models)]) == {"nobody": 2, "absent": 3}[name]
    assert "Traceback" not in capsys.readouterr().err


def test_numbers_of_a_probe_differ_and_are_drawn() -> None:
    for probe in (picture_probe("small print 256", 256, 16), clip_probe(), pictures_probe()):
        pictures = [pixels for frames in probe.media.values() for pixels in frames.pixels]
        assert [number_in(Image.fromarray(pixels)) for pixels in pictures] == [*probe.codes]
        assert len({*probe.codes}) == len(probe.codes)
