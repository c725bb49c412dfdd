"""Compare two outputs, or two models, on the very same rows: what differs, and whether it means anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.entries import Entry, load_run
from pipelines.records import part_folder, read_part
from pipelines.selection import check_names
from pipelines.store import Store

__all__ = ["Comparison", "Difference", "compare"]

ALIKE = 0.05
"""A difference whose p-value is not below this is called chance."""

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One value under one task and setting, A against B on rows that both have."""

    benchmark: str
    model_a: str
    model_b: str
    task: str
    setting: str
    value: str
    """Name of the row's score, such as `correct`."""
    n: int
    """Rows that both scored."""
    only_one: int
    """Rows that one of them lacks, failed at, or could not score."""
    mean_a: float
    mean_b: float
    delta: float
    """B minus A."""
    ci_low: float | None
    ci_high: float | None
    p: float | None
    """Exact McNemar for yes-no values; None for others, which the interval judges alone."""
    changed: int
    """Rows whose parsed answer is another one."""

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.delta:
            return "equal"
        apart = self.ci_low is not None and self.ci_high is not None and not self.ci_low <= 0 <= self.ci_high
        return "differs" if apart and (self.p is None or self.p < ALIKE) else "within chance"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, and what makes them hard to compare."""

    differences: tuple[Difference, ...]
    caveats: tuple[str, ...]


def compare(out_a: Store, out_b: Store, models: Sequence[str] = ()) -> Comparison:
    """Compare two outputs.

    Args:
        out_a: the first output.
        out_b: the second; may be the same.
        models: none: every model that both have, with itself; one: that model; two: the first of A, the second of B.

    Raises:
        ValueError: an output holds no run, a model is not in it, or they have no rows in common.
    """
    entries_a, entries_b = _entries(out_a), _entries(out_b)
    differences: list[Difference] = []
    caveats: list[str] = []
    for name_a, name_b in _pairs(entries_a, entries_b, models):
        for name in sorted({key[0] for key in entries_a} & {key[0] for key in entries_b}):
            a, b = entries_a.get((name, name_a)), entries_b.get((name, name_b))
            if a is None or b is None:
                continue
            caveats += _caveats(a, b)
            differences += _differences(a, b, _scores(out_a, a), _scores(out_b, b))
    if not differences:
        raise ValueError(f"{out_a.uri} and {out_b.uri} have no scored rows in common; run `vlmsweep score` on both")
    return Comparison(tuple(differences), tuple(dict.fromkeys(caveats)))


def _entries(out: Store) -> dict[tuple[str, str], Entry]:
    run = load_run(out)
    if not run:
        raise ValueError(f"{out.uri}: no run.json; is this the --out of a run?")
    return {(entry.benchmark, entry.model): entry for entry in run["entries"]}


def _pairs(
    a: Mapping[tuple[str, str], Entry], b: Mapping[tuple[str, str], Entry], models: Sequence[str]
) -> list[tuple[str, str]]:
    in_a, in_b = (sorted({model for _, model in entries}) for entries in (a, b))
    if len(models) > 2:
        raise ValueError("--models: give one model, or two: one of each output")
    if not models:
        common = [(name, name) for name in in_a if name in in_b]
        if not common:
            raise ValueError(f"no model is in both; name two with --models A,B ({', '.join(in_a)}; {', '.join(in_b)})")
        return common
    check_names("model", [models[0]], in_a)
    check_names("model", [models[-1]], in_b)
    return [(models[0], models[-1])]


def _caveats(a: Entry, b: Entry) -> Iterator[str]:
    first, second = a.parsed_asker(), b.parsed_asker()
    if first.dataset_fingerprint != second.dataset_fingerprint:
        yield f"{a.benchmark}: the data differ ({first.dataset_fingerprint[:8]}, {second.dataset_fingerprint[:8]})"
    if (first.prompts, first.instead, first.seed) != (second.prompts, second.instead, second.seed):
        yield f"{a.benchmark}: the wording or the seed of the prompts differs"
    revisions = [str(asker.model_fingerprint.get("revision") or "") for asker in (first, second)]
    if a.model == b.model and revisions[0] != revisions[1]:
        yield f"{a.model}: revision {revisions[0] or '?'} in A, {revisions[1] or '?'} in B"


def _scores(out: Store, entry: Entry) -> dict[_Key, dict[str, Any]]:
    rows = {}
    for info in out.list(part_folder("scores", entry.benchmark, entry.model), "*.parquet"):
        for row in read_part(out, info.path).to_pylist():
            rows[row["task"], row["setting"], row["sample_id"], row["variant"]] = row
    return rows


def _differences(
    a: Entry, b: Entry, rows_a: Mapping[_Key, dict[str, Any]], rows_b: Mapping[_Key, dict[str, Any]]
) -> Iterator[Difference]:
    cells = sorted({key[:2] for key in rows_a} & {key[:2] for key in rows_b})
    for task, setting in cells:
        keys = sorted(key for key in {*rows_a, *rows_b} if key[:2] == (task, setting))
        values_a, values_b = (
            {key: dict(rows[key]["values"]) for key in keys if key in rows} for rows in (rows_a, rows_b)
        )
        names = {name for own in values_a.values() for name in own} & {n for own in values_b.values() for n in own}
        for name in sorted(names - {*benchmark(a.benchmark).descriptive_values}):
            both = [key for key in keys if name in values_a.get(key, {}) and name in values_b.get(key, {})]
            if both:
                yield _difference(
                    {
                        "benchmark": a.benchmark,
                        "model_a": a.model,
                        "model_b": b.model,
                        "task": task,
                        "setting": setting,
                    },
                    name,
                    [values_a[key][name] for key in both],
                    [values_b[key][name] for key in both],
                    {
                        "clusters": [rows_a[key]["cluster"] for key in both],
                        "only_one": sum((name in values_a.get(k, {})) != (name in values_b.get(k, {})) for k in keys),
                        "changed": sum(rows_a[key]["answer"] != rows_b[key]["answer"] for key in both),
                    },
                )


def _difference(
    names: Mapping[str, str], value: str, a: Sequence[float], b: Sequence[float], about: Mapping[str, Any]
) -> Difference:
    from pipelines.metrics.agreement import mcnemar_exact
    from pipelines.metrics.stats import paired_bootstrap_ci

    interval = paired_bootstrap_ci(b, a, about["clusters"])
    binary = {*a, *b} <= {0.0, 1.0}
    return Difference(
        **names,
        value=value,
        n=len(a),
        only_one=about["only_one"],
        mean_a=sum(a) / len(a),
        mean_b=sum(b) / len(b),
        delta=(sum(b) - sum(a)) / len(a),
        ci_low=interval.low if interval else None,
        ci_high=interval.high if interval else None,
        p=mcnemar_exact([bool(x) for x in a], [bool(x) for x in b]) if binary else None,
        changed=about["changed"],
    )
