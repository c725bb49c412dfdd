import itertools
import re
import xml.etree.ElementTree as ET
from typing import Any
from unicodedata import combining

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.figures import Bars, Cloud, Figure, Lines, Points, Radar, Series
from pipelines.rendering.figures.canvas import INK, MUTED, PAPER, series_styles
from pipelines.rendering.figures.svg import to_svg_bytes, to_text
from tests.unit.pipelines.report.cases import HOSTILE, figures

HREF = "{http://www.w3.org/1999/xlink}href"
FORBIDDEN = {"script", "foreignObject", "iframe", "image", "a", "animate", "set", "handler", "use"}
LONG = "a-model-of-a-name-with-sixty-characters-and-many-parts-72b-v1"
CJK = "视觉语言模型在困难的多模态基准上的批量评估结果与人类表现的比较研究报告"
NARROW = "iljt.,:;'|![]() -/frI"
TEXT = "{http://www.w3.org/2000/svg}text"
PATH = "{http://www.w3.org/2000/svg}path"


def root_of(figure: Figure) -> ET.Element:
    return ET.fromstring(to_svg_bytes(figure))


def texts_of(figure: Figure) -> list[str]:
    return [str(element.text) for element in root_of(figure).iter(TEXT)]


def paths_of(figure: Figure, **attributes: str) -> list[str]:
    """Return the shapes with these attributes, swatches of the legend included."""
    names = {name.replace("_", "-"): value for name, value in attributes.items()}
    return [element.attrib["d"] for element in root_of(figure).iter(PATH) if names.items() <= element.attrib.items()]


def corners(shape: str) -> list[tuple[float, float]]:
    """Return the points of a path that has absolute coordinates only."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", shape)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def bar(**fields: Any) -> Bars:
    return Bars(**{"id": "f", "title": "t", "categories": ("a", "b", "c"), **fields})


def ours(*values: float | None, label: str = "s", **fields: Any) -> Series:
    return Series(label=label, values=values, **fields)


def width_of(text: str, size: float) -> float:
    """Return a width that no common sans-serif font exceeds by much, independent of the product's table."""
    ems = (0.3 if char in NARROW else 1.0 if ord(char) > 0x2E80 else 0.6 for char in text if not combining(char))
    return size * sum(ems)


def boxes(root: ET.Element) -> list[tuple[float, float, float, float, str]]:
    result = []
    for element in root.iter(TEXT):
        size, text = float(element.attrib["font-size"]), str(element.text)
        width = width_of(text, size)
        left = float(element.attrib["x"]) - width * {"middle": 0.5, "end": 1}.get(element.get("text-anchor", ""), 0)
        base = float(element.attrib["y"])
        result.append((left, base - 0.75 * size, left + width, base + 0.2 * size, text))
    return result


def assert_readable(figure: Figure) -> None:
    """No text leaves the figure or touches another one."""
    root = root_of(figure)
    for left, top, right, bottom, text in boxes(root):
        assert left >= 0, text
        assert right <= float(root.attrib["width"]), text
        assert top >= 0, text
        assert bottom <= float(root.attrib["height"]), text
    for first, second in itertools.combinations(boxes(root), 2):
        apart = first[2] <= second[0] or second[2] <= first[0] or first[3] <= second[1] or second[3] <= first[1]
        assert apart, (first, second)


def assert_inert(svg: bytes) -> None:
    assert b"<!DOCTYPE" not in svg
    assert b"<!ENTITY" not in svg
    for element in ET.fromstring(svg).iter():
        assert str(element.tag).rpartition("}")[2] not in FORBIDDEN
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            assert name != HREF or value.startswith("#")
            assert "javascript" not in value
            assert all(target.startswith("#") for target in re.findall(r"url\((.*?)\)", value))


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.id)
def test_figure_is_an_inert_reproducible_svg(figure: Figure) -> None:
    svg = to_svg_bytes(figure)
    assert svg == to_svg_bytes(figure)
    assert_inert(svg)
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert next(iter(root)).text == "words"
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    assert root.attrib["width"] == "600"


