"""Loading and committing without a cluster."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.messages import Frames
from pipelines.errors import PlanMismatchError
from pipelines.media.frame_cache import LocalFrameCache
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.units import WorkUnit
from pipelines.predict.commit import Committer
from pipelines.predict.loader import Loaded, Loader
from pipelines.predict.serialization import pack_loaded, unpack_loaded
from pipelines.predict.unit_runner import UnitRunner
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from tests.support.maia_source import FRAMES_32_OF_40, index_of
from tests.support.units import Memory, Script, carried, units_of, words_of


def media_frames(loaded: list[Loaded]) -> dict[str, Frames]:
    return {
        ("black" if media.source.startswith("blank") else str(media.frames)): frames
        for one in loaded
        for media, frames in one.media.items()
    }


def test_each_setting_gets_its_frames_in_order(loaded: list[Loaded]) -> None:
    frames = media_frames(loaded)
    assert frames["black"].pixels.shape == (32, 360, 640, 3)
    assert frames["black"].pixels.max() == 0
    assert [index_of(frame) for frame in frames["1"].pixels] == [0]
    assert [index_of(frame) for frame in frames["32"].pixels] == FRAMES_32_OF_40
    assert frames["32"].total_frames == 40
    assert frames["32"].fps == pytest.approx(10)


class Told(LocalFrameCache):
    """Remembers what it was told to share."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, bool] = {}

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        self.told[key.rpartition(":")[0]] = shared
        return super().fetch(key, decode)


def test_media_that_nobody_else_needs_are_not_shared(
    maia_data: str, asker: RequestBuilder, make_loader: Callable[..., Loader]
) -> None:
    told = Told()
    loader = make_loader(frames=told)
    groups = ((one, piece.group) for one in units_of(maia_data, asker) for piece in one.pieces)
    unit, group = next((one, group) for one, group in groups if "blank" not in group)
    loader.load(unit)
    assert told.told[group]
    loader.load(unit, [group])
    assert not told.told[group]


def test_frames_are_shrunk_and_thinned_to_the_models_limits(
    maia_data: str, asker: RequestBuilder, make_loader: Callable[..., Loader]
) -> None:
    loader = make_loader(max_pixels=800, max_frames=8)
    frames = media_frames([loader.load(unit) for unit in units_of(maia_data, asker)])
    assert frames["32"].pixels.shape[0] == 8
    assert frames["32"].pixels.shape[1] * frames["32"].pixels.shape[2] <= 800
    assert [index_of(frame) for frame in frames["32"].pixels] == [0, 5, 11, 16, 22, 27, 33, 39]


def test_a_loaded_unit_crosses_the_object_store_unchanged(loaded: list[Loaded]) -> None:
    for one in loaded:
        back = unpack_loaded(pack_loaded(one))
        assert back.unit == one.unit
        assert back.requests == one.requests
        assert back.columns == one.columns
        for media, frames in one.media.items():
            assert (back.media[media].pixels == frames.pixels).all()
            assert back.media[media].seconds == frames.seconds


def test_another_version_of_the_plan_is_refused(
    maia_data: str, asker: RequestBuilder, make_loader: Callable[..., Loader]
) -> None:
    unit = units_of(maia_data, asker)[0]
    other = RequestBuilder.from_json(asker.to_json().replace('"model": "m"', '"model": "n"'))
    with pytest.raises(PlanMismatchError, match="run again"):
        make_loader(askers=[other]).load(unit)


def commit(out: Path, unit: WorkUnit, rows: list[dict[str, Any]]) -> list[tuple[str, str, str, int]]:
    one = carried(unit, rows)
    return Committer(str(out)).commit(one.unit, one.rows)


def test_a_medium_that_cannot_be_decoded_makes_error_rows(
    maia_data: str, asker: RequestBuilder, make_loader: Callable[..., Loader], tmp_path: Path
) -> None:
    import shutil

    data = tmp_path / "data"
    shutil.copytree(maia_data, data)
    for clip in (data / "maia" / "media").iterdir():
        clip.write_bytes(clip.read_bytes()[:500])
    loader = make_loader(data=str(data))
    for unit in units_of(str(data), asker):
        one = loader.load(unit)
        rows = UnitRunner(Script(), Memory()).answer(one)
        assert sorted(row["request_id"] for row in rows) == sorted(one.columns)
        for row in rows:
            assert row["status"] == ("ok" if row["setting"] == "black-video" else "error")
            assert row.get("error_type") == ("" if row["status"] == "ok" else "media")


def test_blind_it_reads_no_medium_and_what_shows_none_goes_on(
    maia_data: str, asker: RequestBuilder, make_loader: Callable[..., Loader]
) -> None:
    loader = make_loader()
    for unit in units_of(maia_data, asker):
        one = loader.load(unit, blind=True)
        failed = [row for row in one.ready if row["status"] == "error"]
        assert {row["error_type"] for row in failed} == {"media"}
        assert all("processes died" in row["error"] for row in failed)
        assert sorted([*(row["request_id"] for row in failed), *(one.request_id for one in one.requests)]) == sorted(
            one.columns
        )
        assert all(media.source.startswith("blank:") for media in one.media)


@pytest.mark.parametrize("damage", ["another that decodes", "gone"])
def test_a_medium_that_was_changed_or_lost_after_ingest_makes_error_rows(
    maia_data: str, asker: RequestBuilder, make_loader: Callable[..., Loader], tmp_path: Path, damage: str
) -> None:
    import shutil

    data = tmp_path / "data"
    shutil.copytree(maia_data, data)
    first, second, *_ = sorted((data / "maia" / "media").iterdir())
    first.write_bytes(second.read_bytes())
    if damage == "gone":
        first.unlink()
    loader, told = make_loader(data=str(data)), set()
    for unit in units_of(str(data), asker, "1.0"):  # of both clips: which hash is first hangs on the encoder
        for row in UnitRunner(Script(), Memory()).answer(loader.load(unit)):
            if row["status"] == "error":
                told.add((row["error_type"], row["error"], first.stem in row["error"]))
            else:
                assert row["setting"] == "black-video" or first.stem not in str(unit)
    ((kind, reason, names_it),) = told
    assert kind == "media"
    assert ("its hash differs" if damage != "gone" else "no such file") in reason
    assert names_it


def test_a_retry_keeps_the_rows_that_were_right(
    maia_data: str, asker: RequestBuilder, make_loader: Callable[..., Loader], tmp_path: Path
) -> None:
    out = Store(str(tmp_path))
    loader = make_loader()
    unit = units_of(maia_data, asker)[0]
    one = loader.load(unit)
    poison = words_of(one.requests[0])
    rows = UnitRunner(Script(raise_on=repr(poison)[1:-1]), Memory()).answer(one)
    failed = tuple(sorted(r.request_id for r in one.requests if words_of(r) == poison))
    counts = commit(tmp_path, unit, rows)
    assert sum(n for _, _, status, n in counts if status == "error") == len(failed)
    again = replace(unit, requests=len(failed), only=failed, carry=True)
    second = loader.load(again)
    assert sorted(request.request_id for request in second.requests) == list(failed)
    rows = UnitRunner(Script(), Memory()).answer(second)
    counts = commit(tmp_path, again, rows)
    assert {status for _, _, status, _ in counts} == {"ok"}
    assert sum(n for *_, n in counts) == len(failed)
    table = read_part(out, unit.part)
    assert table.schema.equals(PREDICTIONS)
    assert sorted(table["request_id"].to_pylist()) == sorted(one.columns)
    assert set(table["status"].to_pylist()) == {"ok"}
