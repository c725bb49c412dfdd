"""What stands on the command line as A and B: an output, a model of one, a log of another harness."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from models.errors import suggest
from pipelines.benchmarks import benchmark_names
from pipelines.benchmarks.records import is_person
from pipelines.clean_text import one_line
from pipelines.errors import UsageError
from pipelines.plan.run_manifest import PATH, ManifestEntry, RunManifest, load_existing_run
from pipelines.plan.selection import check_names
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store


@dataclass(frozen=True, slots=True)
class OutputSide:
    """An output, and its model that is meant; '' for each."""

    out: Store
    run: RunManifest
    model: str = ""

    @property
    def entries(self) -> list[ManifestEntry]:
        """The entries of the model, without people's unless it is named."""
        if self.model:
            return [entry for entry in self.run.entries if entry.model == self.model]
        return [entry for entry in self.run.entries if not is_person(entry.model)]


@dataclass(frozen=True, slots=True)
class LogSide:
    """A log of another harness on this machine, and its model that is meant; '' for the only one."""

    path: Path
    model: str = ""


def read_side(text: str) -> OutputSide | LogSide:
    """Return what an argument names: `OUT`, `OUT:MODEL`, `LOG` or `LOG:MODEL`; UsageError for anything else."""
    places = [(text, ""), *_splits(text)]
    for place, model in places:
        out = Store(place)
        if out.exists(PATH):
            return _model_side(OutputSide(out, load_existing_run(out)), model)
    for place, model in places:
        if not is_remote(place) and Path(place).expanduser().exists():
            return LogSide(Path(place).expanduser(), model)
    raise UsageError(f"{text}: neither the --out of a run, nor OUT:MODEL, nor a log of another harness")


def side_pairs(a: str, b: str | None, models: Sequence[str]) -> list[tuple[OutputSide | LogSide, OutputSide | LogSide]]:
    """Return which sides are compared: `models` choose as in `compare` without --explain.

    Of two sides one model is of both, two are one of each. Of one output (`b` is None) all pairs of those named, or of
    all models that share a benchmark. Raises UsageError for a model that is not there, or that is named twice.
    """
    first = read_side(a)
    if b is None:
        return _pairs_of_one(first, models)
    second = read_side(b)
    if len(models) > 2:
        raise UsageError("--models: give one model, or two: one of each side")
    return [(with_model(first, models[0]), with_model(second, models[-1]))] if models else [(first, second)]


def _pairs_of_one(
    side: OutputSide | LogSide, models: Sequence[str]
) -> list[tuple[OutputSide | LogSide, OutputSide | LogSide]]:
    if not isinstance(side, OutputSide) or side.model:
        raise UsageError("--explain needs two sides: outputs, OUT:MODEL, a harness's log, or published[:ROW]")
    tested: dict[str, set[str]] = {}
    for entry in side.run.entries if models else side.entries:
        tested.setdefault(entry.model, set()).add(entry.benchmark)
    names = models or sorted(tested)
    check_names("model", names, sorted(tested))
    if len(names) < 2:
        raise UsageError(
            f"only one model, {', '.join(names)}, of one output; name a second output, or two with --models"
        )
    pairs = [(one, other) for one, other in combinations(names, 2) if tested[one] & tested[other]]
    if not pairs:
        raise UsageError(f"{side.out.uri}: no two of {', '.join(names)} have a benchmark in common")
    return [(with_model(side, one), with_model(side, other)) for one, other in pairs]


def with_model(side: OutputSide | LogSide, model: str) -> OutputSide | LogSide:
    """Return a side of one model; UsageError if it is not there, or another one is named already."""
    if side.model:
        raise UsageError(f"--models {model}: {side.model} is named already, as OUT:MODEL; name each side once")
    if isinstance(side, LogSide):
        return LogSide(side.path, model)
    check_names("model", [model], sorted({entry.model for entry in side.run.entries}))
    return OutputSide(side.out, side.run, model)


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Yield a location and a model for each colon, the longest location first; that of `s3://` is none."""
    start = len("s3://") if is_remote(text) else 0
    for index in range(len(text) - 1, start, -1):
        if text[index] == ":" and text[index + 1 :]:
            yield text[:index], text[index + 1 :]


def _model_side(side: OutputSide, model: str) -> OutputSide:
    models = sorted({entry.model for entry in side.run.entries})
    if model and model not in models:
        raise UsageError(f"{side.out.uri}: no model {model!r}; there are {', '.join(models)}")
    return OutputSide(side.out, side.run, model)


def entry_pairs(a: OutputSide, b: OutputSide, benchmarks: Sequence[str]) -> list[tuple[ManifestEntry, ManifestEntry]]:
    """Return the entries that are compared: of a benchmark in both, each model with itself, or the only one with it.

    Raises UsageError where no benchmark is in both, or the model is ambiguous.
    """
    names_a, names_b = ({entry.benchmark for entry in side.entries} for side in (a, b))
    shared = sorted(names_a & names_b)
    for name in benchmarks:
        if name not in shared:
            raise UsageError(f"--benchmarks: {name} is not in both{suggest(name, shared or benchmark_names())}")
    if not shared:
        names = "; ".join(", ".join(sorted(names)) or "none" for names in (names_a, names_b))
        raise UsageError(f"{a.out.uri} and {b.out.uri} have no benchmark in common ({names})")
    return [pair for name in benchmarks or shared for pair in _model_pairs(a, b, name)]


def _model_pairs(a: OutputSide, b: OutputSide, name: str) -> list[tuple[ManifestEntry, ManifestEntry]]:
    first, second = ({entry.model: entry for entry in side.entries if entry.benchmark == name} for side in (a, b))
    if len(first) == 1 == len(second):
        return [(next(iter(first.values())), next(iter(second.values())))]
    pairs = [(entry, second[model]) for model, entry in first.items() if model in second]
    if not pairs or (a.out.uri == b.out.uri and not (a.model or b.model)):
        models = one_line(f"{', '.join(first)}; {', '.join(second)}")
        raise UsageError(f"{name}: the models are ambiguous ({models}); name them as OUT:MODEL")
    return pairs


def log_entries(side: OutputSide, benchmarks: Sequence[str]) -> list[ManifestEntry]:
    """Return the entries that a log is compared with: of each benchmark the only one; UsageError for several."""
    names = {entry.benchmark for entry in side.entries}
    check_names("benchmark of the output", benchmarks, sorted(names))
    entries = [entry for entry in side.entries if not benchmarks or entry.benchmark in benchmarks]
    if len({entry.benchmark for entry in entries}) < len(entries):
        models = ", ".join(dict.fromkeys(entry.model for entry in entries))
        raise UsageError(f"{side.out.uri}: the model is ambiguous ({models}); name it as OUT:MODEL")
    return entries
