"""Inspect's logs: Inspect reads them back with the same answers and scores."""

from __future__ import annotations

import base64
import io
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jobs.cli.main import run
from jobs.export.inspect_log import _headline
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from tests.support.viewer_output import part

inspect_log = pytest.importorskip("inspect_ai.log")


def exported(out: str, folder: Path, *flags: str) -> dict[str, Any]:
    """Return the logs by model and task."""
    assert run(["export", "inspect", out, str(folder), *flags]) == 0
    logs = [inspect_log.read_eval_log(str(path), resolve_attachments="full") for path in folder.glob("*.eval")]
    return {f"{log.eval.model} {log.eval.task}": log for log in logs}


@pytest.fixture(scope="module")
def whole(out: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of an export, and its logs."""
    folder = tmp_path_factory.mktemp("inspect") / "exported"
    return folder, exported(out, folder)


def test_scores_and_answers_are_read_back(out: str, whole: tuple[Path, dict[str, Any]]) -> None:
    logs = whole[1]
    assert {*logs} == {"m/1 maia-vsv", "m/1 maia-oevqa", "new maia-vsv", "new maia-oevqa"}
    samples = {sample.uuid: sample for name, log in logs.items() if "m/1" in name for sample in log.samples}
    store, path = Store(out), str(part(out, "predictions", "m/1").relative_to(out))
    predictions = read_part(store, path).to_pylist()
    scores = {row["request_id"]: row for row in read_part(store, path.replace("predictions", "scores")).to_pylist()}
    assert len(samples) == len(predictions)
    for row in predictions:
        sample = samples[row["request_id"]]
        values = {name: score.value for name, score in (sample.scores or {}).items()}
        assert values == dict(scores[row["request_id"]]["values"])
        assert (sample.error is None) == (row["status"] == "ok")
        assert sample.output.completion == (row["output"] or "")
    failed = next(sample for sample in samples.values() if sample.error)
    assert (failed.scores, failed.output.choices) == (None, [])
    assert failed.error.message.startswith("http_401: ")


def test_metrics_stand_by_setting_and_what_has_no_score_is_absent(whole: tuple[Path, dict[str, Any]]) -> None:
    log = whole[1]["new maia-vsv"]
    assert {sample.scores is None for sample in log.samples} == {True}
    assert log.results.scores == []
    log = whole[1]["m/1 maia-vsv"]
    (score,) = log.results.scores
    assert (score.name, score.metrics["pool_accuracy"].value) == ("black-video", 0.625)
    assert (log.results.headline, log.eval.headline_metric) == (None, None)  # that of MAIA is of both its tasks


def test_headline_is_the_benchmarks_in_the_first_setting_that_has_it() -> None:
    measured = {"blind": {"other": 0.1}, "shown": {"other": 0.2, "exact_match": 0.5}, "text": {"exact_match": 0.9}}
    scores = [
        inspect_log.EvalScore(
            name=setting,
            scorer="mate",
            metrics={name: inspect_log.EvalMetric(name=name, value=value) for name, value in values.items()},
        )
        for setting, values in measured.items()
    ]
    results = inspect_log.EvalResults(scores=scores, headline=_headline(scores, "mate"))
    log = inspect_log.EvalLog.model_construct(results=results)
    resolved = inspect_log.headline_metric(log)  # as Inspect's lists of logs do
    assert (resolved.score.name, resolved.name, resolved.metric.value) == ("shown", "exact_match", 0.5)


def test_log_shows_what_the_model_saw(whole: tuple[Path, dict[str, Any]]) -> None:
    from PIL import Image

    folder, logs = whole
    sample = logs["m/1 maia-oevqa"].samples[0]
    (question, answer) = sample.messages
    picture, text = question.content
    kind, _, content = picture.image.partition(",")
    assert kind == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (8 * 64, 4 * 48)
    assert "?" in text.text
    assert answer.text == f"{sample.metadata['sample_id']} answered"
    assert len(sample.target) == 8
    clips = {path.stem for path in (folder / "media").iterdir()}
    assert {medium["sha256"] for medium in sample.metadata["media"]} <= clips
    assert len(clips) == 2


def test_samples_are_written_in_parts(
    out: str, folder: Path, whole: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.export.inspect_log._BUFFERED_SAMPLES", 3)
    logs = exported(out, folder)
    assert logs.keys() == whole[1].keys()
    for name, log in logs.items():
        both = zip(log.samples, whole[1][name].samples, strict=True)
        assert all((a.uuid, a.output.completion, a.scores) == (b.uuid, b.output.completion, b.scores) for a, b in both)
        names = zipfile.ZipFile(log.location).namelist()
        assert sum("/summaries/" in name for name in names) == math.ceil(len(log.samples) / 3)


def test_media_are_left_out_on_request(out: str, folder: Path) -> None:
    sample = exported(out, folder, "--no-media")["m/1 maia-oevqa"].samples[0]
    assert sample.messages[0].content[0].text == f"<video:{sample.metadata['media'][0]['sha256']}>"
    assert not (folder / "media").exists()


def test_missing_package_is_named(
    out: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    assert run(["export", "inspect", out, str(folder)]) == 2
    assert "pip install 'vlmsweep[inspect]'" in capsys.readouterr().err
