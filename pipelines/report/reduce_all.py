"""Reduce all entries of an output in parallel."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from cluster.lazy import LazyCluster
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import is_person
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.ray_data import translate_ray_error
from pipelines.report.entry_frame import PlannedEntry
from pipelines.report.entry_results import EntryResults
from pipelines.report.reduce import reduce_ensemble, reduce_entry, reduce_people, run_later

T = TypeVar("T")

MAX_ROWS_HERE = 20_000  # reduced in this process by a run on one machine


def reduce_all(context: SweepContext, entries: Sequence[ManifestEntry], cluster: LazyCluster) -> list[EntryResults]:
    """Reduce every entry, and the ensembles: here if they are small, else each in a task of its own on the cluster."""
    planned = [_planned(context, entry) for entry in entries]
    names = sorted({entry.benchmark for entry in entries})
    groups = [[entry for entry in planned if entry.entry.benchmark == name] for name in names]
    people = _people(context, names)
    joint = [
        [planned for planned in group if ensemble.is_member(planned.entry.model)]
        for group in groups
        if (ensemble := group[0].entry.definition.ensemble)
    ]
    in_sets = [in_set for entry in planned for in_set in (entry, *entry.other_prompt_sets)]
    rows = sum(plan.plan.rows for in_set in in_sets for plan in in_set.plans)
    persons = [
        [person for person in group if person.entry.model not in benchmark(name).human.pseudo_people]
        for name, group in people.items()
    ]
    is_here = cluster.is_embedded and rows <= MAX_ROWS_HERE
    submit = run_later if is_here else _submit
    tasks = [partial(reduce_entry, entry, people[entry.entry.benchmark], context.out, submit) for entry in planned]
    tasks += [partial(reduce_ensemble, group, context.out) for group in joint if len(group) > 1]
    tasks += [partial(reduce_people, group, context.out) for group in persons if len(group) > 1]
    if not is_here:
        cluster.connect()
    results = [result() for result in [submit(task) for task in tasks]]
    return sorted(results, key=lambda of: any(is_person(row.model) for row in of.metrics))  # people stand together


def _planned(context: SweepContext, entry: ManifestEntry) -> PlannedEntry:
    first, *further_sets = [PlannedEntry(in_set, context.entry_plans(in_set)) for in_set in entry.by_prompt_set()]
    return PlannedEntry(entry, first.plans, further_sets)


def _submit(function: Callable[[], T]) -> Callable[[], T]:
    """Run a function on the cluster, in a task of its own; a task that waits for another leaves it its processor."""
    import ray

    result = ray.remote(num_cpus=0.5)(_call).remote(function)

    def wait() -> T:
        try:
            value: T = ray.get(result)
        except ray.exceptions.RayError as error:
            raise translate_ray_error(error) from error
        return value

    return wait


def _call(function: Callable[[], T]) -> T:
    return function()


def _people(context: SweepContext, names: Sequence[str]) -> dict[str, list[PlannedEntry]]:
    """Return the people of an output by benchmark, of whom a report may leave out some."""
    people: dict[str, list[PlannedEntry]] = {name: [] for name in names}
    for entry in load_run(context.out).entries:
        if entry.benchmark in people and is_person(entry.model):
            people[entry.benchmark].append(PlannedEntry(entry, context.entry_plans(entry)))
    return people
