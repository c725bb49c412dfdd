"""Easy-VQA 1.0 (MIT) from its wheel, in the two forms in which people have their questions."""

from __future__ import annotations

import base64
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REQUIREMENT = "easy-vqa==1.0 --hash=sha256:fcb51b309b78c7b00f97b64cdbcbcf5c105f94da1b39c0796cee5a787c4f650f"
SHAPES = ("circle", "rectangle", "triangle")


@dataclass(frozen=True)
class Question:
    """One question about one picture, and the kind of its answer."""

    id: str
    text: str
    answer: str
    picture: int

    @property
    def kind(self) -> str:
        return "yes/no" if self.answer in ("yes", "no") else "shape" if self.answer in SHAPES else "color"


def fetch(folder: Path) -> str:
    """Install the package under a folder; return why it cannot be had, '' where it can."""
    (folder / "requirements.txt").write_text(f"{REQUIREMENT}\n")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--target", str(folder), "-r", str(folder / "requirements.txt")]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


def questions(folder: Path) -> list[Question]:
    """Return the questions of the test part in their order."""
    rows = json.loads((folder / "easy_vqa/data/test/questions.json").read_text())
    return [Question(f"q{n}", text, answer, picture) for n, (text, answer, picture) in enumerate(rows)]


def picture(folder: Path, number: int) -> Path:
    return folder / f"easy_vqa/data/test/images/{number}.png"


def write_jsonl(folder: Path, rows: list[Question], to: Path) -> None:
    """Write rows with paths of their pictures, copied from the package."""
    shutil.copytree(folder / "easy_vqa/data/test/images", to / "images")
    lines = (
        {"id": r.id, "question": r.text, "label": r.answer, "image": f"images/{r.picture}.png", "category": r.kind}
        for r in rows
    )
    (to / "questions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def write_tsv(folder: Path, rows: list[Question], to: Path) -> None:
    """Write rows as VLMEvalKit has them, each with its picture in base64."""
    with (to / "questions.tsv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("index", "image", "question", "answer", "category"))
        writer.writerows(_tsv_rows(folder, rows))


def _tsv_rows(folder: Path, rows: list[Question]) -> Iterator[tuple[str, ...]]:
    for r in rows:
        content = base64.b64encode(picture(folder, r.picture).read_bytes()).decode()
        yield r.id, content, r.text, r.answer, r.kind
