"""Files of human annotations (`--human`); the output holds a copy of each as `human/BENCHMARK/KIND.csv`.

CSV files are recognised by their columns. JSON is what an annotation form saves; JSON Lines are what the benchmark's
authors distribute. The JSON files of one kind are joined.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from models.strict_yaml import MAX_BYTES
from pipelines.benchmarks import benchmark, benchmark_names, unknown_name
from pipelines.benchmarks.human import HumanKind, csv_text, over_long_rows
from pipelines.benchmarks.validation import format_validation_error
from pipelines.errors import UnknownNameError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.storage.backend import is_remote, location_problem
from pipelines.storage.lock import LOCK
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

DRAW_RECORD: Final = "draw.json"  # next to annotation forms: what was drawn, no answers
_ENDINGS: Final = (".csv", ".json", ".jsonl")


class FormAnswers(BaseModel):
    """The answers that an annotation form saves, with the values of a CSV file of its kind."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    benchmark: str
    kind: str
    rows: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanFile:
    """One file of a benchmark; its columns determine its kind."""

    benchmark: str
    kind: str
    uri: str
    text: str


def parse_human_flag(spec: str) -> tuple[str, str]:
    """Return benchmark and URI of `BENCHMARK=FILE_OR_FOLDER`, without reading it; raise UsageError if invalid."""
    name, equals, uri = spec.partition("=")
    if not equals or not uri:
        raise UsageError(f"--human {spec}: give BENCHMARK=FILE.csv or BENCHMARK=FOLDER, such as vflute=people/")
    if name not in benchmark_names():
        raise unknown_name("benchmark", name, benchmark_names())
    if not benchmark(name).human.kinds:
        raise UsageError(f"--human {spec}: {name} accepts no human files; see docs/human-files.md")
    if problem := location_problem(uri):
        raise UsageError(f"--human {spec}: {problem}")
    return name, uri


def read_human(specs: Iterable[str]) -> tuple[HumanFile, ...]:
    """Read `BENCHMARK=FILE_OR_FOLDER`s, local or `s3://`.

    Raises UsageError unless each file is UTF-8 and contains rows, and there is one CSV file of a kind.
    """
    files: dict[tuple[str, str], HumanFile] = {}
    for spec in specs:
        name, uri = parse_human_flag(spec)
        for path, content in _contents(spec, uri):
            file = _parse(name, path, content)
            if not file.text.strip().partition("\n")[2]:
                raise UsageError(f"{path} ({name} {file.kind}): contains no rows; fill it in, or leave it out")
            earlier = files.get((name, file.kind))
            if earlier and (path.endswith(".csv") or earlier.uri.endswith(".csv")):
                raise UsageError(f"{path}: a second {name} {file.kind} file next to {earlier.uri}; merge them")
            files[name, file.kind] = _joined(earlier, file) if earlier else file
    return tuple(files.values())


def _joined(first: HumanFile, second: HumanFile) -> HumanFile:
    """Join two files of one kind that were written from JSON, and so have the same columns."""
    rows = second.text.partition("\n")[2]
    return replace(first, uri=f"{first.uri}, {second.uri}", text=first.text + rows)


def check_human(files: Sequence[HumanFile], data: Store) -> None:
    """Check every row, and that the data contains its sample; the UsageError names file, line and remedy."""
    for name in sorted({file.benchmark for file in files}):
        samples = {sample.sample_id: sample for sample in Dataset.open(data, name).samples()}
        for file in (file for file in files if file.benchmark == name):
            try:
                benchmark(name).human.check(file.kind, file.text, samples)
            except (ValueError, UnknownNameError) as error:
                raise UsageError(f"{file.uri} ({name} {file.kind}): {error}; see docs/human-files.md") from error


def store_human(out: Store, files: Sequence[HumanFile]) -> set[str]:
    """Copy files into the output, replacing earlier ones of their kind; return the benchmarks that changed."""
    changed: set[str] = set()
    for file in files:
        if load_human_files(out, file.benchmark).get(file.kind) != file.text:
            out.put(f"human/{file.benchmark}/{file.kind}.csv", file.text.encode())
            changed.add(file.benchmark)
    return changed


