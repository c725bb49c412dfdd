"""A source with links out of its folder, pipes and rows of megabytes: each is refused with its place, at once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from PIL import Image

from pipelines.errors import LockedError, PipelineError, SourceError
from pipelines.ingest.ingest import MAX_ROW_TEXT
from pipelines.ingest.source_folder import Folder
from pipelines.ingest.table import ingest_table
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of a table with a picture, beside a picture that is not part of it."""
    folder = tmp_path / "source"
    folder.mkdir()
    for path in (folder / "mine.png", tmp_path / "secret.png"):
        Image.new("RGB", (8, 8), "red").save(path)
    return folder


def write(source: Path, *pictures: str, question: str = "Which?") -> None:
    rows = [
        {"id": f"q{n}", "question": question, "image": name, "A": "x", "B": "y", "answer": "A"}
        for n, name in enumerate(pictures)
    ]
    (source / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def reasons(source: Path, tmp_path: Path) -> dict[str, str]:
    result = ingest_table(str(source), Store(str(tmp_path / "data")), name="t")
    return {rejection.item: rejection.reason for rejection in result.rejections}


def test_links_that_lead_out_of_the_folder_are_rejected_and_others_taken(source: Path, tmp_path: Path) -> None:
    (source / "link.png").symlink_to("../secret.png")
    (source / "up").symlink_to("..")
    (source / "within.png").symlink_to("mine.png")
    write(source, "mine.png", "link.png", "up/secret.png", "within.png")
    rejected = reasons(source, tmp_path)
    assert len(rejected) == 2
    assert all("a link out of" in reason and "copy the file into the folder" in reason for reason in rejected.values())


def test_table_that_is_a_link_out_is_read_only_where_it_is_named_itself(source: Path, tmp_path: Path) -> None:
    write(source, "mine.png")
    (source / "q.jsonl").rename(tmp_path / "elsewhere.jsonl")
    (source / "q.jsonl").symlink_to("../elsewhere.jsonl")
    with pytest.raises(SourceError, match=r"q\.jsonl: a link out of"):
        ingest_table(str(source), Store(str(tmp_path / "data")), name="t")
    assert ingest_table(str(source / "q.jsonl"), Store(str(tmp_path / "data")), name="t").manifest.samples == 1


def test_folder_that_is_a_link_itself_is_read(source: Path, tmp_path: Path) -> None:
    write(source, "mine.png")
    (tmp_path / "alias").symlink_to("source")
    assert Folder(str(tmp_path / "alias")).read_bytes("q.jsonl")


def test_pipe_in_place_of_a_picture_rejects_its_row(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe.png")
    write(source, "mine.png", "pipe.png")
    (reason,) = reasons(source, tmp_path).values()
    assert "pipe.png" in reason


def test_pipe_in_place_of_a_table_is_refused(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "q.jsonl")
    for name in (source, source / "q.jsonl"):
        with pytest.raises(PipelineError, match=r"q\.jsonl.*(named pipe|not a regular file)"):
            ingest_table(str(name), Store(str(tmp_path / "data")), name="t")
    assert (source / "q.jsonl").is_fifo()


def test_row_of_megabytes_of_text_is_rejected(source: Path, tmp_path: Path) -> None:
    write(source, "mine.png", question="x" * (MAX_ROW_TEXT + 1))
    with pytest.raises(SourceError, match=r"no usable row, 1 rejected; .*its texts have [\d,]+ characters"):
        reasons(source, tmp_path)


def test_second_ingest_into_one_place_is_refused_and_unfinished_files_go(source: Path, tmp_path: Path) -> None:
    write(source, "mine.png")
    place = tmp_path / "data/t"
    with run_lock(Store(str(place))), pytest.raises(LockedError, match="stop it, or choose another --data"):
        reasons(source, tmp_path)
    unfinished = place / "media" / f".vlmsweep-{'a' * 32}.tmp"
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    unfinished.write_text("half")
    assert reasons(source, tmp_path) == {}
    assert not unfinished.exists()
    assert not (place / "lock.json").exists()