def test_figures_have_ids_of_their_own_and_dark_neutral_colours() -> None:
    series = (ours(0.1, 0.2, 0.3, origin="published"),)
    names = [re.findall(rb' id="([^"]*)"', to_svg_bytes(bar(id=name, series=series))) for name in ("one", "two")]
    assert names == [[b"one-hatch0"], [b"two-hatch0"]]
    for figure, (name,) in zip(("one", "two"), names, strict=True):
        assert f"url(#{name.decode()})" in to_svg_bytes(bar(id=figure, series=series)).decode()
    style = str(next(root_of(figures()[0]).iter("{http://www.w3.org/2000/svg}style")).text)
    assert style.startswith("@media(prefers-color-scheme:dark)")
    for colour in (INK, MUTED, PAPER):
        assert f'[fill="{colour}"]' in style


@pytest.mark.parametrize("title", HOSTILE)
def test_hostile_title_is_drawn_as_text(title: str) -> None:
    assert_inert(to_svg_bytes(bar(title=title, categories=(), series=(), y_label=title)))


def test_hostile_labels_are_drawn_as_text() -> None:
    values = (0.5,) * len(HOSTILE)
    series = tuple(Series(label=text, values=values) for text in HOSTILE[:8])
    assert_inert(to_svg_bytes(Radar(id="f", title="t", axes=HOSTILE, series=series)))
    assert_inert(to_svg_bytes(bar(categories=HOSTILE, series=series[:1])))
    for figure in figures("".join(HOSTILE[:4])):
        assert_inert(to_svg_bytes(figure))


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S", "Z", "Cc", "Cs", "Cf"]), max_size=80))
def test_every_label_gives_well_formed_xml(text: str) -> None:
    for figure in figures(text):
        assert_inert(to_svg_bytes(figure))


CATEGORIES = {
    "few": ("a", "b", "c"), "forty": tuple(f"category {index}" for index in range(40)),
    "long": tuple(f"{LONG}-{index}" for index in range(9)), "cjk": (CJK, CJK + "二", "e\u0301" * 60, "\U0001f600 x"),
}  # fmt: skip


@pytest.mark.parametrize("names", CATEGORIES.values(), ids=CATEGORIES)
@pytest.mark.parametrize("count", [1, 3, 12])
@pytest.mark.parametrize("kind", ["upright", "flat", "stacked", "radar"])
def test_texts_neither_overlap_nor_leave_the_figure(names: tuple[str, ...], count: int, kind: str) -> None:
    values = tuple(None if index % 3 == 0 else index / len(names) for index in range(len(names)))
    series = tuple(
        Series(label=f"{LONG} {index}" if count == 3 else CJK[index:], values=values) for index in range(count)
    )
    if kind == "radar":
        assert_readable(Radar(id="f", title=LONG * 3, axes=names, series=series))
    else:
        layout = {"horizontal": kind == "flat", "stacked": kind == "stacked", "x_label": LONG * 2, "y_label": CJK * 2}
        assert_readable(bar(title=LONG * 3, categories=names, series=series, **layout))


@pytest.mark.parametrize("scale", [0.0, 1e-9, 1.0, 3e6, -0.4, 1e12])
def test_values_of_any_size_have_distinct_ticks_that_fit(scale: float) -> None:
    values = (0.2 * scale, 0.5 * scale, scale)
    points = ((scale, scale), (0.5 * scale, 2 * scale))
    for percent in (False, True):
        charts: list[Figure] = [
            bar(series=(ours(*values),), percent=percent, horizontal=horizontal, categories=("a", "b", LONG))
            for horizontal in (False, True)
        ]
        charts.append(Lines(id="f", title="t", x=values, series=(ours(*values),), percent=percent))
        charts.append(Points(id="f", title="t", clouds=(Cloud(label="c", points=points),), percent=percent))
        for chart in charts:
            assert_readable(chart)
            labels = [text for text in texts_of(chart) if re.fullmatch(r"[\u2212\d.,e+-]+%?", text)]
            assert 2 <= len(set(labels)) <= 16
    assert_readable(Radar(id="f", title="t", axes=("a", "b", "c"), series=(ours(*values),), maximum=scale))


