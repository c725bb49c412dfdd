"""Damage to what a finished night left: the next one heals it, or names the file and what mends it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from jobs.cli.main import run
from tests.support import maia_source
from tests.support.damage_matrix import damage, facts

FLAGS = (
    *("--benchmarks", "maia", "--tasks", "oevqa", "--settings", "1-frame", "--judge", "n"),
    *("--models-file", "models.yaml", "--data", "data", "--out", "out"),
)
MODELS = "m: {{engine: random, seed: {}}}\nn: {{engine: random, seed: 9}}\no: {{engine: random, seed: 3}}\n"
WAYS = ("bit in the middle", "truncated", "empty", "deleted")
KINDS = ("run.json", "part of predictions", "part of scores", "part of judgements", "part of a plan",
         "metrics of the report", "manifest of the data", "shard of the data", "clip of the data")  # fmt: skip
REMEDIES = {
    "vlmsweep score": ("score",),
    "vlmsweep report": ("report",),
    "vlmsweep run": ("run",),
    "--refresh-days 0": ("nightly", "--refresh-days", "0"),
    "move it away": ("nightly", "--refresh-days", "0"),
    "ingest": ("nightly",),
}


def metrics(root: Path) -> dict[tuple[str, ...], object]:
    """Return the values of the joint report by model, task and name."""
    rows = json.loads((root / "out/report/metrics.json").read_text())
    keys = ("model", "task", "setting", "subset", "category", "metric")
    return {tuple(row[key] for key in keys): row["value"] for row in rows if row["unit"] != "seconds"}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first night of `m`, in `base`; the same and a second one of `m` and `o`, in `whole`."""
    folder = tmp_path_factory.mktemp("nights")
    maia_source.write_source(folder / "source", videos=1, categories=1)
    (folder / "base").mkdir()
    (folder / "base/models.yaml").write_text(MODELS.format(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "base")
        assert run(["ingest", "maia", "../source", "--data", "data"]) == 0
        assert run(["nightly", *FLAGS, "--models", "m"]) == 0
        shutil.copytree(folder / "base", folder / "whole")
        patch.chdir(folder / "whole")
        assert run(["nightly", *FLAGS, "--models", "m,o"]) == 0
    return folder


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_a_finished_night_is_named_or_heals(
    kind: str, nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    expected, earlier, right = facts(nights / "whole"), metrics(nights / "base"), metrics(nights / "whole")
    for way in WAYS:
        root = Path(shutil.copytree(nights / "base", tmp_path / way))
        monkeypatch.chdir(root)
        path = damage(kind, way, root, nights / "whole")
        capfd.readouterr()
        caplog.clear()
        code = run(["nightly", *FLAGS, "--models", "m,o"])
        message = capfd.readouterr().err + caplog.text
        where = (kind, way, code, message)
        assert code in (0, 1, 2, 3), where
        assert "Traceback" not in message, where
        is_partial = "answers that an earlier night" in message or "failed rows of" in message
        if (root / "out/report/metrics.json").exists() and not is_partial:
            shown = metrics(root)
            assert all(value in (right[key], earlier.get(key)) for key, value in shown.items()), where
            if shown == right:
                continue
        assert any(words in message for words in (path.name, "no ingested data", "answers that an earlier night")), (
            where
        )
        (remedy, *_) = [command for words, command in REMEDIES.items() if words in message]
        if "move it away" in message:
            path.rename(root / "moved")
        if "ingest" in message:
            assert run(["ingest", "maia", str(nights / "source"), "--data", "data"]) == 0
        assert run([*remedy, *FLAGS, "--models", "m,o"]) == 0, where
        assert run(["report", *FLAGS, "--models", "m,o"]) == 0, where
        assert facts(root) == expected, where
