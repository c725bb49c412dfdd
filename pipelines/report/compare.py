"""Compare two outputs, or two models, on the very same rows: what differs, and whether it means anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.records import Sample
from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.selection import check_names
from pipelines.storage.parts import part_folder, read_part
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

ALIKE = 0.05
"""A difference whose corrected p-value is not below this is called chance."""
FEW = 10
"""Clusters below which resampling them says little."""

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
    """Two-sided, by `test`; None where there is only one cluster."""
    test: str = ""
    """`McNemar` (exact) for yes-no values, `bootstrap` (paired, over clusters) for others, or the benchmark's own."""
    p_holm: float | None = None
    """`p` after Holm's correction for all tests of the comparison."""
    changed: int
    """Rows whose parsed answer is another one."""

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.delta:
            return "equal"
        apart = self.ci_low is not None and self.ci_high is not None and not self.ci_low <= 0 <= self.ci_high
        p = self.p if self.p_holm is None else self.p_holm
        return "differs" if apart and (p is None or p < ALIKE) else "within chance"


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
        UsageError: an output holds no run, a model is not in it, or they have no rows in common.
    """
    entries_a, entries_b = _entries(out_a), _entries(out_b)
    differences: list[Difference] = []
    caveats: list[str] = []
    for name_a, name_b in _pairs(entries_a, entries_b, models):
        for name in sorted({key[0] for key in entries_a} & {key[0] for key in entries_b}):
            a, b = entries_a.get((name, name_a)), entries_b.get((name, name_b))
            if a is None or b is None:
                continue
            rows = (_scores(out_a, a), _scores(out_b, b))
            caveats += [*_caveats(a, b), *_few(name, rows)]
            differences += _differences(a, b, *rows)
            own, problem = _own_tests(a, b, *rows)
            differences, caveats = differences + own, caveats + problem
    if not differences:
        raise UsageError(f"{out_a.uri} and {out_b.uri} have no scored rows in common; run `vlmsweep score` on both")
    return Comparison(tuple(_corrected(differences)), tuple(dict.fromkeys(caveats)))


def _entries(out: Store) -> dict[tuple[str, str], ManifestEntry]:
    run = load_run(out)
    if not run:
        raise UsageError(f"{out.uri}: no run.json; is this the --out of a run?")
    return {(entry.benchmark, entry.model): entry for entry in run["entries"]}


def _pairs(
    a: Mapping[tuple[str, str], ManifestEntry], b: Mapping[tuple[str, str], ManifestEntry], models: Sequence[str]
) -> list[tuple[str, str]]:
    in_a, in_b = (sorted({model for _, model in entries}) for entries in (a, b))
    if len(models) > 2:
        raise UsageError("--models: give one model, or two: one of each output")
    if not models:
        common = [(name, name) for name in in_a if name in in_b]
        if not common:
            raise UsageError(f"no model is in both; name two with --models A,B ({', '.join(in_a)}; {', '.join(in_b)})")
        return common
    check_names("model", [models[0]], in_a)
    check_names("model", [models[-1]], in_b)
    return [(models[0], models[-1])]


def _caveats(a: ManifestEntry, b: ManifestEntry) -> Iterator[str]:
    first, second = a.parsed_asker(), b.parsed_asker()
    if first.dataset_fingerprint != second.dataset_fingerprint:
        yield f"{a.benchmark}: the data differ ({first.dataset_fingerprint[:8]}, {second.dataset_fingerprint[:8]})"
    if (first.prompts, first.instead, first.seed) != (second.prompts, second.instead, second.seed):
        yield f"{a.benchmark}: the wording or the seed of the prompts differs"
    revisions = [str(asker.model_fingerprint.get("revision") or "") for asker in (first, second)]
    if a.model == b.model and revisions[0] != revisions[1]:
        yield f"{a.model}: revision {revisions[0] or '?'} in A, {revisions[1] or '?'} in B"


def _few(name: str, rows: Sequence[Mapping[_Key, dict[str, Any]]]) -> Iterator[str]:
    """A bootstrap over a handful of clips or pictures finds meaning in anything."""
    clusters = {row["cluster"] for key, row in rows[0].items() if key in rows[1]}
    if len(clusters) < FEW:
        yield f"{name}: only {len(clusters)} pictures or clips: intervals and tests of so few say little"


def _scores(out: Store, entry: ManifestEntry) -> dict[_Key, dict[str, Any]]:
    rows = {}
    for info in out.list(part_folder("scores", entry.benchmark, entry.model), "*.parquet"):
        for row in read_part(out, info.path).to_pylist():
            rows[row["task"], row["setting"], row["sample_id"], row["variant"]] = row
    return rows


def _differences(
    a: ManifestEntry, b: ManifestEntry, rows_a: Mapping[_Key, dict[str, Any]], rows_b: Mapping[_Key, dict[str, Any]]
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


def _own_tests(
    a: ManifestEntry, b: ManifestEntry, rows_a: Mapping[_Key, dict[str, Any]], rows_b: Mapping[_Key, dict[str, Any]]
) -> tuple[list[Difference], list[str]]:
    """The benchmark's own tests on the rows that both answered, and what kept them from being made."""
    if type(benchmark(a.benchmark)).paired_tests is Benchmark.paired_tests:
        return [], []
    try:
        samples = {sample.sample_id: sample for sample in Dataset.open(Store(b.data), b.benchmark).samples()}
    except (DatasetError, StoreError) as error:
        return [], [f"{a.benchmark}: no tests of its own metrics, for they need the data ({error})"]
    both = sorted(key for key in rows_a if key in rows_b and key[2] in samples and _answered(rows_a[key], rows_b[key]))
    cells = dict.fromkeys(key[:2] for key in both)
    return [one for cell in cells for one in _own_cell(a, b, (rows_a, rows_b), both, cell, samples)], []


