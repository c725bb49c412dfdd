"""Benchmarks as distributed, and people's files, for the fuzzer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.data_fuzzing import decoder


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
