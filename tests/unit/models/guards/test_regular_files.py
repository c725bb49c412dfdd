"""Only regular files are opened; pipes, sockets, devices and folders are refused at once, and stay."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from models.errors import ModelsFileError, YamlFileError
from models.fingerprint import content_fingerprint
from models.guards.regular_files import NotRegularError, check_replaceable, open_regular, read_regular
from models.strict_yaml import read_yaml

KINDS = {"pipe": "a named pipe", "socket": "a socket", "folder": "a folder", "device": "a device"}


@pytest.fixture(params=KINDS)
def special(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A path that is no regular file, and what it is called."""
    path = tmp_path / "x"
    with ExitStack() as stack:
        if request.param == "pipe":
            os.mkfifo(path)
        elif request.param == "folder":
            path.mkdir()
        elif request.param == "socket":
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(str(path))
        else:
            path.symlink_to(os.devnull)
        yield path, KINDS[request.param]


def test_what_is_no_regular_file_is_refused_with_its_kind(special: tuple[Path, str]) -> None:
    path, kind = special
    with pytest.raises(NotRegularError, match=f"it is {kind}, not a regular file; move it away, or give a file"):
        open_regular(path)
    with pytest.raises(YamlFileError, match=f"{path}: the models file cannot be read: it is {kind}"):
        read_yaml(path, "models file")


def test_what_is_no_regular_file_is_neither_replaced_nor_removed(special: tuple[Path, str]) -> None:
    path, kind = special
    with pytest.raises(NotRegularError, match=kind if not path.is_symlink() else "a link"):
        check_replaceable(path, in_place=True)
    if path.is_symlink():  # renaming onto it, or removing it, leaves what it leads to alone
        check_replaceable(path)
        return
    with pytest.raises(NotRegularError, match=kind):
        check_replaceable(path)


def test_regular_file_and_link_to_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"content"
    with pytest.raises(NotRegularError, match="a link"):
        open_regular(tmp_path / "link", follow_links=False)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "absent")
    check_replaceable(tmp_path / "absent")


def test_checkpoint_with_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(ModelsFileError, match=r"model.safetensors: it is a named pipe"):
        content_fingerprint(tmp_path)
