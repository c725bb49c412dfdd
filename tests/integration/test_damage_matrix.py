"""Every kind of damage to every kind of file of an output: no number changes silently, and the remedy mends it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs.cli.main import run
from tests.support import maia_source
from tests.support.damage_matrix import DAMAGES, FILES, damage, facts

FLAGS = (
    *("--models", "m", "--benchmarks", "maia", "--tasks", "vsv,oevqa", "--settings", "1-frame", "--judge", "n"),
    *("--models-file", "models.yaml", "--data", "data", "--out", "out"),
)


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs that differ in the answers of their models."""
    folder = tmp_path_factory.mktemp("damage")
    with pytest.MonkeyPatch.context() as patch:
        for name, seed in (("base", 1), ("other", 5)):
            maia_source.write_source(folder / name / "source", videos=2, categories=2)
            (folder / name / "models.yaml").write_text(
                f"m: {{engine: random, seed: {seed}}}\nn: {{engine: random, seed: {seed + 1}}}\n"
            )
            patch.chdir(folder / name)
            assert run(["ingest", "maia", "source", "--data", "data"]) == 0
            assert run(["run", *FLAGS]) == 0
    return folder / "base", folder / "other"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", FILES)
def test_damage_is_found_and_the_remedy_mends_it(
    kind: str, roots: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    base, other = roots
    expected = facts(base)
    for way in DAMAGES:
        for command in ("report", "score", "status"):
            root = Path(shutil.copytree(base, tmp_path / f"{way} {command}"))
            monkeypatch.chdir(root)
            path = damage(kind, way, root, other)
            capfd.readouterr()
            code = run([command, *FLAGS] if command != "status" else [command, "out"])
            message = capfd.readouterr().err
            where = (kind, way, command, message)
            assert code in (0, 2, 3), where
            assert "Traceback" not in message, where
            if code:
                remedy = ("ingest", "move it away", "`vlmsweep", "is this the --out")
                assert any(words in message for words in remedy), where
                assert command == "status" or path.name in message or path.parent.name in message, where
            if "move it away" in message:
                path.rename(root / "moved")
            if run(["run", *FLAGS]):
                assert "ingest" in capfd.readouterr().err, where
                assert run(["ingest", "maia", "source", "--data", "data"]) == 0
                assert run(["run", *FLAGS]) == 0, where
            assert facts(root) == expected, where
