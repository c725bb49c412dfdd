"""Ingest a table: a benchmark of the user's own, whose definition is stored with its data."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from pipelines.benchmarks import code_benchmarks, table_benchmark
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.files import ENDINGS, find_files
from pipelines.benchmarks.table.survey import survey
from pipelines.errors import SourceError, UsageError
from pipelines.ingest.hub import PREFIX, card_title, download, snapshot_of_cache
from pipelines.ingest.ingest import IngestResult, ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

_NO_COLUMNS: Final = ColumnsFile()
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")


def check_table_name(name: str) -> None:
    """Raise UsageError for a name that no table benchmark can have."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"--as {name!r}: give letters, digits, - and _, 60 at most, such as my-questions")
    if name in (*code_benchmarks(), "table"):
        raise UsageError(f"--as {name}: that name is taken; give another one, such as my-{name}")


def ingest_table(  # noqa: PLR0913 - the flags of the command
    source: str,
    data: Store,
    *,
    name: str,
    kind: str = "",
    split: str = "",
    columns: ColumnsFile = _NO_COLUMNS,
    progress: Callable[[int], None] = lambda _: None,
) -> IngestResult:
    """Read, check and store a table under `data/NAME`; SourceError where it has no usable row, or no kind."""
    check_table_name(name)
    folder, file = _located(source)
    if not file and (title := card_title(folder)):
        columns = replace(columns, texts={"title": title, **columns.texts})
    table = survey(folder, find_files(folder, file, split), name=name, kind=kind, split=split, given=columns)
    benchmark = replace(table_benchmark(table.definition), source=table)
    return ingest_benchmark(benchmark, folder, data, table=table.definition, progress=progress)


def _located(source: str) -> tuple[Folder, str]:
    """Return the folder of a source, and the file in it where it is one."""
    if source.startswith(PREFIX):
        source = str(download(source))
    elif not is_remote(source):
        source = str(snapshot_of_cache(Path(source).expanduser()))
    is_file = source.lower().endswith(ENDINGS) and (is_remote(source) or not Path(source).expanduser().is_dir())
    if not is_file:
        if not is_remote(source) and Path(source).expanduser().is_file():
            raise SourceError(f"{source}: no table that is read; give {', '.join(ENDINGS)}, or a folder")
        return Folder(source), ""
    path = source if is_remote(source) else str(Path(source).expanduser().absolute())
    parent, file = posixpath.split(path)
    folder = Folder(parent)
    if not folder.exists(file):
        raise SourceError(f"{source}: no such file")
    return folder, file
