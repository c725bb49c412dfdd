"""Compare two outputs or two models on the rows that both scored, with paired tests and intervals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.records import RIGHT, PairedTest, Sample
from pipelines.clean_text import one_line
from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.metrics.paired import holm
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.plan.selection import check_names
from pipelines.report.scored_pair import ScoredPair
from pipelines.storage.store import Store

SIGNIFICANCE = 0.05  # a difference with a corrected p-value of at least this is not shown
CANNOT_CONCLUDE = "cannot conclude"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(PairedTest):
    """One score or metric under one task and setting, A against B on the rows that both have."""

    benchmark: str
    model_a: str
    model_b: str
    task: str
    setting: str
    only_one: int  # rows that only one of them scored
    delta: float  # B minus A
    p_holm: float | None = None  # after Holm's correction for all tests of the comparison
    changed: int | None  # rows with another parsed answer; None for metrics that are no mean over rows

    @property
    def verdict(self) -> str:
        """`differs`, `not shown`, or `cannot conclude` with one cluster or an unknown spread."""
        p = self.p if self.p_holm is None else self.p_holm
        if p is None:
            return CANNOT_CONCLUDE
        return "differs" if p < SIGNIFICANCE else "not shown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, and caveats about their comparability."""

    differences: tuple[Difference, ...]
    caveats: tuple[str, ...]


def compare(out_a: Store, out_b: Store, models: Sequence[str] = ()) -> Comparison:
    """Compare two outputs, which may be the same.

    `models`: empty for every common model with itself; one for that model; two for the first of A and the second of B.
    Two may each name a setting, as `MODEL:SETTING`, which then are compared on the same items.
    Raises UsageError if an output holds no run, a model or setting is not in it, or there are no common rows.
    """
    entries_a, entries_b = _entries(out_a), _entries(out_b)
    models, settings = _with_settings(models, entries_a, entries_b)
    differences: list[Difference] = []
    caveats: list[str] = []
    for name_a, name_b in _model_pairs(entries_a, entries_b, models):
        for name in sorted({key[0] for key in entries_a} & {key[0] for key in entries_b}):
            a, b = entries_a.get((name, name_a)), entries_b.get((name, name_b))
            if a is None or b is None or not all(map(_has_setting, (a, b), settings)):
                continue
            pair = ScoredPair.read((out_a, a), (out_b, b), settings)
            if pair.unscored:
                caveats.append(f"{name}: no scored rows in {' and '.join(pair.unscored)}; run `vlmsweep score`")
                continue
            samples, problems = _samples(b)
            differences += _differences(pair, samples)
            caveats += [*_caveats(pair), *problems]
    if not differences:
        raise UsageError(f"{out_a.uri} and {out_b.uri} have no scored rows in common; run `vlmsweep score` on both")
    return Comparison(tuple(_holm_corrected(differences)), tuple(dict.fromkeys([*caveats, *_power(differences)])))


def compare_headline(
    out: Store, entries: tuple[ManifestEntry, ManifestEntry], metric: str, task: str, setting: str
) -> Difference | None:
    """Compare two models of an output on one metric of the whole; None where no test has its values on common rows."""
    pair = ScoredPair.read((out, entries[0]), (out, entries[1]), (setting, setting))
    if pair.unscored:
        return None
    samples, _ = _samples(pair.b)
    for name in (metric, *RIGHT):  # the share of right rows is the mean of such a score

        def is_headline(other: PairedMetric, name: str = name) -> bool:
            return (other.metric, other.task, other.subset, other.category) == (name, task, "", "")

        for difference in _differences(pair, samples, is_headline):
            return difference
    return None


def _entries(out: Store) -> dict[tuple[str, str], ManifestEntry]:
    return {(entry.benchmark, entry.model): entry for entry in load_existing_run(out).entries}


def _with_settings(
    names: Sequence[str], a: Mapping[tuple[str, str], ManifestEntry], b: Mapping[tuple[str, str], ManifestEntry]
) -> tuple[Sequence[str], tuple[str, str]]:
    """Return models, and the settings of A and B that `MODEL:SETTING` names, '' for all."""
    if not names or len(names) > 2:
        return names, ("", "")
    (model_a, setting_a), (model_b, setting_b) = _side(names[0], a), _side(names[-1], b)
    if bool(setting_a) != bool(setting_b):
        raise UsageError("--models A:SETTING,B:SETTING: name a setting of both, or of neither")
    return (model_a, model_b)[: len(names)], (setting_a, setting_b)


