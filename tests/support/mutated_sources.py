"""Sources of every benchmark with damaged rows; ingest must use each or list it with a reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support import maia_source, mate_source, unpie_source, vague_source, vflute_source
from tests.support.mutating import mutated

__all__ = ["SOURCES", "ingest_damaged", "write_rows"]

PER_VIDEO = 24
PICTURE = unpie_source.picture("one")
URI = "data:image/png;base64," + base64.b64encode(PICTURE).decode()


Change = Callable[[dict[str, Any], int], dict[str, Any]]
"""A row and its number -> the row as it is written."""


def _maia(folder: Path, many: int, change: Change) -> int:
    """Return questions of some videos that share one clip's content; each question is a row."""
    count = ceil(many / PER_VIDEO)
    videos = maia_source.questions(count)
    number = 0
    for video in videos:
        for half in ("question_categories_A", "question_categories_B"):
            for index, entry in enumerate(video[half]):
                video[half][index] = change(entry, number)
                number += 1
    maia_source.write_clip(folder / "videos" / "1.mp4", frames=4)
    for n in range(2, count + 1):
        (folder / "videos" / f"{n}.mp4").hardlink_to(folder / "videos" / "1.mp4")
    (folder / "data.json").write_text(json.dumps(videos))
    return number


def _mate(folder: Path, many: int, change: Change) -> int:
    rows = [change({**mate_source.row(), "example_id": f"{n:032x}"}, n) for n in range(many)]
    mate_source.development(folder, {"mm_0shot": rows}, [mate_source.row()["image"]])
    return many


def _unpie(folder: Path, many: int, change: Change) -> int:
    def row(n: int) -> dict[str, Any]:
        return {**unpie_source.row("homographic", n), "disamb_image1": URI, "disamb_image2": URI, "pun_exp_image": URI}

    (folder / "homographic.jsonl").write_text("\n".join(json.dumps(change(row(n), n)) for n in range(many)))
    return many


def _vague(folder: Path, many: int, change: Change) -> int:
    rows = [{**vague_source.row(n), "image_name": f"{n:04d}@0"} for n in range(many)]
    (folder / "annotated_images").mkdir()
    first = folder / "annotated_images" / f"{rows[0]['image_name']}_annot.jpg"
    first.write_bytes(vague_source.picture(1, tags=vague_source.BOXES))
    for row in rows[1:]:
        (folder / "annotated_images" / f"{row['image_name']}_annot.jpg").hardlink_to(first)
    (folder / "vcr_1144_final.json").write_text(json.dumps([change(row, n) for n, row in enumerate(rows)]))
    return many


def _vflute(folder: Path, many: int, change: Change) -> int:
    rows = [{**row, "image": "p.png"} for row in vflute_source.rows(many)]
    (folder / "p.png").write_bytes(PICTURE)
    content = json.dumps([change(row, n) for n, row in enumerate(rows)])  # escapes what UTF-8 cannot hold
    (folder / "vflute-v2-test.json").write_text(content)
    return many


SOURCES: dict[str, Callable[[Path, int, Change], int]] = {
    "maia": _maia,
    "mate": _mate,
    "unpie": _unpie,
    "vague": _vague,
    "vflute": _vflute,
}


def write_rows(name: str, folder: Path, many: int, change: Change = lambda row, _: row) -> int:
    """Write at least so many rows of a benchmark; return how many."""
    if name != "mate":  # whose writer makes its folder
        folder.mkdir()
    return SOURCES[name](folder, many, change)


def ingest_damaged(name: str, folder: Path, many: int) -> tuple[int, int]:
    """Ingest at least so many rows, nine of ten with one to three things wrong, and look at what became of each.

    Returns:
        Rows, and those of them that were listed as rejected.
    """
    source, data = folder / "source", Store(str(folder / "data"))
    rows = write_rows(name, source, many, mutated)
    assert rows >= many
    result = ingest_benchmark(benchmark(name), Folder(str(source)), data)
    listed = [json.loads(line) for line in data.get(f"{name}/rejected.jsonl").splitlines()]
    assert all(entry["item"].strip() and entry["reason"].strip() and entry["file"] for entry in listed)
    assert all(len(entry["reason"]) < 2000 for entry in listed)
    # No row is lost, none is counted twice.
    assert result.manifest.samples + len(listed) == rows
    assert rows / 10 <= result.manifest.samples < rows
    item = benchmark(name)
    texts = PromptTexts(item.prompt_texts)
    for sample in Dataset.open(data, name).samples():
        for task, settings in item.tasks.items():
            for setting in settings:
                for prompt in item.prompts(PromptInput(sample, task, setting, texts=texts, seed=42, captions={})):
                    assert bool(prompt.steps) != bool(prompt.excluded)
    return rows, len(listed)
