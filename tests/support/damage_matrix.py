"""Damage to each kind of file of an output, and what the output says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

FILES = {
    "run.json": "out/run.json",
    "status.json": "out/status.json",
    "index of a plan": "out/plan/*/plan-*.json",
    "part of a plan": "out/plan/*/part-*.parquet",
    "part of predictions": "out/predictions/*/model=m/*.parquet",
    "part of scores": "out/scores/*/model=m/*.parquet",
    "part of judgements": "out/judgements/*/*/*.parquet",
    "metrics of the report": "out/report/metrics.json",
    "manifest of the data": "data/maia/manifest.json",
    "shard of the data": "data/maia/samples/*.parquet",
    "clip of the data": "data/maia/media/*.mp4",
}

CAPTIONS = "out/captions/*/*/*.parquet"


def _flip(share: float) -> Callable[[bytes, bytes], bytes]:
    def flip(content: bytes, _other: bytes) -> bytes:
        place = min(len(content) - 1, max(0, int(len(content) * share)))
        return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]

    return flip


DAMAGES: Mapping[str, Callable[[bytes, bytes], bytes | None]] = {
    "bit at the head": _flip(0.01),
    "bit in the middle": _flip(0.5),
    "bit at the end": _flip(0.99),
    "truncated": lambda content, _: content[: len(content) * 2 // 3],
    "empty": lambda *_: b"",
    "deleted": lambda *_: None,
    "of another run": lambda _, other: other,
}


def damage(kind: str, way: str, root: Path, other: Path, place: int = 0) -> Path:
    """Damage the first file of a kind, or of a pattern, below `root`; `other` holds another run's files."""
    pattern = FILES.get(kind, kind)
    path, foreign = (sorted(folder.glob(pattern))[place] for folder in (root, other))
    content = DAMAGES[way](path.read_bytes(), foreign.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    return path


def facts(root: Path) -> dict[str, object]:
    """Return what an output says: its metrics, and every score of its present predictions."""
    import pyarrow.parquet as pq

    metrics = json.loads((root / "out/report/metrics.json").read_text())
    rows = {
        row["request_id"]: (row["status"], row["values"])
        for path in (root / "out/scores").rglob("*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    }
    return {"metrics": [row for row in metrics if row["unit"] != "seconds"], "scores": rows}
