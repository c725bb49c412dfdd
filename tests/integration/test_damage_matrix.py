"""Every kind of damage to every kind of file of an output: no number changes silently, and the remedy mends it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.cli.main import run
from jobs.view.run import viewer
from pipelines.samples.outputs import open_outputs
from tests.support import maia_source, vague_source
from tests.support.damage_matrix import CAPTIONS, DAMAGES, FILES, damage, facts
from tests.support.turns import in_turns

PLACES = ("--models", "m", "--models-file", "models.yaml", "--data", "data", "--out", "out")
FLAGS = (*("--benchmarks", "maia", "--tasks", "vsv,oevqa", "--settings", "1-frame", "--judge", "n"), *PLACES)
CAPTIONED = ("--benchmarks", "vague", "--tasks", "mcq", "--settings", "sm-other", "--captioner", "n", *PLACES)
SAME_REQUEST_KINDS = ("run.json", "part of predictions", "part of scores")
"""Another run of the same requests has other answers to them, which count as answers to them here."""
READERS = {
    "compare": ("compare", "out", "../other/out", "--models", "m"),
    "leaderboard": ("leaderboard", "out", "--to", "board"),
    "export": ("export", "hub", "out", "exported"),
}


def make_runs(folder: Path, ingest: tuple[str, ...], flags: tuple[str, ...]) -> tuple[Path, Path]:
    """Make two runs that differ in the answers of their models."""
    with pytest.MonkeyPatch.context() as patch:
        for name, seed in (("base", 1), ("other", 5)):
            (folder / name).mkdir()
            (folder / name / "models.yaml").write_text(
                f"m: {{engine: random, seed: {seed}}}\nn: {{engine: random, seed: {seed + 1}}}\n"
            )
            patch.chdir(folder / name)
            assert run(["ingest", *ingest, "--data", "data"]) == 0
            assert run(["run", *flags]) == 0
    return folder / "base", folder / "other"


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs with a judge."""
    folder = tmp_path_factory.mktemp("damage")
    maia_source.write_source(folder / "source", videos=2, categories=2)
    return make_runs(folder, ("maia", "../source"), FLAGS)


@pytest.fixture(scope="module")
def captioned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs with captions."""
    folder = tmp_path_factory.mktemp("captions")
    vague_source.write_drive(folder / "source")
    return make_runs(folder, ("vague", "../source"), CAPTIONED)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", in_turns(FILES, ("part of predictions", "part of scores")))
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
                assert run(["ingest", "maia", str(base.parent / "source"), "--data", "data"]) == 0
                assert run(["run", *FLAGS]) == 0, where
            assert facts(root) == expected, where


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", in_turns(("report", "score", "status", "run"), ("run",)))
def test_damaged_captions_are_made_again(
    command: str, captioned: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture,
) -> None:  # fmt: skip
    base, other = captioned
    expected = facts(base)
    for way in DAMAGES:
        root = Path(shutil.copytree(base, tmp_path / way))
        monkeypatch.chdir(root)
        damage(CAPTIONS, way, root, other)
        capfd.readouterr()
        code = run([command, *CAPTIONED] if command != "status" else [command, "out"])
        message = capfd.readouterr().err
        assert code in (0, 2, 3), (way, message)
        assert "Traceback" not in message, (way, message)
        assert run(["run", *CAPTIONED]) == 0, (way, message)
        assert facts(root) == expected, (way, message)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", in_turns(FILES, ("part of predictions", "part of scores")))
def test_commands_that_only_read_show_other_numbers_with_a_sentence_alone(
    kind: str, roots: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    base, other = roots
    (tmp_path / "other").symlink_to(other)
    for command, arguments in READERS.items():
        wholes: dict[str, tuple[str, dict[str, bytes]]] = {}
        for way in ("whole", *DAMAGES):
            monkeypatch.chdir(tmp_path)
            shutil.rmtree(tmp_path / "run", ignore_errors=True)  # one place, as messages name it
            root = Path(shutil.copytree(base, tmp_path / "run"))
            monkeypatch.chdir(root)
            if way != "whole":
                damage(kind, way, root, other)
            capfd.readouterr()
            caplog.clear()
            code = run([*arguments])
            shown = capfd.readouterr()
            written = {
                str(path.relative_to(root)): path.read_bytes()
                for folder in ("board", "exported")
                for path in (root / folder).rglob("*")
                if path.is_file()
            }
            where = (kind, way, command, shown.err)
            assert code in (0, 2, 3), where
            assert "Traceback" not in shown.err, where
            wholes.setdefault("whole", (shown.out, written))
            is_equal = (shown.out, written) == wholes["whole"]
            has_same_requests = way == "of another run" and kind in (
                "run.json",
                "part of predictions",
                "part of scores",
            )
            assert is_equal or has_same_requests or (shown.err + caplog.text).strip(), where


@pytest.mark.slow
@pytest.mark.parametrize("kind", in_turns(FILES, ("part of predictions", "part of scores")))
def test_viewer_shows_the_rest(kind: str, roots: tuple[Path, Path], tmp_path: Path) -> None:
    base, other = roots
    for way in DAMAGES:
        root = Path(shutil.copytree(base, tmp_path / way))
        damage(kind, way, root, other)
        with viewer(open_outputs([str(root / "out")], str(root / "data")), "key") as app:
            client = TestClient(app, base_url="http://127.0.0.1/key/")
            while "Reading the outputs" in client.get("").text:
                time.sleep(0.05)
            for page in ("", "samples", "benchmark?name=maia"):
                assert client.get(page).status_code in (200, 404), (kind, way, page)
