"""Commits of a sweep's models, adapters and scorers: asked once, recorded, kept, and absent where none is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from models.errors import UnknownRevisionError
from models.fingerprint import answer_fingerprint, is_unpinned
from models.spec import ModelSpec
from pipelines.plan.run_manifest import RecordedScorer, RunManifest
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.sweep.record import model_fields
from pipelines.sweep.revisions import keep_revisions, pin_newest, pin_revisions, recorded_scorers
from tests.support.hub import COMMITS, LocalHub
from tests.unit.models.engines.test_hub import write_cache

FIRST, SECOND, THIRD, FOURTH = COMMITS
ALL = tuple(Stage)
NO_RUN = RunManifest()


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


def sweep(
    *,
    address: str | None = None,
    judge: ModelSpec | None = None,
    scorers: Sequence[str] = (),
    default_scorers: bool = False,
    **models: ModelSpec,
) -> RunSpec:
    return RunSpec(
        data="data", out="out", models=models, benchmarks=("maia",), judges=(("j", judge),) if judge else (),
        address=address, scorers=scorers, default_scorers=default_scorers,
    )  # fmt: skip


def run_json(spec: RunSpec) -> RunManifest:
    """Return what a run leaves of its models and scorers."""
    models = {name: model_fields(each) for name, each in {**dict(spec.judges), **spec.models}.items()}
    return RunManifest(models=models, scorers=recorded_scorers(spec))


def revisions(spec: RunSpec) -> list[str | None]:
    return [each.revision for each in (*spec.models.values(), *(judge for _, judge in spec.judges))]


def adapters(spec: RunSpec) -> list[str | None]:
    return [each.adapter_revision for each in spec.models.values()]


def loaded(spec: RunSpec) -> list[str | None]:
    """Return the revisions of MAIA's scorers."""
    return [scorer.loaded_revision for scorer in spec.scorers_for("maia")]


def test_branch_and_tag_become_commits_that_run_json_names(hub: LocalHub) -> None:
    spec = sweep(a=model(), b=model(revision="v1"), judge=model("org/judge", revision="main"))
    pinned = pin_revisions(spec, NO_RUN, ALL, endpoint=hub.url)
    assert revisions(pinned.spec) == [FIRST, THIRD, FOURTH]
    assert pinned.warnings == ()
    assert not any(is_unpinned(each) for each in pinned.spec.models.values())
    recorded = run_json(pinned.spec).models
    assert [(recorded[name]["revision"], recorded[name]["requested_revision"]) for name in "abj"] == [
        (FIRST, "main"), (THIRD, "v1"), (FOURTH, "main"),
    ]  # fmt: skip
    assert answer_fingerprint(pinned.spec.models["a"]) == answer_fingerprint(model(revision=FIRST))


def test_resumed_run_keeps_the_commit_and_asks_nothing(hub: LocalHub) -> None:
    spec = sweep(a=model())
    run = run_json(pin_revisions(spec, NO_RUN, ALL, endpoint=hub.url).spec)
    hub.models["org/name"]["main"] = SECOND
    hub.requests.clear()
    assert revisions(pin_revisions(spec, run, ALL, endpoint=hub.url).spec) == [FIRST]
    assert revisions(keep_revisions(spec, run)) == [FIRST]
    assert hub.requests == []
    added = sweep(a=model(), new=model(revision="main"))
    assert revisions(pin_revisions(added, run, ALL, endpoint=hub.url).spec) == [FIRST, SECOND]


def test_other_revision_or_model_of_the_same_name_is_asked_about(hub: LocalHub) -> None:
    run = run_json(pin_revisions(sweep(a=model()), NO_RUN, ALL, endpoint=hub.url).spec)
    assert revisions(pin_revisions(sweep(a=model(revision="v1")), run, ALL, endpoint=hub.url).spec) == [THIRD]
    assert revisions(pin_revisions(sweep(a=model("org/judge")), run, ALL, endpoint=hub.url).spec) == [FOURTH]
    assert revisions(pin_revisions(sweep(a=model(revision=SECOND)), run, ALL, endpoint=hub.url).spec) == [SECOND]


@pytest.mark.parametrize("recorded", [{"model": "org/name", "revision": "main"}, {"model": "org/name"}])
def test_output_of_a_run_without_commits_is_resumed_as_it_was_begun(hub: LocalHub, recorded: dict[str, str]) -> None:
    pinned = pin_revisions(sweep(a=model()), RunManifest(models={"a": recorded}), ALL, endpoint=hub.url)
    assert answer_fingerprint(pinned.spec.models["a"])["revision"] == "main"
    assert hub.requests == []


