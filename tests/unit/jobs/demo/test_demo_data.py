"""MAIA's sample data: the committed files equal the builder's, in the form as distributed."""

import difflib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.messages import Media
from pipelines.benchmarks.maia.benchmark import BENCHMARK as MAIA
from pipelines.benchmarks.maia.facts import COLUMNS
from pipelines.benchmarks.records import RawSample
from pipelines.ingest.source_folder import Folder
from pipelines.media.decoder import Decoder
from tests.support.paths import ROOT
from tests.tools.demo_data.build import main, questions_json, write_maia
from tests.tools.demo_data.clips import CLIPS, FPS, Clip
from tests.tools.demo_data.drawing import HEIGHT, WIDTH
from tests.tools.demo_data.texts import read_texts, split_line

DATA = ROOT / "jobs" / "demo" / "data" / "maia"
VIDEOS = json.loads((DATA / "dataset" / "data_demo.json").read_bytes())
PUBLIC = ROOT.parent / "shared" / "data" / "maia" / "dataset" / "data_20%.json"

CLIP_BYTES = 60_000
LOSS = 1.5
"""Mean difference of brightness between a decoded frame and the drawn one, of 255; measured below 0.7."""


def entries(videos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for video in videos for half in "AB" for entry in video[f"question_categories_{half}"]]


def texts(videos: list[dict[str, Any]], *fields: str) -> list[str]:
    return [text for entry in entries(videos) for field in fields for text in entry[field]]


def decoded(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        (stream,) = container.streams
        assert (stream.codec_context.name, stream.average_rate) == ("h264", FPS)
        return [brightness(frame) for frame in container.decode(stream)]


def brightness(frame: av.VideoFrame) -> np.ndarray:
    """Return the brightness plane: colours lose more in encoding, as clips keep them at half the size."""
    planes: np.ndarray = frame.reformat(format="yuv420p").to_ndarray()
    return planes[: frame.height].astype(int)


def difference(frames: list[np.ndarray], other_frames: list[np.ndarray]) -> list[float]:
    return [float(np.abs(a - b).mean()) for a, b in zip(frames, other_frames, strict=True)]


def test_committed_questions_are_what_the_builder_makes() -> None:
    assert (DATA / "dataset" / "data_demo.json").read_bytes() == questions_json()


def test_data_folder_holds_nothing_else() -> None:
    clips = {f"dataset/videos/{clip.number}.mp4" for clip in CLIPS}
    assert {str(path.relative_to(DATA)) for path in DATA.rglob("*.*")} == clips | {"dataset/data_demo.json"}


def test_maia_reads_the_data_without_rejections_and_balanced() -> None:
    items = list(MAIA.source(Folder(str(DATA)), {}))
    samples = [item for item in items if isinstance(item, RawSample)]
    assert len(items) == len(samples) == len({sample.sample_id for sample in samples}) == 72
    assert Counter(sample.category for sample in samples) == dict.fromkeys(COLUMNS, 6)
    assert Counter(sample.cluster for sample in samples) == {"video1": 24, "video2": 24, "video3": 24}
    assert all((DATA / sample.media[0].path).is_file() for sample in samples)


def test_every_clip_has_each_category_in_both_halves() -> None:
    for video in VIDEOS:
        assert set(video) == {"video", "link", "question_categories_A", "question_categories_B"}
        names = {half: [e["category"] for e in video[f"question_categories_{half}"]] for half in "AB"}
        assert {name.removesuffix("_A") for name in names["A"]} == {name.removesuffix("_B") for name in names["B"]}
        assert len(set(names["A"] + names["B"])) == 24
    orders = {tuple(entry["category"] for entry in video["question_categories_A"]) for video in VIDEOS}
    assert len(orders) == len(VIDEOS)


def test_statements_are_unique() -> None:
    for field in ("true_statement", "false_statement"):
        assert len(texts(VIDEOS, field)) == 576
    statements = [text.casefold() for text in texts(VIDEOS, "true_statement", "false_statement")]
    assert [text for text, count in Counter(statements).items() if count > 1] == []


def test_false_statements_are_small_edits() -> None:
    pairs = zip(texts(VIDEOS, "true_statement"), texts(VIDEOS, "false_statement"), strict=True)
    alike = [difflib.SequenceMatcher(None, true.split(), false.split()).ratio() for true, false in pairs]
    assert min(alike) > 0.33
    assert sum(alike) / len(alike) > 0.8


def test_statements_are_plain_sentences_without_full_stop() -> None:
    statements = texts(VIDEOS, "true_statement", "false_statement")
    assert [text for text in statements if text != " ".join(text.split()) or not text[-1].isalpha()] == []
    assert [text for text in statements if not text[0].isupper() or len(text.split()) < 4] == []
    assert sum(text.startswith("A ") for text in statements) >= 6


def test_texts_are_not_from_the_published_data() -> None:
    if not PUBLIC.is_file():
        pytest.skip(f"{PUBLIC.name} is not available")
    public = json.loads(PUBLIC.read_bytes())
    fields = ("answer", "true_statement", "false_statement")
    published = texts(public, *fields) + [entry["question"] for entry in entries(public)]
    committed = texts(VIDEOS, *fields) + [entry["question"] for entry in entries(VIDEOS)]
    assert len(published) > 2000
    assert {text.strip().casefold() for text in committed} & {text.strip().casefold() for text in published} == set()


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.number)
def test_clip_shows_the_drawn_frames(clip: Clip) -> None:
    path = DATA / "dataset" / "videos" / f"{clip.number}.mp4"
    assert path.stat().st_size < CLIP_BYTES
    assert 4 <= clip.seconds <= 6
    frames = decoded(path)
    drawn = [brightness(av.VideoFrame.from_image(picture)) for picture in clip.pictures()]
    assert len(frames) == len(drawn) == clip.seconds * FPS
    assert {frame.shape for frame in frames} == {(HEIGHT, WIDTH)}
    assert max(difference(frames, drawn)) < LOSS
    assert min(difference(drawn[1:], drawn[:-1])) > 0, "something moves at every moment"


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.number)
def test_clip_decodes_as_in_a_run(clip: Clip) -> None:
    with Decoder() as decoder:
        frames = decoder.decode_file(
            DATA / "dataset" / "videos" / f"{clip.number}.mp4", Media("video", "0" * 64, frames=32)
        )
    assert (frames.total_frames, frames.fps) == (clip.frames, FPS)
    assert frames.pixels.shape == (32, HEIGHT, WIDTH, 3)