def _side(name: str, entries: Mapping[tuple[str, str], ManifestEntry]) -> tuple[str, str]:
    """Return the model and the setting of `MODEL:SETTING`; a model's name may have a colon, too."""
    model, _, setting = name.rpartition(":")
    models = {model for _, model in entries}
    if name in models or model not in models:
        return name, ""
    cells = [cell for (_, of), entry in entries.items() if of == model for cell in entry.prompts.task_settings]
    check_names("setting", [setting], sorted({cell.setting for cell in cells}))
    return model, setting


def _has_setting(entry: ManifestEntry, setting: str) -> bool:
    return not setting or any(cell.setting == setting for cell in entry.prompts.task_settings)


def _model_pairs(
    a: Mapping[tuple[str, str], ManifestEntry], b: Mapping[tuple[str, str], ManifestEntry], models: Sequence[str]
) -> list[tuple[str, str]]:
    models_a, models_b = (sorted({model for _, model in entries}) for entries in (a, b))
    if len(models) > 2:
        raise UsageError("--models: give one model, or two: one of each output")
    if not models:
        common = [(name, name) for name in models_a if name in models_b]
        if not common:
            names = one_line(f"{', '.join(models_a)}; {', '.join(models_b)}")
            raise UsageError(f"no model is in both outputs; name two with --models A,B ({names})")
        return common
    check_names("model", [models[0]], models_a)
    check_names("model", [models[-1]], models_b)
    return [(models[0], models[-1])]


def _caveats(pair: ScoredPair) -> Iterator[str]:
    a, b = pair.a, pair.b
    first, second = a.prompts, b.prompts
    if first.dataset_fingerprint != second.dataset_fingerprint:
        yield f"{a.benchmark}: the data differ ({first.dataset_fingerprint[:8]}, {second.dataset_fingerprint[:8]})"
    if (first.wording, first.prompt_versions, first.seed) != (second.wording, second.prompt_versions, second.seed):
        yield f"{a.benchmark}: the wording or the seed of the prompts differs"
    for field, title in (("revision", "revision"), ("adapter_revision", "revision of the adapter")):
        revisions = [str(target.fingerprint.get(field) or "") for target in (a.target, b.target)]
        if a.model == b.model and revisions[0] != revisions[1]:
            yield f"{a.model}: {title} {revisions[0] or '?'} in A, {revisions[1] or '?'} in B"


def _power(differences: Sequence[Difference]) -> Iterator[str]:
    """Yield which benchmarks have only one cluster, of which no test can conclude anything."""
    for name in sorted({row.benchmark for row in differences}):
        if max(row.clusters for row in differences if row.benchmark == name) < 2:
            yield f"{name}: only one clip, picture or scene, so no difference can be tested"


def _samples(entry: ManifestEntry) -> tuple[Mapping[str, Sample], list[str]]:
    """Return the samples by id, and the problem that prevented it; not read where no metric needs them."""
    if entry.definition.paired_metrics is None:
        return {}, []
    try:
        dataset = Dataset.open(Store(entry.data), entry.benchmark)
        return {sample.sample_id: sample for sample in dataset.samples()}, []
    except (DatasetError, StoreError) as error:
        return {}, [f"{entry.benchmark}: its metrics that need the data are not tested ({error})"]


def _differences(
    pair: ScoredPair, samples: Mapping[str, Sample], is_compared: Callable[[PairedMetric], bool] = lambda _metric: True
) -> Iterator[Difference]:
    for metric, only_one, changed in pair.score_means():
        if is_compared(metric) and (test := metric.test()) is not None:
            yield _difference(pair, (metric.task, metric.setting), test, only_one=only_one, changed=changed)
    paired_metrics = pair.a.definition.paired_metrics
    if paired_metrics is None:
        return
    for a, b in pair.answered():
        with_data = a["sample_id"].isin(list(samples)).to_numpy() if samples else slice(None)
        rows_a, rows_b = (rows[with_data].reset_index(drop=True) for rows in (a, b))
        for metric in paired_metrics(rows_a, rows_b, samples) if len(rows_a) else ():
            if is_compared(metric) and (test := metric.test()) is not None:
                only_one = pair.only_one_answered(metric.task, metric.setting)
                yield _difference(pair, (metric.task, metric.setting), test, only_one=only_one, changed=None)


def _difference(
    pair: ScoredPair, cell: tuple[str, str], test: PairedTest, *, only_one: int, changed: int | None
) -> Difference:
    return Difference(
        benchmark=pair.a.benchmark,
        model_a=pair.a.model,
        model_b=pair.b.model,
        task=cell[0],
        setting=pair.setting_name(cell[1]),
        only_one=only_one,
        delta=test.mean_b - test.mean_a,
        changed=changed,
        **asdict(test),
    )


def _holm_corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Add the p-values after Holm's correction for all tests."""
    corrected = holm([difference.p for difference in differences])
    return [replace(difference, p_holm=p) for difference, p in zip(differences, corrected, strict=True)]
