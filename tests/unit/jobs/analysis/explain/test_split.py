"""Planted differences: which stage is said to make them, and that shares add up."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jobs.analysis.explain.requests import Key, PromptStore, Side, StoredRequest, keys_of, read_rows
from jobs.analysis.explain.split import STAGES, Explanation, explain
from jobs.cli.main import run
from models.messages import Media, Step, user
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.table.benchmark import table_definition
from pipelines.errors import UsageError
from pipelines.plan.stored_plan import PlanRow
from pipelines.report.metrics_file import MetricKey
from pipelines.storage.store import Store
from tests.support.turns import in_turns

SEEDS = range(20)
COUNT = 200


def changed(b: Side, drawn: np.ndarray, **fields: object) -> Side:
    """Return a side whose drawn requests were asked otherwise."""
    requests = {
        key: replace(request, **fields) if drawn[index] else request  # type: ignore[arg-type]
        for index, (key, request) in enumerate(b.requests.items())
    }
    return replace(b, requests=requests)


def asked_otherwise(**fields: object) -> Callable[[np.random.Generator], tuple[Side, Side]]:
    def plant(rng: np.random.Generator) -> tuple[Side, Side]:
        replies = letters(rng, COUNT, 0.7)
        others, drawn = worse(rng, noisy(rng, replies), 0.2)
        return side("A", replies), changed(side("B", others), drawn | (rng.random(COUNT) < 0.3), **fields)

    return plant


def other_items(rng: np.random.Generator) -> tuple[Side, Side]:
    replies = letters(rng, COUNT, 0.7)
    a, b = side("A", replies), side("B", noisy(rng, replies))
    easy = (b.frame["correct"] == 1.0) & (rng.random(COUNT) < 0.3)
    return a, replace(b, frame=b.frame[~easy].reset_index(drop=True))


def failed(rng: np.random.Generator) -> tuple[Side, Side]:
    replies = letters(rng, COUNT, 0.7)
    _, drawn = worse(rng, replies, 0.3)
    others = [None if drawn[index] else reply for index, reply in enumerate(noisy(rng, replies))]
    return side("A", replies), side("B", others)


def read_otherwise(rng: np.random.Generator) -> tuple[Side, Side]:
    replies = letters(rng, COUNT, 0.7)
    a, b = side("A", replies), side("B", noisy(rng, replies))
    unread = rng.random(COUNT) < 0.15
    frame = b.frame.assign(
        correct=b.frame["correct"].where(~unread, 0.0), answer=b.frame["answer"].where(~unread, None)
    )
    return a, replace(b, frame=frame)


def judged_otherwise(rng: np.random.Generator) -> tuple[Side, Side]:
    replies = [f"words {number}" for number in range(COUNT)]
    verdicts = rng.random(COUNT) < 0.7
    strict = verdicts & (rng.random(COUNT) < 0.8)
    others = [f"{reply} more" if rng.random() < 0.04 else reply for reply in replies]
    return side("A", replies, is_open=True, verdicts=verdicts), side("B", others, is_open=True, verdicts=strict)


def other_model(rng: np.random.Generator) -> tuple[Side, Side]:
    replies = letters(rng, COUNT, 0.7)
    others, _ = worse(rng, replies, 0.2)
    return side("A", replies), replace(side("B", others), fingerprint={**FINGERPRINT, "revision": "other"})


PLANTS = {
    "items": other_items, "prompts": asked_otherwise(prompt_sha256="other words|picture"),
    "media": asked_otherwise(prompt_sha256="words|other picture"),
    "decoding": asked_otherwise(generation="[[32, 0.7, 1, 42]]"), "errors": failed, "reading": read_otherwise,
    "judge": judged_otherwise, "answers": other_model,
}  # fmt: skip


def largest(explanation: Explanation) -> str:
    return max(explanation.stages, key=lambda stage: abs(stage.share)).stage


@pytest.mark.parametrize("stage", in_turns(PLANTS, ("media", "answers", "judge")))
def test_planted_stage_is_first_and_shares_add_up(stage: str) -> None:
    first = 0
    for seed in SEEDS:
        a, b = PLANTS[stage](np.random.default_rng(seed))
        explanation = explain(a, b, JUDGED_KEY if stage == "judge" else KEY)
        assert [share.stage for share in explanation.stages] == list(STAGES)
        assert abs(math.fsum(share.share for share in explanation.stages) - explanation.difference) < 1e-12
        first += largest(explanation) == stage
    assert first >= 19


def share(explanation: Explanation, stage: str) -> float:
    return next(of.share for of in explanation.stages if of.stage == stage)


def test_rows_behind_a_stage_are_those_that_were_planted() -> None:
    replies = ["A"] * 8
    a, b = side("A", replies), side("B", ["B", "A", None, "A", "A", "A", "A", "A"])
    explanation = explain(a, b, KEY)
    rows = {of.stage: [key[2] for key in of.rows] for of in explanation.stages if of.rows}
    assert rows == {"errors": ["s2"], "answers": ["s0"]}
    a, b = side("A", ["A"] * 4), side("B", ["A", "A", "A", "B"])
    sample = b.samples["s0"]
    samples = {**b.samples, "s0": replace(sample, data={**sample.data, "gold": 2})}
    rows = {key: replace(row, sample=samples[key[2]]) for key, row in b.rows.items()}
    b = replace(b, samples=samples, rows=rows, frame=frame_of(rows))
    explanation = explain(a, b, KEY)
    assert share(explanation, "items") == pytest.approx(-0.25)
    assert share(explanation, "answers") == 0.0


def test_what_differs_as_well_is_said() -> None:
    rng = np.random.default_rng(1)
    a, b = PLANTS["prompts"](rng)
    explanation = explain(a, replace(b, fingerprint={**FINGERPRINT, "revision": "other", "engine": "vllm"}), KEY)
    assert share(explanation, "prompts") == 0.0
    (answers,) = (of for of in explanation.stages if of.stage == "answers")
    assert answers.share == pytest.approx(explanation.difference)
    assert any(note.startswith("prompts differ as well in") for note in answers.notes)
    assert "engine random in A, vllm in B" in answers.notes
    a, b = asked_otherwise(prompt_sha256="other words|other picture")(np.random.default_rng(3))
    prompts = next(of for of in explain(a, b, KEY).stages if of.stage == "prompts")
    assert [note.partition(" in ")[0] for note in prompts.notes] == ["media differ as well"]


def test_metrics_of_all_rows_are_split_by_computing_them_anew() -> None:
    a = side("A", letters(np.random.default_rng(5), COUNT, 0.7))
    frame = a.frame.assign(category=["few" if index < 10 else "many" for index in range(COUNT)])
    samples = {
        name: replace(sample, category="few" if index < 10 else "many")
        for index, (name, sample) in enumerate(a.samples.items())
    }
    rows = {key: replace(row, sample=samples[key[2]]) for key, row in a.rows.items()}
    a = replace(a, frame=frame, samples=samples, rows=rows)
    explanation = explain(a, a, KEY, KEY._replace(metric="accuracy_macro"))
    assert explanation.difference != 0
    assert share(explanation, "aggregation") == explanation.difference
    a, b = judged_otherwise(np.random.default_rng(2))
    explanation = explain(a, b, JUDGED_KEY._replace(metric="bleu"))
    assert share(explanation, "answers") == pytest.approx(explanation.difference)


def test_without_common_rows_or_value_there_is_a_sentence() -> None:
    a, b = side("A", ["A"] * 4), side("B", ["A"] * 4)
    halves = [replace(of, frame=of.frame[index : index + 2].reset_index(drop=True)) for index, of in ((0, a), (2, b))]
    with pytest.raises(UsageError, match="A and B have no rows in common"):
        explain(*halves, KEY)
    with pytest.raises(UsageError, match="A: planted choice default f1 has no value"):
        explain(a, b, KEY._replace(metric="f1"))
    assert len(keys_of(a.frame)) == 4


REPLIES = ["A", "B", "(C)", "I choose the option of b 3 thing", "A or B", None]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An output of imported answers, 36 rows, whose paper prints 0.9."""
    folder = tmp_path_factory.mktemp("published")
    with (folder / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "A", "B", "C", "answer"))
        rows.writerows((n, f"Which is {n}?", f"a {n} thing", f"b {n} thing", f"c {n} thing", "B") for n in range(36))
    (folder / "published.csv").write_text("model,metric,value\nM,accuracy,0.9\n")
    (folder / "columns.yaml").write_text("published: published.csv\n")
    data = str(folder / "data")
    source = [str(folder / "questions.csv"), "--as", "printed", "--columns", str(folder / "columns.yaml")]
    assert run(["ingest", "table", *source, "--data", data]) == 0
    result = {"benchmark": "printed", "model": "M", "task": "choice", "setting": "default"}
    answers = [{**result, "sample_id": str(n), "output": REPLIES[n % 6]} for n in range(36)]
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    run(["score", "--predictions", str(folder / "answers.jsonl"), "--data", data, "--out", str(folder / "out")])
    return str(folder / "out")


