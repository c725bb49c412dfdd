"""Commits of a sweep's models: asked once, recorded, kept when a run is resumed, and absent where nobody knows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from models.errors import UnknownRevisionError
from models.fingerprint import answer_fingerprint, is_unpinned
from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.sweep.record import model_fields
from pipelines.sweep.revisions import keep_revisions, pin_newest, pin_revisions
from tests.support.hub import COMMITS, LocalHub
from tests.unit.models.engines.test_hub import write_cache

FIRST, SECOND, THIRD, FOURTH = COMMITS
ALL = ("predict", "score", "report")


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with LocalHub({"org/name": {"main": FIRST, "v1": THIRD}, "org/judge": {"main": FOURTH}}) as server:
        yield server


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def model(name: str = "org/name", **fields: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=name, **fields)


def sweep(*, address: str | None = None, judge: ModelSpec | None = None, **models: ModelSpec) -> RunSpec:
    judges = (("j", judge),) if judge else ()
    return RunSpec(data="data", out="out", models=models, benchmarks=("maia",), judges=judges, address=address)


def run_json(spec: RunSpec) -> dict[str, Any]:
    """Return what a run leaves of its models."""
    return {"models": {name: model_fields(each) for name, each in {**dict(spec.judges), **spec.models}.items()}}


def revisions(spec: RunSpec) -> list[str | None]:
    return [each.revision for each in (*spec.models.values(), *(judge for _, judge in spec.judges))]


def test_branch_and_tag_become_commits_that_run_json_names(hub: LocalHub) -> None:
    spec = sweep(a=model(), b=model(revision="v1"), judge=model("org/judge", revision="main"))
    pinned = pin_revisions(spec, {}, ALL, endpoint=hub.url)
    assert revisions(pinned.spec) == [FIRST, THIRD, FOURTH]
    assert pinned.warnings == ()
    assert not any(is_unpinned(each) for each in pinned.spec.models.values())
    recorded = run_json(pinned.spec)["models"]
    assert [(recorded[name]["revision"], recorded[name]["requested_revision"]) for name in "abj"] == [
        (FIRST, "main"), (THIRD, "v1"), (FOURTH, "main"),
    ]  # fmt: skip
    assert answer_fingerprint(pinned.spec.models["a"]) == answer_fingerprint(model(revision=FIRST))


def test_resumed_run_keeps_the_commit_and_asks_nothing(hub: LocalHub) -> None:
    spec = sweep(a=model())
    run = run_json(pin_revisions(spec, {}, ALL, endpoint=hub.url).spec)
    hub.models["org/name"]["main"] = SECOND
    hub.requests.clear()
    assert revisions(pin_revisions(spec, run, ALL, endpoint=hub.url).spec) == [FIRST]
    assert revisions(keep_revisions(spec, run)) == [FIRST]
    assert hub.requests == []
    added = sweep(a=model(), new=model(revision="main"))
    assert revisions(pin_revisions(added, run, ALL, endpoint=hub.url).spec) == [FIRST, SECOND]


def test_other_revision_or_model_of_the_same_name_is_asked_about(hub: LocalHub) -> None:
    run = run_json(pin_revisions(sweep(a=model()), {}, ALL, endpoint=hub.url).spec)
    assert revisions(pin_revisions(sweep(a=model(revision="v1")), run, ALL, endpoint=hub.url).spec) == [THIRD]
    assert revisions(pin_revisions(sweep(a=model("org/judge")), run, ALL, endpoint=hub.url).spec) == [FOURTH]
    assert revisions(pin_revisions(sweep(a=model(revision=SECOND)), run, ALL, endpoint=hub.url).spec) == [SECOND]


@pytest.mark.parametrize("recorded", [{"model": "org/name", "revision": "main"}, {"model": "org/name"}])
def test_output_of_a_run_without_commits_is_resumed_as_it_was_begun(hub: LocalHub, recorded: dict[str, str]) -> None:
    pinned = pin_revisions(sweep(a=model()), {"models": {"a": recorded}}, ALL, endpoint=hub.url)
    assert answer_fingerprint(pinned.spec.models["a"])["revision"] == "main"
    assert hub.requests == []


def test_nothing_is_asked_about_commits_folders_endpoints_and_models_that_do_not_run(
    hub: LocalHub, tmp_path: Path
) -> None:
    endpoint = ModelSpec(engine="openai", model="gpt", base_url="http://127.0.0.1:1")
    spec = sweep(
        a=model(revision=SECOND), b=model(str(tmp_path)), c=endpoint, d=ModelSpec(engine="random"), judge=model()
    )
    assert pin_revisions(spec, {}, ("predict",), endpoint=hub.url).spec == spec
    assert pin_revisions(sweep(a=model()), {}, ("report",), endpoint=hub.url).spec == sweep(a=model())
    assert hub.requests == []


def test_without_the_hub_a_local_run_takes_the_commit_of_the_cache(hub: LocalHub, empty_cache: Path) -> None:
    hub.status |= {"org/name": 503, "org/judge": 503}
    write_cache(empty_cache, "org/name", SECOND)
    spec = sweep(a=model(), judge=model("org/judge"))
    pinned = pin_revisions(spec, {}, ALL, endpoint=hub.url)
    assert revisions(pinned.spec) == [SECOND, None]
    problem = "the hub did not say which commit 'main' is (status 503)"
    assert pinned.warnings == (
        f"model a: {problem}; commit {SECOND}, known from before, is used",
        f"model j: {problem}",
    )
    on_cluster = pin_revisions(sweep(a=model(), address="ray://x"), {}, ALL, endpoint=hub.url)
    assert revisions(on_cluster.spec) == [None]  # the workers' caches are others


def test_unknown_revision_is_refused_in_one_sentence(hub: LocalHub) -> None:
    with pytest.raises(UnknownRevisionError) as error:
        pin_revisions(sweep(a=model(revision="mian")), {}, ALL, endpoint=hub.url)
    assert str(error.value).startswith("model 'a': the hub has no revision 'mian' of org/name; ")
    with pytest.raises(UnknownRevisionError, match="the hub has no org/gone"):
        pin_revisions(sweep(a=model("org/gone")), {}, ALL, endpoint=hub.url)


def test_model_that_only_workers_may_know_is_left_to_them_with_a_warning(hub: LocalHub) -> None:
    pinned = pin_revisions(sweep(a=model("checkpoints/mine"), address="ray://x"), {}, ALL, endpoint=hub.url)
    assert revisions(pinned.spec) == [None]
    assert "the hub has no checkpoints/mine" in pinned.warnings[0]


def test_nights_follow_the_branch_and_keep_the_last_commit_without_the_hub(hub: LocalHub) -> None:
    spec = sweep(a=model(), gone=model("org/gone"))
    first = pin_newest(spec, {}, endpoint=hub.url)
    assert revisions(first.spec) == [FIRST, None]
    assert "the hub has no org/gone" in first.warnings[0]  # one model's error, and no end of the night
    hub.models["org/name"]["main"] = SECOND
    assert revisions(pin_newest(spec, run_json(first.spec), endpoint=hub.url).spec) == [SECOND, None]
    hub.status["org/name"] = 503
    assert revisions(pin_newest(spec, run_json(first.spec), endpoint=hub.url).spec) == [FIRST, None]
