"""A small e-SNLI-VE, and a listener that remembers."""

from __future__ import annotations

import csv
from pathlib import Path

from jobs.finetune.checkpoints import TrainingEvent
from tests.support.vflute_source import picture

COLUMNS = ("", "pairID", "Flickr30kID", "hypothesis", "gold_label", "explanation")
ROWS = [
    ("0", "10.jpg#1r1c", "10.jpg", "A man is chopping a tree.", "contradiction", "Hair is no tree."),
    ("1", "10.jpg#2r1n", "10.jpg", "He is a coach.", "neutral", "We cannot know."),
    ("2", "11.jpg#0r1e", "11.jpg", "Two people are outdoors.", "entailment", "Men are people."),
    ("3", "10.jpg#3r1e", "10.jpg", 'He says "yes", loudly.', "entailment", "He does."),
]


def write_evil(folder: Path, rows: list[tuple[str, ...]] = ROWS, pictures: tuple[int, ...] = (10, 11)) -> Path:
    """Write `esnlive_train.csv` and its pictures."""
    (folder / "flickr30k_images").mkdir(parents=True)
    for number in pictures:
        (folder / "flickr30k_images" / f"{number}.jpg").write_bytes(picture(number))
    with (folder / "esnlive_train.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return folder


class Listener:
    """Remembers phases and events."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.rows = 0
        self.events: list[TrainingEvent] = []

    def phase(self, title: str) -> None:
        self.phases.append(title)

    def read(self, rows: int) -> None:
        self.rows += rows

    def event(self, event: TrainingEvent) -> None:
        self.events.append(event)
