"""Files of a user's with names like those of the product's own files."""

from __future__ import annotations

import os
from pathlib import Path

MODEL_FOLDER = "benchmark=maia/model=m"
IN_TEMPORARY = (
    "vlmsweep-2026-11-24/run.json",
    "vlmsweep-2026-11-24/predictions/part.parquet",
    "vlmsweep-123-abc/notes.txt",
    "vlmsweep-4194304-clips-x/a.frames",
    "vlmsweep-4194303-file",
    f"vlmsweep-{os.getuid()}/mine/notes.txt",
    f"vlmsweep-{os.getuid()}/with-an-owner/owner-1-abcd.json",
    "vlmsweep-plan-x/run.json",
)
IN_DATA = ("samples/own.parquet", "samples/notes.txt", "samples/01234-00000.parquet", "media/own.png", ".notes.tmp")
IN_OUT = (
    ".notes.tmp",
    ".x.parquet.tmp",
    ".vlmsweep-notes.tmp",
    ".vlmsweep-files.json.bak",
    f"predictions/{MODEL_FOLDER}/.0123456789abcdef01234567.parquet.0123.tmp",
    f"predictions/{MODEL_FOLDER}/own.parquet",
    f"predictions/{MODEL_FOLDER}/0123456789abcdef.parquet",
    f"predictions/{MODEL_FOLDER}/external-own.parquet",
    f"predictions/{MODEL_FOLDER}/0123456789abcdef01234567.parquet.bak",
    f"scores/{MODEL_FOLDER}/copy of a part.parquet",
    "judgements/benchmark=maia/model=n/own.parquet",
    "captions/benchmark=maia/model=n/own.parquet",
    "plan/benchmark=maia/plan-own.json",
    "plan/benchmark=maia/part-own.parquet",
    "plan/benchmark=maia/judge-own.parquet",
    "batches/model=m/own.json",
    "checkpoints/own.safetensors",
    "checkpoints/step-1.safetensors",
    "examples/own.txt",
    "examples/pictures/own.png",
    "staging/own/notes.txt",
    "staging/0123456789abcdef/notes.txt",
    "nights/staging/own/run.json",
    "nights/staging/0123456789abcdef/notes.txt",
    "nights/report/own.csv",
    "damaged/own.parquet",
    "report/own.csv",
    "report/tables/own.tex",
    "notes.md",
    "replaced/notes.txt",
    "items.csv",
    "report/twin.csv",
    "report/stress.csv",
    "site/notes.txt",
)
IN_HISTORY = ("items/own.parquet", "pairs/own.parquet", "metrics/own.parquet", "notes.txt", ".notes.tmp")
IN_TO = ("own.html", "maia-annotator.html", "generated/notes.txt", "generated/x.jsonl.part", "generated/img/own.txt")


def plant(temporary: Path, data: Path, out: Path, history: Path, to: Path) -> dict[Path, bytes]:
    """Write the files, each with a content of its own; return them."""
    folders = ((temporary, IN_TEMPORARY), (data, IN_DATA), (out, IN_OUT), (history, IN_HISTORY), (to, IN_TO))
    planted = {folder / name: f"a user's {name}".encode() for folder, names in folders for name in names}
    for path, content in planted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return planted


def assert_untouched(planted: dict[Path, bytes]) -> None:
    """Check that all of them are there, unchanged."""
    lost = [str(path) for path in planted if not path.is_file()]
    assert not lost
    assert not [str(path) for path, content in planted.items() if path.read_bytes() != content]
