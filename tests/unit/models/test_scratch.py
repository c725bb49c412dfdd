"""Scratch folders are removed by their user or once the kernel says that their owners have ended; nothing else is."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.errors import ScratchError
from models.scratch import (
    boot_id,
    hold_scratch,
    is_unlocked,
    make_scratch,
    private_folder,
    remove_abandoned,
    remove_scratch,
    scratch,
    scratch_base,
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def in_another_process(parent: Path, ending: str) -> Iterator[Path]:
    """Yield a scratch folder that a process made, which then ends, or waits until the block is left."""
    code = f"import models.scratch as s, os, sys; print(s.make_scratch({str(parent)!r}), flush=True); {ending}"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield Path(process.stdout.readline().decode().strip())


def abandoned_folder(parent: Path) -> Path:
    with in_another_process(parent, "os.kill(os.getpid(), 9)") as folder:
        pass
    return folder


def test_folder_states_its_owner_and_goes_with_the_block(temporary: Path) -> None:
    with scratch() as folder:
        assert folder.parent == temporary / f"vlmsweep-{os.getuid()}"
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        owner = json.loads(next(folder.glob("owner-*.json")).read_bytes())
        assert (owner["pid"], owner["boot"]) == (os.getpid(), boot_id())
        assert owner["host"]
        assert int(owner["start"]) > 0
        remove_abandoned()
        assert folder.is_dir()
    assert not folder.exists()


def test_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(temporary: Path) -> None:
    abandoned = abandoned_folder(temporary)
    assert abandoned.is_dir()
    with in_another_process(temporary, "sys.stdin.read()") as used:
        remove_abandoned()
        assert not abandoned.exists()
        assert used.is_dir()
    remove_abandoned()
    assert not used.exists()


def test_folder_stays_while_one_of_its_users_lives(temporary: Path) -> None:
    folder = abandoned_folder(temporary)
    hold_scratch(folder)
    hold_scratch(folder)
    remove_abandoned()
    assert len([*folder.glob("owner-*.json")]) == 2
    remove_scratch(folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", json.dumps({"boot": "another start", "pid": 4, "start": "1"}).encode()],
)
def test_folder_without_proof_of_its_owner_stays(content: bytes) -> None:
    folder = scratch_base() / "abcd1234"
    folder.mkdir()
    (folder / "owner-1-00.json").write_bytes(content)
    (scratch_base() / "no-owner").mkdir()
    remove_abandoned()
    assert folder.is_dir()
    assert (scratch_base() / "no-owner").is_dir()


def test_link_to_an_abandoned_folder_is_not_followed(temporary: Path) -> None:
    (temporary / "elsewhere").mkdir()
    folder = abandoned_folder(temporary / "elsewhere")
    (scratch_base() / "link").symlink_to(folder)
    remove_abandoned()
    assert folder.is_dir()


def test_only_scratch_folders_are_removed(temporary: Path) -> None:
    other = temporary / "vlmsweep-2026-11-24"
    other.mkdir()
    (other / "owner-1-00.json").write_text("{}")
    remove_scratch(other)
    remove_scratch(temporary / "absent")
    assert other.is_dir()


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt], ids=["written to", "interrupted"])
def test_folder_that_could_not_be_removed_whole_goes_with_a_later_run(
    failure: type[BaseException] | None, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rmtree(path: Path, **_: object) -> None:
        for owner in path.glob("owner-*.json"):
            owner.unlink()
        if failure:
            raise failure

    folder = abandoned_folder(temporary)
    (folder / "session").mkdir()
    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(shutil, "rmtree", rmtree)
        remove_abandoned()
    assert folder.exists()
    remove_abandoned()
    assert not folder.exists()


def test_files_go_before_the_proof_of_owners(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = abandoned_folder(temporary)
    (folder / "answers.sqlite").write_text("large")
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    remove_abandoned()
    assert [path.name.partition("-")[0] for path in folder.iterdir()] == ["owner"]


def test_process_that_ends_at_once_removes_all_that_it_holds(temporary: Path) -> None:
    code = (
        "import models.scratch as s, os, sys; folders = [s.make_scratch(), s.make_scratch(sys.argv[1])];"
        "(folders[0] / 'clip').touch(); s.remove_locked(); os._exit(3)"
    )
    (temporary / "short").mkdir()
    subprocess.run([sys.executable, "-c", code, str(temporary / "short")], env={"TMPDIR": str(temporary)}, check=False)
    base = f"vlmsweep-{os.getuid()}"
    assert [*(temporary / base).iterdir(), *(temporary / "short" / base).iterdir()] == []


def test_base_that_is_a_link_or_a_file_is_refused(temporary: Path) -> None:
    (temporary / "mine").mkdir()
    (temporary / "link").symlink_to(temporary / "mine")
    with pytest.raises(ScratchError, match="is a link or another user's; set TMPDIR"):
        private_folder(temporary / "link")
    (temporary / f"vlmsweep-{os.getuid()}").write_text("a file")
    with pytest.raises(ScratchError, match="is a file; set TMPDIR"):
        make_scratch()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_base_of_another_user_is_refused(temporary: Path) -> None:
    base = temporary / f"vlmsweep-{os.getuid()}"
    base.mkdir()
    os.chown(base, 12345, 12345)
    with pytest.raises(ScratchError, match="another user's"):
        make_scratch()


def test_only_regular_files_without_a_lock_count_as_unlocked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert is_unlocked(tmp_path / "file")
    assert not any(is_unlocked(tmp_path / name) for name in ("pipe", "link", "absent"))
