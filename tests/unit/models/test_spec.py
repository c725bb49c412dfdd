from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from models.fingerprint import answer_fingerprint, content_fingerprint, resolved_revision
from models.spec import ModelSpec


def endpoint(**settings: Any) -> ModelSpec:
    return ModelSpec.model_validate({"engine": "openai", "model": "m", "base_url": "https://x.org/v1", **settings})


@pytest.mark.parametrize(
    ("base_url", "normalized"),
    [
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://host/v1?api-version=1", "http://host/v1?api-version=1"),
    ],
)
def test_base_url_is_normalized(base_url: str, normalized: str) -> None:
    assert endpoint(base_url=base_url).base_url == normalized


@pytest.mark.parametrize("base_url", ["host/v1", "ftp://host", "http://", "//host", "", "http://u:p@host/v1"])
def test_invalid_base_url_is_rejected(base_url: str) -> None:
    with pytest.raises(ValidationError):
        endpoint(base_url=base_url)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"extra_body": {"top_p": 0.5, "model": "n"}}, "must not hold model, top_p"),
        ({"extra_body": {"x": float("nan")}}, "finite number"),
        ({"extra_body": {"x": object()}}, "extra_body.x"),
        ({"reasoning_tokens": -1}, "reasoning_tokens"),
        ({"reasoning": {"end": ""}}, "reasoning.end"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
        ({"detail": "huge"}, "detail"),
        ({"top_p": 0}, "top_p"),
    ],
)
def test_invalid_request_options_are_rejected(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        endpoint(**options)


@pytest.mark.parametrize("dollars", [-1.0, float("inf"), float("nan")])
def test_prices_are_finite_and_not_negative(dollars: float) -> None:
    with pytest.raises(ValidationError, match=r"price\.output_per_million"):
        endpoint(price={"input_per_million": 1.0, "output_per_million": dollars})


def test_request_options_belong_to_endpoints() -> None:
    with pytest.raises(ValidationError, match="detail, extra_body: only engines of endpoints send requests"):
        ModelSpec(engine="transformers", model="org/name", detail="low", extra_body={"top_k": 1})


def test_fingerprint_ignores_speed_place_and_price() -> None:
    plain = answer_fingerprint(endpoint())
    same = endpoint(
        api_key_env="K",
        requests_per_minute=5,
        concurrency=2,
        timeout_s=9,
        retries=0,
        replicas={"max": 4},
        price={"input_per_million": 1, "output_per_million": 2},
        notes="x",
        seed=3,
        answer="A",
    )
    assert answer_fingerprint(same) == plain


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "n"},
        {"base_url": "http://elsewhere/v1"},
        {"revision": "2"},
        {"system": "Be brief."},
        {"limits": {"max_frames": 2}},
        {"omit_parameters": ["seed"]},
        {"top_p": 0.9},
        {"reasoning_effort": "low"},
        {"detail": "low"},
        {"logprobs": True},
        {"extra_body": {"top_k": 3}},
        {"dtype": "float16"},
        {"adapter": "x"},
    ],
)
def test_fingerprint_covers_settings_that_change_answers(changed: dict[str, Any]) -> None:
    assert answer_fingerprint(endpoint(**changed)) != answer_fingerprint(endpoint())


def test_fingerprint_of_the_baseline_is_seed_and_fixed_answer() -> None:
    def fingerprint(**settings: Any) -> dict[str, Any]:
        return answer_fingerprint(ModelSpec(engine="random", **settings))

    assert fingerprint(seed=1) != fingerprint(seed=2)
    assert fingerprint(answer="A") != fingerprint()


def test_revision_of_a_folder_is_its_content_hash(tmp_path: Path) -> None:
    for name in ("here", "there"):
        folder = tmp_path / name / "model"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(bytes(5 << 20))
    here, there = (ModelSpec(engine="transformers", model=str(tmp_path / name / "model")) for name in ("here", "there"))
    assert answer_fingerprint(here) == answer_fingerprint(there)
    assert resolved_revision(here).startswith("local-")
    (tmp_path / "there/model/config.json").write_text("[]")
    assert resolved_revision(here) != resolved_revision(there)


@pytest.mark.parametrize("offset", [0, (5 << 20) - 1])
def test_content_fingerprint_reads_both_ends_of_large_files(offset: int, tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(5 << 20))
    before = content_fingerprint(tmp_path)
    data = bytearray(5 << 20)
    data[offset] = 1
    weights.write_bytes(data)
    assert content_fingerprint(tmp_path) != before


