"""Loading, answering and committing without a cluster, with engines that misbehave."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from models.engines.base import EngineDiedError, EngineStalledError, EngineUnreachableError
from models.messages import Answer, Call, CallReply, Frames, Media, Request
from pipelines.asking import Asker
from pipelines.benchmarks import benchmark
from pipelines.dataset import Dataset
from pipelines.keeping import LocalFrames
from pipelines.media.decode_child import uniform_indices
from pipelines.plan import Done, make_plan
from pipelines.records import PREDICTIONS, read_part
from pipelines.selection import Limit, cells_of
from pipelines.store import Store
from pipelines.telemetry import whose
from pipelines.units import Unit
from pipelines.wire import Answered, Finished, pack_answers, pack_loaded, unpack_answers, unpack_loaded
from pipelines.work import Answerer, Committer, Loaded, Loader, PlanMismatchError
from tests.support.maia_source import index_of


class Memory:
    """Attempts in memory, as the ledger keeps them."""

    def __init__(self, attempt: int = 1, killers: Mapping[str, str] | None = None) -> None:
        self.attempt, self.killers, self.noted = attempt, killers or {}, []
        self.silent: list[str] = []
        self.excused: list[str] = []

    def begin(self, unit: str) -> tuple[int, Mapping[str, str]]:
        return self.attempt, self.killers

    def alone(self, unit: str, request_id: str) -> None:
        self.noted.append(request_id)

    def survived(self, unit: str, request_id: str) -> None:
        assert self.noted[-1] == request_id

    def excuse(self, unit: str, request_id: str) -> None:
        self.excused.append(request_id)

    def stalled(self, unit: str, request_id: str) -> None:
        self.silent.append(request_id)


class Script:
    """An engine that says A, but fails as told."""

    def __init__(self, *, raise_on: str = "", drop: bool = False, gone: bool = False) -> None:
        self.raise_on, self.drop, self.gone, self.batches = raise_on, drop, gone, []

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        self.batches.append(len(calls))
        if self.gone:
            raise EngineUnreachableError("the endpoint is down")
        for i, call in enumerate(calls):
            assert all(one in media for one in call.media)
            if self.raise_on and self.raise_on in str(call.turns):
                raise RuntimeError("device-side assert")
            if not (self.drop and i == 0):
                yield CallReply(call_id=call.call_id, outcome=Answer(text="A"))

    def close(self) -> None:
        pass


@pytest.fixture
def asker(maia_data: str) -> Asker:
    dataset = Dataset.open(Store(maia_data), "maia")
    return Asker(
        benchmark_name="maia",
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        model="m",
        model_fingerprint={},
        generation={},
        cells=tuple(cells_of(benchmark("maia"), [], [])),
        prompts={},
        instead={},
        seed=42,
    )


def units_of(maia_data: str, asker: Asker, limit: str = "2") -> list[Unit]:
    return make_plan(Dataset.open(Store(maia_data), "maia"), asker, Done(), limit=Limit.parse(limit)).units


@pytest.fixture
def make_loader(maia_data: str, asker: Asker, tmp_path: Path) -> Iterator[Callable[..., Loader]]:
    made: list[Loader] = []

    def make(**changes: Any) -> Loader:
        made.append(Loader(**{"data": maia_data, "out": str(tmp_path), "askers": [asker], **changes}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def loaded(maia_data: str, asker: Asker, make_loader: Callable[..., Loader]) -> list[Loaded]:
    loader = make_loader()
    return [loader.load(unit) for unit in units_of(maia_data, asker)]


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
    assert [index_of(frame) for frame in frames["32"].pixels] == uniform_indices(40, 32)
    assert frames["32"].total_frames == 40
    assert frames["32"].fps == pytest.approx(10)


class Told(LocalFrames):
    """Remembers what it was told to share."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, bool] = {}

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        self.told[key.rpartition(":")[0]] = shared
        return super().fetch(key, decode)


def test_media_that_nobody_else_needs_are_not_shared(
    maia_data: str, asker: Asker, make_loader: Callable[..., Loader]
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
    maia_data: str, asker: Asker, make_loader: Callable[..., Loader]
) -> None:
    loader = make_loader(max_pixels=800, max_frames=8)
    frames = media_frames([loader.load(unit) for unit in units_of(maia_data, asker)])
    assert frames["32"].pixels.shape[0] == 8
    assert frames["32"].pixels.shape[1] * frames["32"].pixels.shape[2] <= 800
    assert [index_of(frame) for frame in frames["32"].pixels] == uniform_indices(40, 8)


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
    maia_data: str, asker: Asker, make_loader: Callable[..., Loader]
) -> None:
    unit = units_of(maia_data, asker)[0]
    other = Asker.from_json(asker.to_json().replace('"model": "m"', '"model": "n"'))
    with pytest.raises(PlanMismatchError, match="run again"):
        make_loader(askers=[other]).load(unit)


