"""Samples on their way from a source to shards, kept on disk: a table may have millions of rows."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.records import Sample
from pipelines.ingest.dataset import canonical_json, fingerprint_of_digests, sample_of_json

_SCHEMA = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE samples (place INTEGER PRIMARY KEY, id TEXT UNIQUE, cluster INTEGER, digest BLOB, content TEXT);
    CREATE TABLE clusters (place INTEGER PRIMARY KEY, name TEXT UNIQUE);
"""


class SampleSpool:
    """Holds the samples of an ingest in a file; iterated, those of one cluster are adjacent, clusters as they came."""

    def __init__(self, path: Path) -> None:
        self._rows = sqlite3.connect(path, isolation_level=None)
        self._rows.executescript(_SCHEMA)
        self._rows.execute("BEGIN")
        self.counts: Counter[str] = Counter()
        """Samples by category."""

    def __len__(self) -> int:
        return self.counts.total()

    def __contains__(self, sample_id: str) -> bool:
        return self._rows.execute("SELECT 1 FROM samples WHERE id = ?", (sample_id,)).fetchone() is not None

    def add(self, sample: Sample) -> None:
        """Add a sample whose id is not in it."""
        content = canonical_json(sample)
        self._rows.execute("INSERT OR IGNORE INTO clusters (name) VALUES (?)", (sample.cluster,))
        self._rows.execute(
            "INSERT INTO samples (id, cluster, digest, content) "
            "VALUES (?, (SELECT place FROM clusters WHERE name = ?), ?, ?)",
            (sample.sample_id, sample.cluster, hashlib.sha256(content.encode()).digest(), content),
        )
        self.counts[sample.category] += 1

    def __iter__(self) -> Iterator[Sample]:
        rows = self._rows.execute("SELECT content FROM samples ORDER BY cluster, place")
        return (sample_of_json(content) for (content,) in rows)

    def fingerprint(self, table: TableDefinition | None) -> str:
        """Return the fingerprint of the samples and a table's definition."""
        digests = self._rows.execute("SELECT digest FROM samples ORDER BY digest")
        return fingerprint_of_digests((digest for (digest,) in digests), table)

    def close(self) -> None:
        """Close the file."""
        self._rows.close()
