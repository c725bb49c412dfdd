"""The history of nights."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pipelines.nightly.history import History, Pair, night_name
from tests.unit.pipelines.nightly.cases import EARLIER, NOW, metric


def test_history_returns_what_was_written(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    assert history.last_pairs({("m", "maia")}) == {}
    pair = Pair(night=NOW, model="m", benchmark="maia", state="failed", why="x", parts={"code": "1"}, cost_usd=None)
    history.write(NOW, [pair], [metric(0.5)], "# Nightly\n")
    assert history.last_pairs({("m", "maia"), ("n", "maia")}) == {("m", "maia"): pair}
    assert history.metrics(NOW) == [{"night": NOW, **metric(0.5)}]
    assert history.metrics("") == history.metrics(EARLIER) == []
    assert night_name(datetime(2026, 1, 2, 2, tzinfo=UTC)) == NOW
