"""The output that all nights share: its report shows every pair, each as the last night measured it.

A model runs in a staging folder of the present version of the code. When it has ended, its answers replace the earlier
ones: a pair that fails keeps its row, answers of different code are never mixed, and a night that was killed resumes.
Captions and verdicts stay from night to night, as in any output, so that models share them and prompts stay equal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jobs.nightly.fingerprints import code_fingerprint
from jobs.nightly.items import ItemScores, ScoreKey, entry_items
from jobs.nightly.records import PairStatus
from pipelines.benchmarks import benchmark_names
from pipelines.benchmarks.records import is_person
from pipelines.plan.prune import prune_plans
from pipelines.plan.run_manifest import PATH, load_run, save_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict.status import write_counts
from pipelines.progress import ProgressListener
from pipelines.storage.lock import run_lock
from pipelines.storage.parts import part_folder
from pipelines.storage.store import Store
from pipelines.sweep.evaluate import score_and_report
from pipelines.sweep.human_entries import add_human_entries
from pipelines.sweep.result import SweepResult
from pipelines.sweep.session import open_sweep

_STAGING = "staging"
_SHARED = ("captions", "judgements")  # folders that models share
_ANSWERS = ("predictions", "scores")


class JointOutput:
    """The output of all nights under `spec.out`, and the staging folder of this version of the code."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = replace(spec, cost_limit=None)
        self.out = Store(spec.out)
        self.staging = self.out.sub(f"{_STAGING}/{code_fingerprint()}")

    def delete_stale(self) -> None:
        """Delete what other versions of the code left in their staging folders."""
        self.out.delete_all(_STAGING, {f"{_STAGING}/{code_fingerprint()}/{file.path}" for file in self.staging.list()})

    def prepare(self, due: Sequence[PairStatus]) -> None:
        """Prepare the staging folder for the due pairs of one model."""
        self.staging.delete(PATH)  # or earlier models would be scored and reported again
        for status in due:
            marker = f"{part_folder('pairs', status.benchmark, status.model)}/fingerprint"
            if not _holds(self.staging, marker, status.fingerprint):
                self._delete_answers(status)
                self.staging.put(marker, status.fingerprint.encode())
            for kind in _SHARED:
                _copy(self.out, self.staging, f"{kind}/benchmark={status.benchmark}", again=False)

    def items(self) -> dict[ScoreKey, ItemScores]:
        """Return the scores in the staging folder by sample."""
        entries = load_run(self.staging).entries
        return {key: scores for entry in entries for key, scores in entry_items(self.staging, entry).items()}

    def promote(self, due: Sequence[PairStatus]) -> None:
        """Replace the pairs' answers in the joint output by those of the staging folder."""
        with run_lock(self.out):
            for status in due:
                for kind in _SHARED:
                    _copy(self.staging, self.out, f"{kind}/benchmark={status.benchmark}")
                for kind in _ANSWERS:
                    folder = part_folder(kind, status.benchmark, status.model)
                    self.out.delete_all(folder, _copy(self.staging, self.out, folder))
            self._record()

    def clear(self, statuses: Iterable[PairStatus]) -> None:
        """Delete the pairs' answers from the staging folder, so that their next run measures them anew."""
        for status in statuses:
            self._delete_answers(status)

    def report(self, progress: ProgressListener, left_out: set[tuple[str, str]], notes: Sequence[str]) -> SweepResult:
        """Report all pairs, but those `left_out` by (model, benchmark); import people's files first."""
        with open_sweep(self.spec, (Stage.SCORE, Stage.REPORT), progress=progress) as sweep:
            run, people = add_human_entries(sweep.context, sweep.earlier)
            warnings = list(notes)
            if people:  # with the judge, which their own words may need
                scoring = replace(sweep, stages=frozenset([Stage.SCORE]))
                scored = score_and_report(scoring, replace(run, entries=tuple(people)))
                warnings += [*scored.warnings, *scored.unavailable]
            prune_plans(sweep.context, run.entries)
            installed = benchmark_names()  # a plug-in may have been removed since its pairs were measured
            shown = tuple(
                entry
                for entry in run.entries
                if entry.benchmark in installed and (entry.model, entry.benchmark) not in left_out
            )
            # Labels of pairs that still wait are no error.
            without_files = replace(sweep.context, spec=replace(sweep.context.spec, human=()))
            reporting = replace(sweep, stages=frozenset([Stage.REPORT]), context=without_files)
            result = score_and_report(reporting, replace(run, entries=shown), warnings=warnings)
            write_counts(self.out, result.counts)
        return result

    def pairs(self) -> set[tuple[str, str]]:
        """Return (model, benchmark) of what was measured."""
        return {(each.model, each.benchmark) for each in load_run(self.out).entries if not is_person(each.model)}

    def _record(self) -> None:
        staged, earlier = load_run(self.staging), load_run(self.out)
        entries = {(entry.benchmark, entry.model): entry for entry in earlier.entries}
        entries |= {(entry.benchmark, entry.model): entry for entry in staged.entries}
        save_run(
            self.out,
            earlier,
            replace(staged, sweep=self.spec.record(), entries=tuple(entries[key] for key in sorted(entries))),
        )

    def _delete_answers(self, status: PairStatus) -> None:
        for kind in _ANSWERS:
            self.staging.delete_all(part_folder(kind, status.benchmark, status.model))


def _holds(store: Store, path: str, text: str) -> bool:
    try:
        return store.get(path).decode("utf-8", "replace") == text
    except FileNotFoundError:
        return False


def _copy(source: Store, target: Store, folder: str, *, again: bool = True) -> set[str]:
    """Copy the files of a folder, existing ones `again`; return the paths."""
    existing = set() if again else {file.path for file in target.list(folder)}
    paths = {file.path for file in source.list(folder)}
    for path in sorted(paths - existing):
        target.put(path, source.get(path))
    return paths