def test_nothing_is_asked_about_commits_folders_endpoints_and_idle_models(hub: LocalHub, tmp_path: Path) -> None:
    endpoint = ModelSpec(engine="openai", model="gpt", base_url="http://127.0.0.1:1")
    spec = sweep(
        a=model(revision=SECOND), b=model(str(tmp_path)), c=endpoint, d=ModelSpec(engine="random"), judge=model()
    )
    assert pin_revisions(spec, NO_RUN, [Stage.PREDICT], endpoint=hub.url).spec == spec
    assert pin_revisions(sweep(a=model()), NO_RUN, [Stage.REPORT], endpoint=hub.url).spec == sweep(a=model())
    assert hub.requests == []


def test_without_the_hub_a_local_run_takes_the_commit_of_the_cache(hub: LocalHub, empty_cache: Path) -> None:
    hub.status |= {"org/name": 503, "org/judge": 503}
    write_cache(empty_cache, "org/name", SECOND)
    spec = sweep(a=model(), judge=model("org/judge"))
    pinned = pin_revisions(spec, NO_RUN, ALL, endpoint=hub.url)
    assert revisions(pinned.spec) == [SECOND, None]
    problem = "the hub did not say which commit 'main' is (status 503)"
    assert pinned.warnings == (
        f"model a: {problem}; commit {SECOND}, known from before, is used",
        f"model j: {problem}",
    )
    on_cluster = pin_revisions(sweep(a=model(), address="ray://x"), NO_RUN, ALL, endpoint=hub.url)
    assert revisions(on_cluster.spec) == [None]  # the workers' caches are others


def test_unknown_revision_is_refused_unless_only_workers_may_know_its_model(hub: LocalHub) -> None:
    with pytest.raises(UnknownRevisionError) as error:
        pin_revisions(sweep(a=model(revision="mian")), NO_RUN, ALL, endpoint=hub.url)
    assert str(error.value).startswith("model 'a': the hub has no revision 'mian' of org/name; ")
    with pytest.raises(UnknownRevisionError, match="the hub has no org/gone"):
        pin_revisions(sweep(a=model("org/gone")), NO_RUN, ALL, endpoint=hub.url)
    pinned = pin_revisions(sweep(a=model("checkpoints/mine"), address="ray://x"), NO_RUN, ALL, endpoint=hub.url)
    assert revisions(pinned.spec) == [None]
    assert "the hub has no checkpoints/mine" in pinned.warnings[0]


def test_nights_follow_the_branch_and_keep_the_last_commit_without_the_hub(hub: LocalHub) -> None:
    spec = sweep(a=model(), gone=model("org/gone"))
    first = pin_newest(spec, NO_RUN, endpoint=hub.url)
    assert revisions(first.spec) == [FIRST, None]
    assert "the hub has no org/gone" in first.warnings[0]  # one model's error, and no end of the night
    hub.models["org/name"]["main"] = SECOND
    assert revisions(pin_newest(spec, run_json(first.spec), endpoint=hub.url).spec) == [SECOND, None]
    hub.status["org/name"] = 503
    assert revisions(pin_newest(spec, run_json(first.spec), endpoint=hub.url).spec) == [FIRST, None]


def test_adapter_is_pinned_beside_its_model_and_kept_on_resume(hub: LocalHub) -> None:
    hub.models["org/lora"] = {"main": SECOND, "v1": THIRD}
    spec = sweep(
        a=model(adapter="org/lora"), b=model(revision=FOURTH, adapter="org/lora", adapter_revision="v1"), c=model()
    )
    pinned = pin_revisions(spec, NO_RUN, ALL, endpoint=hub.url).spec
    assert (revisions(pinned), adapters(pinned)) == ([FIRST, FOURTH, FIRST], [SECOND, THIRD, None])
    run = run_json(pinned)
    recorded = run.models["b"]
    assert (recorded["adapter_revision"], recorded["requested_adapter_revision"]) == (THIRD, "v1")
    hub.models["org/lora"] |= {"main": FOURTH, "v1": FOURTH}
    hub.requests.clear()
    assert adapters(pin_revisions(spec, run, ALL, endpoint=hub.url).spec) == [SECOND, THIRD, None]
    assert adapters(keep_revisions(spec, run)) == [SECOND, THIRD, None]
    assert hub.requests == []
    other = sweep(a=model(adapter="org/lora", adapter_revision="v1"))
    assert adapters(pin_revisions(other, run, ALL, endpoint=hub.url).spec) == [FOURTH]  # another request than recorded
    before, after = pinned.models["a"], pin_revisions(spec, NO_RUN, ALL, endpoint=hub.url).spec.models["a"]
    assert answer_fingerprint(before) != answer_fingerprint(after)  # another commit makes other requests


def test_output_of_a_run_without_commits_of_adapters_keeps_its_request_ids(hub: LocalHub) -> None:
    recorded = {"model": "org/name", "revision": FIRST, "requested_revision": "main", "adapter": "org/lora"}
    spec = pin_revisions(
        sweep(a=model(adapter="org/lora")), RunManifest(models={"a": recorded}), ALL, endpoint=hub.url
    ).spec
    assert "adapter_revision" not in answer_fingerprint(spec.models["a"])
    assert hub.requests == []


