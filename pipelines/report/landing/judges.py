"""Who judged: the judges behind a benchmark's numbers, with their versions and verdicts, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.benchmarks.metrics_kernel.rows import NO_JUDGE
from pipelines.plan.run_manifest import RunManifest
from pipelines.report.metrics_file import Measured
from pipelines.report.portable import portable_text
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A model whose verdicts an output has about the answers to one benchmark."""

    name: str
    version: str = ""  # the model at its maker, and its revision, where they are known
    verdicts: int
    is_coin: bool = False  # whether it is the baseline that guesses

    def __str__(self) -> str:
        facts = ("tosses a coin" if self.is_coin else self.version, f"{self.verdicts:,} verdicts")
        return f"{self.name} ({', '.join(filter(None, facts))})"


@dataclass(frozen=True, slots=True)
class Judging:
    """Who judged the answers to one benchmark, and the metrics that rest on it; no judge where none was given."""

    benchmark: str
    title: str
    metrics: tuple[str, ...]
    judges: tuple[Judge, ...] = ()

    @property
    def is_coin(self) -> bool:
        """Whether the judge that gives the metrics guesses."""
        return bool(self.judges) and self.judges[0].is_coin

    @property
    def is_doubtful(self) -> bool:
        """Whether the metrics mean nothing or are missing."""
        return self.is_coin or not self.judges

    def __str__(self) -> str:
        judges = f"judged by {', '.join(map(str, self.judges))}" if self.judges else "no judge (--judge NAME)"
        so = ", so these numbers mean nothing" if self.is_coin else "" if self.judges else ", so not measured"
        return f"{self.title}: {judges}{so}: {', '.join(map(metric_label, self.metrics))}"


def judgings_of(out: Store, run: RunManifest, numbers: Sequence[Measured]) -> tuple[Judging, ...]:
    """Return who judged each benchmark that has judged metrics, and what was not measured for want of a judge."""
    judged: dict[tuple[str, bool], dict[str, None]] = {}
    for row in numbers:
        is_measured = row.value is not None
        is_stated = row.is_whole and (is_measured or row.note.startswith(NO_JUDGE))
        if is_stated and row.metric in benchmark(row.benchmark).judged_metrics:
            judged.setdefault((row.benchmark, is_measured), {})[row.metric] = None
    judgings = []
    for (name, is_measured), metrics in judged.items():
        judges = tuple(_judges(out, run, name)) if is_measured else ()
        if judges or not is_measured:
            judgings.append(Judging(name, benchmark(name).title, tuple(metrics), judges))
    return tuple(judgings)


def _judges(out: Store, run: RunManifest, name: str) -> Iterator[Judge]:
    """Yield the judges with a verdict, the one that gives the metrics first."""
    for model in run.sweep.judge.split(",") if run.sweep.judge else run.models:
        parts = iter_parts(out, part_folder("judgements", name, model), ["status"])
        verdicts = sum(pc.sum(pc.equal(table["status"], "ok")).as_py() or 0 for _, table in parts)
        if verdicts:
            fields = run.models.get(model, {})
            version = (str(fields.get("model") or ""), str(fields.get("revision") or "")[:12])
            yield Judge(
                name=model,
                version=portable_text(" ".join(filter(None, version)), out.uri),
                verdicts=verdicts,
                is_coin=model in run.baselines,
            )
