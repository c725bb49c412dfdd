"""Pictures that a stress test changed, and pictures that were not sent, in viewer and site."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from jobs.cli.main import run
from jobs.demo.main import write_sample
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from tests.unit.jobs.site.test_build import items
from tests.unit.jobs.view.conftest import KEY, Open


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    """A picture, (40, 60, 3), that JPEG alters."""
    return np.random.default_rng(1).integers(0, 256, (40, 60, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def out(pixels: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One question about one picture, asked with it and under two changes of it."""
    folder = tmp_path_factory.mktemp("conditions")
    Image.fromarray(pixels).save(folder / "a.png")
    with (folder / "questions.csv").open("w") as file:
        lines = csv.writer(file)
        lines.writerow(("id", "image", "question", "A", "B", "answer"))
        lines.writerow(("q0", "a.png", "Which?", "one", "two", "A"))
    data, results = str(folder / "data"), str(folder / "out")
    assert run(["ingest", "table", str(folder), "--as", "seen", "--data", data]) == 0
    flags = ["--models", "random", "--benchmarks", "seen", "--data", data, "--out", results]
    assert run(["stress", *flags, "--conditions", "jpeg-20,pixels-25"]) == 0
    return results


def picture(content: bytes) -> np.ndarray:
    assert content[:3] == b"\xff\xd8\xff"
    with Image.open(io.BytesIO(content)) as opened:
        return np.asarray(opened.convert("RGB")).astype(int)


def as_jpeg(pixels: np.ndarray, quality: int) -> np.ndarray:
    stored = io.BytesIO()
    Image.fromarray(pixels).save(stored, "JPEG", quality=quality)
    return picture(stored.getvalue())


@pytest.fixture(scope="module")
def text_only(tmp_path_factory: pytest.TempPathFactory) -> str:
    """VAGUE asked without its pictures."""
    folder = tmp_path_factory.mktemp("blind")
    data, results = str(folder / "data"), str(folder / "out")
    assert run(["ingest", "vague", str(write_sample("vague", folder / "vague")), "--data", data]) == 0
    flags = ["--models", "random", "--benchmarks", "vague", "--tasks", "mcq", "--settings", "lm", "--limit", "2"]
    assert run(["run", *flags, "--data", data, "--out", results]) == 0
    return results


def page_of(client: TestClient, out: str) -> str:
    """Return the page of the first item."""
    (info, *_) = Store(out).list("predictions", "*.parquet")
    row = read_part(Store(out), info.path).to_pylist()[0]
    identity = {name: row[name] for name in ("benchmark", "task", "setting", "sample_id", "variant")}
    return html.unescape(client.get(f"sample?{urlencode(identity)}").text)


def test_viewer_shows_the_changed_picture(opened: Open, out: str, pixels: np.ndarray) -> None:
    client = opened(out)
    page = page_of(client, out)
    assert "stored as JPEG of quality 20" in page
    assert "shrunk to 25% of the pixels" in page
    address = re.search(rf'src="/{KEY}/(frame\?[^"]+change=jpeg-20[^"]*)"', page)
    assert address
    shown = picture(client.get(address[1]).content)
    assert shown.shape == pixels.shape
    assert np.abs(shown - as_jpeg(pixels, 20)).mean() < np.abs(shown - pixels).mean() / 3
    assert client.get(address[1].replace("jpeg-20", "jpeg-200")).status_code == 404
    shrunk = re.search(rf'src="/{KEY}/(frame\?[^"]+change=pixels-25[^"]*)"', page)
    assert shrunk
    assert picture(client.get(shrunk[1]).content).shape == (20, 30, 3)
    assert "No picture was shown." not in page


def test_site_holds_the_changed_pictures(out: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert run(["site", out, "--to", str(site)]) == 0
    media = {medium.get("change", ""): medium["src"] for item in items(site) for medium in item["media"]}
    assert {name[:14] for name in media} == {"", "pictures and f"}
    assert len({(site / name).read_bytes() for name in media.values()}) == 3
    assert {item.get("unshown") for item in items(site)} == {None}


def test_viewer_and_site_say_that_no_picture_was_sent(opened: Open, text_only: str, tmp_path: Path) -> None:
    page = page_of(opened(text_only), text_only)
    assert "No picture was shown." in page
    assert "<img" not in page
    assert run(["site", text_only, "--to", str(tmp_path / "site")]) == 0
    assert {(item["unshown"], *item["media"]) for item in items(tmp_path / "site")} == {("No picture was shown.",)}
