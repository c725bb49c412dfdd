from typing import Any

import pytest

from pipelines.benchmarks.figures import Bars, Lines, Points, Radar, Series
from pipelines.benchmarks.tables import Table, TableRow


def make(**changes: Any) -> Table:
    rows = (TableRow(label="m", cells=(0.1, 0.2)),)
    return Table(**{"id": "t", "title": "T", "columns": ("a", "b"), "rows": rows, **changes})


def test_table_styles_every_column() -> None:
    assert make(style="percent1").style_of(1) == "percent1"
    assert make(styles=("plain", "fraction3")).style_of(1) == "fraction3"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "../../etc/passwd"}, "is no file name"),
        ({"id": ""}, "is no file name"),
        ({"id": "a" * 81}, "is no file name"),
        ({"rows": (TableRow(label="short", cells=(0.1,)),)}, "row 'short' has 1 cells, expected 2"),
        ({"rows": (TableRow(label="block", cells=(0.1, 0.2), origin="heading"),)}, "has 2 cells, expected 0"),
        ({"styles": ("plain",)}, "1 styles for 2 columns"),
        ({"better": ("higher",)}, "1 better for 2 columns"),
        ({"groups": (("g", 1),)}, "groups do not cover"),
    ],
)
def test_malformed_table_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    ("series", "message"),
    [
        (Series(label="s", values=(0.1,)), "series 's' has not 3 values"),
        (Series(label="s", values=(0.1, 0.2, 0.3), low=(0.0,), high=(0.2,)), "has not 3 values"),
        (Series(label="s", values=(0.1, 0.2, 0.3), low=(0.0, 0.1, 0.2)), "one end of its intervals only"),
    ],
)
def test_malformed_series_is_refused(series: Series, message: str) -> None:
    for kind in (
        lambda: Radar(id="f", title="F", axes=("a", "b", "c"), series=(series,)),
        lambda: Bars(id="f", title="F", categories=("a", "b", "c"), series=(series,)),
        lambda: Lines(id="f", title="F", x=(1.0, 2.0, 3.0), series=(series,)),
    ):
        with pytest.raises(ValueError, match=message):
            kind()


def test_a_figure_needs_a_file_name_and_a_radar_three_axes() -> None:
    with pytest.raises(ValueError, match="no file name"):
        Points(id="a/b", title="F", clouds=())
    with pytest.raises(ValueError, match="three axes"):
        Radar(id="f", title="F", axes=("a", "b"), series=())
