"""The manifest of an output when a model is run again with other settings or samples."""

from pathlib import Path

import pytest

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
from tests.support.requests import changed, target_of

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
