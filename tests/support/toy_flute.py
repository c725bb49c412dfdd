"""V-FLUTE in small with a rule to learn: a warm picture entails its caption, a cold one contradicts it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from tests.support.vflute_source import KINDS, write_json, write_parquet

CAPTIONS = ("The mood is warm.", "It is a hot day.", "A cosy fire burns.", "The summer is long.")
_COLOURS = {"entailment": (235, 40, 20), "contradiction": (15, 60, 240)}


def toy_rows(count: int, split: str) -> list[dict[str, Any]]:
    """Return rows of which the picture alone decides the label; both labels for each caption."""
    rows = []
    for number in range(count):
        label = "entailment" if number // len(CAPTIONS) % 2 == 0 else "contradiction"
        source, phenomenon = KINDS[number % 2]
        rows.append(
            {
                "id": f"{source}-{split}-{number}",
                "source_dataset": source,
                "phenomenon": phenomenon,
                "claim": CAPTIONS[number % len(CAPTIONS)],
                "label": label,
                "explanation": "It is red." if label == "entailment" else "It is blue.",
                "prompt": "Is the image consistent with the claim REPLACE_CLAIM? Choose entailment or contradiction.",
                "image": f"{source}/{split}/{number}.png",
                "picture": picture(label, number),
            }
        )
    return rows


def picture(label: str, number: int) -> bytes:
    """Return a PNG of 56 x 56 pixels in the label's colour, slightly different for each number."""
    from PIL import Image

    red, green, blue = _COLOURS[label]
    sink = io.BytesIO()
    Image.new("RGB", (56, 56), (red, green + number % 20, blue)).save(sink, "PNG")
    return sink.getvalue()


def write_toy(folder: Path, *, train: int = 32, validation: int = 8, test: int = 24) -> Path:
    """Write train and validation in the hub's form, and the test split in the authors' with picture files."""
    write_parquet(folder, "train", [toy_rows(train, "train")])
    if validation:
        write_parquet(folder, "validation", [toy_rows(validation, "validation")])
    rows = toy_rows(test, "test")
    for row in rows:
        path = folder / row["image"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row["picture"])
    return write_json(folder, [{key: value for key, value in row.items() if key != "picture"} for row in rows])