def _own_cell(  # noqa: PLR0917 - one cell, each argument from another place
    a: ManifestEntry,
    b: ManifestEntry,
    rows: tuple[Mapping[_Key, dict[str, Any]], Mapping[_Key, dict[str, Any]]],
    both: Sequence[_Key],
    cell: tuple[str, str],
    samples: Mapping[str, Sample],
) -> Iterator[Difference]:
    keys = [key for key in both if key[:2] == cell]
    first, second = (_frame([own[key] for key in keys]) for own in rows)
    for test in benchmark(a.benchmark).paired_tests(first, second, cell[1], samples):
        yield Difference(
            benchmark=a.benchmark,
            model_a=a.model,
            model_b=b.model,
            task=cell[0],
            setting=cell[1],
            value=test.metric,
            n=test.n,
            only_one=len({key for own in rows for key in own if key[:2] == cell}) - len(keys),
            mean_a=test.value_a,
            mean_b=test.value_b,
            delta=test.value_b - test.value_a,
            ci_low=test.ci_low,
            ci_high=test.ci_high,
            p=test.p,
            test=test.test,
            changed=sum(rows[0][key]["answer"] != rows[1][key]["answer"] for key in keys),
        )


def _answered(*rows: Mapping[str, Any]) -> bool:
    return all(row["status"] == "ok" for row in rows)


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Score rows with a column a value."""
    import pandas as pd

    return pd.DataFrame([{**row, **dict(row["values"])} for row in rows])


def _corrected(differences: Sequence[Difference]) -> list[Difference]:
    """With Holm's correction (Holm 1979) over all tests at once, by statsmodels."""
    tested = [one.p for one in differences if one.p is not None]
    if not tested:
        return list(differences)
    from statsmodels.stats.multitest import multipletests

    corrected = iter(multipletests(tested, method="holm")[1])
    return [one if one.p is None else replace(one, p_holm=float(next(corrected))) for one in differences]


def _difference(
    names: Mapping[str, Any], value: str, a: Sequence[float], b: Sequence[float], about: Mapping[str, Any]
) -> Difference:
    from pipelines.metrics.agreement import mcnemar_exact
    from pipelines.metrics.stats import paired_bootstrap_ci, paired_bootstrap_p

    interval = paired_bootstrap_ci(b, a, about["clusters"])
    p, test = None, ""
    if {*a, *b} <= {0.0, 1.0}:
        p, test = mcnemar_exact([bool(x) for x in a], [bool(x) for x in b]), "McNemar"
    elif interval:
        sides = [paired_bootstrap_p(x, y, about["clusters"]) for x, y in ((a, b), (b, a))]
        p, test = min(1.0, 2 * min(sides)), "bootstrap"
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
        p=p,
        test=test,
        changed=about["changed"],
    )
