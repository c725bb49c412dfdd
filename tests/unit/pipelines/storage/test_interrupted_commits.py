"""Whatever step of a commit a process dies at, readers see the old part or the new one, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.storage.parts import iter_parts
from pipelines.storage.store import Store
from tests.chaos.commits import STEPS, cut_commit, part


@pytest.mark.parametrize("step", STEPS)
def test_old_or_new_and_never_half(tmp_path: Path, step: str) -> None:
    store = Store(str(tmp_path))
    for when in ("before", "after"):
        store.put("predictions/part.parquet", part("old"))
        assert cut_commit(tmp_path, step, when) == 9
        ((_, table),) = iter_parts(store, "predictions")
        replaced = step == "replace" and when == "after"
        assert set(table["output"].to_pylist()) == {"new" if replaced else "old"}
    begun = step != "mkdir"
    assert store.remove_temporary() >= (1 if begun and step != "open" else 0)
    assert store.remove_temporary() == 0
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["part.parquet"]
