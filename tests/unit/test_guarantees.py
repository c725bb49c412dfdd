"""The guarantee table of the README is what the suite's own results say."""

import json

from tests.chaos.table import PAGES, RESULTS, with_table


def test_the_table_is_of_the_results() -> None:
    results = json.loads(RESULTS.read_text())
    for page in PAGES:
        assert page.read_text() == with_table(page.read_text(), results)
    assert all(one["lost"] == one["doubled"] == one["changed"] == 0 for own in results.values() for one in own.values())