def test_report_shows_what_own_rows_could_explain(out: str) -> None:
    (result,) = json.loads(Store(out).get("report/reproduction.json"))
    assert result["verdict"] == "different"
    failed, unread, *others = result["own_rows"]
    assert failed == "6 failed requests: 0.1944 if all were wrong, 0.3611 if all were right"
    assert unread.startswith("11 unreadable answers: 0.6000")
    assert [text.partition(" does")[0] for text in others] == ["read as lmms-eval"]
    page = Store(out).get("report/benchmark-printed.html").decode()
    assert "6 failed requests: 0.1944 if all were wrong" in page


@pytest.mark.parametrize("sides", [["{out}:M", "published"], ["{out}", "published:M"], ["{out}", "--published"]])
def test_stages_against_a_published_number(out: str, sides: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [side.format(out=out) for side in sides]
    assert run(["compare", *arguments, "--explain", "--json"]) == 0
    stages: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert {row["stage"]: row["n_rows"] for row in stages if row["n_rows"]} == {
        "errors": 6,
        "reading": 11,
        "answers": 36,
    }
    assert sum(row["share"] for row in stages) == stages[0]["difference"] == pytest.approx(0.9 - 7 / 30)
    assert run(["compare", *arguments, "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("errors: 6 failed requests") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{out}", "published:N"], "unknown published row 'N'"),
        (["{out}", "published", "--metric", "acuracy"], "did you mean 'accuracy'"),
        (["{out}/none", "published"], "neither the --out of a run"),
    ],
)
def test_bad_input(out: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *(text.format(out=out) for text in arguments), "--explain"]) == 2
    assert message in capsys.readouterr().err


