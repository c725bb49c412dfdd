"""Read outputs in the form in which V-FLUTE's authors save them: `preds/MODEL/preds.csv`, `preds/MODEL/MODEL_fs5.csv`.

Columns are `id` and `output`, next to facts of the row, the label and explanation that were read, and for structured
prompts `scene_graph`. Columns `bertscore` and `bleurt`, where there are any, stand in for the scorers.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final

from pipelines.benchmarks.base import PredictionsReader
from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.human import prediction_row
from pipelines.benchmarks.vflute.facts import TASK

_SETTINGS: Final = {"zs": "zero-shot", "fs5": "5-shot", "fs10": "10-shot", "sg": "scene-graph", "": "zero-shot"}
_NAME: Final = re.compile(r"(?:normalized_)?(?P<model>.*?)(?:_(?P<setting>zs|fs5|fs10|sg))?")
_SCORERS: Final = {"bertscore": "bertscore_f1", "bleurt": "bleurt"}


def _rows(path: PurePath, text: str) -> Iterator[tuple[int, dict[str, Any] | Exception]]:
    """Yield the lines as rows of a predictions file; an empty output is None, as of a request that failed."""
    last = 0
    try:
        rows = CsvRows(text, strict=False)
        for last, row in _read_rows(rows, *_model_and_setting(path)):
            yield last, row
    except csv.Error as error:
        yield last + 1, error


def _read_rows(rows: CsvRows, model: str, setting: str) -> Iterator[tuple[int, dict[str, Any] | Exception]]:
    absent = [name for name in ("id", "output") if name not in rows.columns]
    if absent:
        others = "a file in our own columns is .jsonl or .parquet, and --from names the harness of a log"
        yield 1, ValueError(f"no column {', '.join(absent)}; there are {', '.join(rows.columns)}; {others}")
        return
    for line, raw in rows.read(("id", "output", *_SCORERS)):
        if isinstance(raw, ValueError):
            yield line, raw
            continue
        output = raw["output"] if raw["output"] and raw["output"].strip() else None
        used = "scene-graph" if "scene_graph" in rows.columns else setting
        row = prediction_row("vflute", model, task=TASK, setting=used, sample_id=raw["id"], output=output)
        yield line, row | {ours: _number(raw.get(name)) for name, ours in _SCORERS.items()}


def _model_and_setting(path: PurePath) -> tuple[str, str]:
    """Return the model and setting that the path names; `preds.csv` has the name of its folder."""
    stem = path.stem.removeprefix("normalized_")
    match = _NAME.fullmatch(path.parent.name if stem == "preds" and path.parent.name else stem)
    assert match is not None, "the pattern matches every text"
    return match["model"] or path.stem, _SETTINGS[match["setting"] or ""]


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


READER: Final = PredictionsReader(accepts=lambda path: path.suffix == ".csv", rows=_rows)