def test_bars_points_and_stacks_are_where_the_scale_says() -> None:
    figure = bar(series=(ours(0.25, None, -0.5),), y_label="Share")
    ticks = {
        float(str(element.text).replace("\N{MINUS SIGN}", "-")[:-1]) / 100: float(element.attrib["y"])
        for element in root_of(figure).iter(TEXT)
        if str(element.text).endswith("%")
    }
    shape, _ = paths_of(figure, fill="#0072b2")
    bars = [corners(part) for part in shape.split("z")[:-1]]
    heights = [max(y for _, y in part) - min(y for _, y in part) for part in bars]
    a_tenth = (ticks[0.0] - ticks[0.2]) / 2
    assert heights == pytest.approx([2.5 * a_tenth, 5 * a_tenth], abs=0.3)
    assert max(y for _, y in bars[0]) == min(y for _, y in bars[1])
    cloud = Cloud(label="c", points=((0.0, 0.0), (1.0, 1.0), (0.5, 0.25)))
    figure = Points(id="f", title="t", clouds=(cloud,), percent=True)
    shape = paths_of(figure, fill="#0072b2")[0]
    (x0, y0), (x1, y1), (x, y) = [tuple(map(float, at)) for at in re.findall(r"M(\S+) (\S+?)m", shape)]
    assert (x - x0) / (x1 - x0) == pytest.approx(0.5, abs=0.001)
    assert (y - y0) / (y1 - y0) == pytest.approx(0.25, abs=0.001)
    ticks = {str(element.text): element for element in root_of(figure).iter(TEXT)}
    assert float(ticks["100%"].attrib["x"]) == pytest.approx(x1, abs=0.1)
    figure = bar(categories=("a",), series=(ours(2.0), ours(3.0, label="t")), stacked=True, percent=False)
    lower, upper = (corners(paths_of(figure, fill=colour)[0].split("z")[0]) for colour in ("#0072b2", "#d55e00"))
    assert min(y for _, y in lower) == max(y for _, y in upper)
    assert (lower[0][1] - lower[1][1]) / (upper[0][1] - upper[1][1]) == pytest.approx(2 / 3, abs=0.01)


NUMBERS = st.floats(-1e12, 1e12) | st.none() | st.sampled_from([0.0, 1e-9, 0.999, 1.0, 7.0])


