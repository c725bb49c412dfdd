"""Logs of other harnesses for the fuzzer: bytes changed anywhere, and rows with fields that are odd."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.mutating import mutated
from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden" / "harness_logs"
"""Logs with planted answers, written by the packages of the harnesses."""
_ROWS = 3
_FILES = {  # tool -> a file of the golden logs
    "lm-eval": "lm-eval/lab__planted/samples_pictures_choice_*.jsonl",
    "lmms-eval": "lmms-eval/lab__planted/*_samples_pictures_choice.jsonl",
    "evalscope": "evalscope/reviews/planted/general_vmcq_pictures.jsonl",
    "inspect": "inspect/eval/pictures-text.eval",
    "inspect-json": "inspect/json/pictures-number.json",
    "vlmevalkit": "vlmevalkit/planted/*/planted_Pictures_YORN_auxmatch.xlsx",
    "vlmevalkit-tsv": "vlmevalkit/planted/*/planted_Pictures_VQA_results.tsv",
    "vlmevalkit-json": "vlmevalkit/planted/*/planted_Pictures_Number_results.json",
}


def golden(name: str) -> Path:
    """Return a golden log by the name of its form."""
    return next(iter(sorted(GOLDEN.glob(_FILES[name]))))


def _read(content: bytes, path: Path, tool: str) -> None:
    from pipelines.logged_answers.matching import match_logs
    from pipelines.logged_answers.readers import tool_files
    from pipelines.plan.run_spec import RunSpec

    path.write_bytes(content)
    logged = [record for tool_of, file in tool_files(path, tool) for record in tool_of.read(file)]
    spec = RunSpec(data=str(path.parent / "nowhere"), out="", models={}, benchmarks=("vague",))
    rejections, groups = match_logs(spec, logged)
    assert len(rejections) == len(logged), groups


def _bytes_of(name: str) -> tuple[Callable[[Path], bytes], Callable[[bytes, Path], None]]:
    file = golden(name)
    tool = name.removesuffix("-json").removesuffix("-tsv")

    def seed(_folder: Path) -> bytes:
        content = file.read_bytes()
        return b"".join(content.splitlines(keepends=True)[:_ROWS]) if file.suffix == ".jsonl" else content

    return seed, lambda content, folder: _read(content, folder / file.name, tool)


def _rows_of(name: str) -> tuple[Callable[[Path], bytes], Callable[[bytes, Path], None]]:
    """Return a seed that only tells which change is made, and a parser of rows that are valid JSON with odd fields."""
    file = golden(name)
    rows = _rows(file)
    tool = name.removesuffix("-json")

    def parse(content: bytes, folder: Path) -> None:
        number = zlib.crc32(content)
        changed = [mutated(row, number + place) for place, row in enumerate(rows)]
        _read(_packed(changed, file.suffix), folder / file.name, tool)

    return lambda _folder: name.encode() * 20, parse


def _rows(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".eval":
        from jobs.import_logs.fields import open_archive

        with open_archive(file) as archive:
            return [json.loads(archive.read(name)) for name in archive.names if name.startswith("samples/")][:_ROWS]
    if file.suffix == ".json":
        value = json.loads(file.read_bytes())
        return value[:_ROWS] if isinstance(value, list) else [{**value, "samples": value["samples"][:_ROWS]}]
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:_ROWS]]


def _packed(rows: list[dict[str, Any]], suffix: str) -> bytes:
    texts = [json.dumps(row) for row in rows]
    if suffix == ".jsonl":
        return "\n".join(texts).encode()
    if suffix == ".json":
        return (f"[{','.join(texts)}]" if len(texts) > 1 else texts[0]).encode()
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "planted"}}))
        for number, text in enumerate(texts):
            archive.writestr(f"samples/{number}.json", text)
    return sink.getvalue()


LOG_PARSERS = {
    **{f"log of {name}": _bytes_of(name) for name in _FILES},
    **{f"rows of {name}": _rows_of(name) for name in _FILES if name not in ("vlmevalkit", "vlmevalkit-tsv")},
}
