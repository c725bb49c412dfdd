"""`vlmsweep compare OUT --published` as a command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli.main import run
from jobs.shared.output import fitted
from jobs.shared.render import _DIFFERENCE_HEADERS, _difference_row, comparison_text
from pipelines.report.compare import Comparison
from pipelines.report.model import ReproductionResult
from pipelines.report.reproduction import PATH, reproduction_json
from pipelines.storage.store import Store
from tests.unit.pipelines.report.cases import difference

CELL = ReproductionResult(
    benchmark="vague", model="gpt-4o", published_model="GPT-4o", table="Table 1", task="mcq", setting="vlm",
    published_setting="vlm", subset="VCR", category="", metric="accuracy", ours=0.651, ci_low=0.635, ci_high=0.68,
    n=1144, unit="fraction", published=0.66, rounding=0.0005, difference=-0.009, verdict="reproduced", reasons=(),
)  # fmt: skip
OTHER = replace(CELL, subset="Ego4D", verdict="not comparable", reasons=("other items: --limit 8",))


@pytest.fixture
def out(tmp_path: Path) -> str:
    Store(str(tmp_path)).put(PATH, reproduction_json([CELL, OTHER]))
    return str(tmp_path)


def test_a_line_a_paper_stands_above_the_cells(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", out, "--published"]) == 0
    first, _, *rest = capsys.readouterr().out.splitlines()
    assert first == "vague: 1 of 1 cells reproduced; 1 not comparable (other items 1)"
    row = next(line for line in rest if "mcq vlm VCR accuracy" in line)
    assert row.split() == [
        "reproduced", "vague", "gpt-4o", "mcq", "vlm", "VCR", "accuracy", "0.651", "0.66", "[0.635,", "0.68]", "-0.009",
        "GPT-4o", "Table", "1",
    ]  # fmt: skip
    assert any("not comparable" in line and "--limit 8" in line for line in rest)


def test_json_has_counts_and_cells(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", out, "--published", "--json", "--models", "gpt-4o"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["papers"]["vague"] == {
        "result": "1 of 1 cells reproduced; 1 not comparable (other items 1)",
        "reproduced": 1, "consistent": 0, "different": 0, "not comparable": 1,
    }  # fmt: skip
    assert [cell["verdict"] for cell in result["cells"]] == ["reproduced", "not comparable"]


def test_margin_decides_how_near_a_reproduced_value_is(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", out, "--published", "--json", "--margin", "0.01"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["margin"] == 0.01
    assert [cell["verdict"] for cell in result["cells"]] == ["consistent", "not comparable"]
    assert run(["compare", out, "--published", "--margin", "0"]) == 0
    assert "lies within 0 of the published value" in " ".join(capsys.readouterr().out.split())
    assert run(["compare", out, "--published", "--margin", "-1"]) == 2


@pytest.mark.parametrize("arguments", [["A", "B"], ["A", "--published", "--explain"]])
def test_margin_without_published_verdicts_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *arguments, "--margin", "0"]) == 2
    assert "--margin: only with OUT --published" in capsys.readouterr().err


def test_flags_of_an_explanation_are_refused_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "A", "B", "--metric", "accuracy", "--tasks", "mcq"]) == 2
    assert "--metric, --tasks: only with --explain" in capsys.readouterr().err


@pytest.mark.parametrize("explain", [[], ["--explain"]])
def test_published_compares_one_output(explain: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "A", "B", "--published", *explain]) == 2
    assert "--published compares one output with the papers" in capsys.readouterr().err


def test_differences_have_six_columns_in_percent_that_fit_80_characters() -> None:
    rows = [
        difference(model_a="qwen2.5-vl-7b", model_b="llava-onevision-7b", p_holm=p, ci_low_holm=low, ci_high_holm=0.09)
        for p, low in ((0.0123, 0.008), (0.08, -0.003), (0.05, -0.0001))
    ]
    lines = fitted(_DIFFERENCE_HEADERS, [_difference_row(row) for row in rows], 80, 6).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "what: maia vsv 32-frames pool_accuracy"
    text = " ".join(" ".join(lines).split())
    assert "+4.1 [0.8, 9.0] 0.0123 differs" in text
    assert "+4.1 [-0.3, 9.0] 0.08 not shown" in text
    assert "[0.0, 9.0] 0.05" in text  # no -0.0
    assert "45.9" in text


def test_sentences_name_sides_only_for_one_model_in_two_outputs() -> None:
    assert comparison_text(Comparison((difference(p_holm=0.00001),), ()))[1].endswith(
        "pool_accuracy of small is higher than of other by 4.1 points, on 120 rows, p < 0.0001 after correction."
    )
    two_outputs = difference(p_holm=0.02, model_a="m", model_b="m")
    assert "of m in B is higher than of m in A by 4.1 points" in comparison_text(Comparison((two_outputs,), ()))[1]
