import re
import threading
import xml.etree.ElementTree as ET

import matplotlib as mpl
import pytest

from pipelines.benchmarks.figures import Bars, Figure, Lines, Radar, Series
from pipelines.report.figures.style import MUTED, label, series_styles
from pipelines.report.figures.svg import to_svg_bytes
from tests.unit.pipelines.report.cases import HOSTILE, figures

HREF = "{http://www.w3.org/1999/xlink}href"
FORBIDDEN = {"script", "foreignObject", "iframe", "image", "a", "animate", "set", "handler"}


def root_of(figure: Figure) -> ET.Element:
    return ET.fromstring(to_svg_bytes(figure))


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
    assert b"<dc:date>" not in svg
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert next(iter(root)).text == "words"
    # 6.4 inches: 614 pixels on screen.
    assert root.attrib["width"] == "460.8pt"


@pytest.mark.parametrize("title", HOSTILE)
def test_hostile_title_is_drawn_as_text(title: str) -> None:
    assert_inert(to_svg_bytes(Bars(id="f", title=title, categories=(), series=(), y_label=title)))


def test_hostile_labels_are_drawn_as_text() -> None:
    values = (0.5,) * len(HOSTILE)
    series = tuple(Series(label=text, values=values) for text in HOSTILE[:8])
    assert_inert(to_svg_bytes(Radar(id="f", title="t", axes=HOSTILE, series=series)))
    assert_inert(to_svg_bytes(Bars(id="f", title="t", categories=HOSTILE, series=series[:1], horizontal=True)))
    for figure in figures("".join(HOSTILE[:4]))[-2:]:
        assert_inert(to_svg_bytes(figure))


@pytest.mark.parametrize("text", ["$x^2$", "$\\notacommand{$", "a $ b $ c", "_ ^ \\frac"])
def test_dollar_signs_start_no_formula(text: str) -> None:
    drawn = to_svg_bytes(
        Bars(id="f", title=text, categories=("a",), series=(Series(label="s", values=(0.5,)),))
    ).decode()
    assert f"<!-- {text} -->" in drawn


def strokes(figure: Figure) -> str:
    return to_svg_bytes(figure).decode()


def test_published_series_are_dashed_and_labelled() -> None:
    def line(origin: str) -> str:
        series = Series(label="paper", values=(0.1, 0.2), origin=origin)  # type: ignore[arg-type]
        return strokes(Lines(id="f", title="t", x=(0.0, 1.0), series=(series,)))

    assert line("published").count("stroke-dasharray") > line("ours").count("stroke-dasharray")
    assert "<!-- paper (published) -->" in line("published")
    assert "<!-- paper -->" in line("ours")


def test_series_styles_are_distinct_and_references_grey() -> None:
    styles = series_styles([(f"m{place}", "ours") for place in range(20)])
    assert len({(style.colour, style.marker, style.hatch) for style in styles}) == 20
    assert series_styles([("chance", "reference")])[0].colour == MUTED
    assert series_styles([("Table 1, published", "published")])[0].label == "Table 1, published"


@pytest.mark.parametrize("horizontal", [False, True])
def test_missing_bar_is_marked(horizontal: bool) -> None:
    def bars(value: float | None) -> str:
        series = (Series(label="s", values=(0.5, value)),)
        return strokes(Bars(id="f", title="t", categories=("a", "b"), series=series, horizontal=horizontal))

    mark = "no value -->" if horizontal else "<!-- – -->"
    assert mark in bars(None)
    assert mark not in bars(0.0)


def test_missing_value_breaks_a_curve() -> None:
    def curve(values: tuple[float | None, ...]) -> list[str]:
        drawn = strokes(
            Lines(id="f", title="t", x=(0.0, 1.0, 2.0, 3.0, 4.0), series=(Series(label="s", values=values),))
        )
        return [
            path for path in re.findall(r'<path d="([^"]*)" clip-path', drawn) if path.count("L") + path.count("M") > 2
        ]

    (broken,) = curve((0.1, 0.2, None, 0.4, 0.5))
    (whole,) = curve((0.1, 0.2, 0.3, 0.4, 0.5))
    assert broken.count("M") == 2
    assert whole.count("M") == 1


def test_intervals_are_drawn() -> None:
    plain = Series(label="s", values=(0.5, 0.6, 0.7))
    with_ends = Series(label="s", values=(0.5, 0.6, 0.7), low=(0.4, None, 0.6), high=(0.6, None, 0.8))
    for kind in (
        lambda series: Radar(id="f", title="t", axes=("a", "b", "c"), series=(series,)),
        lambda series: Bars(id="f", title="t", categories=("a", "b", "c"), series=(series,)),
        lambda series: Lines(id="f", title="t", x=(1.0, 2.0, 3.0), series=(series,)),
    ):
        assert len(strokes(kind(with_ends))) > len(strokes(kind(plain)))


def test_figures_without_series_or_values_can_be_drawn() -> None:
    empty = Series(label="s", values=(None, None, None))
    root_of(Radar(id="f", title="t", axes=("a", "b", "c"), series=()))
    root_of(Radar(id="f", title="t", axes=("a", "b", "c"), series=(empty,)))
    root_of(Bars(id="f", title="t", categories=(), series=()))
    root_of(Bars(id="f", title="t", categories=("a", "b", "c"), series=(empty,)))
    root_of(Lines(id="f", title="t", x=(), series=(), y_range=(0.0, 1.0), percent=True))
    root_of(Lines(id="f", title="t", x=(), series=(Series(label="s", values=()),)))


def test_many_long_categories_are_rotated() -> None:
    names = tuple(f"category-number-{place}" for place in range(12))
    drawn = strokes(Bars(id="f", title="t", categories=names, series=(Series(label="s", values=(0.1,) * 12),)))
    assert "rotate(-40)" in drawn


def test_label_is_wrapped_cut_and_drawable() -> None:
    assert label("one two three", width=7) == "one two\nthree"
    assert label("x" * 50, width=100, limit=10) == "x" * 10 + "…"
    assert label("한a", width=10) == "□a"
    assert label("", width=10) == " "


def test_drawing_leaves_global_settings_unchanged() -> None:
    before = dict(mpl.rcParams)
    to_svg_bytes(figures()[0])
    assert dict(mpl.rcParams) == before


def test_global_settings_do_not_affect_a_drawing() -> None:
    figure = figures()[1]
    expected = to_svg_bytes(figure)
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "text.usetex": True, "svg.fonttype": "none"}):
        assert to_svg_bytes(figure) == expected


def test_figures_can_be_drawn_concurrently() -> None:
    drawn, expected = {}, {figure.id: to_svg_bytes(figure) for figure in figures()[1:4]}

    def draw(figure: Figure) -> None:
        drawn[figure.id] = to_svg_bytes(figure)

    threads = [threading.Thread(target=draw, args=(figure,)) for figure in figures()[1:4]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == expected
