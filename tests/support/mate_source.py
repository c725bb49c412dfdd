"""MATE as distributed, made on the spot from the scenes of the golden rows, with pictures of a few pixels."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pipelines.benchmarks.mate.scene import Question, linking_attributes, parse_scene
from tests.support.paths import GOLDEN

_GOLDEN = GOLDEN / "mate" / "scenes.jsonl"
RAW: dict[str, dict[str, Any]] = {
    row["id"]: row["scene"] for row in map(json.loads, _GOLDEN.read_text("utf-8").splitlines())
}
WHITE = "0" * 32 + ".png"


def name_of(scene: str, number: int = 0) -> str:
    """Return an id of 32 hexadecimal digits."""
    return f"{ord(scene[0]):x}{number:030x}"


def question(task: str, pointer: tuple[str, Any], target: str) -> Question:
    return Question(task=task, pointer_attribute=pointer[0], pointer_value=pointer[1], target_attribute=target)


def row(
    which: str = "B",
    task: str = "img2txt",
    pointer: tuple[str, Any] = ("color", "red"),
    target: str = "name",
    shots: Sequence[tuple[str, Any]] = (),
    **changes: Any,
) -> dict[str, Any]:
    """Return a row of the development version; `changes` are laid over it, None leaves a field out."""
    scene, row_question = parse_scene(RAW[which]), question(task, pointer, target)
    fields = {
        "example_id": name_of(which),
        "task": task,
        "input_str": f"words about {task} with {len(shots)} examples  \n ",
        "gold_reference": json.dumps({"answer": row_question.gold(scene)}),
        "image": WHITE if task == "txt2txt" else f"{name_of(which)}.png",
        "scene": {**RAW[which], "image_filename": "x.png", "metadata": {"width": 480}},
        "scene_format": "json",
        "object_count": len(scene.objects),
        "pointer_attribute": {pointer[0]: pointer[1]},
        "target_attribute": {target: row_question.gold(scene)},
        "few_shot_attributes": [list(shot) for shot in shots],
        "key_attributes": {"img": {}, "data": {}},
        "linking_attributes": linking_attributes(scene, row_question.object_index(scene), row_question.hidden),
        **changes,
    }
    return {key: value for key, value in fields.items() if value is not None}


def development(folder: Path, files: Mapping[str, Iterable[Any]], pictures: Iterable[str] | None = None) -> Path:
    """Write JSONL files, bytes as they are and all else as JSON, and a picture for each that they name."""
    (folder / "img").mkdir(parents=True)
    named: set[str] = set()
    for name, rows in files.items():
        lines = []
        for item in rows:
            lines.append(item if isinstance(item, bytes) else json.dumps(item).encode())
            named |= {item["image"]} if isinstance(item, dict) and isinstance(item.get("image"), str) else set()
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    for name in named if pictures is None else pictures:
        (folder / "img" / name).write_bytes(png(name))
    return folder


def png(name: str) -> bytes:
    """Return a picture in one colour that depends on the name; white for `txt2txt`."""
    colour = (255, 255, 255) if name == WHITE else tuple((sum(name.encode()) * step) % 200 for step in (1, 3, 7))
    sink = io.BytesIO()
    Image.new("RGB", (6, 4), colour).save(sink, format="PNG")
    return sink.getvalue()


def public_row(raw: Mapping[str, Any], text: str, spelled: Any = json.dumps) -> dict[str, Any]:
    """Return the same row in the public version's format."""
    picture = png(raw["image"])
    (pointer,), (target,) = raw["pointer_attribute"], raw["target_attribute"]
    return {
        "id": raw["example_id"],
        "image": {"bytes": picture, "path": raw["image"]},
        "scene": spelled(raw["scene"]),
        "question": text,
        "answer": raw["gold_reference"],
        "task": raw["task"].replace("txt", "data"),
        "object_count": raw["object_count"],
        "pointer_attribute": pointer,
        "target_attribute": target,
    }


def public(folder: Path, splits: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """Write one Parquet file a split, two rows a row group."""
    (folder / "data").mkdir(parents=True)
    for name, rows in splits.items():
        table = pa.Table.from_pylist([dict(item) for item in rows])
        pq.write_table(table, folder / "data" / f"{name}-00000-of-00001.parquet", row_group_size=2)
    return folder
