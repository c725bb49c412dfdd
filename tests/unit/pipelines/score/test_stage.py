from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.lazy import open_cluster
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark, table_benchmark
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.records import Sample
from pipelines.errors import StoreError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import read_human
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import load_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.schemas import SCORES
from pipelines.score.stage import score_parts
from pipelines.score.text_scorers import ScoringContext, row_of
from pipelines.storage.parts import read_part, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep
from tests.support import unpie_source


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    """A sweep whose predictions are there and not scored."""
    spec = RunSpec(
        data=maia_data, out=str(tmp_path), models={"m": ModelSpec(engine="random")}, benchmarks=("maia",), limit="24"
    )
    run_sweep(spec, stages=[Stage.PREDICT])
    return spec


def score(spec: RunSpec) -> list[str]:
    """Score the output without a judge; return the names of its score parts."""
    context = SweepContext.open(spec)
    with open_cluster(None) as cluster:
        score_parts(context, load_run(context.out).entries, cluster, judges=(), scorers=())
    return sorted(path.name for path in Path(spec.out).glob("scores/*/*/*.parquet"))


def predictions(spec: RunSpec) -> list[Path]:
    return sorted(Path(spec.out).glob("predictions/*/*/*.parquet"))


def test_every_part_is_scored_and_a_report_alone_leaves_the_counts(spec: RunSpec) -> None:
    names = [path.name for path in predictions(spec)]
    assert len(names) > 1
    assert score(spec) == names
    assert score(spec) == names
    run_sweep(spec, stages=[Stage.SCORE])
    status = Path(spec.out, "status.json").read_bytes()
    result = run_sweep(spec, stages=[Stage.REPORT])
    assert sum(count.ok for count in result.counts) == sum(cell["done"] for cell in json.loads(status)["cells"]) > 0
    assert Path(spec.out, "status.json").read_bytes() == status


def test_damaged_part_is_skipped_with_a_warning(spec: RunSpec, caplog: pytest.LogCaptureFixture) -> None:
    damaged, *intact = predictions(spec)
    damaged.write_bytes(damaged.read_bytes()[:-20])
    assert score(spec) == [path.name for path in intact]
    assert damaged.name in caplog.text
    assert "skipped" in caplog.text


