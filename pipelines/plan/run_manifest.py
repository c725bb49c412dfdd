"""`run.json`: what a run's output holds, so that a later run adds to it instead of forgetting it."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.errors import StoreError
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.selection import Limit, TaskSetting, cells_of
from pipelines.storage.store import Store
from pipelines.version import __version__

PACKAGES = ("ray", "torch", "transformers", "accelerate", "pyarrow", "numpy", "pillow", "decord", "openai", "sacrebleu")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCut:
    """Cells that an earlier run asked about other samples than the last one did."""

    cells: tuple[TaskSetting, ...]
    limit: str | None = None
    sample_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One model on one benchmark, as this output holds it."""

    benchmark: str
    model: str
    data: str
    asker: str
    """JSON of the `RequestBuilder`, with the cells of all cuts."""
    limit: str | None = None
    sample_ids: tuple[str, ...] = ()
    external: bool = False
    """The answers were made elsewhere."""
    earlier: tuple[SampleCut, ...] = ()
    """Cells that stand in the report on other samples than `limit` and `sample_ids` say."""

    def by_cut(self) -> list[ManifestEntry]:
        """The same as entries of one cut each, no cell in two of them."""
        asker = self.parsed_asker()
        other = {cell for cut in self.earlier for cell in cut.cells}
        cuts = [
            SampleCut(
                cells=tuple(c for c in asker.cells if c not in other), limit=self.limit, sample_ids=self.sample_ids
            )
        ]
        return [
            replace(
                self,
                asker=replace(asker, cells=cut.cells).to_json(),
                limit=cut.limit,
                sample_ids=cut.sample_ids,
                earlier=(),
            )
            for cut in (*cuts, *self.earlier)
        ]

    def parsed_limit(self) -> Limit | None:
        """The cut of the samples."""
        return Limit.parse(self.limit) if self.limit else None

    def parsed_asker(self) -> RequestBuilder:
        """The maker of its requests."""
        return RequestBuilder.from_json(self.asker)


