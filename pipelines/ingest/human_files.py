"""Files of people's own work (`--human`): read, checked row by row, kept with the output, scored where they answer.

A copy of each file stands under `human/BENCHMARK/KIND.csv` of the output, so that every later report has it and workers
read it where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.benchmarks import benchmark, benchmark_names, closest
from pipelines.benchmarks.human import ANNOTATOR, HumanKind
from pipelines.errors import UnknownNameError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanFile:
    """One file of a benchmark, its kind told by its columns."""

    benchmark: str
    kind: str
    uri: str
    text: str


def parse_human_flag(spec: str) -> tuple[str, str]:
    """Benchmark and place of `BENCHMARK=FILE_OR_FOLDER`; nothing is read.

    Raises:
        UsageError: another form, no such benchmark, or one that takes no files.
    """
    name, equals, uri = spec.partition("=")
    if not equals or not uri:
        raise UsageError(f"--human {spec}: give BENCHMARK=FILE.csv or BENCHMARK=FOLDER, such as vflute=people/")
    if name not in benchmark_names():
        raise closest("benchmark", name, benchmark_names())
    if not benchmark(name).people().kinds:
        raise UsageError(f"--human {spec}: {name} takes no files of people's answers; see docs/human-files.md")
    if "://" in uri and not is_remote(uri):
        raise UsageError(f"--human {spec}: only local paths and s3:// addresses are supported")
    return name, uri


def read_human(specs: Iterable[str]) -> tuple[HumanFile, ...]:
    """Read `--human BENCHMARK=FILE_OR_FOLDER`, local or `s3://`.

    Raises:
        UsageError: another form, no such benchmark, one that takes no files, a file that is not there or not CSV in
            UTF-8, columns that are of no kind, or two files of one kind.
    """
    found: dict[tuple[str, str], HumanFile] = {}
    for spec in specs:
        name, uri = parse_human_flag(spec)
        kinds = benchmark(name).people().kinds
        for path, content in _contents(spec, uri):
            one = _file(name, kinds, path, content)
            earlier = found.setdefault((name, one.kind), one)
            if earlier is not one:
                raise UsageError(f"{path}: a second file of {name} {one.kind} beside {earlier.uri}; put them into one")
    return tuple(found.values())


def check_human(files: Sequence[HumanFile], data: Store) -> None:
    """Check every row, and that what it names is in the data.

    Raises:
        UsageError: a row cannot be used; says the file, the line, what is wrong and what was wanted.
        DatasetError: the benchmark's data is not there.
    """
    for name in sorted({one.benchmark for one in files}):
        samples = {sample.sample_id: sample for sample in Dataset.open(data, name).samples()}
        for one in (one for one in files if one.benchmark == name):
            try:
                benchmark(name).people().check(one.kind, one.text, samples)
            except (ValueError, UnknownNameError) as error:
                raise UsageError(f"{one.uri} ({name} {one.kind}): {error}; see docs/human-files.md") from error


def keep_human(out: Store, files: Sequence[HumanFile]) -> set[str]:
    """Put copies into the output, each in place of an earlier one of its kind; returns benchmarks with a change."""
    changed: set[str] = set()
    for one in files:
        if load_human_files(out, one.benchmark).get(one.kind) != one.text:
            out.put(f"human/{one.benchmark}/{one.kind}.csv", one.text.encode())
            changed.add(one.benchmark)
    return changed


def load_human_files(out: Store, name: str) -> dict[str, str]:
    """Kind -> text of the files that an output holds for a benchmark."""
    found = {}
    for kind in benchmark(name).people().kinds:
        path = f"human/{name}/{kind.name}.csv"
        if out.exists(path):
            found[kind.name] = out.get(path).decode()
    return found


def is_person(model: str) -> bool:
    """Whether this is a person whose answers are scored like a model's."""
    return model.startswith(ANNOTATOR)


def human_rows(name: str, files: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    """Answers in the files as rows of a predictions file, by person."""
    rows: dict[str, list[dict[str, str]]] = {}
    for kind, text in files.items():
        for row in benchmark(name).people().predictions(kind, text):
            rows.setdefault(row["model"], []).append(row)
    return rows


def _contents(spec: str, uri: str) -> list[tuple[str, bytes]]:
    """Path and bytes of the file, or of the CSV files of the folder."""
    single = uri.endswith(".csv") if is_remote(uri) else Path(uri).expanduser().is_file()
    place = uri.rstrip("/") if is_remote(uri) else str(Path(uri).expanduser().absolute())
    parent, _, last = place.rpartition("/") if single else (place, "", "")
    store = Store(parent or "/")
    names = [last] if single else [info.path for info in store.list("", "*.csv") if "/" not in info.path]
    if not names:
        raise UsageError(f"--human {spec}: no such file, and no folder with *.csv files in it")
    try:
        return [(f"{parent}/{name}", store.get(name)) for name in names]
    except FileNotFoundError as error:
        raise UsageError(f"--human {spec}: no such file") from error


def _file(name: str, kinds: Sequence[HumanKind], path: str, content: bytes) -> HumanFile:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 ({error}); save it as CSV in UTF-8") from error
    header = {column.strip() for column in text.partition("\n")[0].strip().split(",")}
    header = {column.strip('"') for column in header}
    fitting = [kind for kind in kinds if header.issuperset(kind.columns)]
    if not fitting:
        wanted = "; or ".join(f"{kind.name}: {','.join(kind.columns)}" for kind in kinds)
        raise UsageError(
            f"{path}, line 1: these columns are of no file that {name} takes. Wanted {wanted}; see docs/human-files.md"
        )
    best = max(fitting, key=lambda kind: len(kind.columns))
    return HumanFile(benchmark=name, kind=best.name, uri=path, text=text)
