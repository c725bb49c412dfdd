"""Read V-FLUTE's rows in the hub's form, and eViL's e-SNLI-VE as distributed, without neutral rows.

Data of eViL: `esnlive_train.csv` of github.com/maximek3/e-ViL (Kayser et al. 2021), pictures of Flickr30k.
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

from jobs.finetune.checkpoints import ExampleRow
from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.records import Rejection, Source
from pipelines.benchmarks.vflute.facts import LABELS
from pipelines.benchmarks.vflute.prompts import PAPER_TEMPLATES, WHITE, fill_claim, solved_answer
from pipelines.benchmarks.vflute.source import hub_files, hub_rows
from pipelines.errors import SourceError

_FILES: Final = ("esnlive_train.csv", "data/esnlive_train.csv")
_FOLDERS: Final = (
    *("", "flickr30k_images/", "flickr30k-images/", "flickr30k_images/flickr30k_images/", "images/"),
    *("data/flickr30k_images/", "data/flickr30k_images/flickr30k_images/"),
)
"""Folders of the pictures, as archives of Flickr30k unpack."""
_COLUMNS: Final = ("pairID", "Flickr30kID", "hypothesis", "gold_label", "explanation")
_NEUTRAL: Final = "neutral"


def evil_rows(source: Source) -> Iterator[ExampleRow | Rejection]:
    """Yield the training rows that entail or contradict; a picture's bytes come with its first row.

    Raises:
        SourceError: there is no `esnlive_train.csv`, or it is unreadable or lacks a column.
    """
    path = next((path for path in _FILES if source.exists(path)), "")
    if not path:
        raise SourceError(
            f"{source.uri}: no esnlive_train.csv; give the folder of e-SNLI-VE (github.com/maximek3/e-ViL)"
        )
    pictures = _Pictures(source)
    for number, fields in _csv_rows(source, path):
        if isinstance(fields, ValueError):
            yield Rejection(file=path, item=f"line {number}", reason=str(fields))
            continue
        if fields["gold_label"] == _NEUTRAL:
            continue
        problem = _problem(fields) or pictures.find(fields["Flickr30kID"])
        if problem:
            yield Rejection(file=path, item=f"line {number}", reason=problem)
            continue
        yield ExampleRow(
            row_id=f"evil-{fields['pairID']}",
            file=path,
            instruction=fill_claim(drawn_template(fields["pairID"]), fields["hypothesis"]),
            answer=solved_answer(fields["explanation"], fields["gold_label"]),
            picture=f"flickr30k/{fields['Flickr30kID']}",
            content=pictures.content(fields["Flickr30kID"]),
        )


class _Pictures:
    """Finds pictures in the folders that archives unpack to, and reads each once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._folder = ""
        self._paths: dict[str, str | None] = {}  # None: read

    def find(self, name: str) -> str:
        """Return why there is no such picture, '' if there is one."""
        if name in self._paths:
            return ""
        for folder in dict.fromkeys((self._folder, *_FOLDERS)):
            if self._source.exists(folder + name):
                self._folder, self._paths[name] = folder, folder + name
                return ""
        return f"no picture {name} in {self._source.uri} or its folder flickr30k_images"

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a picture that was found; None if they were returned before."""
        path, self._paths[name] = self._paths[name], None
        return None if path is None else self._source.read_bytes(path)


def _csv_rows(source: Source, path: str) -> Iterator[tuple[int, Mapping[str, str] | ValueError]]:
    """Yield line number and fields, or why a row cannot be used."""
    where = f"{source.uri}/{path}"
    try:
        rows = CsvRows(source.read_bytes(path).decode("utf-8-sig"))
        missing = [name for name in _COLUMNS if name not in rows.columns]
        if missing:
            raise SourceError(f"{where}: no column {', '.join(missing)}; found {', '.join(rows.columns)}")
        yield from rows.read(_COLUMNS)
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{where}: cannot be read ({error}); fetch the file again") from error


def _problem(fields: Mapping[str, str | None]) -> str:
    """Return what is wrong with a row, '' if nothing."""
    blank = [name for name in _COLUMNS if not (fields.get(name) or "").strip()]
    if blank:
        return f"no {', '.join(blank)}"
    if fields["gold_label"] not in LABELS:
        return f"gold_label {fields['gold_label']!r} is not entailment, contradiction or neutral"
    return ""


_TEMPLATES: Final = sorted(PAPER_TEMPLATES.values())


def vflute_rows(source: Source, split: str, *, white: bool) -> Iterator[ExampleRow | Rejection]:
    """Yield the rows of `data/SPLIT-*.parquet`; `white` replaces their pictures by the white square.

    Raises:
        SourceError: the split has no files, some are missing, or one is unreadable.
    """
    files = hub_files(source, split)
    if not files:
        raise SourceError(
            f"{source.uri}: no data/{split}-*.parquet; give the folder of huggingface.co/datasets/ColumbiaNLP/V-FLUTE"
        )
    for row in hub_rows(source, files, split):
        if isinstance(row, Rejection):
            yield row
            continue
        yield ExampleRow(
            row_id=row.row.id,
            file=row.file,
            instruction=fill_claim(drawn_template(row.row.id), row.row.claim),
            answer=solved_answer(row.row.explanation, row.row.label),
            picture=WHITE.source if white else hashlib.sha256(row.picture).hexdigest(),
            content=None if white else row.picture,
        )


def drawn_template(row_id: str) -> str:
    """Return one of the paper's 21 instructions, drawn by the row's id; the authors' own draw is not published."""
    return _TEMPLATES[int(hashlib.sha256(row_id.encode()).hexdigest(), 16) % len(_TEMPLATES)]