def test_a_large_entry_is_left_to_the_command(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.analysis.explain import published
    from pipelines.plan.run_manifest import load_existing_run
    from pipelines.report.reproduction import load_reproduction

    monkeypatch.setattr(published, "MAX_BYTES", 1)
    store = Store(out)
    (result,) = published.with_own_rows(store, load_existing_run(store), load_reproduction(store))
    assert result.own_rows == ("not read again, as they are many: `vlmsweep compare OUT:M published --explain` does",)


CHOICE = table_definition(TableDefinition(name="planted", kind="choice"))
OPEN = table_definition(TableDefinition(name="planted-open", kind="open"))
KEY = MetricKey("accuracy", "choice", "default")
JUDGED_KEY = MetricKey("judged_accuracy", "open", "default")
FINGERPRINT = {"engine": "random", "model": "w", "revision": "r"}
LETTERS = "ABCD"


class Prompts(PromptStore):
    """Prompts whose text and picture stand in the hash: `words|picture`."""

    def __init__(self) -> None:
        super().__init__([])

    def row(self, request: StoredRequest) -> PlanRow:
        """Return a request of the hash's words and picture."""
        words, _, picture = request.prompt_sha256.partition("|")
        return _Row(Step(turns=(user(Media("image", picture), words),)))


class _Row(PlanRow):
    def __init__(self, step: Step) -> None:
        object.__setattr__(self, "_step", step)

    __slots__ = ("_step",)

    @property
    def steps(self) -> tuple[Step, ...]:
        return (self._step,)


def samples_of(count: int, *, is_open: bool = False) -> dict[str, Sample]:
    """Return questions by id."""
    data = [
        {"question": f"Which is {number}?", "answers": [f"gold {number}"]}
        if is_open
        else {
            "question": f"Which is {number}?",
            "options": [f"{letter.lower()} {number} thing" for letter in LETTERS],
            "gold": number % 4,
        }
        for number in range(count)
    ]
    return {f"s{number}": Sample(sample_id=f"s{number}", data=of) for number, of in enumerate(data)}


def side(label: str, replies: Sequence[str | None], *, is_open: bool = False, verdicts: Sequence[bool] = ()) -> Side:
    """Return a side that gave these replies, None for a request that failed."""
    definition, task = (OPEN, "open") if is_open else (CHOICE, "choice")
    samples = samples_of(len(replies), is_open=is_open)
    rows = {
        (task, "default", name, ""): Row(
            request_id=f"{label}/{name}",
            sample=sample,
            model=label,
            task=task,
            setting="default",
            variant="",
            status="error" if reply is None else "ok",
            output=reply,
        )
        for (name, sample), reply in zip(samples.items(), replies, strict=True)
    }
    requests = {
        key: StoredRequest(
            prompt_sha256="words|picture", has_media=True, generation="[[32, 0.0, 1, 0]]", decoding="greedy"
        )
        for key in rows
    }
    return replace(
        Side(
            label=label,
            model=label,
            definition=definition,
            samples=samples,
            frame=pd.DataFrame(),
            rows=rows,
            requests=requests,
            prompts=Prompts(),
            fingerprint=FINGERPRINT,
        ),
        frame=frame_of(rows, verdicts),
    )


def frame_of(rows: dict[Key, Row], verdicts: Sequence[bool] = ()) -> pd.DataFrame:
    """Return rows as they are scored."""
    names = ("task", "setting", "sample_id", "variant")
    frame = pd.DataFrame([dict(zip(names, key, strict=True)) for key in rows])
    for name in ("subset", "category", "cluster", "answer", "rule", "finish_reason"):
        frame[name] = pd.Series([""] * len(frame), dtype=object)
    frame["request_id"] = [row.request_id for row in rows.values()]
    frame["status"] = [row.status for row in rows.values()]
    frame["flags"] = pd.Series([[] for _ in rows], dtype=object)
    frame["verdict_state"] = "ok" if len(verdicts) else "absent"
    if len(verdicts):
        frame["accepted"] = np.array(verdicts, np.float64)
    definition = OPEN if len(verdicts) else CHOICE
    return read_rows(frame, [*rows.values()], definition)


def letters(rng: np.random.Generator, count: int, share: float) -> list[str | None]:
    """Return the letters of a model that is right in a share of the questions."""
    right = rng.random(count) < share
    return [ascii_uppercase[(number + (0 if ok else int(rng.integers(1, 4)))) % 4] for number, ok in enumerate(right)]


def worse(rng: np.random.Generator, replies: Sequence[str | None], share: float) -> tuple[list[str | None], np.ndarray]:
    """Return replies of which some right ones became wrong, and which were drawn."""
    right = np.array([reply == ascii_uppercase[number % 4] for number, reply in enumerate(replies)])
    drawn = right & (rng.random(len(replies)) < share)
    return [
        ascii_uppercase[(number + 1) % 4] if drawn[number] else reply for number, reply in enumerate(replies)
    ], drawn


def noisy(rng: np.random.Generator, replies: Sequence[str | None]) -> list[str | None]:
    """Return replies of which 4% are drawn anew: what is left to the models in every plant."""
    return [LETTERS[int(rng.integers(4))] if reply is not None and rng.random() < 0.04 else reply for reply in replies]
