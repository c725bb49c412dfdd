"""A small V-FLUTE data set in each form as distributed, with pictures of a few pixels."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

KINDS = (("irfl", "metaphor"), ("irfl", "idiom"), ("memecap", "humor"), ("muse", "sarcasm"), ("nycartoons", "humor"),
         ("vismet", "simile"))  # fmt: skip
TEMPLATES = (
    "Does the drawing back the words REPLACE_CLAIM? Say why and choose entailment or contradiction.",
    "Would you say the photo is for or against REPLACE_CLAIM? Give reasons, then entailment or contradiction.",
    "Is REPLACE_CLAIM in line with the scene? Reason, then close with entailment or contradiction.",
)

FIRST = {"test": 5000, "train": 20000, "validation": 40000}
"""Seed of the first picture of a split in the hub's form."""


def picture(seed: int) -> bytes:
    """Return a PNG of 4 x 3 pixels, different for each seed."""
    from PIL import Image

    sink = io.BytesIO()
    Image.new("RGB", (4, 3), (seed % 256, seed // 256 % 256, 77)).save(sink, "PNG")
    return sink.getvalue()


def rows(count: int = 12, split: str = "test") -> list[dict[str, Any]]:
    """Return rows in the hub's order with all fields of the authors' file; labels in turn, cartoons always entail."""
    results = []
    for n in range(count):
        source, phenomenon = KINDS[n % len(KINDS)]
        label = "entailment" if source == "nycartoons" or n // len(KINDS) % 2 == 0 else "contradiction"
        results.append(
            {
                "id": f"{source}-{split}-{n}",
                "source_dataset": source,
                "phenomenon": phenomenon,
                "claim": f"Is the {split} caption number {n} true?",
                "label": label,
                "explanation": f"The picture of {split} row {n} shows why.",
                "prompt": TEMPLATES[n % len(TEMPLATES)],
                "image": f"{source}/{split}/{n}.png",
            }
        )
    return results


def write_json(folder: Path, rows: Sequence[Any]) -> Path:
    """Write `vflute-v2-test.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vflute-v2-test.json").write_text(json.dumps(list(rows), ensure_ascii=False), encoding="utf-8")
    return folder


def write_csv(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write `vflute-v2-test.csv`."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ["id", "source_dataset", "phenomenon", "path", "claim", "label", "explanation", "prompt", "transformed"]
    with (folder / "vflute-v2-test.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            fields = {**row, "path": row["image"], "transformed": repr(row)}
            writer.writerow({name: fields[name] for name in names})
    return folder


def write_pictures(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the files that rows name; memes and MuSE rows share one picture two by two, as in the real data."""
    for n, row in enumerate(rows):
        path = folder / row["image"]
        path.parent.mkdir(parents=True, exist_ok=True)
        shared = row["source_dataset"] in {"memecap", "muse"}
        path.write_bytes(picture(1000 + KINDS.index((row["source_dataset"], row["phenomenon"])) if shared else n))


def write_parquet(folder: Path, split: str, parts: Sequence[Sequence[dict[str, Any]]], **columns: Any) -> Path:
    """Write `data/SPLIT-0000i-of-0000n.parquet`, five rows a group. A row may carry its own `picture` bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "data").mkdir(parents=True, exist_ok=True)
    names = ["claim", "label", "explanation", "phenomenon", "source_dataset"]
    first = 0
    for number, part in enumerate(parts):
        fields = [
            {name: row[name] for name in names}
            | {"image": {"bytes": row.get("picture", picture(FIRST[split] + first + i)), "path": f"{first + i}.png"}}
            for i, row in enumerate(part)
        ]
        first += len(part)
        path = folder / "data" / f"{split}-{number:05d}-of-{len(parts):05d}.parquet"
        pq.write_table(pa.Table.from_pylist([{**row, **columns} for row in fields]), path, row_group_size=5)
    return folder