@given(st.lists(st.lists(NUMBERS, min_size=4, max_size=4), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_bars_of_any_values_are_within_the_figure(columns: list[list[float | None]], stacked: bool, flat: bool) -> None:
    series = tuple(ours(*column, label=f"s{index}", low=column, high=column) for index, column in enumerate(columns))
    figure = bar(categories=("a", "b", "c", "d"), series=series, stacked=stacked, horizontal=flat, percent=False)
    height = float(root_of(figure).attrib["height"])
    for style in series_styles(series):
        *bars, _ = paths_of(figure, fill=style.colour)
        assert all(0 <= x <= 600 and 0 <= y <= height for shape in bars for x, y in corners(shape))
    assert all(0 <= x <= 600 and 0 <= y <= height for shape in paths_of(figure, stroke=INK) for x, y in corners(shape))


def test_what_has_no_value_has_no_shape() -> None:
    figure = bar(series=(ours(None, None, None), ours(0.1, None, 0.3)))
    first, second = series_styles(figure.series)
    assert len(paths_of(figure, fill=first.colour)) == 1  # its swatch
    assert len(paths_of(figure, fill=second.colour)) == 2
    series = (ours(0.1, None, 0.3), ours(None, None, 0.2))
    assert texts_of(bar(series=series, stacked=True)).count("\N{EN DASH}") == 1

    def curve(*values: float | None) -> str:
        figure = Lines(id="f", title="t", x=(0.0, 1.0, 2.0, 3.0, 4.0), series=(ours(*values),))
        return paths_of(figure, stroke="#0072b2", fill="none")[0]

    assert curve(0.1, 0.2, None, 0.4, 0.5).count("M") == 2
    assert curve(0.1, 0.2, 0.3, 0.4, 0.5).count("M") == 1

    def filled(*values: float | None) -> list[str]:
        figure = Radar(id="f", title="t", axes=("a", "b", "c"), series=(ours(*values),))
        return paths_of(figure, fill_opacity="0.07")

    assert filled(0.1, None, 0.3) == []
    assert len(filled(0.1, 0.0, 0.3)) == 1
    values = [None] * 100
    figure = Lines(id="f", title="t", x=tuple(map(float, range(100))), series=(ours(*values[:33], 0.5, *values[34:]),))
    assert paths_of(figure, fill="#0072b2")[0].count("m") == 1


def test_series_have_styles_of_their_own_dashed_if_published_and_grey_if_references() -> None:
    def line(origin: str) -> Lines:
        return Lines(id="f", title="t", x=(0.0, 1.0), series=(ours(0.1, 0.2, label="paper", origin=origin),))

    assert len(paths_of(line("published"), stroke_dasharray="6 4")) == 2
    assert paths_of(line("ours"), stroke_dasharray="6 4") == []
    assert "paper (published)" in texts_of(line("published"))
    assert "paper" in texts_of(line("ours"))
    assert paths_of(bar(series=(ours(0.1, 0.2, 0.3),)), fill="url(#f-hatch0)") == []
    assert len(paths_of(bar(series=(ours(0.1, 0.2, 0.3, origin="published"),)), fill="url(#f-hatch0)")) == 2
    styles = series_styles([ours(label=f"m{index}") for index in range(20)])
    assert len({(style.colour, style.marker, style.hatch) for style in styles}) == 20
    assert len({style.marker for style in styles[:8]}) == len({style.hatch for style in styles[:8]}) == 8
    assert series_styles([ours(label="chance", baseline=True)])[0].colour == MUTED
    assert series_styles([ours(label="Table 1, published", origin="published")])[0].label == "Table 1, published"
    chance = ours(0.5, None, 0.25, label="Chance", baseline=True)
    across, _ = paths_of(bar(series=(ours(0.1, 0.2, 0.3), chance)), stroke=INK, stroke_dasharray="2 3")
    first, second = [corners(part) for part in across.split("M")[1:]]
    assert first[0][1] == first[1][1] < second[0][1]
    assert first[1][0] - first[0][0] > 100


@pytest.mark.parametrize("horizontal", [False, True])
@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_missing_bar_is_marked(missing: float | None, *, horizontal: bool) -> None:
    mark = "no value" if horizontal else "\N{EN DASH}"
    assert mark in texts_of(bar(series=(ours(0.5, 0.2, missing),), horizontal=horizontal))
    assert mark not in texts_of(bar(series=(ours(0.5, 0.2, 0.0),), horizontal=horizontal))


def test_intervals_and_values_beyond_a_given_range_are_drawn() -> None:
    ends = {"low": (0.4, None, 0.6), "high": (0.6, None, 0.8)}
    values = (0.5, 0.6, 0.7)
    whiskers = paths_of(bar(series=(ours(*values, **ends),)), stroke=INK)
    assert [shape.count("M") for shape in whiskers] == [6]  # two lines, each with two ends
    assert paths_of(bar(series=(ours(*values),)), stroke=INK) == []
    lines = Lines(id="f", title="t", x=(1.0, 2.0, 3.0), series=(ours(*values, **ends),))
    assert len(paths_of(lines, fill_opacity="0.15")) == 2
    plain, radar = (
        Radar(id="f", title="t", axes=("a", "b", "c"), series=(series,))
        for series in (ours(*values), ours(*values, **ends))
    )
    assert len(paths_of(radar, fill="none")) == len(paths_of(plain, fill="none")) + 1
    figure = Lines(id="f", title="t", x=(0.0, 1.0), series=(ours(0.5, 1.7),), percent=True, y_range=(0.0, 1.0))
    assert {"0%", "100%", "175%"} <= set(texts_of(figure))
    radar = Radar(id="f", title="t", axes=("a", "b", "c"), series=(ours(1.0, 12.0, 3.0),), maximum=10.0)
    assert "12.5" in texts_of(radar)


@pytest.mark.parametrize("figure", [
    Radar(id="f", title="t", axes=("a", "b", "c"), series=()),
    Radar(id="f", title="t", axes=("a", "b", "c"), series=(ours(None, None, None),), maximum=0.0),
    bar(categories=(), series=()),
    bar(categories=(), series=(), horizontal=True),
    bar(series=(ours(None, None, None),)),
    Lines(id="f", title="", x=(), series=(), y_range=(0.0, 1.0), percent=True),
    Lines(id="f", title="t", x=(), series=(ours(),)),
    Lines(id="f", title="t", x=(3.0,), series=(ours(3.0),)),
    Points(id="f", title="t", clouds=(), diagonal=True),
])  # fmt: skip
def test_figures_without_values_can_be_drawn(figure: Figure) -> None:
    assert_readable(figure)


def test_many_or_long_categories_are_flat_and_long_labels_wrap() -> None:
    def is_flat(*names: str, **fields: Any) -> bool:
        root = root_of(bar(categories=names, series=(ours(*(0.1,) * len(names)),), **fields))
        (first,) = (element for element in root.iter(TEXT) if element.text == names[0])
        return first.attrib["text-anchor"] == "end"

    assert not is_flat("a", "b", "c")
    assert is_flat("a", "b", "c", horizontal=True)
    assert is_flat("a", LONG.replace("-", ""))
    assert is_flat(*(f"category {index}" for index in range(40)))

    def rows(label: str) -> list[int]:
        series = tuple(ours(0.1, 0.2, 0.3, label=f"{label} {index}") for index in range(6))
        tops = [
            element.attrib["y"]
            for element in root_of(bar(series=series)).iter(TEXT)
            if f"{label} " in str(element.text)
        ]
        return [len(list(group)) for _, group in itertools.groupby(tops)]

    assert rows("m") == [6]
    assert rows("a model of middle size") == [2, 2, 2] or rows("a model of middle size") == [3, 3]
    assert rows("m" * 40) == [1] * 6


def test_dots_draw_a_marker_and_an_interval_a_value_and_a_line_a_baseline() -> None:
    series = (
        Series(label="m", values=(0.5, None), low=(0.4, None), high=(0.6, None)),
        Series(label="p", values=(0.7, 0.8), origin="published"),
        Series(label="chance", values=(0.25, None), baseline=True),
    )
    figure = Bars(id="f", title="t", categories=("a", "b"), series=series, horizontal=True, dots=True)
    first, second, _ = series_styles(series)
    assert len(paths_of(figure, stroke=first.colour, stroke_width="2.2")) == 2  # one interval, and the legend's
    assert len(paths_of(figure, fill=first.colour)) == 2
    assert len(paths_of(figure, stroke=second.colour)) == 3
    assert len(paths_of(figure, stroke=INK, stroke_width="1.8")) == 2
    assert [text for text in texts_of(figure) if text in ("a", "b", "m", "chance", "100%")] == [
        "100%", "a", "b", "m", "chance",
    ]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_dots_of_hostile_names_are_inert(text: str) -> None:
    series = (Series(label=text, values=(0.5, None)), Series(label=text, values=(0.2, None), baseline=True))
    assert_inert(to_svg_bytes(Bars(id="f", title=text, categories=(text, "b"), series=series, y_label=text, dots=True)))


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
