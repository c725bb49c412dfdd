"""Lengths of V-FLUTE's captions and explanations by source, as counts in bins: what figures 8 and 9 are drawn from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vflute.facts import SUBSETS, TASK

BINS: Final[Mapping[str, tuple[int, int]]] = {"caption": (20, 12), "explanation": (100, 10)}
"""Text -> width of a bin in characters, number of bins; the last one has no upper end."""
_FIELDS: Final = {"caption": "claim", "explanation": "explanation"}
_NAME = re.compile(r"(caption|explanation)_chars_from_(\d+)")


def length_metrics(samples: Iterable[Sample]) -> Iterator[Metric]:
    """Counts of texts by subset and length, `caption_chars_from_40` being those of 40 characters to below 60."""
    rows = list(samples)
    for subset in SUBSETS:
        own = [sample for sample in rows if sample.subset == subset.name]
        for text, (width, bins) in BINS.items():
            lengths = Counter(min(len(one.data[_FIELDS[text]]) // width, bins - 1) * width for one in own)
            for start, count in sorted(lengths.items()):
                yield Metric(
                    task=TASK,
                    setting="",
                    subset=subset.name,
                    category=subset.category,
                    metric=f"{text}_chars_from_{start}",
                    value=count,
                    n=len(own),
                    unit="count",
                )


def bin_of(metric: str) -> tuple[str, int] | None:
    """Which text and which bin a metric counts; None for other metrics."""
    match = _NAME.fullmatch(metric)
    return (match[1], int(match[2]) // BINS[match[1]][0]) if match else None
