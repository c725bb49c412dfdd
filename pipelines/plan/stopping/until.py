"""`--until`: in which order clusters of samples are asked, after how many of them a run looks, and where it stopped."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final, Self

from pipelines.benchmarks.records import Sample
from pipelines.errors import UsageError
from pipelines.hashing import hash_text

STOPPED: Final = "stopped"  # why a row is excluded that was not asked
FIRST_SHARE: Final = 0.05
FIRST_CLUSTERS: Final = 10
GROWTH: Final = 1.25  # from one look to the next, because each loads the models again where weights are loaded
MAX_REACH: Final = 0.5


@dataclass(frozen=True, slots=True)
class Until:
    """When a run may stop: intervals that reach no further than this to either side, or None: a settled ranking."""

    reach: float | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `ci<=0.02` or `ranking`; UsageError for anything else."""
        compact = re.sub(r"\s", "", text.lower())
        if compact == "ranking":
            return cls(None)
        match = re.fullmatch(r"ci<=?(0?\.\d+)", compact)
        if match and 0 < float(match[1]) < MAX_REACH:
            return cls(float(match[1]))
        raise UsageError(f"--until {text!r}: give 'ci<=0.02', the half width of the headline's interval, or ranking")

    def __str__(self) -> str:
        return "ranking" if self.reach is None else f"ci<={self.reach:g}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Samples that share a clip, a picture or a scene."""

    name: str
    sample_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedNumber:
    """A headline when a run stopped, with the interval of the whole set, which holds whenever it stops."""

    task: str
    setting: str
    metric: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where a run stopped in one benchmark."""

    until: str
    seed: int
    reached: int  # clusters, the first ones of the order
    clusters: int
    numbers: tuple[StoppedNumber, ...] = ()  # of the entry's model; none where all clusters were asked
    order: str = "clusters by sha256 of 'SEED BENCHMARK CLUSTER', ascending"

    @property
    def whole_set(self) -> str:
        """What the numbers say of the whole set, in sentences."""
        ends = "; ".join(
            f"{number.metric} of {number.task} {number.setting} {100 * number.low:.1f} to {100 * number.high:.1f}%"
            for number in self.numbers
        )
        whole = f" The value of all {self.clusters:,} lies, with 95% at every stop, within: {ends}." if ends else ""
        return f"Intervals in tables are those of questions like these.{whole}"


def ordered_clusters(samples: Iterable[Sample], benchmark: str, seed: int) -> list[Cluster]:
    """Return the clusters of samples in the order in which they are asked, a pure function of the seed."""
    ids: dict[str, list[str]] = {}
    for sample in samples:
        ids.setdefault(sample.cluster or sample.sample_id, []).append(sample.sample_id)
    names = sorted(ids, key=lambda name: hash_text(f"{seed} {benchmark} {name}"))
    return [Cluster(name, tuple(ids[name])) for name in names]


def looks(clusters: int) -> list[int]:
    """Return after how many clusters a run looks whether it may stop, all of them last."""
    sizes, size = [], max(FIRST_CLUSTERS, ceil(FIRST_SHARE * clusters))
    while size < clusters:
        sizes.append(size)
        size = ceil(GROWTH * size)
    return [*sizes, clusters]
