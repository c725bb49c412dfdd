"""Measure the gap between a run on published MATE and a run on its fresh twin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pipelines.benchmarks.mate.generator.twin import shared_parameters
from pipelines.benchmarks.mate.results import is_generated_sample
from pipelines.benchmarks.records import Sample, is_person
from pipelines.decisions.paired_gap import ScoredEntry, paired_gap
from pipelines.errors import UsageError
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.report.measured import Measured, MetricKey
from pipelines.report.metrics_file import load_metrics
from pipelines.report.twin import Gap, TwinRecord
from pipelines.storage.store import Store

BENCHMARK = "mate"
_METRIC = "exact_match"


def measure_twin(out: Store, twin: Store) -> TwinRecord:
    """Return the gap of each model that both outputs have, in each task and setting.

    Raises UsageError where an output has no MATE, the second none of generated scenes, or they share no number.
    """
    published, fresh = (_entries(store) for store in (out, twin))
    numbers, others = ({(n.model, n.key): n for n in load_metrics(store) or ()} for store in (out, twin))
    gaps: list[Gap] = []
    shared: Mapping[str, tuple[int, int]] = {}
    for model in (model for model in published if model in fresh and not is_person(model)):
        old, new = ScoredEntry.read(out, published[model]), ScoredEntry.read(twin, fresh[model])
        _check(new.samples, twin)
        shared = shared or shared_parameters(old.samples, new.samples)
        keys = [key for name, key in numbers if name == model and key.metric == _METRIC]
        for key in keys:
            pair = numbers[model, key], others.get((model, key))
            if numbers[model, key].is_whole and key.task and pair[1] is not None:
                gaps += _gap(old, new, key, (pair[0], pair[1]))
    if not gaps:
        raise UsageError(
            f"{out.uri} and {twin.uri} share no model with {_METRIC} in one task and setting; run both with the same "
            "models and settings, then `vlmsweep twin` again"
        )
    first = next(iter(published.values()))
    return TwinRecord(fingerprint=first.prompts.dataset_fingerprint, gaps=tuple(gaps), shared=shared)


def _entries(out: Store) -> dict[str, ManifestEntry]:
    entries = {entry.model: entry for entry in load_existing_run(out).entries if entry.benchmark == BENCHMARK}
    if not entries:
        raise UsageError(f"{out.uri} holds no {BENCHMARK}; a twin is of that benchmark")
    return entries


def _check(new: Mapping[str, Sample], twin: Store) -> None:
    if not all(map(is_generated_sample, new.values())):
        raise UsageError(
            f"{twin.uri}: its scenes are not generated; make a twin with `vlmsweep generate mate --like DATA --out "
            "DIR`, ingest and run it, and name that output second"
        )


def _gap(old: ScoredEntry, new: ScoredEntry, key: MetricKey, pair: tuple[Measured, Measured]) -> Iterator[Gap]:
    if old.samples.keys() & new.samples.keys():
        evidence, published = paired_gap(new, old, key)
        yield Gap(
            model=pair[0].model,
            task=key.task,
            setting=key.setting,
            n=evidence.n,
            published=published,
            twin=published + evidence.value,
            gap=evidence.value,
            ci_low=evidence.low,
            ci_high=evidence.high,
            is_paired=True,
        )
        return
    ends = [(n.value, n.ci_low, n.ci_high) for n in pair]
    if any(end is None for of_side in ends for end in of_side):
        return
    (a, low_a, high_a), (b, low_b, high_b) = ((float(v or 0), float(lo or 0), float(hi or 0)) for v, lo, hi in ends)
    yield Gap(
        model=pair[0].model,
        task=key.task,
        setting=key.setting,
        n=pair[1].n,
        published=a,
        twin=b,
        gap=b - a,
        ci_low=b - a - math.hypot(b - low_b, high_a - a),
        ci_high=b - a + math.hypot(high_b - b, a - low_a),
        is_paired=False,
    )
