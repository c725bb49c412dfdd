"""Stored data, media and predictions for the fuzzer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.media.decoder import Decoder


def _parquet_seed(folder: Path) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    table = pa.table({"claim": [f"claim {n}" for n in range(50)], "n": list(range(50))})
    pq.write_table(table, sink, row_group_size=20)
    return sink.getvalue()


def _parquet(content: bytes, folder: Path) -> None:
    from pipelines.benchmarks.parquet_source import open_parquet, parquet_rows

    file = open_parquet(content, "x.parquet", ["claim"])
    list(parquet_rows(file, ["claim"], rows=10, max_bytes=64 << 20, where="x.parquet"))


def _part_seed(folder: Path) -> bytes:
    from pipelines.schemas import PREDICTIONS
    from pipelines.storage.parts import to_parquet

    rows = [{"request_id": f"{n:032}", "status": "ok", "output": "A", "steps": []} for n in range(20)]
    return to_parquet(rows, PREDICTIONS)


def _part(content: bytes, folder: Path) -> None:
    from pipelines.storage.parts import open_part, read_part
    from pipelines.storage.store import Store

    (folder / "p.parquet").write_bytes(content)
    read_part(Store(str(folder)), "p.parquet")
    open_part(Store(str(folder)), "p.parquet")


def _manifest_seed(folder: Path) -> bytes:
    from pipelines.ingest.dataset import Manifest, ShardInfo

    shard = ShardInfo(path="samples/a", rows=1, sha256="0")
    sizes = dict.fromkeys(("samples", "rejected", "media", "media_bytes"), 1)
    texts = {"benchmark": "maia", "dataset_fingerprint": "f", "source": "s"}
    return Manifest(**texts, **sizes, counts={"a": 1}, shards=(shard,), notices=("n",)).to_json()


def _manifest(content: bytes, folder: Path) -> None:
    from pipelines.ingest.dataset import Dataset
    from pipelines.storage.store import Store

    Store(str(folder)).put("maia/manifest.json", content)
    Dataset.open(Store(str(folder)), "maia")


def _picture_seed(folder: Path) -> bytes:
    from PIL import Image

    sink, image = io.BytesIO(), Image.radial_gradient("L").resize((64, 48)).convert("RGB")
    exif = image.getexif()
    exif[0x0112], exif[0x010E] = 6, "a description"
    image.save(sink, "JPEG", exif=exif)
    return sink.getvalue()


@cache
def decoder() -> Decoder:
    """Return the decoder of this process."""
    from pipelines.media.decoder import Decoder

    return Decoder()


def _picture(content: bytes, folder: Path) -> None:
    decoder().decode_picture(content)


def _clip_seed(folder: Path) -> bytes:
    from tests.support.maia_source import write_clip

    write_clip(folder / "seed.mp4", frames=4)
    return (folder / "seed.mp4").read_bytes()


def _container(content: bytes, folder: Path) -> None:
    from pipelines.errors import DecodeError
    from pipelines.media.video_containers import detect_container

    (folder / "clip.mp4").write_bytes(content)
    try:
        detect_container(folder / "clip.mp4")
    except ValueError as error:
        raise DecodeError(str(error)) from error


def _predictions_seed(folder: Path) -> bytes:
    row = {"benchmark": "maia", "model": "m", "task": "vsv", "setting": "black-video", "sample_id": "s", "output": "A"}
    return "\n".join(json.dumps({**row, "variant": str(n)}) for n in range(6)).encode()


def _predictions(content: bytes, folder: Path) -> None:
    from pipelines.plan.run_spec import RunSpec
    from pipelines.sweep.answer_spool import AnswerSpool
    from pipelines.sweep.predictions_file import read_answers

    (folder / "predictions.jsonl").write_bytes(content)
    with AnswerSpool.temporary() as answers:
        read_answers(RunSpec(data="", out="", models={}, benchmarks=("maia",)), folder / "predictions.jsonl", answers)


DATA_PARSERS: dict[str, tuple[Callable[[Path], bytes], Callable[[bytes, Path], None]]] = {
    "foreign Parquet": (_parquet_seed, _parquet),
    "part of an output": (_part_seed, _part),
    "manifest of data": (_manifest_seed, _manifest),
    "picture with EXIF": (_picture_seed, _picture),
    "container of a clip": (_clip_seed, _container),
    "predictions file": (_predictions_seed, _predictions),
}
