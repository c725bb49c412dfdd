"""A site replaces and deletes the files of its own marker, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.cli.main import run
from jobs.site.build import MARKER, SiteFolder
from pipelines.errors import UsageError


def stage(folder: Path, **files: str) -> Path:
    """Write files of a new site."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Return the files of a folder, without the marker."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != MARKER}


def test_second_site_replaces_and_deletes_files_of_the_first_alone(tmp_path: Path) -> None:
    to = tmp_path / "to"
    SiteFolder(str(to)).publish(stage(tmp_path / "1", a="1", b="1", c="1"))
    (to / "mine").write_text("mine")
    (to / "c").write_text("changed")
    SiteFolder(str(to)).publish(stage(tmp_path / "2", a="2"))
    assert contents(to) == {"a": "2", "mine": "mine", "c": "changed"}
    SiteFolder(str(to)).publish(stage(tmp_path / "3", a="3"))
    assert contents(to)["a"] == "3"


@pytest.mark.parametrize("problem", ["foreign", "changed", "link"])
def test_file_in_the_way_is_refused_before_anything_is_written(tmp_path: Path, problem: str) -> None:
    to = tmp_path / "to"
    SiteFolder(str(to)).publish(stage(tmp_path / "1", a="1", b="1"))
    name = {"foreign": "c", "changed": "b", "link": "b"}[problem]
    (to / name).unlink(missing_ok=True)
    (tmp_path / "target").write_text("mine")
    if problem == "link":
        (to / name).symlink_to(tmp_path / "target")
    else:
        (to / name).write_text("mine")
    with pytest.raises(UsageError, match=f"to/{name}: .*move it away"):
        SiteFolder(str(to)).publish(stage(tmp_path / "2", a="2", b="2", c="2"))
    assert contents(to)["a"] == "1"
    assert (to / name).read_text() == "mine"
    assert (tmp_path / "target").read_text() == "mine"


@pytest.mark.parametrize("path", ["../outside", "{tmp}/outside"])
def test_marker_that_names_files_elsewhere_deletes_nothing(tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").write_text("x")
    to = tmp_path / "to"
    to.mkdir()
    sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    (to / MARKER).write_text(f"{sha256}  {path.format(tmp=tmp_path)}\n")
    with pytest.raises(UsageError, match="leads out of the folder"):
        SiteFolder(str(to)).publish(stage(tmp_path / "1", a="1"))
    assert (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("s3://bucket/x", "only local folders"),
        ("{tmp}/full", "holds files that `site` did not write"),
        ("{tmp}/full/file", "is a file"),
    ],
)
def test_unusable_folders_are_refused(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    assert run(["site", out, "--to", folder.format(tmp=tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert contents(tmp_path / "full") == {"file": "kept"}


def test_interrupted_site_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.storage.store import Store

    to, put = tmp_path / "to", Store.put
    SiteFolder(str(to)).publish(stage(tmp_path / "1", a="1", b="1"))

    def stop(store: Store, path: str, content: bytes, *, hold: bool = False) -> None:
        if path == "b":
            raise KeyboardInterrupt
        put(store, path, content, hold=hold)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", stop)
        with pytest.raises(KeyboardInterrupt):
            SiteFolder(str(to)).publish(stage(tmp_path / "2", a="2", b="2"))
    assert contents(to) == {"a": "2", "b": "1"}
    SiteFolder(str(to)).publish(stage(tmp_path / "3", a="3", b="3"))
    assert contents(to) == {"a": "3", "b": "3"}
