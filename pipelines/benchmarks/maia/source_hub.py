"""Read MAIA's files at the hub (`giobin/MAIA`): `gen` with open questions, `mc` with statement pairs in a fixed order.

The rows of both are joined by what they share of clip, category and question; eight pairs follow one question. Where
the repository's JSON lies beside them, a question of equal text keeps its id there, pairs of equal texts their order,
and pairs that name no question are joined by their texts. The place of the true statement (`target`: 0 for A, 1 for B)
is that of the data.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pipelines.benchmarks.maia.categories import POOL_SIZE
from pipelines.benchmarks.parquet_source import MAX_TEXT_BYTES, open_parquet, parquet_rows
from pipelines.benchmarks.records import Source
from pipelines.errors import SourceError

_PATTERNS: Final = ("{0}.json", "{0}.jsonl", "{0}*.parquet", "{0}/*.parquet", "data/{0}*.parquet", "{0}/*.json")
_JOINED: Final = ("video_id", "question_category", "question")
Place: TypeAlias = tuple[str, str, int]  # the clip, question and number of a pair in the repository
_ANSWERS: Final = tuple(f"answer{number}" for number in range(1, POOL_SIZE + 1))


def hub_files(source: Source) -> Mapping[str, Sequence[str]]:
    """Return the files of `gen` and `mc`; empty unless the folder has both."""
    files = {
        name: [path for pattern in _PATTERNS for path in source.glob(pattern.format(name))] for name in ("gen", "mc")
    }
    return files if all(files.values()) else {}


def read_hub(
    source: Source, files: Mapping[str, Sequence[str]], places: Mapping[tuple[str, str], Place]
) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Yield file, id of the clip, question in the form of the repository's JSON, and letters of its true statements.

    `places` has the pairs of the repository, by their true and false statement.

    Raises:
        SourceError: a file cannot be read, or nothing tells which pairs are of which question.
    """

    def place(pair: Mapping[str, Any]) -> Place:
        return places.get(_statements(pair), ("", "", POOL_SIZE))

    questions = [(path, row) for path in files["gen"] for row in _rows(source, path)]
    pairs = [row for path in files["mc"] for row in _rows(source, path)]
    shared = [name for name in _JOINED if questions and pairs and name in questions[0][1] and name in pairs[0]]
    if not shared and not places:
        raise SourceError(
            f"{source.uri}: gen and mc share none of the columns {', '.join(_JOINED)}; "
            "lay the repository's data_20%.json beside them, or fetch both again"
        )
    groups: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in pairs:
        groups[_key(row, shared) if shared else place(row)[:2]].append(row)
    for path, row in questions:
        digits = re.search(r"\d+", str(row.get("video_id", "")))
        of_repository = (f"video{digits[0]}" if digits else "", str(row.get("question")).strip())
        group = groups[_key(row, shared) if shared else of_repository]
        pool, group[:POOL_SIZE] = group[:POOL_SIZE], []  # without the question's text, two share a key
        pool.sort(key=lambda pair: place(pair)[2])
        targets = [_target(pair) for pair in pool]
        entry = {
            "category": row.get("question_category"),
            "question": row.get("question"),
            "answer": [row.get(name) for name in _ANSWERS],
            "true_statement": [pair.get(f"answer{1 + target}") for pair, target in zip(pool, targets, strict=True)],
            "false_statement": [pair.get(f"answer{2 - target}") for pair, target in zip(pool, targets, strict=True)],
        }
        yield path, of_repository[0], entry, "".join("AB"[target] for target in targets)


def _statements(pair: Mapping[str, Any]) -> tuple[str, str]:
    """Return the true and the false statement of a pair."""
    target = _target(pair)
    return str(pair.get(f"answer{1 + target}")).strip(), str(pair.get(f"answer{2 - target}")).strip()


def _key(row: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in names)


def _target(pair: Mapping[str, Any]) -> int:
    return 1 if str(pair.get("target")) in ("1", "1.0", "B") else 0


def _rows(source: Source, path: str) -> Iterator[dict[str, Any]]:
    content, where = source.read_bytes(path), f"{source.uri}/{path}"
    if path.endswith(".parquet"):
        file = open_parquet(content, where)
        columns = file.schema_arrow.names
        yield from parquet_rows(file, columns, rows=1000, max_bytes=MAX_TEXT_BYTES, where=where)
        return
    try:
        text = content.decode("utf-8-sig")
        rows = (
            [json.loads(line) for line in text.splitlines() if line.strip()] if path.endswith("l") else json.loads(text)
        )
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where}: not readable as JSON ({error}); fetch the file again") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{where}: a list of rows was expected; fetch the file again")
    yield from rows
