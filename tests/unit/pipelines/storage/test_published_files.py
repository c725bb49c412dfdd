"""Files under names that a user may have taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.storage.published_files import put_named
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
