"""Two table benchmarks of one name in one process: each output is read with its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.analysis.items.create import describe_items
from jobs.leaderboard.create import join_outputs
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.decisions.gate import Policy, gate
from pipelines.errors import UsageError
from pipelines.ingest.known import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_manifest import load_existing_run
from pipelines.plan.run_spec import RunSpec
from pipelines.report.compare import compare
from pipelines.samples.outputs import open_outputs
from pipelines.storage.store import Store
from pipelines.sweep.result import SweepResult
from pipelines.sweep.run import run_sweep

CHOICE = "id,question,A,B,answer\n1,Which?,one,two,A\n2,Which now?,one,two,B\n"
TEXT = "id,question,answer\n1,Which?,one\n2,Which now?,two\n"


def ingest(data: Path, content: str) -> None:
    data.mkdir(exist_ok=True)
    (data / "questions.csv").write_text(content)
    ingest_table(str(data / "questions.csv"), Store(str(data)), name="mine")


def sweep(data: Path, out: Path, model: str = "a") -> SweepResult:
    load_tables(str(data), ["mine"])
    models = {model: ModelSpec(engine="random")}
    return run_sweep(RunSpec(data=str(data), out=str(out), models=models, benchmarks=("mine",)))


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return an output of choices and one of short texts, both of `mine`."""
    folder = tmp_path_factory.mktemp("outputs")
    for name, content in (("choice", CHOICE), ("text", TEXT)):
        ingest(folder / name, content)
        sweep(folder / name, folder / f"{name}-out")
    return str(folder / "choice-out"), str(folder / "text-out")


def test_an_output_is_read_with_its_definition_whatever_was_read_before(outputs: tuple[str, str]) -> None:
    for uri, kind in (*zip(outputs, ("choice", "text"), strict=True), (outputs[0], "choice")):
        (entry,) = load_existing_run(Store(uri)).entries
        assert [*entry.definition.tasks] == [*benchmark("mine").tasks] == [kind]
        assert {row.board[2] for row in join_outputs([uri]).rows} == {kind}


def test_two_definitions_are_neither_joined_nor_compared(outputs: tuple[str, str]) -> None:
    different = "mine in .*choice-out and mine in .*text-out are different table benchmarks .kind.; read them one at"
    with pytest.raises(UsageError, match=different):
        join_outputs(outputs, allow_mixed=True)
    with pytest.raises(UsageError, match="different table benchmarks"):
        open_outputs(outputs)
    with pytest.raises(UsageError, match="different table benchmarks"):
        describe_items(outputs)
    with pytest.raises(UsageError, match="different table benchmarks"):
        gate(Store(outputs[0]), Policy(lines=()), Store(outputs[1]))
    for pair in (outputs, outputs[::-1]):
        with pytest.raises(UsageError, match="no scored rows in common"):  # their tasks are `choice` and `text`
            compare(*map(Store, pair))


def test_a_definition_that_changed_under_an_output_replaces_the_old_one(tmp_path: Path) -> None:
    ingest(tmp_path / "data", CHOICE)
    sweep(tmp_path / "data", tmp_path / "out", "old")
    ingest(tmp_path / "data", TEXT)
    result = sweep(tmp_path / "data", tmp_path / "out", "new")
    assert {(row.model, row.task) for row in result.metrics} == {("new", "text")}
    assert [text for text in result.warnings if text.startswith("old on mine is skipped in this report")]
    assert {row.model for row in join_outputs([str(tmp_path / "out")]).rows} == {"new"}


def test_an_entry_of_another_folder_with_another_definition_is_skipped(tmp_path: Path) -> None:
    for name, content in (("choice", CHOICE), ("text", TEXT)):
        ingest(tmp_path / name, content)
    sweep(tmp_path / "choice", tmp_path / "out", "old")
    result = sweep(tmp_path / "text", tmp_path / "out", "new")
    assert {row.model for row in result.metrics} == {"new"}
    assert any("another table benchmark of that name" in text for text in result.warnings)
