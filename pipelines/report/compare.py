"""Compare two outputs or two models on the rows that both scored, with paired tests and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import PairedTests
from pipelines.benchmarks.records import PairedTest, Sample
from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.selection import check_names
from pipelines.storage.parts import part_folder, read_part
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

SIGNIFICANCE = 0.05  # a difference with a corrected p-value of at least this is within chance
MIN_CLUSTERS = 10  # with fewer clusters, their resampling is not informative

_Key = tuple[str, str, str, str]
_Rows = Mapping[_Key, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One score under one task and setting, A against B on the rows that both have."""

    benchmark: str
    model_a: str
    model_b: str
    task: str
    setting: str
    value: str  # name of the row's score, such as `correct`
    n: int  # rows that both scored
    only_one: int  # rows that only one of them scored
    mean_a: float
    mean_b: float
    delta: float  # B minus A
    ci_low: float | None
    ci_high: float | None
    p: float | None  # two-sided, by `test`; None if there is only one cluster
    test: str = ""  # exact `McNemar` if binary, else paired `bootstrap` or the benchmark's own test
    p_holm: float | None = None  # after Holm's correction for all tests of the comparison
    changed: int  # rows with another parsed answer

    @property
    def verdict(self) -> str:
        """`equal`, `differs` or `within chance`."""
        if not self.delta:
            return "equal"
        excludes_zero = self.ci_low is not None and self.ci_high is not None and not self.ci_low <= 0 <= self.ci_high
        p = self.p if self.p_holm is None else self.p_holm
        return "differs" if excludes_zero and (p is None or p < SIGNIFICANCE) else "within chance"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, and caveats about their comparability."""

    differences: tuple[Difference, ...]
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two models on one benchmark, with their score rows by task, setting, sample id and variant."""

    a: ManifestEntry
    b: ManifestEntry
    rows_a: _Rows
    rows_b: _Rows

    @property
    def names(self) -> dict[str, Any]:
        return {"benchmark": self.a.benchmark, "model_a": self.a.model, "model_b": self.b.model}

    def cells(self) -> list[tuple[str, str]]:
        return sorted({key[:2] for key in self.rows_a} & {key[:2] for key in self.rows_b})

    def changed(self, keys: Sequence[_Key]) -> int:
        return sum(self.rows_a[key]["answer"] != self.rows_b[key]["answer"] for key in keys)


def compare(out_a: Store, out_b: Store, models: Sequence[str] = ()) -> Comparison:
    """Compare two outputs, which may be the same.

    `models`: empty for every common model with itself; one for that model; two for the first of A and the second of B.
    Raises UsageError if an output holds no run, a model is not in it, or there are no common rows.
    """
    entries_a, entries_b = _entries(out_a), _entries(out_b)
    differences: list[Difference] = []
    caveats: list[str] = []
    for name_a, name_b in _model_pairs(entries_a, entries_b, models):
        for name in sorted({key[0] for key in entries_a} & {key[0] for key in entries_b}):
            a, b = entries_a.get((name, name_a)), entries_b.get((name, name_b))
            if a is None or b is None:
                continue
            pair = _Pair(a, b, _scores(out_a, a), _scores(out_b, b))
            caveats += _caveats(pair)
            differences += _score_differences(pair)
            metric_differences, problems = _metric_differences(pair)
            differences += metric_differences
            caveats += problems
    if not differences:
        raise UsageError(f"{out_a.uri} and {out_b.uri} have no scored rows in common; run `vlmsweep score` on both")
    return Comparison(tuple(_holm_corrected(differences)), tuple(dict.fromkeys(caveats)))


def _entries(out: Store) -> dict[tuple[str, str], ManifestEntry]:
    run = load_run(out)
    if not run:
        raise UsageError(f"{out.uri}: no run.json; is this the --out of a run?")
    return {(entry.benchmark, entry.model): entry for entry in run["entries"]}


def _model_pairs(
    a: Mapping[tuple[str, str], ManifestEntry], b: Mapping[tuple[str, str], ManifestEntry], models: Sequence[str]
) -> list[tuple[str, str]]:
    models_a, models_b = (sorted({model for _, model in entries}) for entries in (a, b))
    if len(models) > 2:
        raise UsageError("--models: give one model, or two: one of each output")
    if not models:
        common = [(name, name) for name in models_a if name in models_b]
        if not common:
            names = f"{', '.join(models_a)}; {', '.join(models_b)}"
            raise UsageError(f"no model is in both outputs; name two with --models A,B ({names})")
        return common
    check_names("model", [models[0]], models_a)
    check_names("model", [models[-1]], models_b)
    return [(models[0], models[-1])]


def _caveats(pair: _Pair) -> Iterator[str]:
    a, b = pair.a, pair.b
    first, second = a.builder, b.builder
    if first.dataset_fingerprint != second.dataset_fingerprint:
        yield f"{a.benchmark}: the data differ ({first.dataset_fingerprint[:8]}, {second.dataset_fingerprint[:8]})"
    if (first.prompts, first.prompt_versions, first.seed) != (second.prompts, second.prompt_versions, second.seed):
        yield f"{a.benchmark}: the wording or the seed of the prompts differs"
    revisions = [str(asker.model_fingerprint.get("revision") or "") for asker in (first, second)]
    if a.model == b.model and revisions[0] != revisions[1]:
        yield f"{a.model}: revision {revisions[0] or '?'} in A, {revisions[1] or '?'} in B"
    clusters = {row["cluster"] for key, row in pair.rows_a.items() if key in pair.rows_b}
    if len(clusters) < MIN_CLUSTERS:
        yield f"{a.benchmark}: only {len(clusters)} pictures or clips: intervals and tests are not informative"


