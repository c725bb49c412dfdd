"""Mutated bytes, and the parsers of foreign bytes that must end with a sentence on each of them, soon and small."""

from __future__ import annotations

import io
import json
import random
import resource
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.log_fuzzing import LOG_PARSERS

__all__ = ["PARSERS", "Outcome", "fuzz", "mutate"]

_NUMBERS = (0, 1, 0xFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
_WORDS = (
    b"Infinity",
    b"NaN",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b"[" * 5000,
    b"null",
    b'"\\ud800"',
    b"\x00",
    b"{}",
    b"\xff\xfe",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the mutated inputs of one parser."""

    inputs: int
    refused: int
    unexpected: tuple[str, ...]
    """Errors that are no sentence, each with the number of its input."""
    slowest_s: float
    peak_mb: float
    """Growth of the process's peak memory."""


def mutate(seed: bytes, number: int) -> bytes:
    """Return a copy with one to four changes: bits, numbers, words, cuts, repeats; every twentieth is unchanged."""
    draw, content = random.Random(number), bytearray(seed)
    for _ in range(0 if number % 20 == 0 else draw.choice((1, 1, 2, 4))):
        _change(draw, content)
    return bytes(content)


def _change(draw: random.Random, content: bytearray) -> None:
    near_the_head = min(int(draw.expovariate(1 / 200)), len(content))
    place = near_the_head if draw.random() < 0.5 else draw.randrange(len(content) + 1)
    way = draw.randrange(6)
    if way == 0 and place < len(content):
        content[place] ^= 1 << draw.randrange(8)
    elif way == 1:
        layout = draw.choice(("<I", "<Q", ">I", ">Q"))
        number = draw.choice(_NUMBERS) & ((1 << 8 * struct.calcsize(layout)) - 1)
        content[place : place + struct.calcsize(layout)] = struct.pack(layout, number)
    elif way == 2:
        content[place : place + draw.choice((0, 1, 4))] = draw.choice(_WORDS)
    elif way == 3:
        del content[place : None if draw.random() < 0.5 else place + draw.randrange(1, 64)]
    elif way == 4:
        content[place:place] = content[place : place + draw.randrange(1, 4096)]
    else:
        content[place : place + 8] = draw.randbytes(8)


def fuzz(name: str, count: int, folder: Path) -> Outcome:
    """Parse `count` mutated inputs in this process."""
    make_seed, parse = PARSERS[name]
    seed = make_seed(folder)
    parse(seed, folder)  # also loads what it imports
    before, slowest, refused, unexpected = _peak_mb(), 0.0, 0, []
    for number in range(count):
        content, start = mutate(seed, number), time.process_time()
        try:
            parse(content, folder)
        except _named_errors() as error:
            refused += 1
            if not str(error).strip() or "Traceback" in str(error):
                unexpected.append(f"{number}: no sentence: {error!r}")
        except Exception as error:
            unexpected.append(f"{number}: {type(error).__name__}: {str(error)[:200]}")
        slowest = max(slowest, time.process_time() - start)
    return Outcome(count, refused, tuple(unexpected), slowest, _peak_mb() - before)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _named_errors() -> tuple[type[Exception], ...]:
    from models.errors import ModelError
    from pipelines.errors import PipelineError

    return (ModelError, PipelineError)


def _gguf_seed(folder: Path) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    numbers = {"embedding_length": 64, "block_count": 2, "attention.head_count": 4, "feed_forward_length": 128}
    fields = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    fields += [text(f"llama.{name}") + struct.pack("<II", 4, value) for name, value in numbers.items()]
    fields += [text("split.count") + struct.pack("<II", 4, 1)]
    fields += [text("tokenizer.chat_template") + struct.pack("<I", 8) + text("{{ x }}")]
    tokens = b"".join(text(f"token{n}") for n in range(200))
    fields += [text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 200) + tokens]
    tensors = [text(f"blk.{n}") + struct.pack("<IQQIQ", 2, 64, 64, 0, 64 * n) for n in range(20)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    return head + b"".join(fields) + b"".join(tensors) + bytes(4096)


def _gguf(content: bytes, folder: Path) -> None:
    from models.gpu_memory import _gguf_size
    from models.weight_headers import _read, check_gguf

    _read.cache_clear()
    path = folder / "model.gguf"
    path.write_bytes(content)
    _gguf_size(path)
    check_gguf(path)


def _safetensors_seed(folder: Path) -> bytes:
    names = {
        f"layer.{n}": {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * n, 256 * n + 256]} for n in range(9)
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **names}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(9 * 256)


def _safetensors(content: bytes, folder: Path) -> None:
    from models.engines.launch import LaunchedModel
    from models.engines.weights import known_bytes
    from models.gpu_memory import _stored_size, _tensors
    from models.spec import ModelSpec

    weights = folder / "weights"
    weights.mkdir(exist_ok=True)
    (weights / "model.safetensors").write_bytes(content)
    _stored_size(_tensors(weights / "model.safetensors"), None)
    known_bytes(LaunchedModel.as_named(ModelSpec(engine="transformers", model=str(weights), dtype="bfloat16")))


def _config(content: bytes, folder: Path) -> None:
    from models.gpu_memory import _read_shape

    (folder / "config.json").write_bytes(content)
    _read_shape(folder / "config.json")


def _config_seed(folder: Path) -> bytes:
    return json.dumps({"text_config": {"num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 2,
                                       "intermediate_size": 9, "vocab_size": 11, "head_dim": 16}}).encode()  # fmt: skip


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


_DECODERS: list[object] = []


def _picture(content: bytes, folder: Path) -> None:
    from pipelines.media.decoder import Decoder

    if not _DECODERS:
        _DECODERS.append(Decoder())
    _DECODERS[0].decode_picture(content)  # type: ignore[attr-defined]


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


def _of_source(name: str, file: str, where: str = "") -> Callable[[bytes, Path], None]:
    def parse(content: bytes, folder: Path) -> None:
        from pipelines.benchmarks import benchmark
        from pipelines.ingest.source_folder import Folder

        (folder / (where or name) / file).write_bytes(content)
        source = Folder(str(folder / (where or name)))
        with source.decoder:
            for _ in benchmark(name).source.read(source, {}):
                pass

    return parse


def _maia_seed(folder: Path) -> bytes:
    from tests.support import maia_source

    (folder / "maia" / "videos").mkdir(parents=True)
    maia_source.write_clip(folder / "maia" / "videos" / "1.mp4", frames=4)
    return json.dumps(maia_source.questions(1)).encode()


def _mate_seed(folder: Path) -> bytes:
    from tests.support import mate_source

    (folder / "mate").mkdir()
    rows = [{**mate_source.row(), "example_id": f"{n:032x}"} for n in range(4)]
    mate_source.development(folder / "mate", {"mm_0shot": rows}, [mate_source.row()["image"]])
    return (folder / "mate" / "mm_0shot.jsonl").read_bytes()


def _vague_seed(folder: Path) -> bytes:
    from tests.support import vague_source

    pictures = folder / "vague" / "annotated_images"
    pictures.mkdir(parents=True)
    rows = [{**vague_source.row(n), "image_name": f"{n:04d}@0"} for n in range(4)]
    for row in rows:
        (pictures / f"{row['image_name']}_annot.jpg").write_bytes(vague_source.picture(1, tags=vague_source.BOXES))
    return json.dumps(rows).encode()


def _vflute_seed(folder: Path) -> bytes:
    from tests.support import vflute_source

    (folder / "vflute").mkdir()
    (folder / "vflute" / "p.png").write_bytes(vflute_source.picture(1))
    return json.dumps([{**row, "image": "p.png"} for row in vflute_source.rows(6)]).encode()


def _vflute_hub_seed(folder: Path) -> bytes:
    from tests.support import vflute_source

    vflute_source.write_parquet(folder / "vflute-hub", "test", [vflute_source.rows(6)])
    return next((folder / "vflute-hub").rglob("*.parquet")).read_bytes()


class _AllSamples(dict[str, Any]):
    """Data in which every sample is."""

    def __contains__(self, name: object) -> bool:
        return True


def _people(benchmark: str, name: str) -> Callable[[bytes, Path], None]:
    def parse(content: bytes, folder: Path) -> None:
        from pipelines.benchmarks import benchmark as definition
        from pipelines.errors import UsageError
        from pipelines.ingest.human_files import human_rows, read_human

        (folder / name).write_bytes(content)
        for file in read_human([f"{benchmark}={folder / name}"]):
            try:
                if benchmark == "vague":  # MATE's looks into its samples
                    definition(benchmark).human.check(file.kind, file.text, _AllSamples())
                human_rows(benchmark, {file.kind: file.text})
            except ValueError as error:  # as `check_human` names it with the file
                raise UsageError(str(error)) from error

    return parse


def _people_seed(_: Path) -> bytes:
    lines = [f"{number:04d}@0,person{number % 2},{'ABCD'[number % 4]}" for number in range(8)]
    return "\n".join(["image_name,annotator,letter", *lines]).encode()


def _form_seed(_: Path) -> bytes:
    rows = [{"image_name": f"{n:04d}@0", "annotator": "ann", "letter": "A"} for n in range(4)]
    return json.dumps({"benchmark": "vague", "kind": "choices", "rows": rows}).encode()


def _authors_people_seed(_: Path) -> bytes:
    row = {"task": "img2data", "model": "human", "evaluator": "a", "prediction": "red"}
    return "\n".join(json.dumps({**row, "example_id": f"{n:032x}"}) for n in range(4)).encode()


def _unpie_seed(folder: Path) -> bytes:
    from tests.support import unpie_source

    (folder / "unpie").mkdir()
    pictures = dict.fromkeys(("disamb_image1", "disamb_image2", "pun_exp_image"), "data:image/png;base64,AAAA")
    return "\n".join(json.dumps({**unpie_source.row("homographic", n), **pictures}) for n in range(4)).encode()


def _predictions_seed(folder: Path) -> bytes:
    row = {"benchmark": "maia", "model": "m", "task": "vsv", "setting": "black-video", "sample_id": "s", "output": "A"}
    return "\n".join(json.dumps({**row, "variant": str(n)}) for n in range(6)).encode()


def _predictions(content: bytes, folder: Path) -> None:
    from pipelines.plan.run_spec import RunSpec
    from pipelines.sweep.predictions_file import usable_rows

    (folder / "predictions.jsonl").write_bytes(content)
    usable_rows(RunSpec(data="", out="", models={}, benchmarks=("maia",)), folder / "predictions.jsonl")


def _models_file(content: bytes, folder: Path) -> None:
    from models.catalog_loader import load_models

    (folder / "models.yaml").write_bytes(content)
    load_models([folder / "models.yaml"])


PARSERS: dict[str, tuple[Callable[[Path], bytes], Callable[[bytes, Path], None]]] = {
    **LOG_PARSERS,
    "GGUF header": (_gguf_seed, _gguf),
    "safetensors header": (_safetensors_seed, _safetensors),
    "config.json of a model": (_config_seed, _config),
    "foreign Parquet": (_parquet_seed, _parquet),
    "part of an output": (_part_seed, _part),
    "manifest of data": (_manifest_seed, _manifest),
    "picture with EXIF": (_picture_seed, _picture),
    "container of a clip": (_clip_seed, _container),
    "MAIA's questions": (_maia_seed, _of_source("maia", "data.json")),
    "MATE's rows": (_mate_seed, _of_source("mate", "mm_0shot.jsonl")),
    "UNPIE's rows": (_unpie_seed, _of_source("unpie", "homographic.jsonl")),
    "VAGUE's rows": (_vague_seed, _of_source("vague", "vcr_1144_final.json")),
    "V-FLUTE's rows": (_vflute_seed, _of_source("vflute", "vflute-v2-test.json")),
    "V-FLUTE's hub": (_vflute_hub_seed, _of_source("vflute", "data/test-00000-of-00001.parquet", "vflute-hub")),
    "people's table": (_people_seed, _people("vague", "people.csv")),
    "people's form": (_form_seed, _people("vague", "form.json")),
    "people's lines": (_authors_people_seed, _people("mate", "mm_0shot_human.jsonl")),
    "predictions file": (_predictions_seed, _predictions),
    "models file": (
        lambda _: b"m: {engine: random, seed: 3, price: {input_per_million: 1.0, output_per_million: 2}}\n",
        _models_file,
    ),
}

if __name__ == "__main__":
    name, count, where = sys.argv[1:]
    sys.stdout.write(json.dumps(asdict(fuzz(name, int(count), Path(where)))))
