"""The fingerprint that an ingest gives to samples."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from pipelines.benchmarks.records import Sample
from pipelines.ingest.ingest import SampleSpool


def fingerprint(samples: Iterable[Sample]) -> str:
    """Return the fingerprint of samples with different ids."""
    with closing(SampleSpool(Path(":memory:"))) as spool:
        for sample in samples:
            spool.add(sample)
        return spool.fingerprint(None)
