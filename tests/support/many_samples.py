"""Samples by the hundred for sweeps in memory: pictures and clips are names, nothing is drawn."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import MediaRef, RawSample, Sample
from tests.support import maia_source, mate_scenes, unpie_rows, vague_rows, vflute_rows

__all__ = ["many"]

_ROLES = {
    "maia": ("clip",),
    "mate": ("picture",),
    "unpie": ("explanation", "disambiguator/0", "disambiguator/1"),
    "vague": ("picture",),
    "vflute": ("picture",),
}


class _Questions:
    """MAIA's file of questions, in memory."""

    uri = "memory"

    def __init__(self, videos: int) -> None:
        self._content = json.dumps(maia_source.questions(videos)).encode()

    def glob(self, pattern: str) -> list[str]:
        return ["data.json"] if pattern == "*.json" else []

    def exists(self, path: str) -> bool:
        return path == "data.json"

    def read_bytes(self, path: str) -> bytes:
        assert path == "data.json"
        return self._content


def many(name: str, count: int) -> list[Sample]:
    """Return about so many samples of a benchmark, with every field that its prompts show."""
    return [_pictured(name, sample) for sample in _samples(name, count)]


def _samples(name: str, count: int) -> list[Sample]:
    if name == "mate":
        return mate_scenes.samples(count)
    if name == "vague":
        return vague_rows.items(count * 2 // 3, count - count * 2 // 3, human=count // 3)
    if name == "unpie":
        return list(unpie_rows.samples(count // 2).values())
    if name == "vflute":
        results = vflute_rows.samples(vflute_rows.whole_split()[:: 723 // count or 1])
        return [replace(result, data={**result.data, "prompt": "", "shots": []}) for result in results.values()]
    items = benchmark("maia").source(_Questions(max(1, count // 24)), {})
    return [
        Sample(sample_id=item.sample_id, category=item.category, cluster=item.cluster, data=item.data)
        for item in items
        if isinstance(item, RawSample)
    ]


def _pictured(name: str, sample: Sample) -> Sample:
    kind = "video" if name == "maia" else "image"
    refs = tuple(
        MediaRef(
            role=role,
            kind=kind,  # type: ignore[arg-type]  # one of the two
            sha256=hashlib.sha256(f"{sample.cluster}/{role}".encode()).hexdigest(),
            extension=".x",
            bytes=9,
            width=8,
            height=8,
        )
        for role in _ROLES[name]
    )
    return replace(sample, media=refs)
