"""V-FLUTE's sample data: the authors' JSON with pictures beside it, and the hub's training split for exemplars."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from tests.tools.demo_data.picture import draw, encoded

__all__ = ["read_texts", "test_rows", "write_vflute"]

_HUB = ("claim", "label", "explanation", "phenomenon", "source_dataset")


def read_texts() -> dict[str, Any]:
    """Read `vflute.yaml`: `instructions`, `pictures` by name, and the rows of `test` and `train`."""
    texts: dict[str, Any] = yaml.safe_load((files("tests.tools.demo_data") / "vflute.yaml").read_text(encoding="utf-8"))
    return texts


def test_rows(texts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The test split with all fields of the authors' file; instructions rotate."""
    instructions = texts["instructions"]
    return [
        _row(row, index, "test", instructions[index % len(instructions)]) for index, row in enumerate(texts["test"])
    ]


def write_vflute(folder: Path) -> None:
    """Write `vflute-v2-test.json`, its pictures and `data/train-*.parquet`; files of these names are replaced."""
    texts = read_texts()
    pictures = {name: encoded(draw(lines)) for name, lines in texts["pictures"].items()}
    rows = test_rows(texts)
    for row, written in zip(rows, texts["test"], strict=True):
        path = folder / row["image"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pictures[written["picture"]])
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    (folder / "vflute-v2-test.json").write_text(text + "\n", encoding="utf-8")
    _write_training(folder / "data" / "train-00000-of-00001.parquet", texts["train"], pictures)


def _row(row: Mapping[str, Any], index: int, split: str, instruction: str) -> dict[str, Any]:
    source = row["source"]
    question = instruction.replace("REPLACE_CLAIM", f'"{row["claim"]}"')
    return {
        "id": f"{source}-{split}-{index}",
        "source_dataset": source,
        "phenomenon": row["phenomenon"],
        "claim": row["claim"],
        "label": row["label"],
        "explanation": row["why"],
        "prompt": instruction,
        "image": f"{source}/{split}/{index}.png",
        "conversations": [
            {"from": "human", "value": f"<image>\n{question}"},
            {"from": "gpt", "value": f"{row['why']}\nLABEL: {row['label']}"},
        ],
    }


def _write_training(path: Path, rows: list[dict[str, Any]], pictures: Mapping[str, bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    table = []
    for index, row in enumerate(rows):
        fields = _row(row, index, "train", "")
        image = {"bytes": pictures[row["picture"]], "path": f"{index}.png"}
        table.append({"image": image, **{name: fields[name] for name in _HUB}})
    pq.write_table(pa.Table.from_pylist(table), path)
