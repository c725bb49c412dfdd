"""Request ids, and the forms of a builder."""

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.messages import Generation
from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.hashing import stable_id
from pipelines.ingest.dataset import Dataset
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.selection import TaskSetting
from pipelines.plan.stored_plan import PlanRow, iter_media
from pipelines.storage.store import Store
from tests.support.requests import PlannedRequest, build_requests

ROW_TEXTS = ("sample_id", "task", "setting", "variant", "prompt_version", "prompt_sha256")


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


TEXTS = st.text(max_size=12)


@settings(deadline=None)
@given(texts=st.tuples(*[TEXTS] * 6), names=st.tuples(TEXTS, TEXTS), revision=st.none() | TEXTS)
def test_request_id_is_the_hash_of_its_sorted_inputs(
    texts: tuple[str, ...], names: tuple[str, str], revision: str | None
) -> None:
    columns = dict(zip(ROW_TEXTS, texts, strict=True))
    fingerprint = {"revision": revision, "engine": "x", "limits": {"b": 1.5, "a": None}}
    builder = RequestBuilder(
        benchmark_name="maia",
        dataset_fingerprint=names[0],
        model=names[1],
        model_fingerprint=fingerprint,
        generation={"temperature": 0.5},
        task_settings=(),
        prompts={},
        prompt_versions={},
        seed=1,
    )
    generation = [[getattr(Generation(max_new_tokens=3), name) for name in Generation.__slots__]]
    row = PlanRow(
        **columns, media_group="", excluded="", generation=json.dumps(generation), media_files={}, messages=""
    )
    inputs = {
        **columns,
        "benchmark": "maia",
        "dataset_fingerprint": names[0],
        "model": names[1],
        "model_fingerprint": fingerprint,
        "model_revision": revision or "",
        "generation": builder.generation_settings(row),
    }
    assert builder.request_id(row) == builder.columns(row)["request_id"] == stable_id(inputs)


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
