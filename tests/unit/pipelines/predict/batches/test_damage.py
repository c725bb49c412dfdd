"""Damage to what batches leave in an output: found, reported with its remedy, or repaired without paying again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pipelines.errors import DamagedPartError
from pipelines.predict.batches.queue import BatchQueue
from pipelines.predict.batches.records import BatchRecord, BatchRecords
from pipelines.storage.store import Store
from tests.support.damage_matrix import DAMAGES
from tests.support.endpoint import BatchEndpoint, always
from tests.support.turns import in_turns
from tests.unit.pipelines.predict.batches.rig import check_complete, job_of, records, run

KEYS = ("a" * 32, "b" * 32)


def record(key: str) -> BatchRecord:
    names = tuple(f"{key[:3]}-{number}" for number in range(40))
    return BatchRecord(key=key, created=1.5, custom_ids=names, request_ids=names, folders=("f",), batch_id=f"id-{key}")


@pytest.fixture
def stored(tmp_path: Path) -> BatchRecords:
    """Records and results of two batches."""
    batches = BatchRecords(Store(str(tmp_path)), "m")
    for key in KEYS:
        batches.put(record(key))
        batches.put_results(key, key.encode() * 99)
    return batches


@pytest.mark.parametrize("way", [way for way in DAMAGES if way != "deleted"])
def test_damaged_record_is_refused_with_its_remedy(stored: BatchRecords, tmp_path: Path, way: str) -> None:
    first, second = sorted(tmp_path.rglob("*.json"))
    content = DAMAGES[way](first.read_bytes(), second.read_bytes())
    assert content is not None
    first.write_bytes(content)
    with pytest.raises(DamagedPartError, match=r"aaa\.json: not a record of a batch \(.*restore it, or delete it"):
        list(stored.load())
    first.unlink()
    assert [each.key for each in stored.load()] == [KEYS[1]]


def test_id_that_a_person_found_is_accepted(stored: BatchRecords, tmp_path: Path) -> None:
    stored.put(BatchRecord(key=KEYS[0], created=1.5, custom_ids=("x",), request_ids=("x",), folders=("f",)))
    path = min(tmp_path.rglob("*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "batch_id": "found-by-hand"}))
    assert next(stored.load()).batch_id == "found-by-hand"


def test_record_of_an_earlier_version_is_read(stored: BatchRecords, tmp_path: Path) -> None:
    path = min(tmp_path.rglob("*.json"))
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in raw.items() if name not in ("sha256", "results")}))
    assert next(stored.load()) == record(KEYS[0])


@pytest.mark.parametrize("way", in_turns(DAMAGES, ("deleted", "truncated")))
def test_damaged_results_are_paid_once(
    maia_data: str, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BatchEndpoint(always("A")) as endpoint:
        monkeypatch.setattr(BatchQueue, "_take", raise_exit)  # the results are stored, and no row is committed
        with pytest.raises(SystemExit):
            run(job_of(maia_data, tmp_path, endpoint))
        monkeypatch.undo()
        (results,) = (path for path in records(tmp_path) if path.suffix == ".gz")
        content = DAMAGES[way](results.read_bytes(), gzip.compress(b"{}\n"))
        results.unlink()
        if content is not None:
            results.write_bytes(content)
        run(job_of(maia_data, tmp_path, endpoint))
    check_complete(tmp_path, endpoint)


def raise_exit(*_: object) -> None:
    raise SystemExit
