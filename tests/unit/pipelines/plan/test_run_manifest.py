"""The file of an output's manifest: what it keeps, what older ones lack, and what is damage."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.errors import StoreError, UsageError
from pipelines.ingest.dataset import Datasets
from pipelines.json_records import dump_checked
from pipelines.plan.options import SweepOptions
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget, caption_targets, model_targets
from pipelines.plan.run_manifest import (
    SCHEMA_VERSION,
    GroupSelection,
    ManifestEntry,
    ModelSpending,
    PromptSet,
    RecordedDataset,
    RecordedScorer,
    RunManifest,
    Spending,
    load_existing_run,
    load_run,
    record_work,
    save_run,
)
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting
from pipelines.storage.store import Store
from tests.support.paths import GOLDEN

FRAME, BLACK = TaskSetting("vsv", "1-frame"), TaskSetting("vsv", "black-video")
TARGET = ModelTarget(
    prompts=PromptPlan(
        benchmark_name="maia", dataset_fingerprint="f", task_settings=(FRAME, BLACK),
        wording={"vsv-it-v1": "altre parole \udc80"}, prompt_versions={"vsv-it-v1": "vsv-it-v1"}, seed=42,
    ),
    model="m",
    fingerprint={"revision": "r", "limits": {"max_pixels": None}},
    generation={"temperature": 0.5},
)  # fmt: skip
ENTRY = ManifestEntry(
    benchmark="maia", model="m", data="data", target=TARGET, limit="1-8",
    earlier=(GroupSelection(cells=(BLACK,), sample_ids=("video1/Sentiment_A",)),), prompt_set="paper",
    other_prompt_sets=(PromptSet(name="default", versions={}, cells=(FRAME,)),),
)  # fmt: skip
FULL = RunManifest(
    sweep=SweepOptions(command=("vlmsweep", "/tmp/\udc80"), data="data", judge="j,k", cost_limit=2.0),
    models={"m": {"engine": "random", "revision": ""}},
    scorers={"org/b": RecordedScorer(model="org/b", revision="a" * 40, requested_revision="main")},
    datasets={"maia": RecordedDataset(fingerprint="f")},
    prompts={"maia": dict(benchmark("maia").prompt_texts)},
    entries=(ENTRY, replace(ENTRY, model="n", earlier=(), prompt_set="", other_prompt_sets=())),
)
SPENDING = Spending(
    at="now", limit=None, dollars=0.5, models={"m": ModelSpending(input_tokens=1, output_tokens=2, dollars=0.5)}
)


@pytest.fixture
def out(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


@pytest.fixture
def written(out: Store) -> bytes:
    record_work(out, save_run(out, RunManifest(), FULL), SPENDING, {"m": ("refuses seed",)})
    return out.get("run.json")


@pytest.mark.usefixtures("written")
def test_all_that_a_run_records_survives_the_file(out: Store) -> None:
    run = load_run(out)
    assert run.spending == (SPENDING,)
    assert run.engine_warnings == {"m": ("refuses seed",)}
    assert replace(
        run, product="", created="", updated="", prompt_fingerprints={}, versions={}, spending=(), engine_warnings={}
    ) == FULL  # fmt: skip


def test_every_changed_byte_is_found(out: Store, written: bytes) -> None:
    run = load_run(out)
    for position in range(0, len(written), 17):
        changed = bytearray(written)
        changed[position] ^= 1
        out.put("run.json", bytes(changed))
        with pytest.raises(StoreError, match=r"run\.json: damaged \(.*move it away and repeat the commands"):
            assert load_run(out) != run  # fails only if nothing is raised


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        *((raw, r"run\.json: damaged \((Expecting value|not an object|its checksum)")
          for raw in (b"", b"[]", b"{}", b'{"entries": []}')),
        ({}, "entries: null is no tuple"),
        ({"entries": [1]}, r"entries\[0\]: 1 is no Mapping"),
        ({"entries": [], "model": {}}, "unknown key 'model'"),
        ({"entries": [], "sweep": {"seed": "7"}}, 'sweep.seed: "7" is no int'),
        ({"entries": [{"target": {"prompts": {}}}]}, r"entries\[0\]\.target\.prompts: no key 'benchmark_name'"),
        ({"entries": [], "spending": [{"at": ""}]}, r"spending\[0\]: no key 'limit'"),
        ({"schema_version": 1, "versions": {"vlmsweep": "0.0.9"}},
         r"written by vlmsweep 0\.0\.9 with schema 1; vlmsweep .* reads schema 2"),
        ({"schema_version": 3, "versions": {"vlmsweep": "9.0"}},
         r"written by vlmsweep 9\.0 with schema 3; .* another --out"),
        ({"schema_version": 3}, "written by another version with schema 3"),
    ],
)  # fmt: skip
def test_content_that_no_run_of_this_version_wrote_is_refused(out: Store, content: Any, problem: str) -> None:
    raw = content if isinstance(content, bytes) else dump_checked({"schema_version": SCHEMA_VERSION, **content})
    out.put("run.json", raw)
    with pytest.raises(StoreError, match=problem):
        load_run(out)


@pytest.mark.usefixtures("written")
def test_bug_in_reading_is_no_damage(out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        return {}["bug"]

    monkeypatch.setattr(ModelTarget, "from_dict", broken)
    with pytest.raises(KeyError, match="bug"):
        load_run(out)


def test_output_is_new_without_a_run_and_keeps_what_a_later_write_does_not_name(out: Store) -> None:
    assert load_run(out).is_new
    with pytest.raises(UsageError, match=r"no run\.json; is this the --out of a run\?"):
        load_existing_run(out)
    save_run(out, RunManifest(), FULL)
    run = save_run(out, load_run(out), RunManifest(models={"anna": {"engine": "external"}}))
    assert (run.scorers, [*run.models]) == (FULL.scorers, ["m", "anna"])
    assert load_run(out).scorers == FULL.scorers


def test_prompt_fingerprints_are_those_recorded(out: Store) -> None:
    texts = {**benchmark("maia").prompt_texts, "vsv-it-v1": "other words"}
    run = save_run(out, RunManifest(), RunManifest(prompts={"maia": texts}))
    recorded = json.loads((GOLDEN / "prompt_fingerprints.json").read_text())["maia"]
    fingerprints = run.prompt_fingerprints["maia"]
    assert {name for name in texts if fingerprints[name] != recorded[name]} == {"vsv-it-v1"}


def spec(maia_data: str, **more: object) -> RunSpec:
    models = {"one": ModelSpec(engine="random", seed=1), "two": ModelSpec(engine="random", seed=2)}
    return RunSpec(data=maia_data, out="out", models=models, benchmarks=("maia",), **more)  # type: ignore[arg-type]


def key(run: RunSpec, model: str) -> str:
    ((target, _),) = model_targets(run, model, Datasets())
    return target.prompts.captioner


def test_captions_are_of_the_named_captioner_or_each_models_own(maia_data: str) -> None:
    run = spec(maia_data)
    assert run.caption_models == {}
    assert key(run, "one") == ""
    assert run.record().captioner is None
    run = spec(maia_data, captioners=(("eye", ModelSpec(engine="random")),))
    assert list(run.caption_models) == ["eye"]
    assert key(run, "one") == key(run, "two")
    assert key(run, "one").startswith("eye@")
    assert run.record().captioner == "eye"
    run = spec(maia_data, own_captions=True)
    assert list(run.caption_models) == ["one", "two"]
    assert key(run, "one").startswith("one@")
    assert key(run, "two").startswith("two@")
    assert [target.prompts.kind for target, _ in caption_targets(run, "one", Datasets())] == ["caption"]
    assert run.record().captioner == "self"
    first = spec(maia_data, captioners=(("eye", ModelSpec(engine="random", seed=1)),))
    other = spec(maia_data, captioners=(("eye", ModelSpec(engine="random", seed=5)),))
    assert key(first, "one") != key(other, "one")
