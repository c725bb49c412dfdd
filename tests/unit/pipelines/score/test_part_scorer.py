"""Scoring parts: only missing or outdated scores are computed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from models.messages import Answer, Failure, Reply
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.ingest.dataset import Dataset
from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError
from pipelines.plan.context import WorkerContext
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_spec import ScorerSpec
from pipelines.plan.selection import selected_groups
from pipelines.schemas import PREDICTIONS, prediction_row
from pipelines.score import part_scorer as scoring
from pipelines.score.judge import JudgeReplies, open_questions
from pipelines.score.part_scorer import PartScorer, ScoringSpec
from pipelines.score.text_scorers import ScoringContext, rows_of
from pipelines.storage.parts import part_folder, read_part, to_parquet
from pipelines.storage.store import Store
from tests.support.requests import build_requests, target_of

PART = f"{part_folder('predictions', 'maia', 'm')}/148de9c5a7a44d19e56cd9ae.parquet"
SCORES = PART.replace("predictions", "scores")


def make_target(maia_data: str) -> ModelTarget:
    dataset = Dataset.open(Store(maia_data), "maia")
    return target_of(
        benchmark_name="maia", dataset_fingerprint=dataset.manifest.dataset_fingerprint, model="m",
        task_settings=tuple(selected_groups(benchmark("maia"), [], ["1-frame"])), seed=42,
    )  # fmt: skip


@pytest.fixture
def out(maia_data: str, tmp_path: Path) -> Store:
    """Predictions of two samples in one setting: A throughout, a reference for the open question, one error."""
    dataset = Dataset.open(Store(maia_data), "maia")
    target = make_target(maia_data)
    samples = list(dataset.samples())[:2]
    rows = []
    for sample in samples:
        for request in build_requests(target, sample):
            text = "A" if request.columns["task"] == "vsv" else sample.data["answers"][2]
            rows.append(prediction_row(request.columns, Reply(request_id="", outcome=Answer(text=text))))
    rows[0] = prediction_row(rows[0], Reply(request_id="", outcome=Failure(type="timeout", message="late")))
    store = Store(str(tmp_path / "out"))
    store.put(PART, to_parquet(rows, PREDICTIONS))
    return store


def spec(maia_data: str, out: Store, *scorers: ScorerSpec) -> ScoringSpec:
    return ScoringSpec(
        context=WorkerContext(maia_data, out.uri), prompts=make_target(maia_data).prompts, scorers=scorers
    )


def values(out: Store) -> list[dict[str, float]]:
    return [dict(row) for row in read_part(out, SCORES)["values"].to_pylist()]


def test_chat_tokens_and_preambles_are_no_part_of_an_answer(maia_data: str, out: Store) -> None:
    PartScorer(spec(maia_data, out)).score(PART)
    before = read_part(out, SCORES).to_pylist()
    rows = read_part(out, PART).to_pylist()
    for row in rows:
        if row["output"] is not None:
            row["output"] = "Ecco la risposta:\n" + row["output"] + "<|im_end|>"
    out.put(PART, to_parquet(rows, PREDICTIONS))
    PartScorer(spec(maia_data, out)).score(PART)
    after = read_part(out, SCORES).to_pylist()
    assert [row["values"] for row in after] == [row["values"] for row in before]
    assert {tuple(row["flags"][:2]) for row in after if row["status"] == "ok"} == {("chat_tokens", "preamble")}


def test_rows_are_scored_by_id(maia_data: str, out: Store) -> None:
    PartScorer(spec(maia_data, out)).score(PART)
    table = read_part(out, SCORES).to_pylist()
    assert len(table) == 18
    errors = [row for row in table if row["status"] == "error"]
    assert [dict(row["values"]) for row in errors] == [{}]
    letters = [dict(row["values"]) for row in table if row["task"] == "vsv" and row["status"] == "ok"]
    assert all(row_values["correct"] == row_values["ts_at_a"] for row_values in letters)
    open_ = [dict(row["values"]) for row in table if row["task"] == "oevqa"]
    assert [row_values["rouge"] for row_values in open_] == [1.0, 1.0]
    assert all("accepted" not in row_values and "bertscore" not in row_values for row_values in open_)


def replies(maia_data: str, out: Store, name: str, *texts: str) -> JudgeReplies:
    """Return a judge that answered the open questions of the part in this order, in the first attempt."""
    judge = JudgeReplies(name=name, spec=ModelSpec(engine="random"))
    context = ScoringContext.open(maia_data, make_target(maia_data).prompts)
    questions = [
        request for request, _ in open_questions(judge, rows_of(read_part(out, PART), context), context, set())
    ]
    judge.replies.update({question.request_id: text for question, text in zip(questions, texts, strict=True)})
    return judge


def test_verdicts_of_several_judges_are_kept_beside_the_first_ones(maia_data: str, out: Store) -> None:
    first, second = replies(maia_data, out, "a", "yes", "no"), replies(maia_data, out, "b", "no", "no")
    PartScorer(spec(maia_data, out), [first]).score(PART)
    alone = [row for row in values(out) if "rouge" in row]
    assert [row["accepted"] for row in alone] == [1.0, 0.0]
    assert not any(name.startswith("verdict") for row in alone for name in row)
    PartScorer(spec(maia_data, out), [first, second]).score(PART)
    both = [row for row in values(out) if "rouge" in row]
    assert [row["accepted"] for row in both] == [1.0, 0.0]
    assert [(row["verdict of a"], row["verdict of b"]) for row in both] == [(1.0, 0.0), (0.0, 0.0)]
    PartScorer(spec(maia_data, out), [second, first]).score(PART)
    assert [row["accepted"] for row in values(out) if "rouge" in row] == [0.0, 0.0]


def test_changes_and_damage_are_scored_again(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    PartScorer(spec(maia_data, out)).score(PART)
    before = values(out)
    table = read_part(out, PART)
    changed = table.set_column(
        table.schema.get_field_index("output"), PREDICTIONS.field("output"), [["B"] * table.num_rows]
    )
    out.put(PART, to_parquet(changed, PREDICTIONS))
    PartScorer(spec(maia_data, out)).score(PART)
    assert values(out) != before
    PartScorer(spec(maia_data, out)).score(PART)
    whole = out.get(SCORES)
    out.put(SCORES, whole[: len(whole) // 2])
    PartScorer(spec(maia_data, out)).score(PART)
    assert out.get(SCORES) == whole
    PartScorer(spec(maia_data, out)).score(PART)

    def refuse(*_: object) -> None:
        raise AssertionError("written again")

    monkeypatch.setattr(Store, "put", refuse)
    PartScorer(spec(maia_data, out)).score(PART)


class LengthScorer:
    """Stands in for a scorer model."""

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        assert all(len(texts) == 8 for texts in references)
        return [len(text) / 1000 for text in candidates]


def test_lost_default_scorer_is_retried(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    default = ScorerSpec("bertscore", "no-such-model", 9, named=False)

    def unavailable(*_: object) -> None:
        raise ScorerUnavailableError("no-such-model", "it is gone.", "Bring it.")

    monkeypatch.setattr(scoring, "look_for", unavailable)
    scorer = PartScorer(spec(maia_data, out, default))
    scorer.score(PART)
    assert "no-such-model" in scorer.problems["bertscore"]
    assert not any("bertscore" in row_values for row_values in values(out))
    monkeypatch.setattr(scoring, "look_for", lambda scorer: scorer)
    monkeypatch.setattr(scoring, "build_scorer", lambda *_: LengthScorer())
    PartScorer(spec(maia_data, out, default)).score(PART)
    assert sum("bertscore" in row_values for row_values in values(out)) == 2


def test_part_without_scorers_is_scored_alike(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    default = ScorerSpec("bertscore", "no-such-model", 9, named=False)
    letters = f"{PART.rpartition('/')[0]}/{'a' * 24}.parquet"
    rows = [row for row in read_part(out, PART).to_pylist() if row["task"] == "vsv"]
    out.put(letters, to_parquet(rows, PREDICTIONS))

    def unavailable(*_: object) -> None:
        raise ScorerUnavailableError("no-such-model", "it is gone.", "Bring it.")

    monkeypatch.setattr(scoring, "look_for", unavailable)
    after_another = PartScorer(spec(maia_data, out, default))
    after_another.score(PART)
    after_another.score(letters)
    scores = letters.replace("predictions", "scores")
    content = out.get(scores)
    assert scoring._footer(out, scores)[1] == []
    assert scoring._footer(out, SCORES)[1] == ["bertscore"]
    out.delete(scores)
    PartScorer(spec(maia_data, out, default)).score(letters)
    assert out.get(scores) == content


def test_deferred_scorer_is_loaded_later(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = spec(maia_data, out, ScorerSpec("bertscore", "no-such-model", 9, named=False))
    deferring = replace(whole, defers_defaults=True)
    monkeypatch.setattr(scoring, "look_for", lambda _: pytest.fail("looked for"))
    assert not deferring.has_scorer_model()
    scorer = PartScorer(deferring)
    scorer.score(PART)
    assert scorer.problems == {}
    assert not any("bertscore" in row_values for row_values in values(out))
    monkeypatch.setattr(scoring, "look_for", lambda scorer: scorer)
    monkeypatch.setattr(scoring, "build_scorer", lambda *_: LengthScorer())
    PartScorer(whole).score(PART)
    content = out.get(SCORES)
    assert sum("bertscore" in row_values for row_values in values(out)) == 2
    PartScorer(deferring).score(PART)
    assert out.get(SCORES) == content


def test_up_to_date_check_loads_no_scorer(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    default = ScorerSpec("bertscore", "no-such-model", 9, named=False)
    monkeypatch.setattr(scoring, "look_for", lambda scorer: scorer)
    scorer = PartScorer(spec(maia_data, out, default))
    monkeypatch.setattr(scoring, "build_scorer", unavailable_model)
    assert scorer._is_possible("bertscore")
    scorer.score(PART)
    assert not scorer._is_possible("bertscore"), "its files are there and do not load: it is not tried again"
    content = out.get(SCORES)
    monkeypatch.setattr(Store, "put", lambda *_: pytest.fail("written again"))
    scorer.score(PART)
    assert out.get(SCORES) == content


def unavailable_model(*_: object) -> None:
    raise ScorerUnavailableError("no-such-model", "its weights did not load.", "Bring it.")


def test_other_commit_of_a_scorer_scores_again(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[str | None] = []

    def build(scorer: ScorerSpec, _: str) -> LengthScorer:
        commits.append(scorer.loaded_revision)
        return LengthScorer()

    monkeypatch.setattr(scoring, "look_for", lambda scorer: scorer)
    monkeypatch.setattr(scoring, "build_scorer", build)
    for commit in (None, "one", "one", "two"):
        PartScorer(spec(maia_data, out, ScorerSpec("bertscore", "org/name", 9, commit=commit))).score(PART)
    assert commits == [None, "one", "two"]


def test_unavailable_named_scorer_ends_the_run(maia_data: str, out: Store, tmp_path: Path) -> None:
    named = ScorerSpec("bertscore", str(tmp_path / "empty"), 9)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ScorerUnavailableError):
        PartScorer(spec(maia_data, out, named)).score(PART)
    shutil.rmtree(tmp_path / "empty")
