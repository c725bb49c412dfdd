from pipelines.benchmarks.figures import Bars, Series
from pipelines.rendering.figures.svg import to_text

FIGURE = Bars(
    id="f",
    title="Every model",
    categories=("MAIA", "MATE"),
    series=(
        Series(label="small", values=(0.5, None), low=(0.4, None), high=(0.6, None)),
        Series(label="exact", values=(0.0, 1.0), low=(0.0, 1.0), high=(0.0, 1.0)),
        Series(label="Chance", values=(0.25, 0.5), baseline=True),
    ),
)


def test_values_and_intervals_are_drawn_on_one_axis_below_their_category() -> None:
    title, empty, axis, *lines = to_text(FIGURE).splitlines()
    assert (title, empty, lines[0], lines[4]) == ("Every model", "", "MAIA", "MATE")
    assert len(lines) == 7  # a gap has no line
    start = axis.index("0%")
    assert [axis.index(text) - start for text in ("0%", "50%", "100%")] == [0, 25, 47]
    small, exact, chance = lines[1:4]
    assert small == f"  {'small':30} {'·' * 20}├────┃────┤{'·' * 20} 50.0 [40.0, 60.0]"
    assert small.index("├") - start == 20
    assert exact == f"  {'exact':30} ┃{'·' * 50} 0.0 [0.0, 0.0]"
    assert chance == f"  {'Chance':30} {'·' * 12}║{'·' * 38} 25.0"
    assert lines[5].endswith("┃ 100.0 [100.0, 100.0]")


def test_names_of_others_stay_in_their_line() -> None:
    hostile = "a\n# head\r\u2028<b>" + "x" * 99
    figure = Bars(id="f", title=hostile, categories=(hostile,), series=(Series(label=hostile, values=(0.5,)),))
    lines = to_text(figure).splitlines()
    assert len(lines) == 5
    assert lines[-1].index("║") == 58
