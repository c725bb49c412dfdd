import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.messages import Generation
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.errors import UnknownNameError, UsageError
from pipelines.hashing import json_members, stable_id
from pipelines.ingest.dataset import Dataset
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_spec import ScorerSpec, allows_failures
from pipelines.plan.selection import Limit, TaskSetting, check_names, selected_groups
from pipelines.plan.stored_plan import PlanRow, iter_media
from pipelines.storage.store import Store
from tests.support.requests import PlannedRequest, build_requests, changed, target_of

ROW_TEXTS = ("sample_id", "task", "setting", "variant", "prompt_version", "prompt_sha256")


@pytest.fixture
def dataset(maia_data: str) -> Dataset:
    return Dataset.open(Store(maia_data), "maia")


def every(target: ModelTarget, dataset: Dataset) -> list[PlannedRequest]:
    return [request for sample in dataset.samples() for request in build_requests(target, sample)]


def test_request_ids_depend_on_the_prompt_and_the_model_alone(dataset: Dataset, target: ModelTarget) -> None:
    def ids(other: ModelTarget) -> list[str]:
        return [request.request_id for request in every(other, dataset)]

    same = ids(target)
    assert ids(ModelTarget.from_dict(json.loads(json.dumps(target.to_dict())), "target")) == same
    assert len(set(same)) == len(same)
    for other in (
        replace(target, model="other"),
        replace(target, fingerprint={"model": "m", "revision": "r2"}),
        target.with_prompts(dataset_fingerprint="other"),
        replace(target, generation={"temperature": 0.5}),
        target.with_prompts(wording={"vsv-it-v1": "{a} {b}", "oevqa-it-v1": "{question}"}),
    ):
        assert not set(ids(other)) & set(same)
    fewer = target.with_prompts(task_settings=(TaskSetting("vsv", "1-frame"),))
    assert set(ids(fewer)) < set(same)


def test_request_id_is_pinned(target: ModelTarget) -> None:
    """Resuming an output rests on it."""
    clip = MediaRef(role="clip", kind="video", sha256="ab" * 32, extension=".mp4", bytes=1, width=64, height=48)
    data = {"question": "Che cosa?", "answers": ["a"] * 8}
    sample = Sample(sample_id="video1/x_A", category="x", media=(clip,), data=data)
    fixed = changed(
        target, dataset_fingerprint="f", fingerprint={"engine": "random", "revision": "r1"},
        generation={"max_new_tokens": 7}, task_settings=(TaskSetting("oevqa", "1-frame"),),
    )  # fmt: skip
    (request,) = build_requests(fixed, sample)
    assert request.request_id == "717e37917d0c52738121f5e6273329bb"


TEXTS = st.text(max_size=12)


@given(texts=st.tuples(*[TEXTS] * 6), names=st.tuples(TEXTS, TEXTS), revision=st.none() | TEXTS)
def test_request_id_hashes_sorted_inputs(texts: tuple[str, ...], names: tuple[str, str], revision: str | None) -> None:
    columns = dict(zip(ROW_TEXTS, texts, strict=True))
    fingerprint = {"revision": revision, "engine": "x", "limits": {"b": 1.5, "a": None}}
    target = target_of(
        benchmark_name="maia", dataset_fingerprint=names[0], model=names[1], fingerprint=fingerprint,
        generation={"temperature": 0.5}, task_settings=(), seed=1,
    )  # fmt: skip
    generation = [[getattr(Generation(max_new_tokens=3), name) for name in Generation.__slots__]]
    row = PlanRow(
        **columns, media_group="", excluded="", generation=json.dumps(generation), id_members=json_members(columns),
        media_files={}, messages="",
    )  # fmt: skip
    inputs = {
        **columns, "benchmark": "maia", "dataset_fingerprint": names[0], "model": names[1],
        "model_fingerprint": fingerprint, "model_revision": revision or "",
        "generation": [[3, 0.5, *generation[0][2:]]],
    }  # fmt: skip
    assert target.request_id(row) == target.columns(row)["request_id"] == stable_id(inputs)


def test_target_crosses_processes_and_hashes_by_value(target: ModelTarget) -> None:
    assert target.prompts.benchmark.name == "maia"
    copy = pickle.loads(pickle.dumps(target))
    assert copy == target
    assert hash(copy) == hash(target)
    assert hash(target.with_prompts(seed=7)) != hash(target)


