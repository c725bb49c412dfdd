"""`run.json`: what a run's output holds, so that a later run adds to it instead of forgetting it."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipelines.asking import Asker
from pipelines.benchmarks import benchmark
from pipelines.selection import Limit, cells_of
from pipelines.store import Store, StoreError
from pipelines.version import __version__

__all__ = ["Entry", "load_run", "merge_entries", "save_run", "versions"]

PACKAGES = ("ray", "torch", "transformers", "accelerate", "pyarrow", "numpy", "pillow", "decord", "openai", "sacrebleu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One model on one benchmark, as this output holds it."""

    benchmark: str
    model: str
    data: str
    asker: str
    """JSON of the `Asker`."""
    limit: str | None = None
    sample_ids: tuple[str, ...] = ()
    external: bool = False
    """The answers were made elsewhere."""

    def parsed_limit(self) -> Limit | None:
        """The cut of the samples."""
        return Limit.parse(self.limit) if self.limit else None

    def parsed_asker(self) -> Asker:
        """The maker of its requests."""
        return Asker.from_json(self.asker)


def merge_entries(old: Iterable[Entry], new: Iterable[Entry]) -> list[Entry]:
    """Entries of earlier runs with those of this one.

    The same model asked in other cells of the same benchmark gets both; asked anew with other settings, other data or
    another cut of the samples, it is what it is now.
    """
    merged = {(entry.benchmark, entry.model): entry for entry in old}
    for entry in new:
        key = (entry.benchmark, entry.model)
        earlier = merged.get(key)
        merged[key] = _joined(earlier, entry) if earlier else entry
    return [merged[key] for key in sorted(merged)]


def _joined(old: Entry, new: Entry) -> Entry:
    before, now = old.parsed_asker(), new.parsed_asker()
    wanted = {*before.cells, *now.cells}
    both = tuple(cell for cell in cells_of(benchmark(new.benchmark), [], []) if cell in wanted)
    if replace(before, cells=()) != replace(now, cells=()):
        return new
    if (old.limit, old.sample_ids, old.external) != (new.limit, new.sample_ids, new.external):
        return new
    return replace(new, asker=replace(now, cells=both).to_json())


def load_run(out: Store) -> dict[str, Any]:
    """What `run.json` holds; empty when there is none.

    Raises:
        StoreError: it is damaged.
    """
    try:
        raw = out.get("run.json")
    except FileNotFoundError:
        return {}
    try:
        run: dict[str, Any] = json.loads(raw)
        run["entries"] = [Entry(**{**e, "sample_ids": tuple(e["sample_ids"])}) for e in run["entries"]]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{out.uri}/run.json: damaged ({error}); move it away, predictions are kept") from error
    return run


def save_run(
    out: Store,
    earlier: Mapping[str, Any],
    *,
    sweep: Mapping[str, Any],
    entries: Sequence[Entry],
    parts: Mapping[str, Any],
) -> dict[str, Any]:
    """Write `run.json` and return it.

    Args:
        out: the output.
        earlier: what `load_run` gave.
        sweep: the resolved sweep of this run.
        entries: all entries, merged.
        parts: `models`, `datasets`, `prompts` of this run, laid over the earlier ones.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    run = {
        "product": f"vlmsweep {__version__}",
        "created": earlier.get("created", now),
        "updated": now,
        "sweep": dict(sweep),
        **{name: {**earlier.get(name, {}), **value} for name, value in parts.items()},
        "versions": versions(),
        "spending": earlier.get("spending", []),
        "entries": [asdict(entry) for entry in entries],
    }
    out.put("run.json", json.dumps(run, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    return {**run, "entries": list(entries)}


def versions() -> dict[str, str]:
    """Versions of what computes."""
    found = {"python": platform.python_version(), "vlmsweep": __version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
