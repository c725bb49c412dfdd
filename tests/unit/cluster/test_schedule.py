"""The simulator: nothing lost or done twice, never better than the bound; and hand-made cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.schedule import Fleet, ModelWork, lower_bound, play
from cluster.simulate import main, read_workload, rows, workload_json


def work(name: str, gpus: int, *units: float, load: float = 10.0, most: int = 99) -> ModelWork:
    return ModelWork(name=name, gpus=gpus, load_s=load, units=units, most_replicas=most)


def fleet(gpus: int, **more: float) -> Fleet:
    return Fleet(**{"gpus": gpus, "node_start_s": 0.0, **more})


def test_one_model_on_one_gpu() -> None:
    played = play([work("a", 1, 5.0, 7.0)], fleet(1))
    assert played.makespan_s == 22.0
    assert played.loads == {"a": 1}
    assert played.utilisation() == pytest.approx(12 / 22)
    assert played.price_usd == pytest.approx(22 / 3600 * 2.5)


def test_a_big_one_starts_at_once_and_small_ones_run_beside_it() -> None:
    big, small = work("big", 4, *[100.0] * 4, most=1), [work(f"s{i}", 1, 50.0, 50.0) for i in range(4)]
    played = play([*small, big], fleet(8))
    assert played.starts["big"] == 0.0
    assert all(played.starts[one.name] == 0.0 for one in small)
    assert set(played.loads.values()) == {1}
    alone = play([*small, big], fleet(8), together=False)
    assert played.makespan_s < alone.makespan_s


def test_another_loading_must_be_worth_it() -> None:
    assert play([work("a", 1, *[1.0] * 4, load=100.0)], fleet(8)).loads == {"a": 1}
    assert play([work("a", 1, *[1000.0] * 4, load=100.0)], fleet(8)).loads == {"a": 4}


def test_replicas_are_of_one_node() -> None:
    with pytest.raises(ValueError, match="needs 8 GPUs of one node"):
        play([work("a", 8, 1.0)], Fleet(gpus=8, gpus_a_node=4))
    played = play([work("a", 3, 10.0, 10.0, load=0.0)], fleet(4))
    assert played.makespan_s == 20.0  # the fourth GPU is no use to it


def test_a_lost_node_costs_what_ran_on_it_and_nothing_else() -> None:
    works = [work("a", 1, *[600.0] * 200)]
    calm, stormy = play(works, fleet(16)), play(works, fleet(16, lost_an_hour=0.5))
    assert calm.lost_nodes == 0 < stormy.lost_nodes
    assert stormy.makespan_s > calm.makespan_s
    assert stormy.busy_gpu_s == pytest.approx(calm.busy_gpu_s) == pytest.approx(200 * 600)
    assert stormy.redone_s > 0
    assert play(works, fleet(16, lost_an_hour=0.5)) == stormy


WORKS = st.lists(
    st.builds(
        lambda gpus, load, units: (gpus, load, units),
        st.sampled_from([1, 2, 4, 8]),
        st.floats(1, 300),
        st.lists(st.floats(1, 500), min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(raw=WORKS, gpus=st.sampled_from([8, 16, 64]), loss=st.sampled_from([0.0, 0.3]))
def test_every_unit_once_and_never_under_the_bound(raw: list, gpus: int, loss: float) -> None:
    works = [work(f"m{i}", g, *units, load=load) for i, (g, load, units) in enumerate(raw)]
    for together in (True, False):
        played = play(works, fleet(gpus, lost_an_hour=loss), together=together)
        assert played.busy_gpu_s == pytest.approx(sum(w.gpus * w.seconds for w in works))
        assert set(played.ends) == {w.name for w in works}
        assert max(played.ends.values()) == played.makespan_s
        assert played.makespan_s >= lower_bound(works, fleet(gpus)) * (1 - 1e-9)
        assert played.held_gpu_s >= played.busy_gpu_s * (1 - 1e-9)


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    works = [work("a", 1, *[30.0] * 50, most=1_000_000), work("b", 4, *[60.0] * 20, most=1_000_000)]
    path = tmp_path / "w.json"
    path.write_text(workload_json(works))
    assert read_workload(path.read_text()) == works
    assert main([str(path), "--gpus", "8", "32"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 1 + 2 * 3
    found = rows(works, fleet(8), (8, 32))
    assert all(row.over_bound >= 1 for row in found)
    path.write_text(json.dumps([{"name": "a"}]))
    assert main([str(path)]) == 2
