"""Small UNPIE data sets in the forms as distributed, with pictures of a few pixels."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

SPLITS = ("homographic", "heterographic")
WORDS = {"de": "Der Bäcker {n} war {m}.", "fr": "Le boulanger {n} était {m}.", "ko": "제빵사 {n} 은 {m}."}


def picture(seed: str, form: str = "PNG") -> bytes:
    """Return a picture of 6 by 5 pixels whose colours depend on the seed."""
    digest = hashlib.sha256(seed.encode()).digest()
    pixels = (digest * 3)[: 6 * 5 * 3]
    out = io.BytesIO()
    Image.frombytes("RGB", (6, 5), pixels).save(out, form)
    return out.getvalue()


def address(split: str, index: int, meaning: int) -> str:
    """Return the address of a disambiguating picture."""
    return f"https://photos.example.org/{split}/{index}/{meaning}.png?size=large"


def row(split: str, index: int) -> dict[str, Any]:
    """Return one pun as the card describes it."""
    return {
        "pun_sentence": f"She kneaded bread number {index} of {split} until he needed money.",
        "pun_phrase": "kneaded",
        "alter_sentence": f"She needed bread number {index}.",
        "alter_phrase": "needed",
        "meaning1": "work dough",
        "meaning2": "want",
        **{
            f"translation{meaning + 1}": {
                lang: text.format(n=f"{split} {index}", m=("pleite", "geknetet")[meaning])
                for lang, text in WORDS.items()
            }
            for meaning in range(2)
        },
        "disamb_image1": address(split, index, 0),
        "disamb_image2": address(split, index, 1),
        "pun_exp_image": {"bytes": picture(f"{split}{index}"), "path": "exp.png"},
    }


def rows(split: str, count: int = 2) -> list[dict[str, Any]]:
    """Return the first puns of a split."""
    return [row(split, index) for index in range(count)]


def write_parquet(path: Path, content: Sequence[Mapping[str, Any]]) -> None:
    """Write one file of the hub, in row groups of two."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(item) for item in content]), path, row_group_size=2)


def write_jsonl(path: Path, content: Sequence[Mapping[str, Any]]) -> None:
    """Write one row a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in content), encoding="utf-8")


def mirror(folder: Path, addresses: Sequence[str], *, by: str = "sha256") -> None:
    """Write pictures into the mirror, named by the address's hash or as in the address."""
    (folder / "mirror").mkdir(parents=True, exist_ok=True)
    for item in addresses:
        name = (
            hashlib.sha256(item.encode()).hexdigest() if by == "sha256" else item.rpartition("/")[2].partition("?")[0]
        )
        (folder / "mirror" / name).write_bytes(picture(item))


def write_source(folder: Path, count: int = 2) -> Path:
    """Write the data set as distributed, with all photos in the mirror; return its folder."""
    for split in SPLITS:
        write_parquet(folder / "data" / f"{split}-00000-of-00001-0123456789abcdef.parquet", rows(split, count))
        mirror(folder, [address(split, index, meaning) for index in range(count) for meaning in range(2)])
    return folder
