"""Items of real sweeps: files, refusals, and text of a stranger on the page."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from models.spec import ModelSpec
from pipelines.decisions.items.create import describe_items, write_items
from pipelines.errors import UsageError
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep


@pytest.fixture(scope="module")
def out(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("items") / "out"
    models = {f"m{seed}": ModelSpec(engine="random", seed=seed) for seed in range(5)}
    settings = ("1-frame", "black-video")
    spec = RunSpec(
        data=maia_data, out=str(folder), models=models, benchmarks=("maia",), tasks=("vsv",), settings=settings
    )
    run_sweep(spec)
    return str(folder)


def test_every_item_has_a_row_and_the_subset_is_of_them(out: str, tmp_path: Path) -> None:
    (report,) = describe_items([out])
    assert report.matrix.setting == "1-frame"
    assert len(report.matrix.models) == 5
    write_items([report], Store(str(tmp_path)))
    rows = list(csv.DictReader((tmp_path / "items.csv").read_text().splitlines()))
    assert len(rows) == len({(row["sample_id"], row["variant"]) for row in rows}) == len(report.matrix.items)
    assert {row["models"] for row in rows} == {"5"}
    assert {row["blind_models"] for row in rows} == {"5"}
    for row in rows:
        wrong = 1 - float(report.matrix.rows_of([(row["sample_id"], row["variant"])]).mean())
        assert float(row["difficulty"]) == pytest.approx(wrong)
    head, *ids = (tmp_path / "compact.txt").read_text().splitlines()
    assert head.startswith("# maia vsv 1-frame: ")
    assert {*ids} <= {row["sample_id"] for row in rows}


def test_fewer_than_five_models_are_refused(out: str) -> None:
    with pytest.raises(UsageError, match="no scored answers"):
        describe_items([out], ["mate"])


def test_answers_of_models_are_text_on_the_page(out: str, tmp_path: Path) -> None:
    (report,) = describe_items([out])
    hostile = replace(report.rows[0], suspect=True, agreed_answer="</script><b>", sample_id="=1+1", log_odds=9.0)
    write_items([replace(report, rows=(hostile, *report.rows[1:]))], Store(str(tmp_path)))
    page = (tmp_path / "items.html").read_text()
    assert "</script>" not in page
    assert "&lt;b&gt;" in page
    assert "\nmaia,vsv,1-frame,'=1+1" in (tmp_path / "items.csv").read_text()
