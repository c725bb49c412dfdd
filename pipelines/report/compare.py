"""Compare two outputs or two models on the rows that both scored, with paired tests and intervals."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import combinations
from typing import Literal, Self, TypeAlias

from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.records import RIGHT, PairedTest, Sample, is_person
from pipelines.clean_text import one_line
from pipelines.errors import DamagedPartError, DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.metrics.paired import holm
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.plan.selection import check_names
from pipelines.report.scored_pair import RowReader, ScoredPair, ScoreRows
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

PairKey: TypeAlias = tuple[str, frozenset[str]]  # a benchmark and its two models
SIGNIFICANCE = 0.05  # a difference with a corrected p-value of at least this is not shown
CANNOT_CONCLUDE = "cannot conclude"
_MODELS_IN_MEMORY = 16


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
    p_holm: float | None = None  # after Holm's correction for its family
    tests: int = 1  # tests of the family, which the correction is for
    changed: int | None  # rows with another parsed answer; None for metrics that are no mean over rows
    family: Literal["headline", "other"] = "other"
    """What Holm's correction is over: the headlines of all pairs of models of an output, or all else compared."""
    ci_low_holm: float | None = None
    ci_high_holm: float | None = None  # ends of the interval that leaves out 0 if and only if p_holm < 0.05

    def flipped(self) -> Self:
        """Return the difference of A from B."""
        return replace(
            self,
            model_a=self.model_b,
            model_b=self.model_a,
            mean_a=self.mean_b,
            mean_b=self.mean_a,
            delta=-self.delta,
            ci_low=None if self.ci_high is None else -self.ci_high,
            ci_high=None if self.ci_low is None else -self.ci_low,
            ci_low_holm=None if self.ci_high_holm is None else -self.ci_high_holm,
            ci_high_holm=None if self.ci_low_holm is None else -self.ci_low_holm,
        )

    @property
    def standard_error(self) -> float | None:
        """Of B minus A; None if the clusters do not vary, or it is not known how much."""
        return None if self.spread is None else self.spread.error

    @property
    def is_percent(self) -> bool:
        """Whether the metric is a fraction."""
        return self.spread is None or self.spread.is_fraction

    def corrected(self, p_holm: float | None, tests: int) -> Self:
        """Return the difference with its p-value after Holm's correction, and the interval that agrees with it."""
        ends = None
        if self.spread is not None and self.p is not None and p_holm is not None:
            ends = self.spread.ends(self.delta, SIGNIFICANCE * (self.p / p_holm if p_holm else 1 / tests))
        low, high = (None, None) if ends is None else (ends.low, ends.high)
        return replace(self, p_holm=p_holm, tests=tests, ci_low_holm=low, ci_high_holm=high)

    @property
    def shown_ends(self) -> tuple[float, float] | None:
        """The interval beside a verdict, which agrees with it."""
        for ends in ((self.ci_low_holm, self.ci_high_holm), (self.ci_low, self.ci_high)):
            if ends[0] is not None and ends[1] is not None:
                return ends[0], ends[1]
        return None

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


def compare(out_a: Store, out_b: Store | None, models: Sequence[str] = ()) -> Comparison:
    """Compare two outputs, or the models of one.

    `models` of two outputs: empty for every common model with itself; one for that model; two for the first of A and
    the second of B. Of one output (`out_b` is None): all pairs of those named, or of all models if empty.
    Two may each name a setting, as `MODEL:SETTING`, which then are compared on the same items.
    Raises UsageError if an output holds no run, a model or setting is not in it, or there are no common rows.
    """
    comparison = _compared(out_a, out_b, models)
    if not comparison.differences:
        sides = out_a.uri if out_b is None else f"{out_a.uri} and {out_b.uri}"
        why = f": {'; '.join(comparison.caveats)}" if comparison.caveats else "; run `vlmsweep score` on both"
        raise UsageError(f"{sides}: nothing to compare{why}")
    return comparison


def compare_models(out: Store, models: Sequence[str] = ()) -> Comparison:
    """Compare all pairs of the models of one output; without common rows there are no differences."""
    return _compared(out, None, models)


