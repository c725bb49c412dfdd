"""The guarantee tables of the pages are what the suite's own results say."""

import pytest

from tests.chaos.results import read_results
from tests.chaos.table import PAGES, with_table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_is_of_the_results(page) -> None:
    assert page.read_text() == with_table(page.read_text(), read_results())


def test_the_results_keep_the_guarantees() -> None:
    results = read_results()
    sweeps = [one for own in results["kills"].values() for one in own.values()]
    assert sweeps
    assert all(one["lost"] == one["doubled"] == one["changed"] == 0 and one["harmless"] for one in sweeps)
    assert all(one["redone"] <= one["in_flight"] for one in sweeps)
    assert all(one["used"] + one["rejected"] == one["rows"] for one in results["rows"].values())
    assert not results["soak"] or results["soak"]["lost"] == results["soak"]["doubled"] == 0
