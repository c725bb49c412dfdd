"""A small VAGUE data set in every form as distributed, with random pictures of a few pixels."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.benchmarks.vague.person_tags import draw_tags
from pipelines.media.decoder import Decoder

ORDERINGS = (["A", "B", "C", "D"], ["B", "A", "C", "D"], ["C", "A", "B", "D"], ["D", "C", "B", "A"])
BOXES = [[10.0, 10.0, 70.0, 100.0], [80.0, 20.0, 140.0, 90.0]]
WIDTH, HEIGHT = 160, 120
ACTIONS = ("open", "close", "bring", "wash")


def row(number: int, subset: str = "VCR") -> dict[str, Any]:
    """Return one row without its picture; gold letters rotate."""
    name = f"00{number:02d}_Film_00.0{number % 10}.01@0" if subset == "VCR" else f"clip{number:03d}_frame{number}"
    verb = ACTIONS[number % len(ACTIONS)]
    return {
        "image_name": name,
        "direct": f"person1, please {verb} the window number {number}.",
        "indirect": f"person1, it is rather cold in here, number {number}.  ",
        "solution": f"(person1, {verb}, window {number})",
        "mcq": {
            "4_wrong_entity": f"The speaker wants person1 to {verb} the curtain {number}.",
            "1_correct": f"The speaker wants person1 to {verb} the window {number}.",
            "3_surface_understanding": f"The speaker wants person1 to feel the cold {number}.",
            "2_fake_scene": f"The speaker wants person1 to feed the parrot {number}.",
            "ordering": ORDERINGS[number % 4],
        },
        "meta": {
            "caption": "the caption leaks the answer",
            "fake_caption": "a parrot sits there",
            "ram_entity": ["window", "curtain", "person"][: 1 + number % 3],
            "person_bbox": copy.deepcopy(BOXES[: 1 + number % 2]),
            "img_size": {"width": WIDTH, "height": HEIGHT},
            "rating": {"direct": 4 + number % 2, "indirect": 3 + number % 3},
        },
    }


def sample(number: int = 2, **changes: Any) -> Sample:
    """Return the canonical form of a row, with fields of its data changed."""
    raw = row(number)
    data = {
        "direct": raw["direct"],
        "indirect": raw["indirect"].strip(),
        "solution": raw["solution"],
        "readings": {
            "correct": raw["mcq"]["1_correct"],
            "fs": raw["mcq"]["2_fake_scene"],
            "su": raw["mcq"]["3_surface_understanding"],
            "ne": raw["mcq"]["4_wrong_entity"],
        },
        "ordering": raw["mcq"]["ordering"],
    }
    ref = MediaRef(role="picture", kind="image", sha256="ab" * 32, extension=".jpg", bytes=9, width=8, height=8)
    return Sample(sample_id=raw["image_name"], subset="VCR", media=(ref,), data={**data, **changes})


def rows(vcr: int = 8, ego4d: int = 4) -> list[dict[str, Any]]:
    """Return rows of both subsets, VCR first."""
    return [*(row(n) for n in range(vcr)), *(row(vcr + n, "Ego4D") for n in range(ego4d))]


_DECODER = Decoder()


def pixels(content: bytes) -> np.ndarray:
    return _DECODER.decode_picture(content).pixels[0]


def picture(number: int, *, tags: Sequence[Sequence[float]] = (), form: str = "JPEG") -> bytes:
    """Return a bright picture, different for each number, with person tags where there are boxes."""
    noise = np.random.default_rng(number).integers(110, 250, (12, 16, 3), dtype=np.uint8)
    sink = io.BytesIO()
    Image.fromarray(noise).resize((WIDTH, HEIGHT)).save(sink, form)
    return draw_tags(sink.getvalue(), [(a, b, c, d) for a, b, c, d in tags], (WIDTH, HEIGHT), pixels)


def _pictures(data: Sequence[Mapping[str, Any]], *, tagged: bool) -> list[bytes]:
    return [
        picture(number, tags=item["meta"]["person_bbox"] if tagged else ()) for number, item in enumerate(data, start=1)
    ]


def write_hub(
    folder: Path,
    data: Sequence[dict[str, Any]] | None = None,
    *,
    tagged: bool = True,
    cells: Mapping[int, Any] | None = None,
) -> Path:
    """Write the hub's form, five rows a group. `cells` overrides image cells by row."""
    data = rows() if data is None else data
    images: list[Any] = [{"bytes": b, "path": None} for b in _pictures(data, tagged=tagged)]
    for index, cell in (cells or {}).items():
        images[index] = cell
    table = pa.table({"image": images, **{name: [item[name] for item in data] for name in data[0]}})
    path = folder / "data" / "train-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=5)
    return folder


def write_drive(folder: Path, data: Sequence[dict[str, Any]] | None = None, *, tagged: bool = True) -> Path:
    """Write the Drive folder's form."""
    data = rows() if data is None else data
    parts = {
        "vcr_1144_final.json": ("annotated_images", [entry for entry in data if "@" in entry["image_name"]]),
        "ego4d_533_final.json": ("ego4d_final_annotated", [entry for entry in data if "@" not in entry["image_name"]]),
    }
    content = dict(zip([entry["image_name"] for entry in data], _pictures(data, tagged=tagged), strict=True))
    for name, (pictures, part) in parts.items():
        (folder / pictures).mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(part, ensure_ascii=False), encoding="utf-8")
        for item in part:
            (folder / pictures / f"{item['image_name']}_annot.jpg").write_bytes(content[item["image_name"]])
    return folder