def load_human_files(out: Store, name: str) -> dict[str, str]:
    """Return kind -> text of the files that an output holds for a benchmark."""
    paths = {f"human/{name}/{kind.name}.csv": kind.name for kind in benchmark(name).human.kinds}
    stored = {info.path: info for info in out.list(f"human/{name}")} if paths else {}
    return {kind: out.get_listed(stored[path]).decode() for path, kind in paths.items() if path in stored}


def human_rows(name: str, files: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    """Return the answers in the files as rows of a predictions file, by person."""
    rows: dict[str, list[dict[str, str]]] = {}
    for kind, text in files.items():
        for row in benchmark(name).human.predictions(kind, text):
            rows.setdefault(row["model"], []).append(row)
    return rows


def _contents(spec: str, uri: str) -> list[tuple[str, bytes]]:
    local = Path(uri).expanduser()
    is_file = uri.endswith(_ENDINGS) if is_remote(uri) else local.exists() and not local.is_dir()
    location = uri.rstrip("/") if is_remote(uri) else str(Path(uri).expanduser().absolute())
    parent, _, last = location.rpartition("/") if is_file else (location, "", "")
    store = Store(parent or "/")
    sizes = {last: 0 if is_remote(uri) else Path(location).stat().st_size} if is_file else _sizes_in(store)
    if too_large := [name for name, size in sizes.items() if size > MAX_BYTES]:
        raise UsageError(f"--human {spec}: {too_large[0]} is larger than {MAX_BYTES >> 20} MiB")
    names = sorted(sizes)
    if not names:
        raise UsageError(f"--human {spec}: no such file, and no folder with *.csv, *.json or *.jsonl files in it")
    try:
        return [(f"{parent}/{name}", store.get(name)) for name in names]
    except FileNotFoundError as error:
        raise UsageError(f"--human {spec}: no such file") from error


def _sizes_in(store: Store) -> dict[str, int]:
    ours = (DRAW_RECORD, LOCK)  # the second of an `annotate` that writes there, or was killed
    sizes = {info.path: info.size for info in store.list("") if "/" not in info.path and info.path not in ours}
    return {name: size for name, size in sizes.items() if name.endswith(_ENDINGS)}


def _parse(name: str, path: str, content: bytes) -> HumanFile:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 ({error}); save it as CSV in UTF-8") from error
    if path.endswith(".jsonl"):
        try:
            kind, text = benchmark(name).human.from_json_lines(path.rpartition("/")[2], text)
        except ValueError as error:
            raise UsageError(f"{path}: {error}; see docs/human-files.md") from error
        return HumanFile(benchmark=name, kind=kind, uri=path, text=text)
    if path.endswith(".json"):
        return _parse_form(name, path, text)
    return _parse_csv(name, benchmark(name).human.kinds, path, text)


def _parse_form(name: str, path: str, text: str) -> HumanFile:
    """Read what an annotation form saved."""
    try:
        form = FormAnswers.model_validate_json(text)
    except ValidationError as error:
        problem = format_validation_error(error)[:300]
        raise UsageError(f"{path}: not a file that an annotation form saved: {problem}") from error
    kind = next((kind for kind in benchmark(name).human.kinds if kind.name == form.kind), None)
    if form.benchmark != name or kind is None:
        raise UsageError(f"{path}: holds {form.kind} of {form.benchmark}, and was given for {name}")
    columns = (*kind.columns, *kind.optional)
    return HumanFile(benchmark=name, kind=kind.name, uri=path, text=csv_text(columns, form.rows))


def _parse_csv(name: str, kinds: Sequence[HumanKind], path: str, text: str) -> HumanFile:
    header = {column.strip() for column in text.partition("\n")[0].strip().split(",")}
    header = {column.strip('"') for column in header}
    matching = [kind for kind in kinds if header.issuperset(kind.columns)]
    if not matching:
        expected = "; or ".join(f"{kind.name}: {','.join(kind.columns)}" for kind in kinds)
        raise UsageError(
            f"{path}, line 1: the columns match no file of {name}. Expected {expected}; see docs/human-files.md"
        )
    best = max(matching, key=lambda kind: len(kind.columns))
    try:
        for problem in over_long_rows(text, best.columns, best.optional):
            log.warning("%s, %s; row skipped", path, problem)
    except ValueError as error:
        raise UsageError(f"{path} ({name} {best.name}): {error}; see docs/human-files.md") from error
    return HumanFile(benchmark=name, kind=best.name, uri=path, text=text)