def _compared(out_a: Store, out_b: Store | None, models: Sequence[str]) -> Comparison:
    is_one_output, out_b = out_b is None, out_b or out_a
    entries_a, entries_b = _entries(out_a), _entries(out_b)
    models, settings = _with_settings(models, entries_a, entries_b)
    differences: list[Difference] = []
    caveats: list[str] = []
    read = _remembering_read()
    samples_read: dict[tuple[str, str], tuple[Mapping[str, Sample], list[str]]] = {}
    for name_a, name_b in _model_pairs(entries_a, entries_b, models, is_one_output=is_one_output):
        for name in sorted({key[0] for key in entries_a} & {key[0] for key in entries_b}):
            a, b = entries_a.get((name, name_a)), entries_b.get((name, name_b))
            if a is None or b is None or not all(map(_has_setting, (a, b), settings)):
                continue
            pair = ScoredPair.read((out_a, a), (out_b, b), settings, read)
            if pair.unscored:
                caveats.append(f"{name}: no scored rows in {' and '.join(pair.unscored)}; run `vlmsweep score`")
                continue
            if (key := (name, b.data)) not in samples_read:
                samples_read[key] = _samples(b)
            samples, problems = samples_read[key]
            tested, undefined = _differences(pair, samples)
            differences += tested
            caveats += [*_caveats(pair), *problems, *undefined, *(() if tested or undefined else _no_common_rows(pair))]
    corrected = _holm_corrected(differences)
    if out_a.uri == out_b.uri and not any(settings):
        has_all_pairs = is_one_output and not models
        tests = _contest(out_a, differences) if has_all_pairs else headline_tests(out_a)
        corrected = [*_with_headlines(corrected, tests)]
    return Comparison(tuple(corrected), tuple(dict.fromkeys([*caveats, *_power(differences)])))


def headline_tests(out: Store) -> Mapping[PairKey, Difference]:
    """Test the headlines of all pairs of models of an output; people and models that guess are no contestants.

    The report's first page and `compare` take their p-values from here, so they agree. A pair without common rows, or
    without a test of the headline, is absent.
    """
    run = load_existing_run(out)
    entries = [entry for entry in run.entries if not is_person(entry.model) and entry.model not in run.baselines]
    tests: list[Difference] = []
    read = _remembering_read()
    for name in sorted({entry.benchmark for entry in entries}):
        here = sorted((entry for entry in entries if entry.benchmark == name), key=lambda entry: entry.model)
        samples = _samples(here[0])[0] if len(here) > 1 else {}
        for a, b in combinations(here, 2):
            try:
                pair = ScoredPair.read((out, a), (out, b), read=read)
                differences = [] if pair.unscored else _differences(pair, samples, headlines_only=True)[0]
                tests += differences
            except DamagedPartError as error:  # a report says what it can, as if it reduces the parts
                log.warning("%s; %s and %s are not compared", error, a.model, b.model)
    return _contest(out, tests)


def _contest(out: Store, differences: Iterable[Difference]) -> Mapping[PairKey, Difference]:
    """Return the headlines of all pairs that are no people and do not guess, corrected for each other."""
    baselines = load_existing_run(out).baselines
    tests = [
        row
        for row in differences
        if row.family == "headline" and not any(is_person(m) or m in baselines for m in (row.model_a, row.model_b))
    ]
    return {(test.benchmark, frozenset((test.model_a, test.model_b))): test for test in _holm_corrected(tests)}


def _remembering_read() -> RowReader:
    """Return a reader of score rows that keeps those of the last models."""
    entries: dict[tuple[str, str, str], tuple[Store, ManifestEntry]] = {}

    @lru_cache(maxsize=_MODELS_IN_MEMORY)
    def rows(key: tuple[str, str, str], setting: str, shown: str) -> ScoreRows:
        return ScoreRows.read(*entries[key], setting, shown)

    def read(out: Store, entry: ManifestEntry, setting: str = "", shown: str = "") -> ScoreRows:
        key = (out.uri, entry.benchmark, entry.model)
        entries[key] = (out, entry)
        return rows(key, setting, shown)

    return read


def _with_headlines(differences: Sequence[Difference], tests: Mapping[PairKey, Difference]) -> Iterator[Difference]:
    """Yield the differences, headlines corrected for all pairs of the output."""
    for row in differences:
        test = tests.get((row.benchmark, frozenset((row.model_a, row.model_b))))
        if row.family == "headline" and test is not None:
            yield row.corrected(test.p_holm, test.tests)
        else:
            yield row


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
    groups = [group for (_, of), entry in entries.items() if of == model for group in entry.prompts.task_settings]
    check_names("setting", [setting], sorted({group.setting for group in groups}))
    return model, setting


def _has_setting(entry: ManifestEntry, setting: str) -> bool:
    return not setting or any(group.setting == setting for group in entry.prompts.task_settings)


def _model_pairs(
    a: Mapping[tuple[str, str], ManifestEntry],
    b: Mapping[tuple[str, str], ManifestEntry],
    models: Sequence[str],
    *,
    is_one_output: bool,
) -> list[tuple[str, str]]:
    models_a, models_b = (sorted({model for _, model in entries}) for entries in (a, b))
    if is_one_output:
        check_names("model", models, models_a)
        models = models or models_a
        if len(models) < 2:
            raise UsageError(f"only one model, {models[0]}, of one output; name a second output, or two with --models")
        return list(combinations(models, 2))
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


def _no_common_rows(pair: ScoredPair) -> Iterator[str]:
    for entry, rows in ((pair.a, pair.rows_a), (pair.b, pair.rows_b)):
        if (rows.texts["status"] == "error").all():
            yield f"{entry.benchmark}: all rows of {entry.model} failed; run the same command again to send them again"
            return
    yield f"{pair.a.benchmark}: {pair.a.model} and {pair.b.model} have no scored rows in common"


