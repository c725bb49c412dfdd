"""The guarantee tables of the pages equal the results of `make chaos`."""

import pytest

from tests.chaos.__main__ import ENDPOINT, HOSTS, JUDGED, MAX_HOSTS, ON_S3
from tests.chaos.kills import KINDS
from tests.chaos.results import read_results
from tests.chaos.table import PAGES, with_table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_guarantee_table_equals_the_results(page) -> None:
    assert page.read_text() == with_table(page.read_text(), read_results())


def test_results_keep_the_guarantees() -> None:
    results = read_results()
    sweeps = [sweep for group in results["kills"].values() for sweep in group.values()]
    assert sweeps
    assert all(sweep["lost"] == sweep["doubled"] == sweep["changed"] == 0 and sweep["harmless"] for sweep in sweeps)
    assert all(sweep["redone"] <= sweep["in_flight"] for sweep in sweeps)
    assert all(sweep["used"] + sweep["rejected"] == sweep["rows"] for sweep in results["rows"].values())
    assert results["cuts"].keys() == {"disk", "store"}
    for group in results["cuts"].values():
        assert group.keys() <= {"old", "new", "left"}
        assert group["left"] == 0
        assert min(group["old"], group["new"]) > 0
    assert results["media"]["files"] >= 200
    assert results["media"]["wrong"] == 0
    soak = results["soak"]
    assert soak["requests"] > 900_000
    assert soak["lost"] == soak["doubled"] == soak["not_ok"] == 0
    assert soak["driver_mb"]["most"] < soak["driver_mb"]["first"] + 64
    assert soak["store_mb"]["most"] < 160  # 64 MB a replica may wait, and what is under way


def test_every_kind_of_kill_was_tried_often() -> None:
    sweeps = {name: len(group) for name, group in read_results()["kills"].items()}
    sweeps = {kind: count for kind, count in sweeps.items() if not kind.endswith(ON_S3)}
    assert sweeps.pop(HOSTS) >= MAX_HOSTS
    assert sweeps.pop(ENDPOINT) >= 5  # its faults are drawn anew for each request of a sweep
    assert sweeps.pop(JUDGED) >= 3  # the youngest
    assert sweeps.keys() == {"driver", "node", "rank of a tensor-parallel group", *KINDS}
    assert min(sweeps.values()) >= 20
