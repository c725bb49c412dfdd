"""Request ids, and the forms of a builder."""

import pickle
from dataclasses import replace

import pytest

from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.ingest.dataset import Dataset
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.selection import TaskSetting
from pipelines.plan.stored_plan import iter_media
from pipelines.storage.store import Store
from tests.support.requests import PlannedRequest, build_requests


@pytest.fixture
def dataset(maia_data: str) -> Dataset:
    return Dataset.open(Store(maia_data), "maia")


def every(builder: RequestBuilder, dataset: Dataset) -> list[PlannedRequest]:
    return [request for sample in dataset.samples() for request in build_requests(builder, sample)]


def test_request_ids_depend_on_the_prompt_and_the_model_alone(dataset: Dataset, builder: RequestBuilder) -> None:
    def ids(changed: RequestBuilder) -> list[str]:
        return [request.request_id for request in every(changed, dataset)]

    same = ids(builder)
    assert ids(RequestBuilder.from_json(builder.to_json())) == same
    assert len(set(same)) == len(same)
    for changed in (
        replace(builder, model="other"),
        replace(builder, model_fingerprint={"model": "m", "revision": "r2"}),
        replace(builder, dataset_fingerprint="other"),
        replace(builder, generation={"temperature": 0.5}),
        replace(builder, prompts={"vsv-it-v1": "{a} {b}", "oevqa-it-v1": "{question}"}),
    ):
        assert not set(ids(changed)) & set(same)
    fewer = replace(builder, task_settings=(TaskSetting("vsv", "1-frame"),))
    assert set(ids(fewer)) < set(same)


def test_request_id_is_the_one_of_earlier_versions(builder: RequestBuilder) -> None:
    """An output of an earlier version resumes: this id was recorded before plans were stored."""
    clip = MediaRef(role="clip", kind="video", sha256="ab" * 32, extension=".mp4", bytes=1, width=64, height=48)
    data = {"question": "Che cosa?", "answers": ["a"] * 8}
    sample = Sample(sample_id="video1/x_A", category="x", media=(clip,), data=data)
    fixed = replace(
        builder,
        dataset_fingerprint="f",
        model_fingerprint={"engine": "random", "revision": "r1"},
        generation={"max_new_tokens": 7},
        task_settings=(TaskSetting("oevqa", "1-frame"),),
    )
    (request,) = build_requests(fixed, sample)
    assert request.request_id == "717e37917d0c52738121f5e6273329bb"


def test_builder_crosses_processes_and_hashes_by_value(builder: RequestBuilder) -> None:
    assert builder.benchmark.name == "maia"
    assert "benchmark" not in builder.__getstate__()
    copy = pickle.loads(pickle.dumps(builder))
    assert copy == builder
    assert hash(copy) == hash(builder)
    assert hash(replace(builder, seed=7)) != hash(builder)


def test_model_settings_override_the_benchmarks(dataset: Dataset, builder: RequestBuilder) -> None:
    sample = next(dataset.samples())
    row = next(builder.plan_rows(sample))
    builder_of_model = replace(builder, generation={"max_new_tokens": 7, "temperature": 0.5})
    (step,) = builder_of_model.request(row, "id").steps
    assert (step.generation.max_new_tokens, step.generation.temperature) == (7, 0.5)
    assert builder_of_model.generation_settings(row) == [[7, 0.5, step.generation.num_beams, step.generation.seed]]


def test_plan_row_names_the_stored_media_of_its_prompt(dataset: Dataset, builder: RequestBuilder) -> None:
    sample = next(dataset.samples())
    for row in builder.plan_rows(sample):
        media = [medium for medium in iter_media(row.steps) if not medium.source.startswith("blank:")]
        assert row.media_files.keys() == {medium.source for medium in media}
        assert all(dataset.store.exists(path) for path in row.media_files.values())
