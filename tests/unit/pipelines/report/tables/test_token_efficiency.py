from pathlib import Path

from models.message_codec import dump_steps
from models.messages import Generation, Media, Request, Step, user
from pipelines.report.tables.token_efficiency import (
    PrefixTokens,
    cost_table,
    efficiency_table,
    measure_efficiency,
    media_key,
)
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store

CLIP, OTHER = Media("video", "c", 32), Media("video", "c", 1)


def request(media: Media | None) -> Request:
    parts = (media, "words") if media else ("words",)
    return Request(request_id="r", steps=(Step(turns=(user(*parts),), generation=Generation()),))


def rows(part: str, *, head: int, least: list[int | None], cached: list[int]) -> list[dict[str, object]]:
    return [
        {"request_id": f"{part}{n}", "status": "ok", "input_tokens": 100, "cached_tokens": cached_tokens,
         "head_tokens": head, "least_tokens": least_tokens}
        for n, (least_tokens, cached_tokens) in enumerate(zip(least, cached, strict=True))
    ]  # fmt: skip


def test_clip_is_counted_once_over_all_parts(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    parts = {"a": rows("a", head=80, least=[20, 5], cached=[0, 80]), "b": rows("b", head=80, least=[20], cached=[80])}
    parts["c"] = rows("c", head=30, least=[70], cached=[0])
    for name, part_rows in parts.items():
        out.put(f"predictions/benchmark=maia/model=m/{name * 24}.parquet", to_parquet(part_rows, PREDICTIONS))
    out.put(
        "predictions/benchmark=maia/model=m/eeeeeeeeeeeeeeeeeeeeeeee.parquet",
        to_parquet([{"request_id": "a9", "status": "error"}, *rows("old", head=0, least=[9], cached=[0])], PREDICTIONS),
    )
    planned = dict.fromkeys(("a0", "a1", "b0", "a9"), media_key(dump_steps(request(CLIP).steps))) | {
        "c0": media_key(dump_steps(request(OTHER).steps))
    }
    portions = iter([planned, {}])  # which can be read once
    efficiency = measure_efficiency("maia", "m", out, lambda: portions)
    assert (efficiency.answers, efficiency.prompt_tokens, efficiency.computed_tokens) == (4, 400, 240)
    assert efficiency.least_tokens == (20 + 5 + 20 + 70) + 80 + 30


def test_prefixes_are_needed_once_and_paid_where_they_were_not_cached(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    parts = {
        "a": rows("a", head=0, least=[None] * 3, cached=[0, 64, 64]),
        "b": rows("b", head=0, least=[None], cached=[0]),
    }
    parts["b"][0]["input_tokens"] = 70
    parts["c"] = rows("c", head=0, least=[None], cached=[0])
    for name, part_rows in parts.items():
        out.put(f"predictions/benchmark=maia/model=m/{name * 24}.parquet", to_parquet(part_rows, PREDICTIONS))
    clip, other = (media_key(dump_steps(request(media).steps)) for media in (CLIP, OTHER))
    planned = {**dict.fromkeys(("a0", "a1", "a2", "b0"), clip), "c0": other}
    efficiency = measure_efficiency("maia", "m", out, lambda: [planned])
    assert efficiency.prefixes == PrefixTokens(needed=70 + 100, paid=4 * 70 - 128 + 100, cached=128)
    table = cost_table("maia", "MAIA", [efficiency])
    assert table.columns[-3:] == ("Prefix tokens needed", "Paid", "Cached")
    assert table.rows[0].cells == (5, 170, 252, 128)
    assert cost_table("maia", "MAIA", []) is None


def test_tables_lack_what_an_engine_does_not_report(tmp_path: Path) -> None:
    assert measure_efficiency("maia", "m", Store(str(tmp_path)), list) is None
    assert efficiency_table("maia", "MAIA", []) is None
    out = Store(str(tmp_path))
    part_rows = rows("a", head=0, least=[None], cached=[0])
    out.put("predictions/benchmark=maia/model=m/aaaaaaaaaaaaaaaaaaaaaaaa.parquet", to_parquet(part_rows, PREDICTIONS))
    efficiency = measure_efficiency("maia", "m", out, lambda: [{"a0": ""}])
    assert efficiency.least_tokens is None
    table = efficiency_table("maia", "MAIA", [efficiency])
    assert table.rows[0].cells == (1, 100, 100, None, None, "1.000")


def test_media_key_depends_on_sampling() -> None:
    assert media_key(dump_steps(request(None).steps)) == ""
    assert len({media_key(dump_steps(request(media).steps)) for media in (CLIP, OTHER, None)}) == 3


def test_answers_that_saw_fewer_frames_than_asked_are_counted_in_a_note(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    part_rows = [
        {**row, "frames_used": frames}
        for row, frames in zip(rows("a", head=0, least=[None] * 5, cached=[0] * 5), [24, 24, 8, 32, None], strict=True)
    ]
    out.put("predictions/benchmark=maia/model=m/aaaaaaaaaaaaaaaaaaaaaaaa.parquet", to_parquet(part_rows, PREDICTIONS))
    key = media_key(dump_steps(request(CLIP).steps))
    efficiency = measure_efficiency("maia", "m", out, lambda: [{f"a{n}": key} for n in range(5)])
    assert efficiency.fewer_frames == ((32, 24, 2), (32, 8, 1))
    table = efficiency_table("maia", "MAIA", [efficiency])
    assert table.notes[-1].endswith("m 24 of 32 frames in 2 answers; m 8 of 32 frames in 1 answers.")
    part_rows = [{**row, "frames_used": 32} for row in rows("a", head=0, least=[None], cached=[0])]
    out.put("predictions/benchmark=maia/model=m/aaaaaaaaaaaaaaaaaaaaaaaa.parquet", to_parquet(part_rows, PREDICTIONS))
    efficiency = measure_efficiency("maia", "m", out, lambda: [{"a0": key}])
    assert efficiency.fewer_frames == ()
    assert len(efficiency_table("maia", "MAIA", [efficiency]).notes) == 1