def statuses(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {status: sum(row["status"] == status for row in rows) for status in {row["status"] for row in rows}}


def carried(unit: Unit, rows: list[dict[str, Any]]) -> Finished:
    (one,) = unpack_answers(pack_answers([Answered(unit=unit, rows=rows)]))
    return one


def commit(out: Path, unit: Unit, rows: list[dict[str, Any]]) -> list[tuple[str, str, str, int]]:
    one = carried(unit, rows)
    return Committer(str(out)).commit(one.unit, one.rows)


def test_all_rows_are_answered_once(loaded: list[Loaded]) -> None:
    for one in loaded:
        rows = Answerer(Script(), Memory()).answer(one)
        assert sorted(row["request_id"] for row in rows) == sorted(one.columns)
        assert statuses(rows) == {"ok": len(one.requests)}


def test_a_unit_goes_to_the_engine_together(loaded: list[Loaded]) -> None:
    engine = Script()
    for one in loaded:
        Answerer(engine, Memory()).answer(one)
    assert engine.batches == [len(one.requests) for one in loaded]


def words_of(request: Request) -> str:
    return request.steps[0].turns[0].parts[1].text


def test_an_exception_costs_only_the_rows_that_cause_it(loaded: list[Loaded]) -> None:
    one = loaded[0]
    poison = words_of(one.requests[5])
    rows = Answerer(Script(raise_on=repr(poison)[1:-1]), Memory()).answer(one)
    bad = [row for row in rows if row["status"] == "error"]
    assert {row["request_id"] for row in bad} == {r.request_id for r in one.requests if words_of(r) == poison}
    assert 0 < len(bad) < len(rows) == len(one.requests)
    assert {row["error_type"] for row in bad} == {"RuntimeError"}
    assert {row.get("output") for row in bad} == {None}


def test_a_dropped_call_is_asked_again_and_then_an_error(loaded: list[Loaded]) -> None:
    rows = Answerer(Script(drop=True), Memory()).answer(loaded[0])
    assert statuses(rows) == {"ok": len(loaded[0].requests) - 1, "error": 1}
    assert {row["error_type"] for row in rows if row["status"] == "error"} == {"engine_contract"}


def test_a_dead_endpoint_is_not_a_bad_row(loaded: list[Loaded]) -> None:
    with pytest.raises(EngineUnreachableError):
        Answerer(Script(gone=True), Memory()).answer(loaded[0])


def test_after_a_death_requests_go_one_by_one_and_the_killer_is_left_out(loaded: list[Loaded]) -> None:
    engine, one = Script(), loaded[0]
    killer = one.requests[0].request_id
    memory = Memory(attempt=3, killers={killer: "engine_died"})
    rows = Answerer(engine, memory).answer(one)
    assert set(engine.batches) == {1}
    assert len(memory.noted) == len(one.requests) - 1
    assert [row["error_type"] for row in rows if row["request_id"] == killer] == ["engine_died"]
    assert statuses(rows) == {"ok": len(one.requests) - 1, "error": 1}


def test_one_that_the_engine_fell_silent_under_is_an_error_of_its_own_name(loaded: list[Loaded]) -> None:
    one = loaded[0]
    silent = one.requests[0].request_id
    rows = Answerer(Script(), Memory(attempt=3, killers={silent: "timeout"})).answer(one)
    (row,) = [row for row in rows if row["status"] == "error"]
    assert (row["request_id"], row["error_type"]) == (silent, "timeout")
    assert "patience_s" in row["error"]


class Dying(Script):
    """An engine whose processes die under one request."""

    def __init__(self, on: str, error: type[EngineDiedError] = EngineDiedError) -> None:
        super().__init__()
        self.on, self.error = on, error

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        for call in calls:
            if call.call_id.startswith(self.on):
                raise self.error("rank 1 of 2")
            yield CallReply(call_id=call.call_id, outcome=Answer(text="A"))


def test_a_dead_rank_is_no_bad_row_and_one_alone_under_it_is_excused(loaded: list[Loaded]) -> None:
    one = loaded[0]
    victim = one.requests[3].request_id
    together, alone = Memory(), Memory(attempt=2)
    for memory in (together, alone):
        with pytest.raises(EngineDiedError):
            Answerer(Dying(victim), memory).answer(one)
    assert together.excused == [""]
    assert alone.excused == [victim]


def test_silent_ranks_are_not_excused(loaded: list[Loaded]) -> None:
    one = loaded[0]
    victim = one.requests[3].request_id
    together, alone = Memory(), Memory(attempt=2)
    for memory in (together, alone):
        with pytest.raises(EngineStalledError):
            Answerer(Dying(victim, EngineStalledError), memory).answer(one)
        assert memory.excused == []
    assert together.silent == [""]
    assert alone.silent == [victim]


def test_a_medium_that_cannot_be_decoded_makes_error_rows(
    maia_data: str, asker: Asker, make_loader: Callable[..., Loader], tmp_path: Path
) -> None:
    import shutil

    data = tmp_path / "data"
    shutil.copytree(maia_data, data)
    for clip in (data / "maia" / "media").iterdir():
        clip.write_bytes(clip.read_bytes()[:500])
    loader = make_loader(data=str(data))
    for unit in units_of(str(data), asker):
        one = loader.load(unit)
        rows = Answerer(Script(), Memory()).answer(one)
        assert sorted(row["request_id"] for row in rows) == sorted(one.columns)
        for row in rows:
            assert row["status"] == ("ok" if row["setting"] == "black-video" else "error")
            assert row.get("error_type") == ("" if row["status"] == "ok" else "media")


def test_blind_it_reads_no_medium_and_what_shows_none_goes_on(
    maia_data: str, asker: Asker, make_loader: Callable[..., Loader]
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
    maia_data: str, asker: Asker, make_loader: Callable[..., Loader], tmp_path: Path, damage: str
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
        for row in Answerer(Script(), Memory()).answer(loader.load(unit)):
            if row["status"] == "error":
                told.add((row["error_type"], row["error"], first.stem in row["error"]))
            else:
                assert row["setting"] == "black-video" or first.stem not in str(unit)
    ((kind, reason, names_it),) = told
    assert kind == "media"
    assert ("its hash differs" if damage != "gone" else "no such file") in reason
    assert names_it


def test_a_retry_keeps_the_rows_that_were_right(
    maia_data: str, asker: Asker, make_loader: Callable[..., Loader], tmp_path: Path
) -> None:
    out = Store(str(tmp_path))
    loader = make_loader()
    unit = units_of(maia_data, asker)[0]
    one = loader.load(unit)
    poison = words_of(one.requests[0])
    rows = Answerer(Script(raise_on=repr(poison)[1:-1]), Memory()).answer(one)
    failed = tuple(sorted(r.request_id for r in one.requests if words_of(r) == poison))
    counts = commit(tmp_path, unit, rows)
    assert sum(n for _, _, status, n in counts if status == "error") == len(failed)
    again = replace(unit, requests=len(failed), only=failed, carry=True)
    second = loader.load(again)
    assert sorted(request.request_id for request in second.requests) == list(failed)
    rows = Answerer(Script(), Memory()).answer(second)
    counts = commit(tmp_path, again, rows)
    assert {status for _, _, status, _ in counts} == {"ok"}
    assert sum(n for *_, n in counts) == len(failed)
    table = read_part(out, unit.part)
    assert table.schema.equals(PREDICTIONS)
    assert sorted(table["request_id"].to_pylist()) == sorted(one.columns)
    assert set(table["status"].to_pylist()) == {"ok"}


def test_answers_of_several_units_cross_together(loaded: list[Loaded]) -> None:
    answers = [Answered(unit=one.unit, rows=Answerer(Script(), Memory()).answer(one)) for one in loaded]
    answers += [Answered(unit=loaded[0].unit, fatal="gone"), Answered(unit=loaded[0].unit, kept=True)]
    back = list(unpack_answers(pack_answers(answers)))
    assert [(one.unit, one.fatal, one.kept) for one in back] == [(one.unit, one.fatal, one.kept) for one in answers]
    for one, was in zip(back, answers, strict=True):
        assert one.rows["request_id"].to_pylist() == [row["request_id"] for row in was.rows]


def test_rows_hold_whatever_a_model_says(loaded: list[Loaded]) -> None:
    class Odd(Script):
        def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
            for call in calls:
                yield CallReply(call_id=call.call_id, outcome=Answer(text="half \ud800 pair \x00 🙂"))

    one = loaded[0]
    table = carried(one.unit, Answerer(Odd(), Memory()).answer(one)).rows
    assert isinstance(table, pa.Table)
    assert set(table["output"].to_pylist()) == {"half ? pair \x00 🙂"}


class Whose(Script):
    """An engine that notes the request of the log lines that it would write."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, str]] = []

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        self.told.append((len(calls), whose().get("request_id", "")))
        yield from super().generate(calls, media)


def test_log_lines_carry_the_request_that_is_asked_alone(loaded: list[Loaded]) -> None:
    one, together, alone = loaded[0], Whose(), Whose()
    Answerer(together, Memory()).answer(one)
    assert {name for _, name in together.told} == {""}
    Answerer(alone, Memory(attempt=2)).answer(one)
    assert {name for _, name in alone.told} == {request.request_id for request in one.requests}
    assert whose() == {}
