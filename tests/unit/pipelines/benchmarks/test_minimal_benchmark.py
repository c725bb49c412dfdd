"""The minimal benchmark: it defines `read`, `prompts` and `read_answer`, and gets metrics, a table and a figure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pandas as pd
import pytest

from models.messages import Generation, Step, user
from pipelines.benchmarks.base import BenchmarkDefinition, PromptInput
from pipelines.benchmarks.figures import Bars
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Prompt, RawSample, Reading, Rejection, Row, Sample, Source, SourceWarning
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import TableValue
from pipelines.report.metrics_file import Measured
from pipelines.report.model import BenchmarkSection, ReportData
from pipelines.report.render import render
from tests.support.interval_oracle import share_ends
from tests.support.sweeps import answered_row

# --------------------------------------------------------------------------------------------- the benchmark itself


def read_source(source: Source, _column_map: Mapping[str, str]) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read one sum a line."""
    for line in source.read_bytes("sums.jsonl").splitlines():
        row = json.loads(line)
        yield RawSample(sample_id=row["id"], file="sums.jsonl", category=row["kind"], data=row)


def prompts(query: PromptInput) -> Iterator[Prompt]:
    """Yield one request a sum."""
    text = query.texts.fill("sums-v1", sum=query.sample.data[query.setting])
    step = Step(turns=(user(text),), generation=Generation(max_new_tokens=8))
    yield Prompt(version=query.texts.version("sums-v1"), steps=(step,))


def read_answer(row: Row) -> Reading:
    """Read the number; accuracy is the mean of the value `correct`."""
    answer = (row.output or "").strip()
    return Reading(answer=answer, rule="text", values={"correct": float(answer == row.sample.data["result"])})


BENCHMARK = BenchmarkDefinition(
    name="sums",
    version="1",
    title="Sums",
    citation="made up for this test",
    tasks={"sum": ("digits", "words")},
    prompt_texts={"sums-v1": "How much is {sum}? Answer with a number."},
    source=read_source,
    prompts=prompts,
    read=read_answer,
)

# ------------------------------------------------------------------------------------------ what it gets for nothing

LINES = [
    {
        "id": f"s{n}", "kind": "even" if n % 2 == 0 else "odd",
        "digits": f"{n}+1", "words": f"{n} plus one", "result": str(n + 1),
    }
    for n in range(8)
]  # fmt: skip


class MemorySource:
    """A source folder with one file."""

    uri = "memory"

    def read_bytes(self, path: str) -> bytes:
        assert path == "sums.jsonl"
        return "\n".join(map(json.dumps, LINES)).encode()


@pytest.fixture(scope="module")
def samples() -> dict[str, Sample]:
    rows = [row for row in BENCHMARK.source(MemorySource(), {}) if isinstance(row, RawSample)]  # type: ignore[arg-type]
    return {row.sample_id: Sample(sample_id=row.sample_id, category=row.category, data=row.data) for row in rows}


@pytest.fixture(scope="module")
def scores(samples: Mapping[str, Sample]) -> pd.DataFrame:
    """Answers "3" to every sum, but for one failed request."""
    rows = []
    for sample in samples.values():
        for setting in BENCHMARK.tasks["sum"]:
            (prompt,) = BENCHMARK.prompts(
                PromptInput(sample, "sum", setting, texts=PromptTexts(BENCHMARK.prompt_texts), seed=42)
            )
            assert sample.data[setting] in prompt.steps[0].turns[0].parts[0].text  # type: ignore[union-attr]
            failed = (sample.sample_id, setting) == ("s0", "words")
            row = answered_row(sample, "sum", setting, None if failed else "3")
            identity = {"sample_id": sample.sample_id, "task": "sum", "setting": setting, "status": row.status}
            columns = {"subset": "", "category": sample.category, "cluster": ""}
            rows.append({**identity, **columns, **BENCHMARK.reading(row).values})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def results(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> Results:
    return Results.of("sums", {"m": BENCHMARK.metrics(scores, samples)}, ())


def test_accuracy_has_an_interval_and_counts_failed_requests(results: Results) -> None:
    accuracy = results.find(Key("accuracy", "sum", "words", model="m"))
    assert accuracy is not None
    assert accuracy.value == pytest.approx(1 / 7)
    assert (accuracy.n, accuracy.n_failed) == (7, 1)
    assert (accuracy.low, accuracy.high) == pytest.approx(share_ends([1.0] + [0.0] * 6, range(7)))
    by_category = [key.category for key in results.ours if key.setting == "digits"]
    assert by_category == ["", "even", "odd"]


def test_default_table_has_a_row_a_model_and_a_column_a_setting(results: Results) -> None:
    (table,) = BENCHMARK.tables(results)
    assert table.columns == ("sum, digits", "sum, words")
    (row,) = table.rows
    assert row.label == "m"
    assert [cell.value for cell in row.cells if isinstance(cell, TableValue)] == pytest.approx([1 / 8, 1 / 7])


def test_default_figure_has_a_bar_a_setting(results: Results) -> None:
    (figure,) = BENCHMARK.figures(results)
    assert isinstance(figure, Bars)
    assert figure.series[0].values == pytest.approx((1 / 8, 1 / 7))


def test_accuracy_without_answers_is_null_with_a_reason(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> None:
    missing = scores.assign(status="missing").drop(columns="correct")
    metrics = BENCHMARK.metrics(missing, samples)
    assert {(metric.value, metric.n, metric.note) for metric in metrics} == {(None, 0, "no row to measure")}


def test_report_shows_table_and_figure(results: Results, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> None:
    metrics = BENCHMARK.metrics(scores, samples)
    rows = tuple(Measured.of("sums", "m", metric) for metric in metrics)
    section = BenchmarkSection(
        name=BENCHMARK.name,
        title=BENCHMARK.title,
        source=BENCHMARK.citation,
        headline=BENCHMARK.headline,
        settings=BENCHMARK.tasks["sum"],
        tables=tuple(BENCHMARK.tables(results)),
        figures=tuple(BENCHMARK.figures(results)),
    )
    files = render(ReportData(run={}, metrics=rows, benchmarks=(section,)))
    assert {"report/tables/sums_accuracy.csv", "report/figures/sums_accuracy_figure.svg"} <= files.keys()
    assert "Sums" in files["report/index.html"].decode()
