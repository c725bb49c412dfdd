"""VAGUE's sample data: drawn scenes with numbered people, in the form of the authors' folder of JSON and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from pipelines.benchmarks.vague.person_tags import draw_tags
from pipelines.ingest.source_folder import Folder
from tests.tools.demo_data.drawing import HEIGHT, WIDTH
from tests.tools.demo_data.picture import draw, encoded, people_in

__all__ = ["vague_rows", "write_vague"]

_FOLDERS = {"vcr_demo.json": "annotated_images", "ego4d_demo.json": "ego4d_final_annotated"}
_ORDERINGS = ("ABCD", "BADC", "CDAB", "DCBA")
"""Letters of the correct reading and the three wrong ones; items take them in turn, so that no letter wins."""


def vague_rows() -> list[tuple[dict[str, Any], list[str]]]:
    """Return all items as distributed, each with the lines of its picture."""
    items = yaml.safe_load((files("tests.tools.demo_data") / "vague.yaml").read_text(encoding="utf-8"))
    return [(_row(index, item), item["picture"]) for index, item in enumerate(items)]


def write_vague(folder: Path) -> None:
    """Write two JSON arrays and their folders of pictures; files of these names are replaced."""
    rows = vague_rows()
    folder.mkdir(parents=True, exist_ok=True)
    pixels = Folder(str(folder)).pixels
    for name, pictures in _FOLDERS.items():
        subset = [(row, lines) for row, lines in rows if ("@" in row["image_name"]) == name.startswith("vcr")]
        (folder / pictures).mkdir(parents=True, exist_ok=True)
        for row, lines in subset:
            content = draw_tags(encoded(draw(lines), "JPEG"), people_in(lines), (WIDTH, HEIGHT), pixels)
            (folder / pictures / f"{row['image_name']}_annot.jpg").write_bytes(content)
        text = json.dumps([row for row, _ in subset], ensure_ascii=False, indent=1)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def _row(index: int, item: Mapping[str, Any]) -> dict[str, Any]:
    backdrop, *things = (line.split()[0] for line in item["picture"])
    return {
        "image_name": item["name"],
        "direct": item["direct"],
        "indirect": item["says"],
        "solution": item["solution"],
        "mcq": {
            "1_correct": item["correct"],
            "2_fake_scene": item["fs"],
            "3_surface_understanding": item["su"],
            "4_wrong_entity": item["ne"],
            "ordering": list(_ORDERINGS[index % len(_ORDERINGS)]),
        },
        "meta": {
            "caption": item["caption"],
            "fake_caption": item["fake_caption"],
            "ram_entity": sorted({backdrop, *things}),
            "person_bbox": [list(box) for box in people_in(item["picture"])],
            "img_size": {"width": WIDTH, "height": HEIGHT},
            "rating": {"direct": 5, "indirect": 3 + index % 3},
        },
    }
