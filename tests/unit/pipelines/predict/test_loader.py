"""Loading and committing without a cluster."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from models.messages import Frames
from pipelines.errors import DamagedPartError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.requests import ModelTarget
from pipelines.plan.units import WorkUnit
from pipelines.predict.loader import Loaded, Loader, MediaGuard
from pipelines.predict.serialization import pack_units, unpack_units
from pipelines.predict.unit_pipeline import Committer
from pipelines.predict.unit_runner import UnitRunner
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from tests.support.maia_source import FRAMES_32_OF_40, index_of
from tests.support.requests import build_requests
from tests.support.units import RecordingAttempts, ScriptedEngine, carried, units_of, words_of


def media_frames(loaded: list[Loaded]) -> dict[str, Frames]:
    return {
        ("black" if media.source.startswith("blank") else str(media.frames)): frames
        for unit in loaded
        for media, frames in unit.media.items()
    }


def test_each_setting_gets_its_frames_in_order_through_the_object_store(loaded: list[Loaded]) -> None:
    frames = media_frames(loaded)
    assert frames["black"].pixels.shape == (32, 360, 640, 3)
    assert frames["black"].pixels.max() == 0
    assert [index_of(frame) for frame in frames["1"].pixels] == [0]
    assert [index_of(frame) for frame in frames["32"].pixels] == FRAMES_32_OF_40
    assert frames["32"].total_frames == 40
    assert frames["32"].fps == pytest.approx(10)
    for original in loaded:
        (back,) = unpack_units(pack_units([original]))
        assert back.unit == original.unit
        assert back.requests == original.requests
        assert back.columns == original.columns
        for media, frames in original.media.items():
            assert (back.media[media].pixels == frames.pixels).all()
            assert back.media[media].seconds == frames.seconds


class RecordedMedia:
    """Records media that are decoded, as `AttemptTracker`."""

    def __init__(self) -> None:
        self.media: list[str] = []

    def begin_medium(self, unit: str, medium: str) -> None:
        assert unit
        self.media.append(medium)


@pytest.mark.parametrize(
    ("is_exclusive", "keeps_clips", "is_stored"), [(False, False, True), (True, False, False), (True, True, True)]
)
def test_clips_of_one_batch_are_stored_for_other_models_alone(
    units: list[WorkUnit],
    make_loader: Callable[..., Loader],
    tmp_path: Path,
    is_exclusive: bool,
    keeps_clips: bool,
    is_stored: bool,
) -> None:
    folder = tmp_path / "clips"
    unit = next(unit for unit in units if any("blank" not in entry.group for entry in unit.slices))
    groups = [entry.group for entry in unit.slices] if is_exclusive else []
    make_loader(clip_folder=str(folder), keeps_clips=keeps_clips).load(unit, groups)
    assert bool(list(folder.glob("*.frames"))) is is_stored


def test_loader_shrinks_and_thins_frames_to_limits(units: list[WorkUnit], make_loader: Callable[..., Loader]) -> None:
    loader = make_loader(max_pixels=800, max_frames=8)
    frames = media_frames([loader.load(unit) for unit in units])
    assert frames["32"].pixels.shape[0] == 8
    assert frames["32"].pixels.shape[1] * frames["32"].pixels.shape[2] <= 800
    assert [index_of(frame) for frame in frames["32"].pixels] == [0, 5, 11, 16, 22, 27, 33, 39]


def test_loader_builds_the_requests_of_the_plan(maia_data: str, target: ModelTarget, loaded: list[Loaded]) -> None:
    samples = islice(Dataset.open(Store(maia_data), "maia").samples(), 2)
    expected = {built.request_id: built for sample in samples for built in build_requests(target, sample)}
    assert {name for unit in loaded for name in unit.columns} == expected.keys()
    for unit in loaded:
        assert all(expected[request.request_id].request == request for request in unit.requests)
        assert all(expected[name].columns == columns for name, columns in unit.columns.items())


def test_damaged_plan_is_refused(units: list[WorkUnit], make_loader: Callable[..., Loader], tmp_path: Path) -> None:
    part = tmp_path / units[0].slices[0].plan_part
    part.write_bytes(part.read_bytes().replace(b"PAR1", b"PAR2"))
    with pytest.raises(DamagedPartError, match="plan/benchmark=maia/part-"):
        make_loader().load(units[0])


def commit(out: Path, unit: WorkUnit, rows: list[dict[str, Any]]) -> Mapping[tuple[str, str, str], int]:
    return Committer(str(out)).commit(carried(unit, rows)).counts


def test_undecodable_medium_makes_error_rows(
    maia_data: str, target: ModelTarget, make_loader: Callable[..., Loader], tmp_path: Path
) -> None:
    import shutil

    data = tmp_path / "data"
    shutil.copytree(maia_data, data)
    for clip in (data / "maia" / "media").iterdir():
        clip.write_bytes(clip.read_bytes()[:500])
    loader = make_loader(data=str(data))
    for unit in units_of(str(data), target, str(tmp_path)):
        loaded_unit = loader.load(unit)
        rows = UnitRunner(ScriptedEngine(), RecordingAttempts()).answer(loaded_unit)
        assert sorted(row["request_id"] for row in rows) == sorted(loaded_unit.columns)
        for row in rows:
            assert row["status"] == ("ok" if row["setting"] == "black-video" else "error")
            assert row.get("error_type") == ("" if row["status"] == "ok" else "media")


def test_medium_that_kills_costs_its_own_rows_and_others_are_recorded_before_they_are_decoded(
    units: list[WorkUnit], make_loader: Callable[..., Loader]
) -> None:
    unit = next(unit for unit in units if len({entry.group for entry in unit.slices if "blank" not in entry.group}) > 1)
    fatal, *others = sorted({entry.group for entry in unit.slices if "blank" not in entry.group})
    attempts = RecordedMedia()
    guard = MediaGuard(unit=unit.part, record=attempts.begin_medium, fatal_media=frozenset([fatal]))
    loaded_unit = make_loader().load(unit, guard=guard)
    assert [attempts.media[-1], *sorted(attempts.media[:-1])] == ["", *others]
    failed = {row["request_id"] for row in loaded_unit.ready}
    assert all("processes died" in row["error"] for row in loaded_unit.ready)
    assert failed | {request.request_id for request in loaded_unit.requests} == loaded_unit.columns.keys()
    assert len(failed) == sum(len(entry.rows) for entry in unit.slices if entry.group == fatal)


def test_loader_without_media_fails_its_requests(units: list[WorkUnit], make_loader: Callable[..., Loader]) -> None:
    loader = make_loader()
    for unit in units:
        loaded_unit = loader.load(unit, guard=MediaGuard(skips_all=True))
        failed = [row for row in loaded_unit.ready if row["status"] == "error"]
        assert {row["error_type"] for row in failed} == {"media"}
        assert all("processes died" in row["error"] for row in failed)
        assert sorted(
            [*(row["request_id"] for row in failed), *(loaded_unit.request_id for loaded_unit in loaded_unit.requests)]
        ) == sorted(loaded_unit.columns)
        assert all(media.source.startswith("blank:") for media in loaded_unit.media)


@pytest.mark.parametrize("damage", ["another that decodes", "gone"])
def test_medium_changed_or_lost_after_ingest_makes_error_rows(
    maia_data: str, target: ModelTarget, make_loader: Callable[..., Loader], tmp_path: Path, damage: str
) -> None:
    import shutil

    data = tmp_path / "data"
    shutil.copytree(maia_data, data)
    first, second, *_ = sorted((data / "maia" / "media").iterdir())
    first.write_bytes(second.read_bytes())
    if damage == "gone":
        first.unlink()
    loader, errors = make_loader(data=str(data)), set()
    # Of both clips, each by itself: which hash comes first depends on the encoder.
    units = units_of(str(data), target, str(tmp_path), "1.0")
    for unit in (replace(both, slices=(part,), requests=len(part.rows)) for both in units for part in both.slices):
        for row in UnitRunner(ScriptedEngine(), RecordingAttempts()).answer(loader.load(unit)):
            if row["status"] == "error":
                errors.add((row["error_type"], row["error"], first.stem in row["error"]))
            else:
                assert row["setting"] == "black-video" or first.stem not in str(unit)
    ((kind, reason, names_it),) = errors
    assert kind == "media"
    assert ("its hash differs" if damage != "gone" else "no such file") in reason
    assert names_it


def test_retry_keeps_right_rows(units: list[WorkUnit], make_loader: Callable[..., Loader], tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    loader = make_loader()
    unit = units[0]
    loaded_unit = loader.load(unit)
    poison = words_of(loaded_unit.requests[0])
    rows = UnitRunner(ScriptedEngine(raise_on=repr(poison)[1:-1]), RecordingAttempts()).answer(loaded_unit)
    failed = tuple(sorted(r.request_id for r in loaded_unit.requests if words_of(r) == poison))
    counts = commit(tmp_path, unit, rows)
    assert sum(n for (_, _, status), n in counts.items() if status == "error") == len(failed)
    ids = iter(loaded_unit.columns)
    slices = tuple(replace(s, rows=tuple(row for row in s.rows if next(ids) in failed)) for s in unit.slices)
    again = replace(unit, slices=slices, requests=len(failed), retried=failed)
    second = loader.load(again)
    assert sorted(request.request_id for request in second.requests) == list(failed)
    rows = UnitRunner(ScriptedEngine(), RecordingAttempts()).answer(second)
    counts = commit(tmp_path, again, rows)
    assert {status for _, _, status in counts} == {"ok"}
    assert sum(counts.values()) == len(failed)
    table = read_part(out, unit.part)
    assert table.schema.equals(PREDICTIONS)
    assert sorted(table["request_id"].to_pylist()) == sorted(loaded_unit.columns)
    assert set(table["status"].to_pylist()) == {"ok"}
