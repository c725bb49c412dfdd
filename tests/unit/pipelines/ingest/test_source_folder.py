"""The folder of a benchmark as distributed: matching, invalid paths and encodable text."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from unicodedata import normalize

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.source_folder import MAX_PATH, Folder, is_encodable


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for name in ("a.json", "data/b.json", "data/deep/c.json", "data/d.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return Folder(str(tmp_path))


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*.json", ["a.json"]),
        ("data/*.json", ["data/b.json"]),
        ("*/*.json", ["data/b.json"]),
        ("data/*/*", ["data/deep/c.json"]),
        ("missing/*", []),
    ],
)
def test_glob_matches_within_one_folder(folder: Folder, pattern: str, paths: list[str]) -> None:
    assert folder.glob(pattern) == paths


@pytest.mark.parametrize("path", ["../a.json", "/etc/hostname", "a\x00b", "a\ud800", "x" * (MAX_PATH + 1), "n" * 256])
def test_invalid_path_does_not_exist(folder: Folder, path: str) -> None:
    assert not folder.exists(path)
    with pytest.raises(FileNotFoundError, match="not a valid path"):
        folder.read_bytes(path)


def test_files_are_read_whole(folder: Folder) -> None:
    assert folder.exists("data/d.csv")
    assert folder.read_bytes("data/d.csv") == b"data/d.csv"
    assert not folder.exists("data")


def test_picture_named_in_another_unicode_form_is_found(tmp_path: Path) -> None:
    spellings = {normalize(form, "bilder/ﬁlm ２ é.jpg") for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert len(spellings) == 4
    for place, (stored, named) in enumerate(permutations(spellings, 2)):
        root = tmp_path / str(place)
        (root / stored).parent.mkdir(parents=True)
        (root / stored).write_bytes(b"picture")
        source = Folder(str(root))
        assert source.exists(named)
        assert source.read_bytes(named) == b"picture"
        assert not source.exists(named.replace("jpg", "png"))
        assert not source.exists("bilder/ü.jpg")


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="missing: no such folder"):
        Folder(str(tmp_path / "missing"))
    with pytest.raises(SourceError, match=r"data\.json: no such file or folder"):
        Folder(str(tmp_path / "data.json"))
    (tmp_path / "data.json").touch()
    with pytest.raises(SourceError, match=r"data\.json: not a folder; give the folder that it is in"):
        Folder(str(tmp_path / "data.json"))


def test_half_a_surrogate_pair_is_not_encodable() -> None:
    assert is_encodable("caffè \U0001f600")
    assert not is_encodable("half \ud800")
