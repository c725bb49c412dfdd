"""The demo runs all benchmarks and repeats no finished step."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from jobs.demo import main as demo
from jobs.demo.checkpoint import build_checkpoint
from jobs.demo.main import BENCHMARKS
from jobs.demo.screen import LEARNED
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import selected_groups
from pipelines.progress import NullProgress
from pipelines.storage.store import Store
from pipelines.sweep.run import SweepResult
from tests.support.checkpoints import build_tiny


class RecordingProgress(NullProgress):
    def __init__(self) -> None:
        self.titles: list[str] = []

    def phase(self, title: str, total: int) -> None:
        self.titles.append(title)


@pytest.fixture
def no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run_sweep", lambda spec, *, progress: SweepResult())


def run(out: Path, *, all_settings: bool = False) -> tuple[RunSpec, list[str]]:
    progress = RecordingProgress()
    spec, _ = demo.run_demo(str(out), all_settings=all_settings, progress=progress)
    return spec, progress.titles


@pytest.mark.usefixtures("no_sweep")
def test_demo_runs_every_benchmark_with_baseline_judge_and_captioner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        spec, titles = run(tmp_path, all_settings=True)
    assert set(spec.benchmarks) == set(benchmark_names())
    assert (spec.tasks, spec.settings, spec.limit) == ((), (), None)
    assert {model.engine for model in spec.models.values()} == {"transformers", "random"}
    assert spec.judges
    assert spec.captioners
    assert caplog.messages == [], "ingest does not warn about the small data"
    assert [title.split()[1] for title in titles if title.startswith("ingest")] == list(BENCHMARKS)
    for name in BENCHMARKS:
        manifest = Dataset.open(Store(spec.data), name).manifest
        assert manifest.rejected == 0
        assert manifest.samples >= 16


@pytest.mark.usefixtures("no_sweep")
def test_quick_demo_runs_the_headline_of_every_benchmark(tmp_path: Path) -> None:
    spec, _ = run(tmp_path)
    cells = {
        name: {(cell.task, cell.setting) for cell in selected_groups(benchmark(name), spec.tasks, spec.settings)}
        for name in BENCHMARKS
    }
    assert all(len({setting for _, setting in benchmark_cells}) == 1 for benchmark_cells in cells.values())
    assert LEARNED[1:] in cells[LEARNED[0]]
    for name in BENCHMARKS:
        definition = benchmark(name)
        settings = {setting for _, setting in cells[name]}
        derived = {(task, setting) for task in definition.derived_tasks for setting in settings}
        headline = definition.headline_group({*cells[name], *derived})
        assert headline is not None
        assert headline[0] == definition.headline_at[0]
        for needed in definition.derived_tasks.get(headline[0], headline[:1]):
            assert (needed, headline[1]) in cells[name]
        assert spec.scorers_for(name) == [], "nothing is fetched"


@pytest.mark.usefixtures("no_sweep")
def test_demo_resumes_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "BENCHMARKS", ("mate",))
    run(tmp_path, all_settings=True)
    assert run(tmp_path, all_settings=True)[1] == []
    fingerprint = Dataset.open(Store(str(tmp_path / "data")), "mate").manifest.dataset_fingerprint
    (tmp_path / "data" / "mate" / "manifest.json").unlink()
    (tmp_path / "samples" / "mate" / "mm_0shot.jsonl").write_bytes(b"{")
    assert run(tmp_path, all_settings=True)[1] == ["ingest mate sample data"]
    assert Dataset.open(Store(str(tmp_path / "data")), "mate").manifest.dataset_fingerprint == fingerprint


def test_demo_refuses_a_remote_folder() -> None:
    with pytest.raises(UsageError, match="local folder"):
        demo.run_demo("s3://bucket/demo", all_settings=False, progress=NullProgress())


def test_demo_checkpoint_equals_the_tiny_qwen2_5_vl_of_the_tests(tmp_path: Path) -> None:
    built = build_checkpoint(tmp_path / "demo")
    expected = build_tiny(tmp_path / "tests", "qwen2_5_vl")
    assert {path.name: path.read_bytes() for path in built.iterdir()} == {
        path.name: path.read_bytes() for path in expected.iterdir()
    }
