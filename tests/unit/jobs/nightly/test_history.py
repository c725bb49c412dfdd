from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from jobs.nightly.history import History, Pair, run_name, run_time
from jobs.nightly.items import ItemScores, ScoreKey
from jobs.nightly.regressions import Change, Comparison, Level
from pipelines.errors import DamagedPartError
from tests.support.damage_matrix import DAMAGES
from tests.unit.jobs.nightly.cases import EARLIER, NOW, metric


def test_history_returns_what_was_written(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    assert history.last_pairs({("m", "maia")}) == {}
    pair = Pair(night=NOW, model="m", benchmark="maia", state="failed", why="x", parts={"code": "1"}, cost_usd=None)
    history.write(NOW, [pair], [metric(0.5)], "# Nightly\n")
    assert history.last_pairs({("m", "maia"), ("n", "maia")}) == {("m", "maia"): pair}
    assert history.metrics(NOW) == [metric(0.5)]
    assert history.metrics("") == history.metrics(EARLIER) == []
    assert run_name(datetime(2026, 1, 2, 2, tzinfo=UTC)) == NOW
    assert run_time(NOW) == datetime(2026, 1, 2, 2, tzinfo=UTC)


def comparison(*levels: Level) -> Comparison:
    key = ScoreKey("m", "maia", "vsv", "1-frame", "correct")
    change = Change(key=key, direction="fell", before=0.5, now=None, n=3, p=0.0, test="paired", since=EARLIER)
    return Comparison(items={key: ItemScores.of(np.array(["a"]), np.array([1.0]))}, changes=[change], levels=levels)


def test_history_returns_changes_levels_and_the_scores_that_levels_name(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    assert history.levels() == history.changes(NOW) == []
    first = comparison(Level(model="m", benchmark="maia", night=EARLIER, basis="b"))
    history.write(EARLIER, [], [], "", first)
    assert history.levels() == [*first.levels]
    assert history.changes(EARLIER) == first.changes
    assert list(history.items(EARLIER)) == list(first.items)
    moved = Level(model="m", benchmark="maia", night=NOW, basis="b", before=EARLIER, is_new=True)
    history.write(NOW, [], [], "", comparison(moved))
    assert history.levels() == [moved]
    assert [file.path for file in history.store.list("items")] == [f"items/{name}.parquet" for name in (EARLIER, NOW)]
    later = NOW.replace("0102", "0103")
    history.write(later, [], [], "", comparison(Level(model="m", benchmark="maia", night=NOW, basis="b")))
    assert [file.path for file in history.store.list("items")] == [f"items/{NOW}.parquet"]
    assert history.nights() == [EARLIER, NOW, later]


def test_night_that_was_killed_leaves_the_levels_of_the_one_before(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    level = Level(model="m", benchmark="maia", night=EARLIER)
    history.write(EARLIER, [], [], "", comparison(level))
    history.store.put(f"changes/{NOW}.json", b'{"changes": [], "levels": []}')  # its pairs were never written
    assert history.levels() == [level]


@pytest.mark.parametrize("way", DAMAGES)
@pytest.mark.parametrize("kind", ["metrics", "items", "changes", "pairs"])
def test_damage_to_a_night_is_named_and_later_ones_go_on_without_it(tmp_path: Path, kind: str, way: str) -> None:
    for folder, night, value in (("this", NOW, 0.5), ("other", EARLIER, 0.75)):
        pair = Pair(night=night, model="m", benchmark="maia", state="ran")
        key = ScoreKey("m", "maia", "vsv", "1-frame", "correct")
        items = {key: ItemScores.of(np.array(["a", "b"]), np.array([value, 1.0]))}
        levels = [Level(model="m", benchmark="maia", night=night, basis="b")]
        compared = Comparison(items=items, changes=[], levels=levels)
        History(str(tmp_path / folder)).write(night, [pair], [metric(value)], "", compared)
    (path,), (other,) = ([*(tmp_path / folder / kind).iterdir()] for folder in ("this", "other"))
    content = DAMAGES[way](path.read_bytes(), other.read_bytes())
    path.unlink()

    def read() -> None:
        history = History(str(tmp_path / "this"))
        history.check()
        for night in history.nights():
            history.pairs(night)
            history.metrics(night)

    if content is not None:
        path.write_bytes(content)
        with pytest.raises(DamagedPartError, match=rf"{path.name}: .*nothing writes it again: delete it, and nights"):
            read()
        path.unlink()
    read()