def test_rows_name_their_media_and_a_models_settings_override_the_benchmarks(
    dataset: Dataset, target: ModelTarget
) -> None:
    sample = next(dataset.samples())
    row = next(target.prompts.rows(sample))
    target_with_settings = replace(target, generation={"max_new_tokens": 7, "temperature": 0.5})
    (step,) = target_with_settings.request(row, "id").steps
    assert (step.generation.max_new_tokens, step.generation.temperature) == (7, 0.5)
    assert target_with_settings.generations(row) == [step.generation]
    for row in target.prompts.rows(sample):
        media = [medium for medium in iter_media(row.steps) if not medium.source.startswith("blank:")]
        assert row.media_files.keys() == {medium.source for medium in media}
        assert all(dataset.store.exists(path) for path in row.media_files.values())


@pytest.mark.parametrize(
    ("text", "total", "span"),
    [
        ("8", 100, range(8)),
        ("8", 5, range(5)),
        ("0.1", 50, range(5)),
        ("0.001", 50, range(1)),
        ("1.0", 50, range(50)),
        ("11-20", 100, range(10, 20)),
        ("11-20", 15, range(10, 15)),
        ("5-5", 100, range(4, 5)),
    ],
)
def test_limit(text: str, total: int, span: range) -> None:
    assert list(Limit.parse(text).span(total)) == list(span)


@pytest.mark.parametrize("text", ["0", "-3", "x", "1.5", "0.0", "5-2", "0-3", "1-2-3", ""])
def test_invalid_limit_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(UsageError, match="a count"):
        Limit.parse(text)


@pytest.mark.parametrize(
    ("text", "failed", "total", "allowed"),
    [
        ("true", 0, 10, True),
        ("true", 1, 10, False),
        ("false", 10, 10, True),
        ("0.2", 2, 10, True),
        ("0.2", 3, 10, False),
        ("3", 3, 10, True),
        ("3", 4, 10, False),
        ("1", 1, 10, True),
        ("0", 1, 10, False),
        ("1.0", 10, 10, True),
    ],
)
def test_failure_budget(text: str, failed: int, total: int, allowed: bool) -> None:
    assert allows_failures(text, failed, total) is allowed


@pytest.mark.parametrize("text", ["maybe", "-1", "1.5", ""])
def test_invalid_failure_budget_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-on-error"):
        allows_failures(text, 0, 1)


def test_scorer_flags() -> None:
    assert ScorerSpec.parse("bertscore=/a/b:3") == ScorerSpec("bertscore", "/a/b", 3)
    assert ScorerSpec.parse("bertscore=org/name") == ScorerSpec("bertscore", "org/name", None)
    assert ScorerSpec.parse("bleurt=org/name") == ScorerSpec("bleurt", "org/name")
    assert ScorerSpec.parse("bleurt=org/name@v1/beta") == ScorerSpec("bleurt", "org/name", revision="v1/beta")
    assert ScorerSpec.parse("bertscore=name@v1:3") == ScorerSpec("bertscore", "name", 3, revision="v1")
    assert ScorerSpec.parse("bertscore=/a/b@2:3") == ScorerSpec("bertscore", "/a/b@2", 3)
    for text in ("bertscore", "rouge=x", "bleurt=x:3", "="):
        with pytest.raises(UsageError, match="--scorer"):
            ScorerSpec.parse(text)


def test_task_settings_follow_the_flags() -> None:
    maia = benchmark("maia")
    three = ["black-video", "1-frame", "32-frames"]
    assert selected_groups(maia, [], []) == [
        TaskSetting(task, setting) for task in ("vsv", "oevqa") for setting in three
    ]
    assert selected_groups(maia, ["vsv"], ["1-frame"]) == [TaskSetting("vsv", "1-frame")]
    assert selected_groups(maia, ["aggregate"], ["1-frame"]) == [
        TaskSetting("vsv", "1-frame"),
        TaskSetting("oevqa", "1-frame"),
    ]
    assert selected_groups(maia, ["mcq"], []) == []


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean '32-frames'"):
        check_names("setting", ["32frames"], ["1-frame", "32-frames"])