@pytest.mark.parametrize(
    ("spec", "revision"),
    [
        (ModelSpec(engine="random"), ""),
        (ModelSpec(engine="openai", model="m", base_url="http://x"), ""),
        (ModelSpec(engine="openai", model="m", base_url="http://x", revision="2024"), "2024"),
        (ModelSpec(engine="transformers", model="org/name"), "main"),
        (ModelSpec(engine="transformers", model="org/name", revision="abc"), "abc"),
    ],
)
def test_resolved_revision_of_a_spec(spec: ModelSpec, revision: str) -> None:
    assert resolved_revision(spec) == revision


def test_revision_of_an_s3_folder_is_its_checksums() -> None:
    def revision(**more: Any) -> str:
        return resolved_revision(
            ModelSpec.model_validate({"engine": "transformers", "model": "s3://store/model", **more})
        )

    assert revision() == "main"
    first, second = (revision(checksums={"model.safetensors": digest}) for digest in ("00", "01"))
    assert first.startswith("checked-")
    assert first != second
    assert revision(revision="v1", checksums={"model.safetensors": "00"}) == "v1"


@pytest.mark.parametrize(
    ("settings", "gpus", "placed_on_gpu"),
    [
        ({"engine": "transformers"}, 2, (False, True)),
        ({"engine": "vllm", "device": "cuda"}, 2, (True, True)),
        ({"engine": "vllm", "device": "cpu"}, 0, (False, False)),
        ({"engine": "openai", "base_url": "http://x"}, 0, (False, False)),
        ({"engine": "random"}, 0, (False, False)),
    ],
)
def test_spec_names_the_gpus_of_a_replica(
    settings: dict[str, Any], gpus: int, placed_on_gpu: tuple[bool, bool]
) -> None:
    spec = ModelSpec.model_validate({"model": "m", "tensor_parallel": 2, **settings})
    assert spec.replica_gpus == gpus
    assert (spec.needs_gpu(has_gpus=False), spec.needs_gpu(has_gpus=True)) == placed_on_gpu


def test_batches_need_an_endpoint_and_cost_their_share_of_the_price() -> None:
    price = {"input_per_million": 2.0, "output_per_million": 8.0}
    plain = {"engine": "openai", "model": "m", "base_url": "http://127.0.0.1/v1", "price": price}
    listed, halved = ModelSpec.model_validate(plain), ModelSpec.model_validate({**plain, "batch": True})
    quarter = ModelSpec.model_validate({**plain, "batch": True, "batch_price_factor": 0.25})
    prices = [spec.billed_price.dollars(1e6, 1e6) for spec in (listed, halved, quarter) if spec.billed_price]
    assert prices == [10.0, 5.0, 2.5]
    with pytest.raises(ValidationError, match="only engines of endpoints send batches"):
        ModelSpec.model_validate({"engine": "random", "batch": True})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"engine": "anthropic", "logprobs": True}, "logprobs: engine anthropic has no such option"),
        ({"engine": "anthropic", "detail": "low"}, "detail: engine anthropic has no such option"),
        (
            {"engine": "anthropic", "extra_body": {"thinking": {}}},
            "must not hold thinking: engine anthropic",
        ),
        ({"engine": "gemini", "extra_body": {"contents": []}}, "extra_body must not hold contents: engine gemini"),
    ],
)
def test_options_that_a_protocol_lacks_are_refused(entry: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelSpec.model_validate({"model": "m", **entry})


def test_providers_have_addresses_of_their_own() -> None:
    entries = [ModelSpec.model_validate({"engine": engine, "model": "m"}) for engine in ("anthropic", "gemini")]
    assert [entry.base_url for entry in entries] == [
        "https://api.anthropic.com",
        "https://generativelanguage.googleapis.com/v1beta",
    ]
    assert all(entry.is_endpoint for entry in entries)


@pytest.mark.parametrize("settings", [{"tensor_parallel": 2}, {"offload": True}])
def test_only_models_of_one_gpu_share_it(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="replicas_per_gpu: only replicas that hold their whole model on one GPU"):
        ModelSpec(engine="transformers", model="m", replicas_per_gpu=2, **settings)


@pytest.mark.parametrize("replicas", range(2, 17))
def test_replicas_that_share_a_gpu_fit_on_it(replicas: int) -> None:
    spec = ModelSpec(engine="transformers", model="m", replicas_per_gpu=replicas, replicas={"max": replicas + 1})
    assert 0.99 < replicas * spec.replica_gpus <= 1
    assert replicas * spec.gpu_fraction == pytest.approx(0.92)
    assert spec.max_gpus == 2
