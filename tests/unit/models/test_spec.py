from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from models.fingerprint import folder_fingerprint
from models.spec import Faults, ModelSpec


def endpoint(**settings: Any) -> ModelSpec:
    return ModelSpec.model_validate({"engine": "openai", "model": "m", "base_url": "https://x.org/v1", **settings})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://host/v1?api-version=1", "http://host/v1?api-version=1"),
    ],
)
def test_base_url(given: str, kept: str) -> None:
    assert endpoint(base_url=given).base_url == kept


@pytest.mark.parametrize("given", ["host/v1", "ftp://host", "http://", "//host", "", "http://u:p@host/v1"])
def test_base_url_that_is_none(given: str) -> None:
    with pytest.raises(ValidationError):
        endpoint(base_url=given)


def test_what_only_changes_speed_place_or_price_leaves_answers_alone() -> None:
    plain = endpoint().answer_fingerprint()
    same = endpoint(
        base_url="http://elsewhere/v1",
        api_key_env="K",
        requests_per_minute=5,
        concurrency=2,
        timeout_s=9,
        retries=0,
        replicas={"max": 4},
        price={"input_per_million": 1, "output_per_million": 2},
        notes="x",
        seed=3,
        faults={"answer": "A"},
    )
    assert same.answer_fingerprint() == plain


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "n"},
        {"revision": "2"},
        {"system": "Be brief."},
        {"limits": {"max_frames": 2}},
        {"omit_parameters": ["seed"]},
        {"dtype": "float16"},
        {"adapter": "x"},
    ],
)
def test_what_changes_answers_changes_the_fingerprint(changed: dict[str, Any]) -> None:
    assert endpoint(**changed).answer_fingerprint() != endpoint().answer_fingerprint()


def test_a_guessers_fingerprint_is_its_seed_and_its_fixed_answer() -> None:
    def fingerprint(**settings: Any) -> dict[str, Any]:
        return ModelSpec(engine="random", **settings).answer_fingerprint()

    assert fingerprint(seed=1) != fingerprint(seed=2)
    assert fingerprint(faults=Faults(answer="A")) != fingerprint()
    assert fingerprint(faults=Faults(die_after=3, reverse=True, fail_ids=("a",))) == fingerprint()


def test_a_checkpoint_folder_is_named_by_what_it_holds(tmp_path: Path) -> None:
    for name in ("here", "there"):
        folder = tmp_path / name / "model"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(bytes(5 << 20))
    here, there = (ModelSpec(engine="transformers", model=str(tmp_path / name / "model")) for name in ("here", "there"))
    assert here.answer_fingerprint() == there.answer_fingerprint()
    assert here.resolved_revision().startswith("local-")
    (tmp_path / "there/model/config.json").write_text("[]")
    assert here.resolved_revision() != there.resolved_revision()


@pytest.mark.parametrize("place", [0, (5 << 20) - 1])
def test_both_ends_of_a_large_file_count(place: int, tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(5 << 20))
    before = folder_fingerprint(tmp_path)
    data = bytearray(5 << 20)
    data[place] = 1
    weights.write_bytes(data)
    assert folder_fingerprint(tmp_path) != before


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
def test_resolved_revision(spec: ModelSpec, revision: str) -> None:
    assert spec.resolved_revision() == revision


def test_checksums_name_a_folder_in_an_object_store() -> None:
    def revision(**more: Any) -> str:
        return ModelSpec.model_validate(
            {"engine": "transformers", "model": "s3://store/model", **more}
        ).resolved_revision()

    assert revision() == "main"
    one, other = (revision(checksums={"model.safetensors": digest}) for digest in ("00", "01"))
    assert one.startswith("checked-")
    assert one != other
    assert revision(revision="v1", checksums={"model.safetensors": "00"}) == "v1"