def _scores(out: Store, entry: ManifestEntry) -> dict[_Key, dict[str, Any]]:
    rows = {}
    for info in out.list(part_folder("scores", entry.benchmark, entry.model), "*.parquet"):
        for row in read_part(out, info.path).to_pylist():
            rows[row["task"], row["setting"], row["sample_id"], row["variant"]] = row
    return rows


def _score_differences(pair: _Pair) -> Iterator[Difference]:
    for cell in pair.cells():
        keys = sorted(key for key in {*pair.rows_a, *pair.rows_b} if key[:2] == cell)
        scores_a, scores_b = (
            {key: dict(rows[key]["values"]) for key in keys if key in rows} for rows in (pair.rows_a, pair.rows_b)
        )
        names_a, names_b = ({name for scores in rows.values() for name in scores} for rows in (scores_a, scores_b))
        for name in sorted((names_a & names_b) - {*benchmark(pair.a.benchmark).descriptive_values}):
            has_a, has_b = ({key for key in keys if name in scores.get(key, {})} for scores in (scores_a, scores_b))
            common = [key for key in keys if key in has_a and key in has_b]
            if common:
                values = ([scores_a[key][name] for key in common], [scores_b[key][name] for key in common])
                yield _score_difference(pair, name, common, values, only_one=len(has_a ^ has_b))


def _score_difference(
    pair: _Pair, name: str, keys: Sequence[_Key], values: tuple[list[float], list[float]], *, only_one: int
) -> Difference:
    from pipelines.metrics.agreement import mcnemar_exact
    from pipelines.metrics.stats import paired_bootstrap_ci, paired_bootstrap_p

    a, b = values
    clusters = [pair.rows_a[key]["cluster"] for key in keys]
    interval = paired_bootstrap_ci(b, a, clusters)
    p, test = None, ""
    if {*a, *b} <= {0.0, 1.0}:
        p, test = mcnemar_exact([bool(score) for score in a], [bool(score) for score in b]), "McNemar"
    elif interval:
        sides = [paired_bootstrap_p(x, y, clusters) for x, y in ((a, b), (b, a))]
        p, test = min(1.0, 2 * min(sides)), "bootstrap"
    low, high = (interval.low, interval.high) if interval else (None, None)
    means = sum(a) / len(a), sum(b) / len(b)
    paired = PairedTest(
        metric=name, n=len(a), value_a=means[0], value_b=means[1], ci_low=low, ci_high=high, p=p, test=test
    )
    return _difference(pair, keys, paired, only_one=only_one)


def _difference(pair: _Pair, keys: Sequence[_Key], test: PairedTest, *, only_one: int) -> Difference:
    return Difference(
        **pair.names,
        task=keys[0][0],
        setting=keys[0][1],
        value=test.metric,
        n=test.n,
        only_one=only_one,
        mean_a=test.value_a,
        mean_b=test.value_b,
        delta=test.value_b - test.value_a,
        ci_low=test.ci_low,
        ci_high=test.ci_high,
        p=test.p,
        test=test.test,
        changed=pair.changed(keys),
    )


def _metric_differences(pair: _Pair) -> tuple[list[Difference], list[str]]:
    """Return the benchmark's own tests on rows that both answered, and the problem that prevented them."""
    paired_tests = benchmark(pair.a.benchmark).paired_tests
    if paired_tests is None:
        return [], []
    try:
        samples = {sample.sample_id: sample for sample in Dataset.open(Store(pair.b.data), pair.b.benchmark).samples()}
    except (DatasetError, StoreError) as error:
        return [], [f"{pair.a.benchmark}: its own metrics are not tested, since they need the data ({error})"]
    differences = [
        difference for cell in pair.cells() for difference in _tests_of_cell(pair, cell, paired_tests, samples)
    ]
    return differences, []


def _tests_of_cell(
    pair: _Pair, cell: tuple[str, str], paired_tests: PairedTests, samples: Mapping[str, Sample]
) -> Iterator[Difference]:
    rows_a, rows_b = ({key: row for key, row in rows.items() if key[:2] == cell} for rows in (pair.rows_a, pair.rows_b))
    keys = sorted(
        key
        for key in rows_a.keys() & rows_b.keys()
        if key[2] in samples and rows_a[key]["status"] == rows_b[key]["status"] == "ok"
    )
    if not keys:
        return
    first, second = (_frame([rows[key] for key in keys]) for rows in (rows_a, rows_b))
    for test in paired_tests(first, second, cell[1], samples):
        yield _difference(pair, keys, test, only_one=len(rows_a.keys() | rows_b.keys()) - len(keys))


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([{**row, **dict(row["values"])} for row in rows])


def _holm_corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Add the p-values after Holm's correction (Holm 1979) for all tests, by statsmodels."""
    p_values = [difference.p for difference in differences if difference.p is not None]
    if not p_values:
        return list(differences)
    from statsmodels.stats.multitest import multipletests

    corrected = iter(multipletests(p_values, method="holm")[1])
    return [
        difference if difference.p is None else replace(difference, p_holm=float(next(corrected)))
        for difference in differences
    ]
