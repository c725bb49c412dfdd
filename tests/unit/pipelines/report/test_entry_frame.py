from __future__ import annotations

import pyarrow as pa

from pipelines.report.entry_frame import EntryScores
from pipelines.schemas import SCORES


def test_absent_texts_are_none_and_requests_without_scores_are_missing() -> None:
    row = dict.fromkeys(SCORES.names) | {"request_id": "a", "status": "ok", "answer": None, "flags": [], "values": []}
    frame = EntryScores(pa.Table.from_pylist([row], SCORES), (), (), {}).join({"request_id": ["a", "b"]})
    assert frame["answer"].tolist() == [None, None]
    assert frame["status"].tolist() == ["ok", "missing"]
    assert frame["verdict_state"].tolist() == ["absent", "absent"]


def test_equal_values_of_rows_are_one_object() -> None:
    row = dict.fromkeys(SCORES.names) | {"status": "ok", "answer": "A", "flags": ["late"], "values": []}
    table = pa.Table.from_pylist([row | {"request_id": name} for name in "ab"], SCORES)
    frame = EntryScores(table, (), (), {}).join({"request_id": ["a", "b"]})
    for column in ("answer", "flags"):
        assert frame[column][0] is frame[column][1]
    assert frame["flags"].tolist() == [["late"], ["late"]]
