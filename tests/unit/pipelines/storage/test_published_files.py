"""Files under names that a user may have taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.storage.published_files import RECORD, is_as_published, publish_files, put_named
from pipelines.storage.store import Store


def test_a_users_file_of_a_needed_name_is_copied_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = Store(str(tmp_path))
    out.put("index.html", b"a user's")
    put_named(out, "index.html", b"ours, one", b"ours")
    assert "index.html was not written by vlmsweep; a copy is in replaced/" in caplog.text
    put_named(out, "index.html", b"ours, two", b"ours")
    put_named(out, "new.html", b"ours", b"ours")
    files = {info.path: out.get(info.path) for info in out.list()}
    assert files == {"index.html": b"ours, two", "new.html": b"ours", "replaced/index.html": b"a user's"}


def contents(out: Store) -> dict[str, bytes]:
    return {info.path: out.get(info.path) for info in out.list() if not info.path.startswith(".")}


def test_a_file_that_a_user_edited_is_copied_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = Store(str(tmp_path))
    publish_files(out, {"report/index.html": b"one", "report/a.csv": b"1"}, "report")
    out.put("report/a.csv", b"1, edited")
    publish_files(out, {"report/index.html": b"two", "report/a.csv": b"1"}, "report")
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}/report/a.csv has changed since vlmsweep wrote it; a copy is in replaced/"
    ]
    expected = {"report/index.html": b"two", "report/a.csv": b"1", "replaced/report/a.csv": b"1, edited"}
    assert contents(out) == expected
    publish_files(out, {"report/index.html": b"two", "report/a.csv": b"1"}, "report")
    assert contents(out) == expected
    assert len(caplog.records) == 1


@pytest.mark.parametrize("last_write", range(1, 5))
def test_an_unfinished_report_is_not_taken_for_an_edited_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, last_write: int
) -> None:
    out, put, writes = Store(str(tmp_path)), Store.put, iter(range(1, last_write + 1))
    publish_files(out, {"report/a.csv": b"1", "report/b.csv": b"1"}, "report")
    with monkeypatch.context() as patched:

        def put_or_die(store: Store, path: str, content: bytes) -> None:
            if next(writes) == last_write:
                raise KeyboardInterrupt
            put(store, path, content)

        patched.setattr(Store, "put", put_or_die)
        with pytest.raises(KeyboardInterrupt):
            publish_files(out, {"report/a.csv": b"2", "report/b.csv": b"2"}, "report")
    assert all(is_as_published(out, path, out.get(path)) for path in ("report/a.csv", "report/b.csv"))
    publish_files(out, {"report/a.csv": b"3", "report/b.csv": b"3"}, "report")
    assert contents(out) == {"report/a.csv": b"3", "report/b.csv": b"3"}
    assert not caplog.records


@pytest.mark.parametrize("record", [None, b"", b"\xff{", b"[" * 100_000, b'{"report/a.csv": 1, "report/b.csv": []}'])
def test_an_edited_file_is_copied_where_the_record_is_lost(tmp_path: Path, record: bytes | None) -> None:
    out = Store(str(tmp_path))
    publish_files(out, {"report/index.html": b"vlmsweep", "report/a.csv": b"1", "report/b.csv": b"1"}, "report")
    out.put("report/a.csv", b"1, edited")
    if record is None:
        out.delete(RECORD)
    else:
        out.put(RECORD, record)
    publish_files(out, {"report/index.html": b"vlmsweep", "report/a.csv": b"2"}, "report")
    assert contents(out)["replaced/report/a.csv"] == b"1, edited"
    assert contents(out)["report/b.csv"] == b"1"
