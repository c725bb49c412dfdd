"""Recorded hashes of every prompt version: `python -m tests.support.prompt_fingerprints` adds new versions.

A version's words may not change under its name: ids of requests hang on it, and answers to other words would pass for
answers to these.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping

from pipelines.benchmarks import benchmark_names
from pipelines.benchmarks.base import BenchmarkDefinition
from tests.support.many_samples import many
from tests.support.paths import GOLDEN
from tests.support.requests import PlannedRequest
from tests.support.sweeps import sample_requests

__all__ = ["GOLDEN", "RECORDED", "changed", "current", "golden_rows", "ids_of", "words_of"]

RECORDED = GOLDEN / "prompt_fingerprints.json"
SAMPLES = 24


def requests_of(name: str) -> list[PlannedRequest]:
    """Return all requests of a few samples in every cell."""
    return [request for _, request in sample_requests(name, many(name, SAMPLES))]


def ids_of(name: str) -> str:
    """Hash the ids of these requests, in order."""
    return _hash(request.request_id for request in requests_of(name))


def words_of(benchmark: BenchmarkDefinition, requests: Iterable[PlannedRequest]) -> dict[str, str]:
    """Map each version to its template's hash, and `asked: VERSION` to the hash of the prompts built from it."""
    results = {version: _hash([text]) for version, text in benchmark.prompt_texts.items()}
    built: dict[str, list[str]] = defaultdict(list)
    for request in requests:
        if not request.excluded:
            built[request.columns["prompt_version"]].append(request.columns["prompt_sha256"])
    return results | {f"asked: {version}": _hash(hashes) for version, hashes in built.items()}


def current(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Compute the fingerprints of all versions of these benchmarks."""
    from pipelines.benchmarks import benchmark

    return {name: {"ids": ids_of(name), **words_of(benchmark(name), requests_of(name))} for name in names}


def changed(recorded: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the differences from the record, a sentence each."""
    faults = []
    for name, versions in now.items():
        fingerprints = recorded.get(name, {})
        for version, fingerprint in versions.items():
            if version not in fingerprints:
                faults.append(f"{name}: {version} is not recorded; run python -m tests.support.prompt_fingerprints")
            elif fingerprints[version] != fingerprint:
                faults.append(f"{name}: {version} has changed; give the new wording a new version")
    return faults


def golden_rows(name: str) -> int:
    """Count the rows of a benchmark's golden files."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in sorted((GOLDEN / name).glob("*.jsonl")))


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _record() -> None:
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for name, versions in current(benchmark_names()).items():
        recorded[name] = {**versions, **recorded.get(name, {})}
    RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(_record())