def _power(differences: Sequence[Difference]) -> Iterator[str]:
    """Yield which benchmarks have only one cluster, of which no test can conclude anything."""
    for name in sorted({row.benchmark for row in differences}):
        if max(row.clusters for row in differences if row.benchmark == name) < 2:
            yield f"{name}: only one clip, picture or scene, so no difference can be tested"


def _samples(entry: ManifestEntry) -> tuple[Mapping[str, Sample], list[str]]:
    """Return the samples by id, and the problem that prevented it; not read if no metric needs them."""
    if entry.definition.measures is None:
        return {}, []
    try:
        dataset = Dataset.open(Store(entry.data), entry.benchmark)
        return {sample.sample_id: sample for sample in dataset.samples()}, []
    except (DatasetError, StoreError) as error:
        return {}, [f"{entry.benchmark}: its metrics that need the data are not tested ({error})"]


_FORMAT_METRICS = ("format_ok",)


def _differences(
    pair: ScoredPair, samples: Mapping[str, Sample], *, headlines_only: bool = False
) -> tuple[list[Difference], list[str]]:
    """Return the tests of a pair of models, and which metrics of whole tasks are undefined on their rows.

    Scores that are constant, equal to another, or about the form of an answer alone are not tested.
    """
    compared = list(_metrics(pair, samples))
    headline = _headline(pair, [metric for metric, _, _ in compared])
    seen = set[tuple[str, str, tuple[bytes, ...]]]()
    differences: list[Difference] = []
    undefined: list[str] = []
    for metric, only_one, changed in sorted(compared, key=lambda row: row[0] is not headline):
        group, content = (metric.task, metric.setting), metric.content
        is_copy = content is not None and (*group, content) in seen
        is_untested = headlines_only or metric.is_constant or is_copy or metric.metric in _FORMAT_METRICS
        if metric is not headline and is_untested:
            continue
        if content is not None:
            seen.add((*group, content))
        if (test := metric.test()) is not None:
            family: Literal["headline", "other"] = "headline" if metric is headline else "other"
            differences.append(_difference(pair, group, test, only_one=only_one, changed=changed, family=family))
        elif (metric.subset, metric.category) == ("", ""):
            where = f"{pair.a.benchmark} {metric.task} {metric.setting}"
            undefined.append(f"{where}: {metric.metric} of {pair.a.model} or {pair.b.model} is undefined on their rows")
    return differences, undefined


def _metrics(pair: ScoredPair, samples: Mapping[str, Sample]) -> Iterator[tuple[PairedMetric, int, int | None]]:
    """Yield each metric of the pair, the rows that only one scored, and the rows with another answer."""
    yield from pair.score_means()
    definition = pair.a.definition
    for a, b in pair.answered() if definition.measures else ():
        with_data = a["sample_id"].isin(list(samples)).to_numpy() if samples else slice(None)
        rows_a, rows_b = (rows[with_data].reset_index(drop=True) for rows in (a, b))
        for metric in definition.paired_metrics(rows_a, rows_b, samples) if len(rows_a) else ():
            yield metric, pair.only_one_answered(metric.task, metric.setting), None


def _headline(pair: ScoredPair, metrics: Sequence[PairedMetric]) -> PairedMetric | None:
    """Return the metric that is the benchmark's headline; the share of right rows may be the mean of a verdict."""
    definition = pair.a.definition
    for name in (definition.headline, *RIGHT):
        here = [metric for metric in metrics if (metric.metric, metric.subset, metric.category) == (name, "", "")]
        group = definition.headline_group((metric.task, metric.setting) for metric in here)
        if group is not None:
            return next(metric for metric in here if (metric.task, metric.setting) == group)
    return None


def _difference(
    pair: ScoredPair,
    group: tuple[str, str],
    test: PairedTest,
    *,
    only_one: int,
    changed: int | None,
    family: Literal["headline", "other"],
) -> Difference:
    return Difference(
        benchmark=pair.a.benchmark,
        model_a=pair.a.model,
        model_b=pair.b.model,
        task=group[0],
        setting=pair.setting_name(group[1]),
        only_one=only_one,
        delta=test.mean_b - test.mean_a,
        changed=changed,
        family=family,
        **{field.name: getattr(test, field.name) for field in fields(test)},
    )


def _holm_corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Add the p-values after Holm's correction for the tests of each family."""
    results = [*differences]
    for family in ("headline", "other"):
        places = [place for place, row in enumerate(results) if row.family == family]
        p_values = [results[place].p for place in places]
        tests = sum(p is not None for p in p_values)
        for place, p in zip(places, holm(p_values), strict=True):
            results[place] = results[place].corrected(p, max(1, tests))
    return results
