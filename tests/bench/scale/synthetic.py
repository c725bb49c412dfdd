"""Data sets of any size without files, and a store that counts its requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from models.fingerprint import answer_fingerprint
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.ingest.dataset import Dataset, Manifest, ShardInfo
from pipelines.plan.requests import ModelTarget
from pipelines.plan.selection import cells_of
from pipelines.storage.store import Store
from tests.bench.many import PER_SAMPLE, SHARD_ROWS, make_sample
from tests.support.requests import target_of

T = TypeVar("T")
SAMPLES_PER_CLIP = 24
"""As in MAIA: 216 questions a clip."""


class CountingStore(Store):
    """A store that counts its requests by kind."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.requests: Counter[str] = Counter()

    def _guard(self, path: str, operation: Callable[[], T]) -> T:
        kind = path.rpartition("/")[2].partition("-")[0]
        self.requests[kind if kind in ("part", "plan") else "list"] += 1
        return super()._guard(path, operation)


class SyntheticDataset(Dataset):
    """Samples of MAIA's form that are made when their shard is read."""

    def __init__(self, store: Store, name: str, samples: int) -> None:
        starts = range(0, samples, SHARD_ROWS)
        self._rows = {f"samples/{start}": range(start, min(start + SHARD_ROWS, samples)) for start in starts}
        shards = tuple(ShardInfo(path=path, rows=len(rows), sha256="") for path, rows in self._rows.items())
        super().__init__(
            store,
            Manifest(
                benchmark="maia", dataset_fingerprint=name, source="made here", samples=samples, rejected=0,
                media=samples // SAMPLES_PER_CLIP, media_bytes=0, counts={}, shards=shards, notices=(),
            ),
        )  # fmt: skip

    def read_shard(self, path: str) -> list[Sample]:
        return [self._sample(index) for index in self._rows[path]]

    def _sample(self, index: int) -> Sample:
        clip, question = divmod(index, SAMPLES_PER_CLIP)
        ref = MediaRef(
            role="clip", kind="video", sha256=f"{clip:064x}", extension=".mp4", bytes=10_000, width=640, height=360,
            frames=900, fps=30.0,
        )  # fmt: skip
        return make_sample(clip, question, ref)


def make_target(dataset: Dataset, model: str, spec: ModelSpec) -> ModelTarget:
    """Return what builds a model's requests for one setting of a synthetic data set: nine a sample."""
    return target_of(
        benchmark_name="maia",
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        model=model,
        fingerprint=answer_fingerprint(spec),
        task_settings=tuple(cells_of(benchmark("maia"), [], ["32-frames"])),
        seed=42,
    )


def peak_mb() -> float:
    """Return the largest resident size of this process so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def samples_for(requests: int) -> int:
    """Return the samples that make about so many requests."""
    return max(1, round(requests / PER_SAMPLE))
