"""Columns that nothing takes: those with pictures, clips or options are named, others are no matter."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from PIL import Image

from pipelines.benchmarks.table.columns import find_columns
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.left_over import check_left_over
from pipelines.errors import SourceError

ROLES = {"question": ("question",), "answer": ("answer",)}


def png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 32), "red").save(buffer, "PNG")
    return buffer.getvalue()


def check(*cells: Any, given: ColumnsFile | None = None, roles: Any = None, question: str = "q", answer: str = "cat"):
    rows = [(f"line {n}", {"question": question, "answer": answer, "extra": cell}) for n, cell in enumerate(cells, 2)]
    check_left_over(rows, roles or ROLES, given or ColumnsFile(), "t.csv")


@pytest.mark.parametrize(
    "cell",
    [
        "a.png",
        "pictures/A.JPG",
        "https://x.org/a.webp?size=2",
        "clips/a.mp4",
        png(),
        {"bytes": png(), "path": None},
        {"bytes": None, "path": "a.png"},
        [{"bytes": png(), "path": "a"}],
        ["a.png", "b.png"],
        '["a.png"]',
        "data:image/png;base64," + base64.b64encode(png()).decode(),
        base64.b64encode(png()).decode(),
    ],
    ids=lambda cell: str(cell)[:24],
)
def test_column_with_media_is_named_with_the_keys_that_settle_it(cell: Any) -> None:
    with pytest.raises(SourceError, match=r"t\.csv: column 'extra' holds pictures or clips and is not taken") as raised:
        check(cell, None)
    assert "`media: extra` or `ignore: [extra]`" in str(raised.value)
    check(cell, given=ColumnsFile(ignore=("extra",)))
    check(cell, roles={**ROLES, "media": ("extra",)})


@pytest.mark.parametrize(
    "cell", ["easy", 7, None, "see a.png for this", b"bytes", ["a tag", "another"], {"x": 1}, "[1", "abcd" * 40]
)
def test_other_columns_are_no_matter(cell: Any) -> None:
    check(cell)


def test_column_of_which_few_cells_are_paths_is_no_matter() -> None:
    check("a.png", "a cat", "a dog")


def test_lists_with_the_answer_among_them_are_options() -> None:
    with pytest.raises(SourceError, match="column 'extra' holds options"):
        check("['dog', 'Cat']", ["cat", "dog"])
    check(["cat", "dog"], roles={**ROLES, "options": ("other",)})


@pytest.mark.parametrize("question", ["<image> red?", "Compare <image 1> and <image 2>", "<video>what"])
def test_mark_of_a_picture_without_a_column_of_pictures_is_named(question: str) -> None:
    with pytest.raises(SourceError, match=r"t\.csv, line 2: the question holds <(image|image 1|video)> and no column"):
        check("x", question=question)
    check("x", question=question, given=ColumnsFile(media_optional=True))


@pytest.mark.parametrize(
    ("columns", "media"),
    [
        (["id", "Image Path", "answer"], ("Image Path",)),
        (["id", "image_2", "image_1", "image_10"], ("image_1", "image_2", "image_10")),
        (["img1", "img2"], ("img1", "img2")),
        (["image1", "video1"], None),
    ],
)
def test_names_of_media_in_other_spellings_and_with_numbers_are_taken(
    columns: list[str], media: tuple[str, ...] | None
) -> None:
    assert find_columns(columns, {}, "t.csv").get("media") == media


@pytest.mark.parametrize(
    "names", [("choice_a", "choice_b"), ("opt1", "opt2"), ("ending0", "ending1"), ("optionA", "optionB")]
)
@pytest.mark.parametrize("answer", ["dog", "B", "1"])
def test_columns_of_an_option_each_under_other_names_are_named(names: tuple[str, str], answer: str) -> None:
    rows = [("line 2", {"question": "q", "answer": answer, names[0]: "cat", names[1]: "dog"})]
    both = f"{names[0]}, {names[1]}"
    with pytest.raises(
        SourceError, match=rf"columns {both} hold options .*`options: \[{both}\]` or `ignore: \[{both}\]`"
    ):
        check_left_over(rows, ROLES, ColumnsFile(), "t.csv")
    check_left_over(rows, ROLES, ColumnsFile(ignore=names), "t.csv")
    check_left_over(rows, {**ROLES, "options": names}, ColumnsFile(), "t.csv")


@pytest.mark.parametrize(
    ("answer", "cells"), [("cat", ("a note", "another")), ("7", ("1", "2")), ("B", ("note", "")), ("dog", (1, 2))]
)
def test_other_numbered_columns_are_no_matter(answer: str, cells: tuple[Any, Any]) -> None:
    rows = [("line 2", {"question": "q", "answer": answer, "note_1": cells[0], "note_2": cells[1]})]
    check_left_over(rows, ROLES, ColumnsFile(), "t.csv")


def test_mark_of_a_picture_in_an_option_is_named() -> None:
    rows = [("line 2", {"question": "q", "answer": "A", "A": "<image 1>", "B": "none"})]
    with pytest.raises(SourceError, match="holds <image 1> and no column"):
        check_left_over(rows, {**ROLES, "options": ("A", "B")}, ColumnsFile(), "t.csv")
