"""The history of nights in a store: files named by the night's UTC time, so that names sort by time.

Layout under the history's URI:
    metrics/<night>.parquet     every metric measured that night
    items/<night>.parquet       scores by sample, of the nights that later ones are compared with
    changes/<night>.json        what changed that night, and what the next night is compared with
    judged_again/<night>/       replies of the judge about answers that earlier nights judged, and `checks.parquet`
    pairs/<night>.parquet       every (model, benchmark) of that night's configuration; completes the night
    summaries/<night>.md
    index.html                  the last nights on one page
"""

import hashlib
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa

from jobs.nightly.items import ITEMS, Items, ScoreKey, items_table, read_items
from jobs.nightly.judge_drift import CHECKS_PATH
from jobs.nightly.regressions import Change, Comparison, Level
from pipelines.errors import DamagedPartError
from pipelines.json_records import MalformedError, dump_checked, load_checked
from pipelines.report.metrics_file import Measured, metric_row, read_metric
from pipelines.schemas import schema_of
from pipelines.storage.local_store import is_owned
from pipelines.storage.parts import NO_REMEDY, read_part, to_parquet
from pipelines.storage.store import Store

MAX_NIGHTS = 100  # searched for a pair; all are read for a new pair
PAGE = "index.html"
_NIGHT = "%Y%m%dT%H%M%S.%fZ"
_NO_ITEMS = hashlib.sha256().hexdigest()

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
        *((name, pa.float64()) for name in ("ci_df", "set_ci_low", "set_ci_high")),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One model on one benchmark in one night; the columns of PAIRS."""

    night: str
    model: str
    benchmark: str
    state: str  # ran | unchanged | failed | waiting
    why: str = ""  # what changed, what failed, or what it waits for
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
    seconds_per_request: float = 0.0  # of the last night that ran it whole; 0 if there was none
    usd_per_request: float | None = None


PAIRS = schema_of(Pair, {"parts": pa.map_(pa.string(), pa.string())})


def run_name(now: datetime) -> str:
    """Return the name of the night that starts now (UTC)."""
    return now.strftime(_NIGHT)


def run_time(name: str) -> datetime:
    """Return when a night started."""
    return datetime.strptime(name, _NIGHT).replace(tzinfo=UTC)


class History:
    """Reads and writes the records of nights."""

    def __init__(self, uri: str) -> None:
        self.store = Store(uri)
        self.items = lru_cache(maxsize=8)(self._items)
        """Returns the scores by sample of a night; {} if there are none."""

    def nights(self) -> list[str]:
        """Return the names of the complete nights, the oldest first."""
        files = self.store.list("pairs", "*.parquet")
        return [file.path.removeprefix("pairs/").removesuffix(".parquet") for file in files if is_owned(file.path)]

    def pairs(self, night: str) -> list[Pair]:
        """Return the pairs of a complete night."""
        rows = self._rows(f"pairs/{night}.parquet", night)
        return [Pair(**{**row, "parts": dict(row["parts"] or {})}) for row in rows]

    def last_pairs(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], Pair]:
        """Return the newest record of each pair by (model, benchmark), from the last `MAX_NIGHTS` nights."""
        pairs: dict[tuple[str, str], Pair] = {}
        for night in reversed(self.nights()[-MAX_NIGHTS:]):
            if pairs.keys() >= set(keys):
                break
            for pair in self.pairs(night):
                if (pair.model, pair.benchmark) in keys:
                    pairs.setdefault((pair.model, pair.benchmark), pair)
        return pairs

    def metrics(self, night: str) -> list[Measured]:
        """Return the metrics measured in one night; [] if there is no such night."""
        path = f"metrics/{night}.parquet"
        rows = self._rows(path, night) if night and self.store.exists(path) else []
        return [read_metric(row) for row in rows]

    def judge_checks(self) -> list[list[dict[str, Any]]]:
        """Return the answers judged again by night, the oldest first, of the last `MAX_NIGHTS` nights."""
        nights = self.nights()[-MAX_NIGHTS:]
        paths = (f"judged_again/{night}/{CHECKS_PATH}" for night in nights)
        return [read_part(self.store, path).to_pylist() for path in paths if self.store.exists(path)]

    def check(self) -> list[str]:
        """Read what the next night is compared with; return what is missing of it, a sentence each.

        Raises DamagedPartError before that night costs anything.
        """
        last = max(self.nights(), default="")
        compared = {f"metrics/{pair.measured}.parquet" for pair in self.pairs(last) if pair.measured} if last else set()
        compared |= {f"changes/{last}.json"} if last else set()
        for night in {name for level in self.levels() for name in (level.night, level.before, level.latest)}:
            if self.items(night) or self._changes(night).get("items_sha256", _NO_ITEMS) != _NO_ITEMS:
                compared.add(f"items/{night}.parquet")
        files = {info.path for kind in ("changes", "items", "metrics") for info in self.store.list(kind)}
        later = [path for path in sorted(files) if f"changes/{last}.json" < path < "items/"]
        names = {path: posixpath.basename(path).removesuffix(".json") for path in later}
        begun = [path for path, name in names.items() if is_owned(f"pairs/{name}.parquet")]
        return [
            *(f"{self.store.uri}/{path} is missing: nothing is compared with it" for path in sorted(compared - files)),
            *(f"{self.store.uri}/{path} is of an incomplete night, which does not count" for path in begun),
        ]

    def changes(self, night: str) -> list[Change]:
        """Return what changed in one night."""
        return [Change(**{**raw, "key": ScoreKey(**raw["key"])}) for raw in self._changes(night).get("changes", [])]

    def levels(self) -> list[Level]:
        """Return what the next night is compared with, as the last complete night left it."""
        raw = self._changes((self.nights() or [""])[-1])
        return [Level(**level) for level in raw.get("levels", [])]

    def write(
        self,
        night: str,
        pairs: Sequence[Pair],
        metrics: Iterable[Measured],
        summary: str,
        comparison: Comparison | None = None,
    ) -> None:
        """Record a night; pairs are written last, which completes it. Scores that no level names are deleted then."""
        comparison = comparison or Comparison()
        changes, levels = comparison.changes, comparison.levels
        rows = [{"night": night, **metric_row(row)} for row in metrics]
        self.store.put(f"metrics/{night}.parquet", to_parquet(rows, METRICS))
        items = to_parquet(items_table(comparison.items), ITEMS) if comparison.items else b""
        if items:
            self.store.put(f"items/{night}.parquet", items)
        record = {
            "night": night,
            "items_sha256": hashlib.sha256(items).hexdigest(),
            "changes": [{**asdict(change), "key": change.key._asdict()} for change in changes],
            "levels": [asdict(level) for level in levels],
        }
        self.store.put(f"changes/{night}.json", dump_checked(record))
        self.store.put(f"summaries/{night}.md", summary.encode("utf-8", "replace"))
        records = [{**asdict(pair), "parts": list(pair.parts.items())} for pair in pairs]
        self.store.put(f"pairs/{night}.parquet", to_parquet(records, PAIRS))
        used = {f"items/{name}.parquet" for level in levels for name in (level.night, level.before, level.latest)}
        self.store.delete_all("items", used)

    def _items(self, night: str) -> Items:
        path = f"items/{night}.parquet"
        if not self.store.exists(path):
            return {}
        table, recorded = read_part(self.store, path), self._changes(night).get("items_sha256", "")
        if recorded not in ("", hashlib.sha256(self.store.get(path)).hexdigest()):
            raise self._damaged(path, "not the scores of that night")
        return read_items(table)

    def _rows(self, path: str, night: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = read_part(self.store, path).to_pylist()
        if any(row["night"] != night for row in rows):
            raise self._damaged(path, "its rows are of another night")
        return rows

    def _changes(self, night: str) -> dict[str, Any]:
        path = f"changes/{night}.json"
        try:
            raw = load_checked(self.store.get(path))
        except FileNotFoundError:
            return {}
        except MalformedError as error:
            raise self._damaged(path, str(error)) from error
        if raw.get("night", night) != night:
            raise self._damaged(path, "it is of another night")
        return raw

    def _damaged(self, path: str, problem: str) -> DamagedPartError:
        return DamagedPartError(f"{self.store.uri}/{path}: {problem}{NO_REMEDY}")
