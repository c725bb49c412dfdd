"""The history of nights in a store: Parquet files named by the night's UTC time, so that names sort by time.

Layout under the history's URI:
    metrics/<night>.parquet     every metric measured that night
    pairs/<night>.parquet       every (model, benchmark) of that night's configuration; written last
    summaries/<night>.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipelines.schemas import schema_of
from pipelines.storage.parts import read_part, to_parquet
from pipelines.storage.store import Store

MAX_NIGHTS = 100  # searched for a pair; all are read for a new pair

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
    state: str  # ran | unchanged | failed
    why: str = ""  # what changed, or what failed
    fingerprint: str = ""  # '' if the pair has to run again
    parts: Mapping[str, str] = field(default_factory=dict)  # model, dataset, prompt, judge ... -> hash
    measured: str = ""  # the night of the current metrics
    requests: int = 0
    failed: int = 0
    input_tokens: int = 0  # of this night's requests, including judge and captioner
    output_tokens: int = 0
    seconds: float = 0.0  # of this model's sweep, divided among its benchmarks by requests
    cost_usd: float | None = None  # None if no price is known
    out: str = ""


PAIRS = schema_of(Pair, {"parts": pa.map_(pa.string(), pa.string())})


def night_name(now: datetime) -> str:
    """Return the name of the night that starts now (UTC)."""
    return now.strftime("%Y%m%dT%H%M%S.%fZ")


class History:
    """Reads and writes the records of nights."""

    def __init__(self, uri: str) -> None:
        self.store = Store(uri)

    def last_pairs(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], Pair]:
        """Return the newest record of each pair by (model, benchmark), from the last `MAX_NIGHTS` nights."""
        pairs: dict[tuple[str, str], Pair] = {}
        for file in reversed(self.store.list("pairs", "*.parquet")[-MAX_NIGHTS:]):
            if pairs.keys() >= set(keys):
                break
            for row in read_part(self.store, file.path).to_pylist():
                pair = Pair(**{**row, "parts": dict(row["parts"] or {})})
                if (pair.model, pair.benchmark) in keys:
                    pairs.setdefault((pair.model, pair.benchmark), pair)
        return pairs

    def metrics(self, night: str) -> list[dict[str, Any]]:
        """Return the metrics measured in one night; [] if there is no such night."""
        path = f"metrics/{night}.parquet"
        return read_part(self.store, path).to_pylist() if night and self.store.exists(path) else []

    def write(self, night: str, pairs: Sequence[Pair], metrics: Iterable[Mapping[str, Any]], summary: str) -> None:
        """Record a night; pairs are written last, which completes it."""
        names = METRICS.names
        rows = [{"night": night, **{name: row.get(name) for name in names[1:]}} for row in metrics]
        self.store.put(f"metrics/{night}.parquet", to_parquet(rows, METRICS))
        self.store.put(f"summaries/{night}.md", summary.encode("utf-8", "replace"))
        records = [{**asdict(pair), "parts": list(pair.parts.items())} for pair in pairs]
        self.store.put(f"pairs/{night}.parquet", to_parquet(records, PAIRS))