def test_store_that_is_away_for_a_while_does_not_end_scoring(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    put, failures = Store.put, iter([True, True])

    def fail(store: Store, path: str, content: bytes, *, hold: bool = False) -> None:
        if path.startswith("scores/") and next(failures, False):
            raise StoreError("the object store cannot be reached", is_transient=True)
        put(store, path, content, hold=hold)

    monkeypatch.setattr(Store, "put", fail)
    monkeypatch.setattr("pipelines.storage.errors.RETRY_PAUSES_S", (0.0,))
    monkeypatch.setattr("pipelines.storage.errors.TRANSIENT_PAUSES_S", (0.01,))
    assert score(spec) == [path.name for path in predictions(spec)]
    assert not next(failures, None)


def test_report_alone_says_which_answers_have_no_scores(spec: RunSpec) -> None:
    result = run_sweep(spec, stages=[Stage.REPORT])
    missing = sum(count.missing for count in result.counts)
    assert result.warnings == [
        f"m on maia: answers without scores: {missing} count as never run; `vlmsweep score` scores them"
    ]
    assert f"answers without scores: {missing} count" in Path(spec.out, "report", "report.md").read_text()
    score(spec)
    assert not run_sweep(spec, stages=[Stage.REPORT]).warnings
    path = score(spec)[0]
    out = Store(spec.out)
    older = f"scores/benchmark=maia/model=m/{path}"
    rows = read_part(out, older).to_pylist()
    out.put(older, to_parquet([{**row, "status": "error"} for row in rows[:3]] + rows[3:], SCORES))
    result = run_sweep(spec, stages=[Stage.REPORT])
    assert result.failed == 3
    note = (
        "m on maia: answers without scores: 3 count as the error rows that they replace; `vlmsweep score` scores them"
    )
    assert result.warnings == [note]


SAMPLES = {
    "maia": Sample(
        sample_id="a", data={"true": ["Il cane corre"] * 8, "false": ["Il cane dorme"] * 8, "letters": ["A"] * 8}
    ),
    "vflute": Sample(sample_id="a", data={"label": "contradiction", "explanation": "x", "claim": "y"}),
    "unpie": Sample(sample_id="a", data={"phrase": "bank", "sentence": "The bank was steep."}),
}
TASKS = {
    "maia": ("vsv", "32-frames", "0"),
    "vflute": ("entailment", "label-only", ""),
    "unpie": ("grounding", "lm", ""),
}


def read(name: str, reply: str) -> tuple[str | None, str | None]:
    """Return the row's output and the answer that is read from it."""
    definition, (task, setting, variant) = benchmark(name), TASKS[name]
    prompts = SimpleNamespace(benchmark=definition, seed=0)
    context = SimpleNamespace(prompts=prompts, labelled=())
    raw: dict[str, Any] = {
        **dict.fromkeys(("error", "steps", "given", "prompt_version", "finish_reason")), "request_id": "r",
        "model": "m", "task": task, "setting": setting, "variant": variant, "sample_id": name, "status": "ok",
        "output": reply,
    }  # fmt: skip
    row = row_of(raw, SAMPLES[name], cast("ScoringContext", context))
    return row.output, definition.reading(row).answer


@pytest.mark.parametrize(
    ("name", "reply", "answer"),
    [
        ("maia", "Conto \\boxed{2} cani. Risposta: B", "B"),
        ("maia", "Il cane è \\boxed{fermo}: scelgo B", "B"),
        ("maia", "\\boxed{A}", "A"),
        ("maia", "<answer>B</answer> e non <answer>A</answer>", "B"),
        ("maia", "Risposta: В", "B"),
        ("vflute", "I see \\boxed{2} men. Label: Contradiction", "contradiction"),
        ("vflute", "<result>2 men</result> The image contradicts the claim. Label: Contradiction", "contradiction"),
        ("unpie", "<answer>bank</answer>", "bank"),
        ("unpie", "We have \\boxed{steep}.\nFinal answer: bank", "bank"),
    ],
)
def test_a_box_around_a_step_hides_no_answer(name: str, reply: str, answer: str) -> None:
    assert read(name, reply)[1] == answer


def test_a_row_keeps_the_content_of_a_box_that_is_an_answer() -> None:
    assert read("maia", "Penso \\boxed{A} perché corre.") == ("A", "A")


def test_official_scores_are_of_the_reply_as_it_came() -> None:
    definition = table_benchmark(TableDefinition(name="t", kind="text", scorers={"text": "exact"}))
    sample = Sample(sample_id="a", data={"question": "q", "answers": ["Model 3"]})
    context = SimpleNamespace(prompts=SimpleNamespace(benchmark=definition, seed=0), labelled=())
    for reply, official in (("**Model 3**", 0.0), ("<think>So Model 3</think>Model 3", 1.0), ("Model 3", 1.0)):
        raw: dict[str, Any] = {
            **dict.fromkeys(("error", "steps", "given", "prompt_version", "finish_reason")), "request_id": "r",
            "model": "m", "task": "text", "setting": "default", "variant": "", "sample_id": "a", "status": "ok",
            "output": reply,
        }  # fmt: skip
        values = definition.reading(row_of(raw, sample, cast("ScoringContext", context))).values
        assert (values["correct"], values["official_score"]) == (1.0, official)


JUDGES = tuple((name, ModelSpec(engine="random", seed=seed)) for name, seed in (("first", 1), ("second", 2)))


def sweep(name: str, data: str, out: Path, rows: list[dict[str, Any]], **fields: Any) -> None:
    """Run a guessing model with both judges and a file of people's rows."""
    path = out / "people.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    human = read_human([f"{name}={path}"])
    models = {"guess": ModelSpec(engine="random")}
    spec = RunSpec(data=data, out=str(out), models=models, benchmarks=(name,), judges=JUDGES, human=human, **fields)
    run_sweep(spec)


def table(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "report" / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_people_who_rate_and_leave_one_out_stand_beside_several_judges(maia_data: str, tmp_path: Path) -> None:
    questions = [sample.sample_id for sample in Dataset.open(Store(maia_data), "maia").samples()]
    ratings = [
        {"item_id": f"guess/1-frame/{question}", "rater": rater, "correct": index % 2}
        for index, question in enumerate(questions)
        for rater in ("ann", "bob")
    ]
    sweep("maia", maia_data, tmp_path, ratings, tasks=("oevqa",), settings=("1-frame", "leave-one-out"))
    (rating,) = (row for row in table(tmp_path, "maia_judge_agreement") if row["Raters"] == "Own ratings")
    assert rating["Rated"] == f"{len(questions)} samples"
    assert [row["Judge"] for row in table(tmp_path, "maia_judges_agreement")] == ["first", "second"]
    by_judge = {(row["Model"], row["Metric"]): row for row in table(tmp_path, "maia_judges")}
    people = by_judge["human:leave-one-out", "human_leave_one_out"]
    assert people["first"] != people["second"]
    assert by_judge["guess", "oevqa_accuracy"]["Setting"] == "1-frame"


def test_judge_reads_those_translations_that_people_labelled(tmp_path: Path) -> None:
    data, source = tmp_path / "data", unpie_source.write_source(tmp_path / "source")
    ingest_benchmark(benchmark("unpie"), Folder(str(source)), Store(str(data)))
    sample = next(iter(Dataset.open(Store(str(data)), "unpie").samples())).sample_id
    labels = [
        {"sample_id": sample, "variant": f"de/{meaning}", "model": "guess", "setting": "vlm", "human": meaning,
         "task": "disambiguation", "annotator": "ann"}
        for meaning in (0, 1)
    ]  # fmt: skip
    out = tmp_path / "out"
    sweep("unpie", str(data), out, labels, tasks=("disambiguation",), settings=("vlm",))
    judged = {
        (row["sample_id"], row["variant"])
        for info in Store(str(out)).list("scores", "*.parquet")
        for row in read_part(Store(str(out)), info.path).to_pylist()
        if "gpteval" in dict(row["values"])
    }
    assert judged == {(sample, "de/0"), (sample, "de/1")}
    assert any(row["Metric"] == "GPTEval, guess" for row in table(out, "unpie_table8"))
