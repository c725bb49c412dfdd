"""The manifest of an output when a model is run again with other settings or samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.cli.main import run
from pipelines.errors import DatasetError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting
from pipelines.report.entry_frame import PlannedEntry
from pipelines.report.reduce import reduce_entry
from pipelines.storage.store import Store
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.entry_merge import dropped_from_report, merge_entries
from pipelines.sweep.import_predictions import import_rows
from pipelines.sweep.run import run_sweep
from tests.support.endpoint import BatchEndpoint, ScriptedEndpoint
from tests.support.endpoint_script import Say, Status, always
from tests.support.requests import changed, target_of
from tests.support.turns import in_turns
from tests.unit.models.engines.endpoints.rig import ENGINES, PATHS

FRAME, BLACK, OPEN = TaskSetting("vsv", "1-frame"), TaskSetting("vsv", "black-video"), TaskSetting("oevqa", "1-frame")


def entry(
    *groups: TaskSetting, limit: str | None = None, ids: tuple[str, ...] = (), data: str = "", **changes: object
) -> ManifestEntry:
    target = changed(target_of(task_settings=groups), **changes)
    return ManifestEntry(benchmark="maia", model="m", data=data, target=target, limit=limit, sample_ids=ids)


def cuts(manifest_entry: ManifestEntry) -> dict[TaskSetting, tuple[str | None, tuple[str, ...]]]:
    return {
        group: (cut.limit, cut.sample_ids)
        for cut in manifest_entry.by_selection()
        for group in cut.prompts.task_settings
    }


def test_each_setting_keeps_its_last_samples_and_dropped_ones_have_a_way_back() -> None:
    (merged,) = merge_entries([entry(FRAME, OPEN, limit="1-8")], [entry(BLACK, limit="1-4")])
    assert cuts(merged) == {FRAME: ("1-8", ()), OPEN: ("1-8", ()), BLACK: ("1-4", ())}
    (two,) = merge_entries([merged], [entry(OPEN, ids=("video1/Sentiment_A",))])
    assert cuts(two) == {FRAME: ("1-8", ()), OPEN: (None, ("video1/Sentiment_A",)), BLACK: ("1-4", ())}
    (three,) = merge_entries([two], [entry(FRAME, OPEN, BLACK, limit="1-8")])
    assert three.earlier == ()
    assert set(cuts(three).values()) == {("1-8", ())}
    (dropped,) = dropped_from_report([entry(FRAME, OPEN)], [entry(BLACK, seed=7)])
    assert "vsv 1-frame, oevqa 1-frame" in dropped
    assert "--seed" in dropped
    assert "--tasks vsv,oevqa --settings black-video,1-frame" in dropped
    (fewer,) = dropped_from_report([entry(FRAME, limit="1-8")], [entry(FRAME, ids=("video1/Sentiment_A",))])
    assert "--limit 1-8" in fewer
    assert "--sample-id video1/Sentiment_A" in fewer


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (entry(FRAME, limit="1-8"), entry(BLACK, limit="1-4")),
        (entry(FRAME, limit="1-8"), entry(FRAME, limit="1-16")),
        (entry(FRAME, limit="0.1"), entry(FRAME, limit="0.2")),
        (entry(FRAME, limit="1-8"), entry(FRAME)),
        (entry(FRAME, ids=("a",)), entry(FRAME, ids=("a", "b"))),
        (entry(FRAME), entry(FRAME, OPEN, seed=7)),
    ],
)
def test_nothing_is_reported_where_nothing_is_dropped(old: ManifestEntry, new: ManifestEntry) -> None:
    assert dropped_from_report([old], [new]) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (entry(FRAME), entry(FRAME, limit="1-8")),
        (entry(FRAME, limit="1-8"), entry(FRAME, limit="3-16")),
        (entry(FRAME, limit="0.2"), entry(FRAME, limit="0.1")),
        (entry(FRAME, limit="1-8"), entry(FRAME, limit="0.5")),
        (entry(FRAME, ids=("a", "b")), entry(FRAME, ids=("b", "c"))),
    ],
)
def test_fewer_samples_of_a_setting_are_reported(old: ManifestEntry, new: ManifestEntry) -> None:
    assert len(dropped_from_report([old], [new])) == 1


def test_report_counts_each_setting_on_its_own_samples(maia_data: str, tmp_path: Path) -> None:
    dataset = Dataset.open(Store(maia_data), "maia")
    same = {"data": maia_data, "dataset_fingerprint": dataset.manifest.dataset_fingerprint}
    (both,) = merge_entries([entry(FRAME, limit="1-4", **same)], [entry(BLACK, limit="1-6", **same)])  # type: ignore[arg-type]
    out = Store(str(tmp_path))
    context = SweepContext.open(RunSpec(data=maia_data, out=out.uri, models={}, benchmarks=("maia",)))
    results = reduce_entry(PlannedEntry(both, context.entry_plans(both)), [], out)
    counts = {(count.task, count.setting): count.requests for count in results.counts}
    assert counts == {("vsv", "1-frame"): 32, ("vsv", "black-video"): 48}
    assert len(context.planned_ids(both)) == 80


def test_external_entry_has_nothing_pending(maia_data: str, tmp_path: Path) -> None:
    from pipelines.sweep.status import status_rows

    row = {"task": "vsv", "setting": "1-frame", "sample_id": "video1/Sentiment_A", "output": "A"}
    spec = RunSpec(data=maia_data, out=str(tmp_path), models={}, benchmarks=("maia",))
    out = Store(spec.out)
    with AnswerSpool.temporary() as answers:
        for i in range(5):
            row_columns = {"benchmark": "maia", "model": "m", "variant": str(i), "output": None if i == 4 else "A"}
            answers.add(i, {**row, **row_columns})
        imported = import_rows(SweepContext.open(spec), "maia", "m", answers)
    assert imported
    save_run(out, RunManifest(), RunManifest(entries=(imported,)))
    (group,) = status_rows(spec.out)[1]
    assert [group[name] for name in ("requests", "pending", "done", "failed")] == [5, 0, 4, 1]


def test_data_is_checked_before_a_cluster_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from models.catalog_loader import load_models

    monkeypatch.setattr("cluster.lazy.connect", lambda address: pytest.fail(f"Ray was started ({address})"))
    spec = RunSpec(
        data=str(tmp_path / "none"), out=str(tmp_path / "out"), models={"random": load_models()["random"]},
        benchmarks=("maia",),
    )  # fmt: skip
    with pytest.raises(DatasetError, match="no ingested data"):
        run_sweep(spec)


def test_refused_and_omitted_parameters_are_in_run_and_report(maia_data: str, tmp_path: Path, capsys: Any) -> None:
    def script(request: Any) -> Any:
        if "seed" in request.body:
            return Status(status=400, message="Unrecognized request argument supplied: seed")
        return always("A")(request)

    out, models = tmp_path / "out", tmp_path / "models.yaml"
    with ScriptedEndpoint(script) as endpoint:
        entry = f"{{engine: openai, model: deployed, base_url: '{endpoint.base_url}'"
        models.write_text(f"picky: {entry}}}\ncold: {entry}, omit_parameters: [temperature, seed]}}\n")
        flags = ["--benchmarks", "maia", "--settings", "1-frame", "--limit", "1", "--data", maia_data, "--json"]
        sweep = ["run", "--models", "picky,cold", "--models-file", str(models), *flags, "--out", str(out)]
        assert run(sweep) == 0
        bodies = [request.body for request in endpoint.requests]
    assert any("temperature" in body for body in bodies)
    expected = [
        "model cold: seed, temperature of its requests is left out (omit_parameters)",
        "model picky: deployed: the endpoint refuses seed, which is not sent",
    ]
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert [text for text in warnings if text in expected] == expected
    manifest = json.loads((out / "run.json").read_text())
    assert manifest["engine_warnings"] == {"picky": ["deployed: the endpoint refuses seed, which is not sent"]}
    assert manifest["models"]["cold"]["omit_parameters"] == ["temperature", "seed"]
    for command in ([], ["report", str(out), "--json"]):  # again, when no model runs
        assert not command or run(command) == 0
        text = (out / "report" / "report.md").read_text().replace("\\", "")
        assert all(sentence in text for sentence in expected)


@pytest.mark.parametrize("engine", in_turns(ENGINES, ("openai",)))
def test_parameters_refused_inside_batches_are_reported(
    engine: str, maia_data: str, tmp_path: Path, capsys: Any
) -> None:
    def script(request: Any) -> Any:
        if "temperature" in request.body:
            return Status(status=400, message="Unsupported parameter: 'temperature' is not supported with this model")
        return "A"

    out, models = tmp_path / "out", tmp_path / "models.yaml"
    with BatchEndpoint(script, engine=engine) as endpoint:
        address = f"{endpoint.address}{PATHS[engine]}"
        models.write_text(f"picky: {{engine: {engine}, model: deployed, base_url: '{address}', batch_poll_s: 0.01}}\n")
        flags = ["--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame", "--data", maia_data, "--json"]
        sweep = ["run", "--models", "picky", "--models-file", str(models), *flags, "--out", str(out), "--batch"]
        assert run(sweep) == 0
        bodies = [line["body"] for batch in endpoint.batches.batches for line in batch.lines]
        assert endpoint.batches.billed.total() == sum("temperature" not in body for body in bodies)
    expected = "deployed: the endpoint refuses temperature, which is not sent"
    assert f"model picky: {expected}" in json.loads(capsys.readouterr().out)["warnings"]
    assert json.loads((out / "run.json").read_text())["engine_warnings"] == {"picky": [expected]}
    for command in ([], ["report", str(out), "--json"]):  # again, when no model runs
        assert not command or run(command) == 0
        assert f"model picky: {expected}" in (out / "report" / "report.md").read_text()


def test_replies_cut_before_an_answer_are_counted_and_said(maia_data: str, tmp_path: Path, capsys: Any) -> None:
    """Two kinds: nothing but thoughts, and thoughts that the text begins with."""

    def script(request: Any) -> Say:
        answers = ("A", None, "<think>It may be")
        return Say(text=answers[request.number % 3], finish_reason="stop" if request.number % 3 == 0 else "length")

    out, models = tmp_path / "out", tmp_path / "models.yaml"
    with ScriptedEndpoint(script) as endpoint:
        models.write_text(f"m: {{engine: openai, model: m, base_url: '{endpoint.base_url}', concurrency: 1}}\n")
        flags = ["--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame", "--limit", "1", "--data", maia_data]
        assert run(["run", "--models", "m", "--models-file", str(models), *flags, "--out", str(out), "--json"]) == 0
        total = len(endpoint.requests)
    cut = total - len(range(0, total, 3))
    expected = f"m: {cut} of {total} replies were cut by the limit of tokens before an answer"
    assert [text for text in json.loads(capsys.readouterr().out)["warnings"] if text.startswith(expected)]
    assert expected in (out / "report" / "report.md").read_text()
