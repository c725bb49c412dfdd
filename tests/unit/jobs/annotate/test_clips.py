"""Frames of a table's clip in forms and in the viewer, by the decoder that is right."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jobs.cli.main import run
from models.messages import Media
from pipelines.ingest.dataset import Dataset
from pipelines.media.decoder import Decoder
from pipelines.samples.media import MediaReader
from pipelines.storage.store import Store
from tests.support.clip_corpus import CLIPS, write

FRAMES = 8


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A clip of which decord shows wrong frames, and an output of a table with it."""
    path = write(next(clip for clip in CLIPS if clip.name == "h264-cut-5.mp4"), tmp_path)
    (tmp_path / "q.csv").write_text(f"id,video,question,answer\nq0,{path.name},Is it?,yes\n")
    data, out = str(tmp_path / "data"), str(tmp_path / "out")
    assert run(["ingest", "table", str(tmp_path / "q.csv"), "--as", "clips", "--data", data]) == 0
    assert run(["run", "--models", "random", "--benchmarks", "clips", "--data", data, "--out", out]) == 0
    return path


def test_forms_and_viewer_show_the_frames_of_a_clip(clip: Path, tmp_path: Path) -> None:
    with Decoder() as decoder:
        right = decoder.decode_file(clip, Media("video", "", FRAMES), None, ["pyav"]).pixels.astype(float)
    forms = tmp_path / "forms"
    assert run(["annotate", str(tmp_path / "out"), "--benchmark", "clips", "--n", "1", "--to", str(forms)]) == 0
    page = next(forms.glob("*.html")).read_text()
    assert f"{FRAMES} frames, evenly spaced" in page
    (content,) = re.findall(r'<img src="data:image/jpeg;base64,([^"]+)" alt="Frames of clip of item 1">', page)
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))).astype(float)
    height, width = right.shape[1:3]
    assert sheet.shape == (height * FRAMES // 2, width * 2, 3)
    dataset = Dataset.open(Store(str(tmp_path / "data")), "clips")
    (sample,) = dataset.samples()
    reader = MediaReader(tmp_path / "cache")
    for number in range(FRAMES):
        top, left = number // 2 * height, number % 2 * width
        assert np.abs(sheet[top : top + height, left : left + width] - right[number]).mean() < 5
        shown = Image.open(io.BytesIO(reader.frame(dataset, sample.media[0], FRAMES, number)))
        assert np.abs(np.asarray(shown).astype(float) - right[number]).mean() < 5
    reader.close()