def test_unknown_revision_of_an_adapter_is_refused_and_its_cache_is_used(hub: LocalHub, empty_cache: Path) -> None:
    hub.models["org/lora"] = {"main": SECOND}
    spec = sweep(a=model(adapter="org/lora", adapter_revision="mian"))
    with pytest.raises(UnknownRevisionError) as error:
        pin_revisions(spec, NO_RUN, ALL, endpoint=hub.url)
    assert str(error.value) == (
        "model 'a': the hub has no revision 'mian' of org/lora; correct `adapter` or `adapter_revision` in its entry, "
        "or give a local folder"
    )
    hub.status["org/lora"] = 503
    write_cache(empty_cache, "org/lora", FOURTH, file="adapter_config.json")
    pinned = pin_revisions(sweep(a=model(adapter="org/lora")), NO_RUN, ALL, endpoint=hub.url)
    assert adapters(pinned.spec) == [FOURTH]
    (warning,) = pinned.warnings
    assert warning.startswith("the adapter of model a: the hub did not say which commit 'main' is (status 503); commit")


def test_scorers_are_pinned_recorded_and_kept(hub: LocalHub) -> None:
    hub.models["org/bert"] = {"main": SECOND, "v1": THIRD}
    named = sweep(a=model(revision=FIRST), scorers=["bertscore=org/bert@v1:3"])
    pinned = pin_revisions(named, NO_RUN, ALL, endpoint=hub.url).spec
    assert loaded(pinned) == [THIRD]
    assert pinned.record().scorers == ("bertscore=org/bert@v1:3",)
    run = run_json(pinned)
    assert run.scorers == {"org/bert@v1": RecordedScorer(model="org/bert", revision=THIRD, requested_revision="v1")}
    hub.models["org/bert"]["v1"] = FOURTH
    hub.requests.clear()
    assert loaded(pin_revisions(named, run, ALL, endpoint=hub.url).spec) == [THIRD]
    assert loaded(pin_revisions(named, NO_RUN, [Stage.PREDICT], endpoint=hub.url).spec) == ["v1"]  # nothing is scored
    assert hub.requests == []
    branch = sweep(a=model(revision=FIRST), scorers=["bertscore=org/bert:3"])
    assert loaded(pin_revisions(branch, run, ALL, endpoint=hub.url).spec) == [SECOND]


def test_scorer_of_a_flag_must_exist_and_a_default_one_need_not(hub: LocalHub, empty_cache: Path) -> None:
    hub.models["org/bert"] = {"main": SECOND}
    with pytest.raises(UnknownRevisionError, match="--scorer: the hub has no revision 'v9' of org/bert; correct"):
        pin_revisions(sweep(scorers=["bertscore=org/bert@v9:3"]), NO_RUN, ALL, endpoint=hub.url)
    default = "bert-base-multilingual-cased"
    unknown = pin_revisions(sweep(default_scorers=True), NO_RUN, ALL, endpoint=hub.url)
    assert [warning.partition(",")[0] for warning in unknown.warnings] == [
        f"scorer {default}: the hub has no {default}"
    ]
    hub.status |= {default: 503, "org/bert": 503}
    assert pin_revisions(sweep(default_scorers=True), NO_RUN, ALL, endpoint=hub.url).warnings == ()  # scoring says it
    assert len(pin_revisions(sweep(scorers=["bertscore=org/bert:3"]), NO_RUN, ALL, endpoint=hub.url).warnings) == 1
    write_cache(empty_cache, default, FOURTH)
    cached = pin_revisions(sweep(default_scorers=True), NO_RUN, ALL, endpoint=hub.url)
    assert (loaded(cached.spec), len(cached.warnings)) == ([FOURTH], 1)


def test_nights_follow_the_branches_of_adapters_and_scorers(hub: LocalHub) -> None:
    hub.models |= {"org/lora": {"main": FIRST}, "org/bert": {"main": FIRST}}
    spec = sweep(a=model(adapter="org/lora"), scorers=["bertscore=org/bert:3"])
    run = run_json(pin_newest(spec, NO_RUN, endpoint=hub.url).spec)
    hub.models |= {"org/lora": {"main": SECOND}, "org/bert": {"main": SECOND}}
    newest = pin_newest(spec, run, endpoint=hub.url).spec
    assert (adapters(newest), loaded(newest)) == ([SECOND], [SECOND])
    staged = pin_revisions(newest, run, ALL, endpoint=hub.url).spec  # as the night runs a model
    assert (adapters(staged), loaded(staged)) == ([SECOND], [SECOND])
    hub.status |= {"org/lora": 503, "org/bert": 503}
    offline = pin_newest(spec, run, endpoint=hub.url).spec
    assert (adapters(offline), loaded(offline)) == ([FIRST], [FIRST])
