"""The nights that were: one Parquet file of pairs and one of metrics a night, in a store.

Layout under the history's URI:
    metrics/<night>.parquet     every metric measured that night
    pairs/<night>.parquet       every (model, benchmark) of that night's configuration; written last, so that it makes
                                the night
    summaries/<night>.md        what people were told
A night is named by its UTC time, so that names in order are nights in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipelines.storage.parts import read_part, to_parquet
from pipelines.storage.store import Store

NIGHTS_BACK = 100
"""How far a pair is looked for that was not asked of late; a file a night, and all are read for a pair that is new."""

PAIRS = pa.schema(
    [
        ("night", pa.string()),
        ("model", pa.string()),
        ("benchmark", pa.string()),
        ("state", pa.string()),  # ran | unchanged | failed
        ("why", pa.string()),  # what changed, or what failed
        ("fingerprint", pa.string()),  # '' when the pair has to be run again
        ("parts", pa.map_(pa.string(), pa.string())),  # model, dataset, prompt, judge ... -> hash
        ("measured", pa.string()),  # the night whose metrics hold
        ("requests", pa.int64()),
        ("failed", pa.int64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("cost_usd", pa.float64()),
        ("out", pa.string()),
    ]
)
METRICS = pa.schema(
    [
        ("night", pa.string()),
        *((name, pa.string()) for name in ("benchmark", "task", "model", "setting", "subset", "category", "metric")),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("n", pa.int64()),
        ("n_failed", pa.int64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One model on one benchmark in one night; the columns of PAIRS."""

    night: str
    model: str
    benchmark: str
    state: str
    why: str = ""
    fingerprint: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    measured: str = ""
    requests: int = 0
    failed: int = 0
    input_tokens: int = 0
    """Of what was asked this night, judge and captioner among it."""
    output_tokens: int = 0
    seconds: float = 0.0
    """Of this model's sweep, shared out to its benchmarks by requests."""
    cost_usd: float | None = None
    """None where no price is known."""
    out: str = ""


def night_name(now: datetime) -> str:
    """The name of the night that begins now (UTC)."""
    return now.strftime("%Y%m%dT%H%M%S.%fZ")


class History:
    """Reads and writes nights."""

    def __init__(self, uri: str) -> None:
        self.store = Store(uri)

    def last_pairs(self, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], Pair]:
        """Pairs as they were left, each by the newest night that had it in its configuration.

        Args:
            wanted: (model, benchmark) to look for, through no more than `NIGHTS_BACK` nights.

        Returns:
            What was found, by (model, benchmark).

        Raises:
            DamagedPartError: a file on the way is no whole Parquet file.
        """
        found: dict[tuple[str, str], Pair] = {}
        for file in reversed(self.store.list("pairs", "*.parquet")[-NIGHTS_BACK:]):
            if found.keys() >= set(wanted):
                break
            for row in read_part(self.store, file.path).to_pylist():
                pair = Pair(**{**row, "parts": dict(row["parts"] or {})})
                if (pair.model, pair.benchmark) in wanted:
                    found.setdefault((pair.model, pair.benchmark), pair)
        return found

    def metrics(self, night: str) -> list[dict[str, Any]]:
        """The metrics measured in one night; none when there is no such night."""
        path = f"metrics/{night}.parquet"
        return read_part(self.store, path).to_pylist() if night and self.store.exists(path) else []

    def write(self, night: str, pairs: Sequence[Pair], metrics: Iterable[Mapping[str, Any]], summary: str) -> None:
        """Record a night; the pairs come last, and without them there was no night."""
        names = METRICS.names
        rows = [{"night": night, **{name: row.get(name) for name in names[1:]}} for row in metrics]
        self.store.put(f"metrics/{night}.parquet", to_parquet(rows, METRICS))
        self.store.put(f"summaries/{night}.md", summary.encode("utf-8", "replace"))
        told = [{**asdict(pair), "parts": list(pair.parts.items())} for pair in pairs]
        self.store.put(f"pairs/{night}.parquet", to_parquet(told, PAIRS))
