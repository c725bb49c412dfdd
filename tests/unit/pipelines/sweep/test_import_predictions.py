"""Imported answers: read a row at a time, and written so that no failure leaves a part of them."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.shared.render import failure_lines
from pipelines.errors import StoreError
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.stored_plan import PlanRow
from pipelines.predict.records import TaskCount
from pipelines.schemas import PREDICTIONS
from pipelines.storage import parts
from pipelines.storage.parts import iter_parts, part_folder, score_path, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep import import_predictions
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.import_predictions import import_rows
from pipelines.sweep.predictions_file import read_answers
from pipelines.sweep.status import failure_reasons

FOLDER = part_folder("predictions", "maia", "m")
ROW = {"benchmark": "maia", "model": "m", "task": "vsv", "setting": "1-frame", "output": "A"}
SAMPLE = "video1/Sentiment_A"


@pytest.fixture
def spec(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    monkeypatch.setattr(import_predictions, "PART_ROWS", 2)
    return RunSpec(data=maia_data, out=str(tmp_path / "out"), models={}, benchmarks=("maia",))


def rows(output: str = "A", **changes: Any) -> list[dict[str, Any]]:
    return [{**ROW, "sample_id": SAMPLE, "variant": str(i), "output": output, **changes} for i in range(5)]


def imported(
    spec: RunSpec, answers: Iterable[Mapping[str, Any]], **options: Any
) -> tuple[ManifestEntry | None, list[tuple[str, str]]]:
    """Import rows of one file; return the entry, and item and reason of the rejections."""
    with AnswerSpool.temporary() as spool:
        for line, row in enumerate(answers, start=1):
            spool.add(line, row)
        entry = import_rows(SweepContext.open(spec), "maia", "m", spool, **options)
        return entry, [(rejection.item, rejection.reason) for rejection in spool.rejections]


def files(spec: RunSpec) -> dict[str, bytes]:
    out = Store(spec.out)
    return {info.path: out.get(info.path) for info in out.list(FOLDER)}


def outputs(spec: RunSpec) -> list[tuple[str, str, str]]:
    stored = [row for _, table in iter_parts(Store(spec.out), FOLDER) for row in table.to_pylist()]
    return sorted((row["setting"], row["variant"], row["output"]) for row in stored)


def test_rows_that_fit_no_request_or_one_again_are_rejected(spec: RunSpec) -> None:
    assert imported(spec, rows(), selected={"video1/Sentiment_B"}) == (None, [])
    assert files(spec) == {}
    strangers = [{**rows()[0], "sample_id": "none"}, rows("B")[0]]
    entry, rejected = imported(spec, [*rows(), *strangers])
    assert entry
    assert rejected == [
        (f"line 7: vsv/1-frame/{SAMPLE}/0", "a second answer to the same request; the first stays"),
        ("line 6: vsv/1-frame/none/0", "maia has no such sample or variant"),
    ]
    assert outputs(spec) == [("1-frame", str(i), "A") for i in range(5)]
    assert len(files(spec)) == 3


def test_values_of_odd_types_cost_no_row(spec: RunSpec) -> None:
    """The first is an integer of 400 digits, which JSON allows and no float holds."""
    odd = {"bleurt": 10**400, "bertscore_f1": float("nan"), "human": True, "bertscore_0": 0.5, "their_answer": ["A"]}
    entry, rejected = imported(spec, [*rows(**odd, their_correct=True)[:1], *rows(their_correct="no verdict")[1:]])
    assert (bool(entry), rejected) == (True, [])
    (_, table), *_ = iter_parts(Store(spec.out), FOLDER)
    assert table["given"].to_pylist() == [[("bertscore_0", 0.5)], []]
    assert table["their_correct"].to_pylist() == [1.0, None]


def outcomes_of(spec: RunSpec) -> list[tuple[str | None, str, str]]:
    table = pa.concat_tables(table for _, table in iter_parts(Store(spec.out), FOLDER))
    ordered = sorted(table.to_pylist(), key=lambda row: row["variant"])
    return [(row["output"], row["status"], row["error_type"]) for row in ordered]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_numbers_are_answers_and_failures_are_none(spec: RunSpec, tmp_path: Path, form: str) -> None:
    """Parquet of pandas has doubles for numbers with gaps, and NaN for texts that are missing."""
    texts = [
        {"output": 7, "status": "ok"},
        {"output": 7.5, "status": None},
        {"output": 429.0, "status": "error", "error": "rate limit"},
        {"output": math.nan, "status": ""},
        {"output": 3, "status": "excluded"},
    ]
    made = [{**row, **change} for row, change in zip(rows(), texts, strict=True)]
    path = tmp_path / f"answers.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist([{**row, "output": float(row["output"])} for row in made]), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in made))
    with AnswerSpool.temporary() as spool:
        read_answers(spec, path, spool)
        assert import_rows(SweepContext.open(spec), "maia", "m", spool)
        assert spool.rejections == []
    first = "7.0" if form == "parquet" else "7"
    assert outcomes_of(spec) == [
        (first, "ok", ""),
        ("7.5", "ok", ""),
        (None, "error", "failed_elsewhere"),
        (None, "error", "no_output"),
        (None, "excluded", "excluded"),
    ]


def test_text_of_a_failure_is_its_reason_and_an_unknown_status_is_rejected(spec: RunSpec, tmp_path: Path) -> None:
    first, second, third, *_ = rows()
    failed = {**first, "output": "Error: 429 rate limit exceeded", "status": "error", "error_type": "http_429"}
    made = [failed, {**second, "status": "failed"}, {**third, "output": True}]
    (tmp_path / "answers.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in made))
    with AnswerSpool.temporary() as spool:
        read_answers(spec, tmp_path / "answers.jsonl", spool)
        assert import_rows(SweepContext.open(spec), "maia", "m", spool)
        reasons = [rejection.reason for rejection in spool.rejections]
    assert outcomes_of(spec) == [(None, "error", "http_429")]
    assert reasons == ["status 'failed' is none of ok, error, excluded", "output is not text"]


def test_failure_before_all_parts_are_made_replaces_none(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    imported(spec, rows())
    before, sizes = files(spec), list[int]()

    def failing(content: Any, schema: pa.Schema) -> bytes:
        sizes.append(len(content))
        if len(sizes) == 2:
            raise ValueError("a row that no column holds")
        return parts.to_parquet(content, schema)

    monkeypatch.setattr(import_predictions, "to_parquet", failing)
    with pytest.raises(ValueError, match="no column holds"):
        imported(spec, rows("B"))
    assert files(spec) == before


def test_failure_while_parts_are_replaced_loses_no_answer(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    imported(spec, rows(setting="32-frames"))
    before = files(spec)
    put = Store.put

    def full(store: Store, path: str, content: bytes, **options: Any) -> None:
        if path.endswith("external-00005.parquet"):
            raise StoreError("no space left")
        put(store, path, content, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full)
        with pytest.raises(StoreError, match="no space"):
            imported(spec, rows("B"))
    assert before.items() < files(spec).items()
    imported(spec, rows("B"))
    assert outputs(spec) == [
        *(("1-frame", str(i), "B") for i in range(5)),
        *(("32-frames", str(i), "A") for i in range(5)),
    ]


def test_same_answers_keep_their_parts_and_others_replace_them_with_their_scores(spec: RunSpec) -> None:
    out = Store(spec.out)
    imported(spec, rows())
    before = files(spec)
    for path in before:
        out.put(score_path(path), b"score")
    imported(spec, reversed(rows()))
    assert files(spec) == before
    imported(spec, rows("B"))
    assert not before.keys() & files(spec).keys()
    assert out.list("scores") == []


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_ids_that_are_numbers_are_read_as_ingest_reads_them(form: str, tmp_path: Path) -> None:
    path, content = tmp_path / f"answers.{form}", [{**ROW, "sample_id": name, "variant": 2} for name in (7, 8.0, None)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(content), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in content))
    with AnswerSpool.temporary() as spool:
        read_answers(RunSpec(data="", out="", models={}, benchmarks=("maia",)), path, spool)
        spool.reject_rest("maia", "m")
        items = [rejection.item for rejection in spool.rejections]
    assert items == ["line 3", "line 1: vsv/1-frame/7/2", "line 2: vsv/1-frame/8/2"]


def test_rows_of_impossible_people_and_ids_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({**ROW, "sample_id": SAMPLE, "model": "human:all together"}))
    with AnswerSpool.temporary() as spool:
        read_answers(RunSpec(data="", out="", models={}, benchmarks=("maia",)), path, spool)
        assert [(row.item, "is reserved for all annotators" in row.reason) for row in spool.rejections] == [
            ("line 1", True)
        ]
    path.write_text(json.dumps({**ROW, "sample_id": 10**400}))
    with AnswerSpool.temporary() as spool:
        read_answers(RunSpec(data="", out="", models={}, benchmarks=("maia",)), path, spool)
        spool.reject_rest("maia", "m")
        assert [rejection.item[:20] for rejection in spool.rejections] == ["line 1: vsv/1-frame/"]


def test_an_id_in_another_unicode_form_is_the_same() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    sample = SimpleNamespace(task="vsv", setting="1-frame", sample_id=composed, variant="")
    with closing(AnswerSpool(":memory:")) as spool:
        for line, name in enumerate((decomposed, composed), start=1):
            spool.add(line, {**ROW, "sample_id": name, "variant": ""})
        assert spool.take("maia", "m", cast("PlanRow", sample)) is not None
        spool.reject_rest("maia", "m")
        assert [row.reason for row in spool.rejections] == ["a second answer to the same request; the first stays"]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_file_is_read_a_few_rows_at_a_time(form: str, tmp_path: Path) -> None:
    answers, path = 8_000, tmp_path / f"answers.{form}"
    content = [{**ROW, "sample_id": str(i), "variant": "", "output": f"{i:09}" + "A" * 4_000} for i in range(answers)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(content), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in content))
    del content
    spec = RunSpec(data="", out="", models={}, benchmarks=("maia",))
    with AnswerSpool.temporary() as spool:
        tracemalloc.start()
        read_answers(spec, path, spool)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert spool.counts == {("maia", "m", "vsv", "1-frame"): answers}
    assert peak < 12_000_000  # of 32 MB


@pytest.fixture
def out(tmp_path: Any) -> Store:
    return Store(str(tmp_path))


def write(
    out: Store, part: str, *rows: tuple[str, str], folder: str = part_folder("predictions", "vague", "m")
) -> None:
    table = [
        {"request_id": name, "sample_id": f"s/{name}", "task": "mcq", "setting": "vlm"}
        | ({"status": "error", "error_type": kind, "error": f"{kind}:\nof {name}"} if kind else {"status": "ok"})
        for name, kind in rows
    ]
    out.put(f"{folder}/{part}.parquet", to_parquet(table, PREDICTIONS))


def count(errors: int) -> TaskCount:
    return TaskCount(benchmark="vague", model="m", task="mcq", setting="vlm", requests=9, ok=9 - errors, error=errors)


def test_reasons_are_counted_with_the_first_row_and_a_remedy(out: Store) -> None:
    write(out, "a" * 24, ("a", "odd"), ("b", "media"), ("c", "media"), ("d", ""))
    lines = failure_lines(failure_reasons(out, [count(3)]))
    assert lines[0] == "3 failed rows:"
    assert lines[1].startswith("  m: 2 media, first vague mcq vlm s/b: media:")
    assert lines[1].endswith("of b")
    assert lines[2] == "    replace the file, run `vlmsweep ingest` again, and then this command"
    assert lines[3].startswith("  m: 1 odd, first vague mcq vlm s/a: odd:")
    assert lines[4] == "    run the same command again: failed rows alone are sent again"


def test_rows_answered_later_have_not_failed_and_missing_outputs_have_their_remedy(out: Store) -> None:
    write(out, "a" * 24, ("a", "no_output"))
    (reason,) = failure_reasons(out, [count(1)])
    assert reason.remedy == "write the missing outputs into the file of answers, and score it again"
    write(out, "a" * 24, ("a", "media"), ("b", "media"))
    write(out, "b" * 24, ("a", ""))
    assert [(reason.rows, reason.example) for reason in failure_reasons(out, [count(1)])] == [(1, "vague mcq vlm s/b")]
    write(out, "a" * 24, ("a", "media"))
    assert failure_reasons(out, [count(0)]) == []
    assert failure_lines([]) == []


@pytest.mark.parametrize("kind", ["http_401", "http_404", "wrong_server", "no_pictures"])
def test_failure_that_stays_is_not_said_to_pass_by_running_again(out: Store, kind: str) -> None:
    write(out, "a" * 24, ("a", kind))
    (reason,) = failure_reasons(out, [count(1)])
    assert reason.remedy.startswith("this will not pass by itself: ")


def test_questions_of_a_judge_that_failed_are_named_unless_another_part_answers_them(out: Store) -> None:
    """A question that failed is asked again with others, in a part whose name may come before."""
    folder = part_folder("judgements", "vague", "j")
    write(out, "b" * 24, ("a", "http_400"), ("b", "http_400"), folder=folder)
    write(out, "a" * 24, ("a", ""), folder=folder)
    (reason,) = failure_reasons(out, [count(0)], ["j"])
    assert (reason.model, reason.rows, reason.example) == ("j", 1, "vague mcq vlm s/b")