def merge_entries(old: Iterable[ManifestEntry], new: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Entries of earlier runs with those of this one.

    The same model asked in other cells of the same benchmark gets both, each with the samples that it was last asked
    about; asked anew with another seed, wording, captioner or revision or about other data, it is what it is now.
    """
    merged = {(entry.benchmark, entry.model): entry for entry in old}
    for entry in new:
        key = (entry.benchmark, entry.model)
        earlier = merged.get(key)
        merged[key] = _joined(earlier, entry) if earlier else entry
    return [merged[key] for key in sorted(merged)]


def _joined(old: ManifestEntry, new: ManifestEntry) -> ManifestEntry:
    before, now = old.parsed_asker(), new.parsed_asker()
    wanted = {*before.cells, *now.cells}
    both = tuple(cell for cell in cells_of(benchmark(new.benchmark), [], []) if cell in wanted)
    if replace(before, cells=()) != replace(now, cells=()) or old.external != new.external:
        return new
    cuts = []
    for one in old.by_cut():
        cells = tuple(cell for cell in one.parsed_asker().cells if cell not in now.cells)
        if cells and (one.limit, one.sample_ids) != (new.limit, new.sample_ids):
            cuts.append(SampleCut(cells=cells, limit=one.limit, sample_ids=one.sample_ids))
    return replace(new, asker=replace(now, cells=both).to_json(), earlier=tuple(cuts))


_TOLD = {
    "dataset_fingerprint": "other data",
    "model_fingerprint": "another revision or entry of the model",
    "generation": "other generation settings",
    "prompts": "other wording (--prompts)",
    "instead": "other prompt versions (--prompt-version)",
    "seed": "another --seed",
    "captioner": "another --captioner",
}


def dropped_from_report(old: Iterable[ManifestEntry], new: Iterable[ManifestEntry]) -> list[str]:
    """Which cells of earlier runs leave the report because of this one, a sentence a model and benchmark."""
    earlier = {(entry.benchmark, entry.model): entry for entry in old}
    told: list[str] = []
    for entry in new:
        one = earlier.get((entry.benchmark, entry.model))
        if one is None:
            continue
        told += _cut_down(one, entry)
        before, now = one.parsed_asker(), entry.parsed_asker()
        gone = [cell for cell in before.cells if cell not in _joined(one, entry).parsed_asker().cells]
        if not gone:
            continue
        why = [words for name, words in _TOLD.items() if getattr(before, name) != getattr(now, name)]
        why += ["answers made elsewhere" if entry.external else "answers of its own"] * (one.external != entry.external)
        tasks, settings = (_listed(getattr(c, kind) for c in (*now.cells, *gone)) for kind in ("task", "setting"))
        told.append(
            f"{entry.model} on {entry.benchmark}: {_cells_told(gone)} of an earlier run leave this report, because now "
            f"there is {', '.join(why)}; their predictions are kept. This command with --tasks {tasks} --settings "
            f"{settings} asks them anew, to stand beside these; the command that asked them brings them back alone"
        )
    return told


def _cut_down(old: ManifestEntry, new: ManifestEntry) -> Iterator[str]:
    """Cells that this run asks about samples that are not all of those they stood on before."""
    now = new.parsed_asker()
    for one in old.by_cut():
        before = one.parsed_asker()
        cells = [cell for cell in before.cells if cell in now.cells]
        if cells and replace(before, cells=()) == replace(now, cells=()) and not _covers(new, one):
            yield (
                f"{new.model} on {new.benchmark}: {_cells_told(cells)} stand in this report on other "
                f"samples ({_cut_told(new)}) than before ({_cut_told(one)}); what was answered is "
                f"kept, and this command with {_cut_told(one)} brings it back"
            )


def _covers(new: ManifestEntry, old: ManifestEntry) -> bool:
    """Whether a cut leaves all that another leaves, as far as can be told without the data."""
    if new.sample_ids and not (old.sample_ids and {*old.sample_ids} <= {*new.sample_ids}):
        return False
    wide, narrow = new.parsed_limit(), old.parsed_limit()
    if wide is None or wide == narrow:
        return True
    if narrow is None:
        return False
    if wide.share is not None or narrow.share is not None:
        return wide.share is not None and narrow.share is not None and narrow.share <= wide.share
    return wide.first <= narrow.first and (wide.last is None or (narrow.last is not None and narrow.last <= wide.last))


def _cut_told(entry: ManifestEntry) -> str:
    flags = [f"--limit {entry.limit}"] if entry.limit else []
    flags += [f"--sample-id {name}" for name in entry.sample_ids[:3]]
    flags += [f"and {len(entry.sample_ids) - 3} more of --sample-id"] if len(entry.sample_ids) > 3 else []
    return " ".join(flags) or "no --limit and no --sample-id"


def _cells_told(cells: Iterable[TaskSetting]) -> str:
    return ", ".join(f"{cell.task} {cell.setting}" for cell in cells)


def _listed(names: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(names))


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
        run["entries"] = [_entry(raw) for raw in run["entries"]]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{out.uri}/run.json: damaged ({error}); move it away, predictions are kept") from error
    return run


def _entry(raw: Mapping[str, Any]) -> ManifestEntry:
    earlier = tuple(
        SampleCut(
            cells=tuple(TaskSetting(**cell) for cell in cut["cells"]),
            limit=cut["limit"],
            sample_ids=tuple(cut["sample_ids"]),
        )
        for cut in raw.get("earlier", ())
    )
    return ManifestEntry(**{**raw, "sample_ids": tuple(raw["sample_ids"]), "earlier": earlier})


def save_run(
    out: Store,
    earlier: Mapping[str, Any],
    *,
    sweep: Mapping[str, Any],
    entries: Sequence[ManifestEntry],
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
    wording = {**earlier.get("prompts", {}), **parts.get("prompts", {})}
    run = {
        "product": f"vlmsweep {__version__}",
        "created": earlier.get("created", now),
        "updated": now,
        "sweep": dict(sweep),
        **{name: {**earlier.get(name, {}), **value} for name, value in parts.items()},
        "prompt_fingerprints": {
            name: {prompt: prompt_fingerprint(text) for prompt, text in own.items()} for name, own in wording.items()
        },
        "versions": versions(),
        "spending": earlier.get("spending", []),
        "entries": [asdict(entry) for entry in entries],
    }
    out.put("run.json", json.dumps(run, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    return {**run, "entries": list(entries)}


def prompt_fingerprint(text: str) -> str:
    """First 16 hex digits of the SHA-256 of a prompt's wording, so that two runs' words can be compared at a glance."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of what computes."""
    found = {"python": platform.python_version(), "vlmsweep": __version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
