"""Items of real sweeps: files, refusals, and text of a stranger on the page."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.analysis.items import create
from jobs.analysis.items.create import compact_subset, describe_items, write_items
from pipelines.errors import DatasetError, UsageError
from pipelines.storage.store import Store


def test_every_item_has_a_row_and_the_subset_is_of_them(five_models: Store, tmp_path: Path) -> None:
    (report,) = describe_items([five_models.uri])
    assert report.matrix.setting == "1-frame"
    assert len(report.matrix.models) == 5
    write_items([report], Store(str(tmp_path)))
    rows = list(csv.DictReader((tmp_path / "items.csv").read_text().splitlines()))
    assert len(rows) == len({(row["sample_id"], row["variant"]) for row in rows}) == len(report.matrix.items)
    assert {row["models"] for row in rows} == {"5"}
    assert {row["blind_models"] for row in rows} == {"5"}
    assert {row["q"] for row in rows} & {row["reversed_q"] for row in rows} <= {"", "1.0"}
    for row in report.rows:
        assert row.rasch_difficulty is row.rasch_error is None  # of five models
        ends = (row.discrimination_low, row.discrimination, row.discrimination_high)
        assert None in ends or sorted(ends) == [*ends]
        assert row.reversed == (row.reversed_q is not None and row.reversed_q < 0.1)
    for row in rows:
        wrong = 1 - float(report.matrix.rows_of([(row["sample_id"], row["variant"])]).mean())
        assert float(row["difficulty"]) == pytest.approx(wrong)
    head, *ids = (tmp_path / "compact.txt").read_text().splitlines()
    assert head.startswith(f"# maia vsv 1-frame: {len(ids)} of {len({row['sample_id'] for row in rows})} samples, ")
    assert len({*ids}) == len(ids)
    assert {*ids} <= {row["sample_id"] for row in rows}
    shares = [
        [
            float(report.matrix.right[model, [item[0] == sample for item in report.matrix.items]].mean())
            for sample in report.samples
        ]
        for model in range(5)
    ]
    assert report.compact == compact_subset(np.array(shares))


def test_right_is_what_needs_no_medium_and_what_it_adds_by_five_models(five_models: Store, tmp_path: Path) -> None:
    (report,) = describe_items([five_models.uri])
    assert {row.medium_share is None for row in report.rows} == {False, True}
    for row in report.rows:
        assert row.blind_share is not None
        if row.medium_share is None:
            assert row.blind_share == 1.0
        else:
            right = row.blind_share + (1 - row.blind_share) * row.medium_share
            assert 1 - (row.difficulty or 0.0) == pytest.approx(right)
    few = [replace(row, difficulty=0.2, blind_share=0.5, blind_models=5) for row in report.rows]
    write_items([replace(report, rows=tuple(few))], Store(str(tmp_path)))
    page = (tmp_path / "items.html").read_text()
    assert f"50% of {len(few)} items are solved without the medium and 60% of the rest by it." in page
    for few in ({"blind_models": 4}, {"models": 0, "difficulty": None}):  # what has no score is not right
        rows = tuple(replace(row, **few) for row in report.rows)
        write_items([replace(report, rows=rows)], Store(str(tmp_path)))
        assert "solved without the medium" not in (tmp_path / "items.html").read_text()


def test_rows_of_a_table_that_ask_the_same_are_duplicates(table_out: Store) -> None:
    (report,) = describe_items([table_out.uri], ["mine"])
    assert {row.sample_id: row.duplicate_of for row in report.rows if row.duplicate_of} == {"5": "4"}
    assert not report.not_searched


def test_lost_data_have_no_duplicates(five_models: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise DatasetError("no data there")

    monkeypatch.setattr(create, "entry_plans", lost)
    (report,) = describe_items([five_models.uri])
    assert report.not_searched == f"{five_models.uri}: no data there"
    write_items([report], Store(str(tmp_path)))
    page = (tmp_path / "items.html").read_text()
    assert "Not looked for: " in page
    assert "<h3>Duplicates</h3>" in page  # no count, which would be read as none


def test_page_and_files_hold_names_as_text_and_lists_without_items_say_zero(five_models: Store, tmp_path: Path) -> None:
    (report,) = describe_items([five_models.uri])
    plain = [replace(row, suspect=False, duplicate_of="") for row in report.rows]
    write_items(
        [replace(report, rows=(replace(plain[0], difficulty=0.2, suspect=True, q=0.05), *plain[1:]))],
        Store(str(tmp_path)),
    )
    page = (tmp_path / "items.html").read_text()
    assert "<h3>Suspect labels: 1</h3>" in page
    assert "<td>20% of 5</td>" in page
    assert "<h3>Duplicates: 0</h3>" in page
    assert "<code>vlmsweep annotate OUT --benchmark maia" in page
    hostile = replace(
        report.rows[0], suspect=True, agreed_answer="</script><b>", sample_id="=1+1", log_odds=9.0, q=0.01
    )
    write_items([replace(report, rows=(hostile, *report.rows[1:]))], Store(str(tmp_path)))
    page = (tmp_path / "items.html").read_text()
    assert "</script>" not in page
    assert "&lt;b&gt;" in page
    assert "\nmaia,vsv,1-frame,'=1+1" in (tmp_path / "items.csv").read_text()
    samples = tuple(f"{name}\n\x1b[2J\u202e" for name in report.samples)
    write_items([replace(report, samples=samples)], Store(str(tmp_path)))
    lines = (tmp_path / "compact.txt").read_text().splitlines()
    assert len(lines) == 1 + len(report.compact.places)
    assert not {"\x1b", "\u202e"} & {*"".join(lines)}


def test_fewer_than_five_models_are_refused(two_models: Store, five_models: Store) -> None:
    with pytest.raises(UsageError, match="at most 2 models answered the same items, and fewer than 5"):
        describe_items([two_models.uri])
    with pytest.raises(UsageError, match="did you mean 'mate'"):
        describe_items([five_models.uri], ["mata"])
    with pytest.raises(UsageError, match="no scored answers"):
        describe_items([five_models.uri], ["mate"])
