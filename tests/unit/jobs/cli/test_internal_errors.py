"""A bug in any stage ends the command with exit code 70 and its traceback; what was committed stays.

Work as small as this runs in the driver; bugs in Ray's workers are planted in
`tests/integration/test_hostile_text.py`.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import NoReturn

import pytest

from jobs.cli.main import run
from pipelines.benchmarks import benchmark
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError
from pipelines.storage.store import Store
from tests.support import unpie_source

MAIA = "--models random --benchmarks maia --tasks vsv,oevqa --settings 1-frame --limit 2 --data {data} --out {out}"
UNPIE = "--models random --benchmarks unpie --settings sm --captioner random --data {unpie} --out {folder}/captions"
BENCHMARK, TABLES = (f"pipelines.benchmarks.maia.{name}" for name in ("benchmark", "tables"))
BUGS = {
    "ingest": ("ingest maia {source} --data {folder}/data", "pipelines.ingest.ingest:MediaWriter.write"),
    "plan": (f"run {MAIA} --dry-run", "pipelines.plan.prompt_plan:PromptPlan.rows"),
    "prompt": (f"run {MAIA} --seed 9", "pipelines.benchmarks.maia.prompts:statements"),
    "load": (f"predict {MAIA} --seed 9", "pipelines.predict.loader:Loader.load"),
    "engine": (f"predict {MAIA} --seed 9", "pipelines.predict.unit_runner:UnitRunner.answer"),
    "caption": (f"run {UNPIE}", "pipelines.benchmarks.unpie.benchmark:caption_steps"),
    "judge": (f"score {MAIA} --judge random", f"{BENCHMARK}:judge_request"),
    "judge's plan": (f"score {MAIA} --judge random", "pipelines.score.judge:JudgeReplies.question"),
    "reading": (f"score {MAIA}", f"{BENCHMARK}:_read_vsv"),
    "text scorer": (f"score {MAIA}", "pipelines.score.part_scorer:look_for"),
    "reduce": (f"report {MAIA}", "pipelines.benchmarks.maia.metrics:_vsv"),
    "table": (f"report {MAIA}", f"{TABLES}:_category_table"),
    "figure": (f"report {MAIA}", f"{TABLES}:_radar"),
    "drawing": (f"report {MAIA}", "pipelines.report.render:to_svg_bytes"),
    "render": (f"report {MAIA}", "pipelines.report.render:metrics_json"),
    "status": ("status {out}", "pipelines.sweep.status:load_existing_run"),
    "compare": ("compare {out} {out}", "pipelines.report.compare:_differences"),
}


def no_checkpoint(model: str) -> NoReturn:
    raise ScorerUnavailableError(model, "the test has none.", "")


def without_scorer_models(patch: pytest.MonkeyPatch) -> None:
    """Let no scorer model be looked for on the hub."""
    for module in ("part_scorer", "text_scorers"):
        patch.setattr(f"pipelines.score.{module}.look_for", no_checkpoint)


@pytest.fixture(scope="module")
def unpie_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """UNPIE with its pictures, ingested."""
    folder = tmp_path_factory.mktemp("unpie")
    source = unpie_source.write_source(folder / "source")
    ingest_benchmark(benchmark("unpie"), Folder(str(source)), Store(str(folder / "data")))
    return folder / "data"


@pytest.fixture(scope="module")
def finished_run(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run of two samples."""
    out = tmp_path_factory.mktemp("finished") / "out"
    with pytest.MonkeyPatch.context() as patch:
        without_scorer_models(patch)
        assert run(["run", *MAIA.format(data=maia_data, out=out).split()]) == 0
    assert (out / "report" / "metrics.json").is_file()
    return out


@pytest.fixture
def out(finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the finished output; the test must leave its predictions as they are."""
    without_scorer_models(monkeypatch)
    out = tmp_path / "out"
    shutil.copytree(finished_run, out)
    before = {path: path.read_bytes() for path in out.glob("predictions/*/*/*.parquet")}
    assert before
    yield out
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("stage", BUGS)
def test_bug_in_a_stage_ends_with_70_and_its_traceback(
    stage: str,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    maia_source: Path,
    maia_data: str,
    unpie_data: Path,
    tmp_path: Path,
) -> None:
    def planted(*arguments: object, **flags: object) -> NoReturn:
        raise KeyError("planted")

    command, target = BUGS[stage]
    for folder in {"score": ["scores"], "report": ["report"]}.get(command.split()[0], []):
        shutil.rmtree(out / folder)  # what is up to date would not be made again
    folders = {"source": maia_source, "data": maia_data, "unpie": unpie_data, "out": out, "folder": tmp_path}
    module, _, name = target.partition(":")
    *classes, name = name.split(".")
    owner = reduce(getattr, classes, importlib.import_module(module))
    monkeypatch.setattr(owner, name, planted)
    assert run(command.format(**folders).split()) == 70
    error = capsys.readouterr().err
    assert "Traceback (most recent call last)" in error
    assert "in planted" in error
    assert "KeyError: 'planted'" in error
    assert "internal error, please report it" in error
    assert "is unavailable" not in error
    assert "ModelUnavailableError" not in error