def test_command_rebuilds_the_committed_clips(tmp_path: Path) -> None:
    main(["maia", "--out", str(tmp_path)])
    for path in sorted(path for path in DATA.rglob("*") if path.is_file()):
        again = tmp_path / "maia" / path.relative_to(DATA)
        if path.suffix == ".json":
            assert again.read_bytes() == path.read_bytes()
            continue
        # Another version of the encoder may spend its bits otherwise.
        assert max(difference(decoded(again), decoded(path))) < LOSS


def test_write_maia_replaces_existing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tests.tools.demo_data.build.write_clip", lambda clip, path: path.write_text(f"clip {clip.number}")
    )
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "data_demo.json").write_text("old")
    write_maia(tmp_path)
    assert (tmp_path / "dataset" / "data_demo.json").read_bytes() == questions_json()
    assert (tmp_path / "dataset" / "videos" / "3.mp4").read_text() == "clip 3"


def test_unknown_clip_has_no_texts() -> None:
    with pytest.raises(FileNotFoundError):
        read_texts(4)


PART = st.text(st.characters(exclude_characters="{|}", exclude_categories=["Cs"])).filter(lambda part: "=>" not in part)


@given(PART.filter(bool), st.lists(st.tuples(PART, PART, PART), min_size=1), PART)
def test_line_gives_answer_and_both_statements(answer: str, edits: list[tuple[str, str, str]], end: str) -> None:
    line = "".join(f"{before}{{{true}|{false}}}" for before, true, false in edits) + end
    true, false = ("".join(edit[0] + edit[side] for edit in edits) + end for side in (1, 2))
    assert split_line(f"{answer} => {line}") == (answer, true, false)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Una risposta",
        "Risposta => senza modifica",
        " => La palla è {rossa|blu}",
        "Risposta => La palla è {rossa|blu} e {tonda",
        "Risposta => La palla è {rossa|blu|verde}",
        "Risposta => {La palla è {rossa|blu}}",
        "Risposta -> La palla è {rossa|blu}",
    ],
)
def test_malformed_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="must read"):
        split_line(line)
