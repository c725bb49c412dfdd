"""A small table to start from: questions about drawn scenes, in the form that `ingest table` reads."""

import csv
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from string import ascii_uppercase
from typing import Any, Final

from jobs.generate.generate import generate
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.mate.scene import COLORS
from pipelines.benchmarks.records import RawSample
from pipelines.errors import UsageError
from pipelines.ingest.source_folder import Folder

FILE: Final = "questions.tsv"
_OBJECTS: Final = (3, 5)
_OPTIONS: Final = 4


def write_sample_table(out: Path, rows: int, seed: int) -> int:
    """Write `questions.tsv` and pictures of scenes, two questions each, into a folder; return the number of pictures.

    The same seed writes the same bytes. Raises UsageError for a folder that holds something.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: give a new or an empty folder")
    scenes = max(1, (rows + 1) // 2)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), _OBJECTS, scenes, seed)
        samples = [item for item in benchmark("mate").source(Folder(folder), {}) if isinstance(item, RawSample)]
        table = [row for sample in samples for row in _questions(sample, folder, out, seed)][:rows]
    with (out / FILE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    return len({row["image"] for row in table})


def _questions(sample: RawSample, folder: str, out: Path, seed: int) -> Iterator[dict[str, str]]:
    picture = next(media for media in sample.media if media.role == "picture")
    name = f"pictures/{sample.sample_id}{Path(picture.path).suffix}"
    (out / "pictures").mkdir(exist_ok=True)
    shutil.copyfile(Path(folder) / picture.path, out / name)
    objects: list[dict[str, Any]] = sample.data["scene"]["objects"]
    colours = sorted({item["color"] for item in objects})
    rng = Random(f"{seed}|{sample.sample_id}")  # noqa: S311 - draws that a seed repeats
    count = [str(len(objects) + step) for step in (0, -1, 1, 2)]
    others = rng.sample([colour for colour in COLORS if colour not in colours], _OPTIONS - 1)
    for category, question, options in (
        ("count", "How many objects does the picture show?", count),
        ("colour", "Which of these colours does an object in the picture have?", [rng.choice(colours), *others]),
    ):
        shuffled = rng.sample(options, len(options))
        yield {
            "id": f"{sample.sample_id}-{category}",
            "image": name,
            "question": question,
            **dict(zip(ascii_uppercase, shuffled, strict=False)),
            "answer": ascii_uppercase[shuffled.index(options[0])],
            "category": category,
        }
