"""Mutated bytes, and the parsers of foreign bytes that must end with a sentence on each of them, soon and small."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.data_fuzzing import DATA_PARSERS, decoder
from tests.support.log_fuzzing import LOG_PARSERS


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


def _models_file(content: bytes, folder: Path) -> None:
    from models.catalog_loader import load_models

    (folder / "models.yaml").write_bytes(content)
    load_models([folder / "models.yaml"])


MODEL_PARSERS: dict[str, tuple[Callable[[Path], bytes], Callable[[bytes, Path], None]]] = {
    "GGUF header": (_gguf_seed, _gguf),
    "safetensors header": (_safetensors_seed, _safetensors),
    "config.json of a model": (_config_seed, _config),
    "models file": (
        lambda _: b"m: {engine: random, seed: 3, price: {input_per_million: 1.0, output_per_million: 2}}\n",
        _models_file,
    ),
}


def _source_reader(name: str, file: str, where: str = "") -> Callable[[bytes, Path], None]:
    def parse(content: bytes, folder: Path) -> None:
        from pipelines.benchmarks import benchmark
        from pipelines.ingest.source_folder import Folder

        (folder / (where or name) / file).write_bytes(content)
        source = Folder(str(folder / (where or name)))
        source.decoder = decoder()  # one for all inputs: to start its process takes longer than to read them
        for _ in benchmark(name).source(source, {}):
            pass

    return parse


def _rows_of(name: str, file: str) -> tuple[Callable[[Path], bytes], Callable[[bytes, Path], None]]:
    def seed(folder: Path) -> bytes:
        from tests.support.mutated_sources import write_rows

        write_rows(name, folder / name, 4)
        return (folder / name / file).read_bytes()

    return seed, _source_reader(name, file)


def _vague_hub_seed(folder: Path) -> bytes:
    from tests.support import vague_source

    vague_source.write_hub(folder / "vague-hub", [vague_source.row(n) for n in range(2)])
    return next((folder / "vague-hub").rglob("*.parquet")).read_bytes()


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


def _table(file: str) -> Callable[[bytes, Path], None]:
    def parse(content: bytes, folder: Path) -> None:
        from pipelines.benchmarks.table.columns_file import ColumnsFile
        from pipelines.benchmarks.table.files import find_files
        from pipelines.benchmarks.table.survey import survey
        from pipelines.ingest.source_folder import Folder

        (folder / file).write_bytes(content)
        source = Folder(str(folder))
        files = find_files(source, "" if file == "state.json" else file, "")
        table = survey(source, files, name="mine", kind="text", split="", given=ColumnsFile())
        for _ in table.read(source, {}):
            pass

    return parse


def _arrow_seed(_: Path) -> bytes:
    import pyarrow as pa

    from tests.support.saved_datasets import arrow

    rows = [
        {"question": f"q{n}", "answer": ["a"], "image": {"bytes": b"\x89PNG", "path": None}, "at": None}
        for n in range(9)
    ]
    return arrow(pa.Table.from_pylist(rows), rows=4)


def _state_seed(folder: Path) -> bytes:
    (folder / "data-00000-of-00001.arrow").write_bytes(_arrow_seed(folder))
    return json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "test"}).encode()


def _workbook_seed(_: Path) -> bytes:
    from tests.support.saved_datasets import workbook

    return workbook([["id", "question", "answer"], *([n, f"q{n}", (43861, 0)] for n in range(9))])


def _chat_seed(_: Path) -> bytes:
    parts = [{"type": "image", "image": "a.png"}, {"type": "text", "text": "Which?"}]
    turns = [{"role": "user", "content": parts}, {"role": "assistant", "content": "red"}]
    return "\n".join(json.dumps({"id": n, "messages": turns}) for n in range(4)).encode()


def _llava_seed(_: Path) -> bytes:
    turns = [{"from": "human", "value": "<image>\nWhich?"}, {"from": "gpt", "value": "red"}]
    return json.dumps(
        [
            {"id": n, "image": "a.png", "conversations": [*turns, {**turns[0], "value": "Sure?"}, turns[1]]}
            for n in range(4)
        ]
    ).encode()


SOURCE_PARSERS: dict[str, tuple[Callable[[Path], bytes], Callable[[bytes, Path], None]]] = {
    "MAIA's questions": _rows_of("maia", "data.json"),
    "MATE's rows": _rows_of("mate", "mm_0shot.jsonl"),
    "UNPIE's rows": _rows_of("unpie", "homographic.jsonl"),
    "VAGUE's rows": _rows_of("vague", "vcr_1144_final.json"),
    "VAGUE's hub": (_vague_hub_seed, _source_reader("vague", "data/train-00000-of-00001.parquet", "vague-hub")),
    "V-FLUTE's rows": _rows_of("vflute", "vflute-v2-test.json"),
    "V-FLUTE's hub": (_vflute_hub_seed, _source_reader("vflute", "data/test-00000-of-00001.parquet", "vflute-hub")),
    "Arrow": (_arrow_seed, _table("q.arrow")),
    "state of save_to_disk": (_state_seed, _table("state.json")),
    "workbook": (_workbook_seed, _table("q.xlsx")),
    "chat lines": (_chat_seed, _table("q.jsonl")),
    "LLaVA's conversations": (_llava_seed, _table("q.json")),
    "people's table": (_people_seed, _people("vague", "people.csv")),
    "people's form": (_form_seed, _people("vague", "form.json")),
    "people's lines": (_authors_people_seed, _people("mate", "mm_0shot_human.jsonl")),
}

PARSERS = {**LOG_PARSERS, **MODEL_PARSERS, **DATA_PARSERS, **SOURCE_PARSERS}

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


def fuzz_each(names: list[str], count: int, folder: Path) -> dict[str, Outcome]:
    """Fuzz parsers, each in a process of its own that begins with what all import; leave out those that end it."""
    for make_seed, parse in (PARSERS[name] for name in names):
        where = Path(tempfile.mkdtemp(dir=folder))
        parse(make_seed(where), where)
    outcomes = {}
    for name in names:
        where = Path(tempfile.mkdtemp(dir=folder))
        pid = os.fork()
        if not pid:
            signal.alarm(300)
            try:
                (where / "outcome").write_text(json.dumps(asdict(fuzz(name, count, where))))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        if (where / "outcome").exists():
            outcomes[name] = Outcome(**json.loads((where / "outcome").read_text()))
    return outcomes


if __name__ == "__main__":
    where, count, *names = sys.argv[1:]
    outcomes = fuzz_each(names, int(count), Path(where))
    sys.stdout.write(json.dumps({name: asdict(outcome) for name, outcome in outcomes.items()}))
