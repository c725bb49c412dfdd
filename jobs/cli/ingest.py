"""`vlmsweep ingest`: read a benchmark as distributed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from jobs.shared.commands import listed
from jobs.shared.options import Json, refuse
from jobs.shared.output import print_result
from jobs.shared.progress import Progress
from models.errors import YamlFileError, suggest
from pipelines.clean_text import counted
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.ingest.ingest import IngestResult
    from pipelines.storage.store import Store
from pipelines.flags import Argument, Flag


@listed("Set up", "ingest maia MAIA_FOLDER --data data")
def ingest(
    benchmark: Annotated[
        str, Argument("The benchmark of the source (`list benchmarks`); or table, for your own questions.")
    ],
    data: Annotated[str, Flag("Location of the ingested data: a folder or s3://bucket/key.", "Data", kind="location")],
    source: Annotated[
        str | None,
        Argument(
            "The benchmark as distributed: a folder or s3://bucket/key. For table and the gallery also a file or "
            "hf://OWNER/NAME@REVISION.",
            kind="location",
        ),
    ] = None,
    column_map: Annotated[Path | None, Flag("YAML: our names -> the source's.", "Data")] = None,
    name: Annotated[str | None, Flag("Name of the table benchmark; of the gallery, another name.", name="--as")] = None,
    kind: Annotated[
        str | None,
        Flag("Kind of a table, such as choice, text, number, open or box; default: detected from the columns."),
    ] = None,
    columns: Annotated[
        Path | None,
        Flag("YAML of a table: its names of our columns, its kind, prompt and more; of the gallery, keys to replace."),
    ] = None,
    split: Annotated[str | None, Flag("Split of a table to read; default: test files, or all rows.")] = None,
    json: Json = False,
) -> None:
    """Read a benchmark as distributed, validate every row, write canonical shards."""
    from pipelines.benchmarks.gallery import gallery_names
    from pipelines.ingest.table import ingest_gallery
    from pipelines.storage.store import Store

    source = _checked_source(benchmark, source, name, data)
    is_gallery = benchmark in gallery_names()
    if benchmark == "table":
        refuse({"column-map": column_map}, "a table takes --columns FILE.yaml, which may say more")
    else:
        own = {} if is_gallery else {"as": name, "columns": columns}
        table_options = {"kind": kind, "split": split, **own}
        refuse(table_options, f"only of `ingest table`; {benchmark} has a form of its own")
    if is_gallery:
        refuse({"column-map": column_map}, f"{benchmark} takes --columns FILE.yaml, whose keys replace its own")
    with Progress(quiet=json) as progress:
        progress.phase(f"ingest {name or benchmark}", 0)

        def advance(_rows: int) -> None:
            progress.advance(1, 0)

        if benchmark == "table":
            result = _read_table(source, Store(data), name, kind, split, columns, advance)
        elif is_gallery:
            with _yaml_errors():
                result = ingest_gallery(
                    source, Store(data), name=benchmark, own_name=name, columns=columns, progress=advance
                )
        else:
            result = _read_benchmark(benchmark, source, Store(data), column_map, advance)
    manifest = result.manifest
    benchmark = manifest.benchmark
    where = f"{Store(data).uri}/{benchmark}"
    if result.rejections:
        first = result.rejections[0]
        logging.getLogger("vlmsweep").warning(
            "%s rejected, listed in %s/rejected.jsonl; the first: %s: %s",
            counted(len(result.rejections), "row"),
            where,
            first.item,
            first.reason,
        )
    names = ("benchmark", "samples", "rejected", "media", "dataset_fingerprint")
    counts = f"{manifest.samples} samples, {manifest.media} media, {manifest.rejected} rejected -> {where}"
    print_result(json, {**{name: getattr(manifest, name) for name in names}, "data": where}, counts)


def _checked_source(benchmark: str, source: str | None, name: str | None, data: str) -> str:
    """Return the source; UsageError if there is none, or if a table stands in the place of a benchmark."""
    from pipelines.benchmarks import benchmark_names, unknown_name
    from pipelines.benchmarks.gallery import gallery_names
    from pipelines.benchmarks.table.files import ENDINGS

    names = [*benchmark_names(), *gallery_names()]
    if benchmark in ("table", *names):
        if source is None:
            flags = f"--as {name or 'NAME'} --data {data}" if benchmark == "table" else f"--data {data}"
            example = f"vlmsweep ingest {benchmark} SOURCE {flags}"
            raise UsageError(f"ingest {benchmark}: name the source, as in `{example}`")
        return source
    table = source or benchmark
    own_name = name or (benchmark if source else "NAME")
    hint = f"your own questions? `vlmsweep ingest table {table} --as {own_name} --data {data}`"
    if table.lower().endswith(ENDINGS):
        raise UsageError(f"{benchmark!r} is no benchmark; {hint}")
    raise UsageError(f"{unknown_name('benchmark', benchmark, names)}; {hint}".replace("?; ", "? "))


def _read_benchmark(
    benchmark: str, source: str, data: Store, column_map: Path | None, progress: Callable[[int], None]
) -> IngestResult:
    from jobs.shared.spec_builder import read_column_map
    from pipelines.benchmarks import benchmark as by_name
    from pipelines.ingest.ingest import ingest_benchmark
    from pipelines.ingest.source_folder import Folder

    columns = read_column_map(column_map) if column_map else None
    return ingest_benchmark(by_name(benchmark), Folder(source), data, column_map=columns, progress=progress)


@contextmanager
def _yaml_errors() -> Iterator[None]:
    try:
        yield
    except YamlFileError as error:
        raise UsageError(f"--columns {error}") from error


def _read_table(
    source: str,
    data: Store,
    name: str | None,
    kind: str | None,
    split: str | None,
    columns: Path | None,
    progress: Callable[[int], None],
) -> IngestResult:
    from pipelines.benchmarks.known_tables import KINDS
    from pipelines.benchmarks.table.columns_file import ColumnsFile, read_columns_file
    from pipelines.ingest.table import ingest_table

    if not name:
        raise UsageError("ingest table: give the benchmark a name, such as --as my-questions")
    if kind and kind not in KINDS:
        raise UsageError(f"--kind: unknown kind {kind!r}{suggest(kind, KINDS)}")
    with _yaml_errors():
        given = read_columns_file(columns) if columns else ColumnsFile()
    return ingest_table(source, data, name=name, kind=kind or "", split=split or "", columns=given, progress=progress)
