"""UNPIE's sample data: the hub's two Parquet files, and the photos that they point to, which lie in `mirror/`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from tests.tools.demo_data.picture import draw, encoded

__all__ = ["read_puns", "write_unpie"]

_LANGUAGES = ("de", "fr", "ko")


def read_puns() -> dict[str, list[dict[str, Any]]]:
    """Return the puns of `unpie.yaml` by split."""
    puns: dict[str, list[dict[str, Any]]] = yaml.safe_load(
        (files("tests.tools.demo_data") / "unpie.yaml").read_text(encoding="utf-8")
    )
    return puns


def write_unpie(folder: Path) -> None:
    """Write `data/homographic-*.parquet`, `data/heterographic-*.parquet` and `mirror/`; such files are replaced."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "mirror").mkdir(exist_ok=True)
    for split, puns in read_puns().items():
        rows = [_row(split, index, pun) for index, pun in enumerate(puns)]
        pq.write_table(pa.Table.from_pylist(rows), folder / "data" / f"{split}-00000-of-00001.parquet")
        for row, pun in zip(rows, puns, strict=True):
            for number, sense in enumerate(pun["senses"], start=1):
                name = hashlib.sha256(row[f"disamb_image{number}"].encode()).hexdigest()
                (folder / "mirror" / name).write_bytes(encoded(draw(sense["picture"])))


def _row(split: str, index: int, pun: Mapping[str, Any]) -> dict[str, Any]:
    other = pun.get("other", pun["phrase"])
    row: dict[str, Any] = {
        "pun_sentence": pun["pun"],
        "pun_phrase": pun["phrase"],
        "alter_sentence": pun["pun"].replace(pun["phrase"], other),
        "alter_phrase": other,
    }
    for number, sense in enumerate(pun["senses"], start=1):
        row[f"meaning{number}"] = sense["gloss"]
        row[f"translation{number}"] = {language: sense[language] for language in _LANGUAGES}
        # The address does not exist: its pictures are in the mirror, like photos fetched before.
        row[f"disamb_image{number}"] = f"https://photos.example/{split}/{index}/{number}.png"
    picture = encoded(draw(pun["both"]))
    return {**row, "pun_exp_image": {"bytes": picture, "path": f"{split}-{index}.png"}}
