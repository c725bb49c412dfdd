"""People's labels of judged answers in a report: corrected numbers and tables, and labels that are refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.analysis.items.create import describe_items
from jobs.leaderboard.create import join_outputs
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.decisions.gate import Policy, gate
from pipelines.errors import UsageError
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.human_files import read_human
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_manifest import load_existing_run
from pipelines.plan.run_spec import RunSpec
from pipelines.report.compare import compare
from pipelines.samples.outputs import open_outputs
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from pipelines.sweep.result import SweepResult
from pipelines.sweep.run import report_again, run_sweep

ROWS = 40


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an output of 40 open questions that model m guesses and a random judge decides."""
    folder = tmp_path_factory.mktemp("judged")
    with (folder / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "answer"))
        rows.writerows((f"q{number}", f"What is {number} in words?", f"word {number}") for number in range(ROWS))
    ingest_table(str(folder / "questions.csv"), Store(str(folder / "data")), name="mine", kind="open")
    load_tables(str(folder / "data"), ["mine"])
    run_sweep(spec(folder))
    return folder


def spec(folder: Path, labels: str = "", judges: tuple[str, ...] = ("judge",)) -> RunSpec:
    """Return the sweep with rows of a file of labels."""
    human = []
    if labels:
        (folder / "labels.csv").write_text(f"sample_id,model,setting,annotator,correct\n{labels}")
        human = [f"mine={folder / 'labels.csv'}"]
    return RunSpec(
        data=str(folder / "data"), out=str(folder / "out"), models={"m": ModelSpec(engine="random")},
        benchmarks=("mine",), judges=tuple((name, ModelSpec(engine="random", seed=1)) for name in judges),
        human=read_human(human),
    )  # fmt: skip


def metrics(folder: Path) -> dict[tuple[str, str], dict[str, object]]:
    rows = json.loads((folder / "out" / "report" / "metrics.json").read_text())
    return {(row["metric"], row["category"]): row for row in rows if row["model"] == "m"}


def table(folder: Path, name: str) -> list[dict[str, str]]:
    text = (folder / "out" / "report" / "tables" / f"{name}.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def test_labels_give_corrected_numbers_and_the_judges_errors(judged: Path) -> None:
    people = {"ann": lambda n: n % 4 == 0, "bob": lambda n: n % 4 == 0 or n == 1}
    labels = "".join(
        f"q{n},m,default,{name},{int(accepts(n))}\n" for n in range(20) for name, accepts in people.items()
    )
    report_again(spec(judged, labels))
    of = metrics(judged)
    corrected = of["judged_accuracy_corrected", ""]
    assert of["judge_labels", ""]["value"] == 19  # one is a tie
    assert corrected["ci_low"] < corrected["value"] < corrected["ci_high"]  # type: ignore[operator]
    assert corrected["n"] == ROWS
    assert of["judge_sensitivity", ""]["n"] == 5
    assert of["judge_specificity", ""]["n"] == 14
    assert of["judge_labels_needed", "0.01"]["value"] is None
    (row,) = table(judged, "mine_judge_corrected")
    assert (row["Model"], row["Metric"], row["Labels"]) == ("m", "judged_accuracy", "19")
    (row,) = table(judged, "mine_judge_replacement")
    assert (row["People agree"].split()[0], row["May replace"]) == ("0.95", "no")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("q1,other,default,ann,1\nq2,other,default,ann,1\n",
         "no rows in common: the labels are of other, and the models are m"),
        ("q1,m,no-image,ann,1\nq2,m,default,ann,1\n",
         "1 labels are of answers that no judge has judged, such as m/open"),
        ("q1,m,default,ann,1\n", "all labels are of one clip, picture or row"),
        ("\n", "contains no rows; fill it in, or leave it out"),
    ],
)  # fmt: skip
def test_labels_that_correct_nothing_are_refused(judged: Path, labels: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        report_again(spec(judged, labels))


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        ({n: (n % 2,) for n in range(20)}, "no two people labelled the same answer: their errors are not allowed for"),
        ({n: (n % 2, n % 2) for n in range(20)}, "people agree on all of the 20 answers that two labelled"),
        (dict.fromkeys(range(20), (1,)), "all labels are equal"),
        ({n: (n % 2, int(n % 20 < 1) ^ (n % 2)) for n in range(20)}, "people err in about 2.6% by their disagreement"),
        ({n: (n % 2, n % 4 // 2) for n in range(20)}, "people disagree about 50% of the 20 answers that two labelled"),
    ],
)
def test_notes_say_what_labels_are_worth(judged: Path, labels: dict[int, tuple[int, ...]], note: str) -> None:
    rows = [(n, name, vote) for n, votes in labels.items() for name, vote in zip(("ann", "bob"), votes, strict=False)]
    report_again(spec(judged, "".join(f"q{n},m,default,{name},{vote}\n" for n, name, vote in rows)))
    (row,) = table(judged, "mine_judge_corrected")
    assert note in row["note"]
    assert "no random part" not in row["note"]


def test_labels_picked_by_the_verdict_are_called_no_random_part(judged: Path) -> None:
    report_again(spec(judged))
    scores = read_part(Store(str(judged / "out")), next(iter_paths(judged)))
    accepted = [row["sample_id"] for row in scores.to_pylist() if dict(row["values"])["accepted"]]
    report_again(spec(judged, "".join(f"{name},m,default,ann,{n % 2}\n" for n, name in enumerate(accepted))))
    (row,) = table(judged, "mine_judge_corrected")
    assert "labels are of no random part: the judge accepts 100% of these answers and 0% of the others" in row["note"]


def iter_paths(folder: Path) -> Iterator[str]:
    return (info.path for info in Store(str(folder / "out")).list("scores", "*.parquet"))


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
