"""Ingest a table: a benchmark of the user's own, whose definition is stored with its data.

A table of the Hugging Face hub is `hf://datasets/OWNER/NAME@REVISION`, or its cache as it lies on disk.
"""

import os
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import Any, Final

import yaml

from models.guards.regular_files import read_regular
from pipelines.benchmarks import code_benchmarks, table_benchmark
from pipelines.benchmarks.gallery import gallery_definition
from pipelines.benchmarks.table.columns import described
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.files import ENDINGS, TableFiles, find_files
from pipelines.benchmarks.table.survey import TableSource, survey
from pipelines.errors import LayoutError, SourceError, StoreError, UsageError
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
    if columns.files:
        folder, table = _of_patterns(_fetched(source, columns), columns, name=name, kind=kind, split=split)
        return _ingested(folder, table, data, progress)
    folder, file = _located(source)
    if not file and not columns.title and (title := card_title(folder)):
        columns = columns.model_copy(update={"title": title})
    table = survey(folder, find_files(folder, file, split), name=name, kind=kind, split=split, given=columns)
    return _ingested(folder, table, data, progress)


def ingest_gallery(
    source: str,
    data: Store,
    *,
    name: str,
    own_name: str | None = None,
    columns: Path | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> IngestResult:
    """Read a benchmark of the gallery as distributed; SourceError for data of another one.

    `columns` has keys in place of those of the definition, `own_name` is the name of the result.
    """
    if own_name is not None:
        check_table_name(own_name)
    definition = gallery_definition(name, columns)
    folder, table = _of_patterns(_fetched(source, definition), definition, name=own_name or name)
    return _ingested(folder, table, data, progress)


def _ingested(folder: Folder, table: TableSource, data: Store, progress: Callable[[int], None]) -> IngestResult:
    benchmark = replace(table_benchmark(table.definition), source=table.read)
    return ingest_benchmark(benchmark, folder, data, table=table.definition, progress=progress)


def _fetched(source: str, definition: ColumnsFile) -> str:
    """Return the folder or file of a source, of the hub only with the files that a definition reads."""
    if source.startswith(PREFIX):
        return str(download(source, _patterns(definition)))
    return source if is_remote(source) else str(snapshot_of_cache(Path(source).expanduser()))


def _of_patterns(
    source: str, definition: ColumnsFile, *, name: str, kind: str = "", split: str = ""
) -> tuple[Folder, TableSource]:
    """Return the folder of the files that a definition names, and their table; SourceError without such files."""
    variants = definition.variants or (definition,)
    for given in variants:
        found = next(filter(None, (_matching(source, pattern) for pattern in given.files)), None)
        if found is None:
            continue
        folder, paths = found
        try:
            table = survey(folder, TableFiles(tuple(paths)), name=name, kind=kind, split=split, given=given)
        except LayoutError:
            if given is variants[-1]:
                raise
            continue
        if others := _other_tables(folder, paths, source, given):
            table = replace(table, warnings=(*table.warnings, f"{', '.join(paths[:3])} read; left alone: {others}"))
        return folder, table
    folder, file = _located(source)  # another layout, whose missing columns say so
    table = survey(folder, find_files(folder, file, split), name=name, kind=kind, split=split, given=variants[-1])
    if file:
        return folder, table
    patterns = ", ".join(dict.fromkeys(pattern for given in variants for pattern in given.files))
    raise SourceError(
        f"{source}: no file of {name}, which are {patterns}; give the folder that holds them, or one file"
    )


def _matching(source: str, pattern: str) -> tuple[Folder, list[str]] | None:
    """Return the folder of a repository and its files of a pattern; None if the source has none.

    The source is the folder, or a file or folder in it that the pattern, or its first parts, matches.
    """
    path = source if is_remote(source) else os.path.abspath(source)  # noqa: PTH100 - links stay as they are
    names, parts = path.rstrip("/").split("/"), pattern.split("/")
    is_file = source.lower().endswith(ENDINGS) and (is_remote(source) or not Path(path).is_dir())
    if not is_file and (paths := Folder(path).glob(pattern)):
        return Folder(path), paths
    for count in range(len(parts), 0, -1):
        if (count == len(parts)) != is_file or not all(map(fnmatchcase, names[-count:], parts[:count])):
            continue
        tail = "/".join(names[-count:])
        root = Folder("/".join(names[:-count]), tail)
        paths = [tail] * root.exists(tail) if is_file else root.glob(f"{escape(tail)}/{'/'.join(parts[count:])}")
        if paths:
            return root, paths
    if is_file:
        return (Folder("/".join(names[:-1]), names[-1]), names[-1:]) if fnmatchcase(names[-1], parts[-1]) else None
    alone = [Folder(path).glob("/".join(parts[start:])) for start in range(1, len(parts))]
    return next(((Folder(path), paths) for paths in alone if paths), None)


def _other_tables(folder: Folder, paths: Sequence[str], source: str, given: ColumnsFile) -> str:
    """Return the tables of a repository that are not read, for a line; '' for none, or if the source is a file."""
    if source.lower().endswith(ENDINGS) or folder.uri != Folder(source).uri:
        return ""
    joined = folder.glob(given.join.files) if given.join else []
    words = {column.partition("/")[0] for column in given.columns.get("subtitles", ())}
    found = [
        path
        for pattern in ("*", "*/*")
        for path in folder.glob(pattern)
        if path.lower().endswith(ENDINGS) and path not in (*paths, *joined) and path.partition("/")[0] not in words
    ]
    return described(found, 8) if found else ""


def _patterns(definition: ColumnsFile) -> list[str] | None:
    """Return which files of a repository are fetched; None for all, if media lie beside the tables."""
    variants = definition.variants or (definition,)
    joined = [definition.join.files] if definition.join else []
    patterns = [pattern for given in variants for pattern in given.files]
    beside = any("{" in column for given in variants for column in given.columns.get("media", ()))
    if beside or definition.roots or not all(pattern.endswith(".parquet") for pattern in patterns):
        return None
    return [*patterns, *joined, _CARD]


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
    folder = Folder(parent, file)
    if not folder.exists(file):
        is_there = not is_remote(path) and Path(path).exists()
        raise SourceError(f"{source}: {'not a regular file' if is_there else 'no such file'}")
    return folder, file


PREFIX: Final = "hf://"
_CARD: Final = "README.md"
_FRONT_MATTER: Final = re.compile(r"---\s*\n(.*?)\n---\s*(\n|$)", re.DOTALL)
_MAX_TITLE: Final = 200
_ADDRESS = re.compile(r"hf://(?:datasets/)?(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?/?")


def download(address: str, patterns: Sequence[str] | None = None) -> Path:
    """Return the folder of a data set of the hub, fetched to its cache; StoreError where it cannot be had."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise UsageError(f"{address}: give hf://datasets/OWNER/NAME@REVISION, the revision a commit, tag or branch")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        folder = snapshot_download(
            match["name"], repo_type="dataset", revision=match["revision"], allow_patterns=patterns
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        problem = str(error).strip().partition("\n")[0][:200]
        raise StoreError(
            f"{address}: the hub cannot be reached, or has no such data set ({problem}); download it where there is a "
            "network, and give its folder"
        ) from error
    return Path(folder)


def snapshot_of_cache(folder: Path) -> Path:
    """Return the snapshot of a data set's folder in the hub's cache, that of `main` first; else the folder itself."""
    snapshots = folder / "snapshots"
    if not snapshots.is_dir():
        return folder
    main = folder / "refs" / "main"
    names = sorted(path.name for path in snapshots.iterdir())
    chosen = read_regular(main).decode(errors="replace").strip() if main.is_file() else ""
    if chosen not in names and len(names) != 1:
        raise UsageError(f"{snapshots}: {len(names)} snapshots and no refs/main; give one of the folders in it")
    return snapshots / (chosen if chosen in names else names[0])


def card_title(folder: Folder) -> str:
    """Return the `pretty_name` of a data set's card; '' where it has none, or no card."""
    text = folder.read_bytes(_CARD).decode("utf-8-sig", "replace") if folder.exists(_CARD) else ""
    match = _FRONT_MATTER.match(text)
    fields: Any = None
    try:
        fields = yaml.safe_load(match[1]) if match else None
    except (yaml.YAMLError, ValueError, RecursionError):  # a card is for people: a damaged one has no title
        return ""
    name = fields.get("pretty_name") if isinstance(fields, dict) else ""
    return " ".join(name.split())[:_MAX_TITLE] if isinstance(name, str) else ""
