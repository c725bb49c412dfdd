"""A MAIA data set of any size, written straight as canonical shards: thousands of tiny clips, twenty questions each."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

from pipelines.benchmarks.maia.facts import column_of
from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.ingest.dataset import Manifest, write_shard
from pipelines.storage.store import Store
from tests.support.fingerprints import fingerprint
from tests.support.maia_source import CATEGORIES, HEIGHT, WIDTH, write_clip

SHARD_ROWS = 1024
PER_SAMPLE = 9
"""Requests of one question in one setting: eight pairs and the open question."""


def write_many(folder: Path, groups: int, requests: int) -> int:
    """Write a data set of so many clips with so many questions, as near as whole samples allow.

    Returns:
        The requests that there are in one setting.
    """
    store = Store(str(folder / "maia"))
    write_clip(folder / "seed.mp4", frames=4)
    clip = (folder / "seed.mp4").read_bytes()
    samples, shards, media = [], [], 0
    for number in range(groups):
        # A `free` box at the end makes every file its own and changes no frame.
        content = clip + struct.pack(">I4sQ", 16, b"free", number)
        name = hashlib.sha256(content).hexdigest()
        store.put(f"media/{name}.mp4", content)
        media += len(content)
        ref = MediaRef(
            role="clip", kind="video", sha256=name, extension=".mp4", bytes=len(content), width=WIDTH, height=HEIGHT,
            frames=4, fps=10.0,
        )  # fmt: skip
        expected = round(requests * (number + 1) / groups / PER_SAMPLE) - len(samples)
        samples += [make_sample(number, index, ref) for index in range(expected)]
    for index, part in enumerate(_parts(samples)):
        shards.append(write_shard(store, f"samples/many-{index:05d}.parquet", part))
    manifest = Manifest(
        benchmark="maia",
        dataset_fingerprint=fingerprint(samples),
        source="made for a measurement",
        samples=len(samples),
        rejected=0,
        media=groups,
        media_bytes=media,
        counts={},
        shards=tuple(shards),
        notices=(),
    )
    store.put("manifest.json", manifest.to_json())
    return len(samples) * PER_SAMPLE


def make_sample(number: int, index: int, ref: MediaRef) -> Sample:
    """Return one question about a clip."""
    category = f"{CATEGORIES[index % 12]}_{'AB'[index // 12 % 2]}"
    # About as long as the published questions and statements are.
    sentence = f"Il video {number} mostra per la domanda {index} che la persona sposta una cosa"
    return Sample(
        sample_id=f"video{number}/{category}" + f"-{index // 24}" * (index >= 24),
        category=column_of(category),
        subset="",
        cluster=f"video{number}",
        media=(ref,),
        data={
            "video": f"video{number}",
            "category": category,
            "question": f"Che cosa succede nel video {number} alla domanda {index}?",
            "answers": [f"{sentence} {i} sul tavolo" for i in range(8)],
            "true": [f"{sentence} {i} sul tavolo della cucina" for i in range(8)],
            "false": [f"{sentence} {i} sotto il letto della camera" for i in range(8)],
        },
    )


def _parts(samples: list[Sample]) -> Iterator[list[Sample]]:
    for start in range(0, len(samples), SHARD_ROWS):
        yield samples[start : start + SHARD_ROWS]
