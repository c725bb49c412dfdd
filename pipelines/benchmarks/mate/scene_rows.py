"""Collect the rows of one scene, which lie in several files, into one sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipelines.benchmarks.mate.row_parser import read_row, row_id
from pipelines.benchmarks.mate.rows import COT, CROSSMODAL, SETTINGS, MateRow
from pipelines.benchmarks.mate.scene import TASKS, Scene
from pipelines.benchmarks.records import MediaFile, Notice, RawSample, Rejection
from pipelines.benchmarks.source import Source
from pipelines.errors import SourceError

PICTURE: Final = "picture"
WHITE: Final = "white"
WHITE_NAME: Final = "0" * 32 + ".png"  # the picture of all `txt2txt` rows

KINDS: Final[Mapping[str, tuple[str, ...]]] = {"mm": CROSSMODAL, "um": ("img2img", "txt2txt")}
"""First part of a file's name -> its tasks."""
_BAD_PICTURE = "the picture {0} is missing"


@dataclass(slots=True)
class KnownScene:
    """The rows and the picture of one scene so far."""

    file: str
    scene: Scene
    rows: dict[tuple[str, str], MateRow] = field(default_factory=dict)
    image: str = ""

    @property
    def pictured(self) -> bool:
        """Whether any of its rows shows the picture."""
        return any(task != "txt2txt" for task, _ in self.rows)


@dataclass(slots=True)
class Gathered:
    """All scenes, and what is odd about them."""

    scenes: dict[str, KnownScene] = field(default_factory=dict)
    odd: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, row: MateRow, file: str) -> Rejection | None:
        """Add a row; the first row of a key stays, and the first row's scene and picture are the sample's."""
        known_names = self.scenes.get(row.sample_id)
        problem = _conflict(known_names, row)
        if problem:
            return Rejection(file=file, item=row.sample_id, reason=problem)
        for oddity in row.odd:
            self.note(oddity, f"{file}: {row.sample_id}")
        if known_names is None:
            known_names = self.scenes.setdefault(row.sample_id, KnownScene(file, row.scene))
        known_names.rows[row.key] = replace(row, scene=known_names.scene)  # one scene in memory for all of its rows
        self.counts[row.key] += 1
        if row.question.task != "txt2txt":
            known_names.image = known_names.image or row.image
        return None

    def note(self, oddity: str, where: str) -> None:
        """Record an oddity at some place."""
        self.odd.setdefault(oddity, []).append(where)

    def notices(self) -> Iterator[Notice]:
        """Return the oddities, each kind once."""
        for scene in self.scenes.values():
            for task in CROSSMODAL:
                two, cot = (scene.rows.get((task, setting)) for setting in ("2-shot", COT))
                if two and cot and (two.question, str(two.gold)) != (cot.question, str(cot.gold)):
                    name = cot.sample_id
                    self.note("2-shot and 2-shot-cot ask different questions, which the data promise not to", name)
        for oddity, places in self.odd.items():
            more = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
            yield Notice(f"{oddity} ({places[0]}{more})")
        for first, second in KINDS.values():
            for setting in SETTINGS:
                item, other = self.counts[first, setting], self.counts[second, setting]
                if item != other:
                    yield Notice(
                        f"{setting}: {item:,} rows of {first}, {other:,} of {second}; they are meant to be equal"
                    )


def _conflict(known: KnownScene | None, row: MateRow) -> str:
    """Return why a row contradicts those that its scene has already; '' where it does not."""
    if known is None:
        return ""
    if row.key in known.rows:
        return f"duplicate row of {row.question.task}, {row.setting}; the first is kept"
    if row.scene != known.scene:
        return f"its scene is not that of the same id in {known.file}"
    if row.question.task != "txt2txt" and known.image and row.image and known.image != row.image:
        return f"its picture {row.image!r:.60} is not that of its other rows, {known.image!r:.60}"
    return ""


def checked(raw: Any, place: str, setting: str | None, tasks: tuple[str, ...]) -> tuple[str, MateRow | str]:
    """Return the id and the row, or the id (else its place in the file) and why it cannot be used."""
    try:
        place = row_id(raw)
        return place, read_row(raw, setting=setting, tasks=tasks)
    except (ValueError, OverflowError, RecursionError) as error:  # numbers beyond a double, lists nested without end
        return place, str(error) or type(error).__name__


def sample_of(
    name: str, known: KnownScene, picture: MediaFile | None, white: MediaFile | None, path: str
) -> Iterator[RawSample | Rejection]:
    """Return one scene with the rows that can be asked; without its picture only `txt2txt` can."""
    rows = known.rows
    if picture is None:
        rows = {key: row for key, row in known.rows.items() if key[0] == "txt2txt"}
        for task, setting in known.rows.keys() - rows.keys():
            yield Rejection(file=known.file, item=f"{name} {task} {setting}", reason=_BAD_PICTURE.format(path))
    if not rows:
        return
    needs_white = white is not None and any(task == "txt2txt" for task, _ in rows)
    expected = (picture if known.pictured else None, white if needs_white else None)
    count = len(known.scene.objects)
    yield RawSample(
        sample_id=name,
        file=known.file,
        category=f"{count} objects",
        cluster="" if expected[0] else name,
        media=tuple(file for file in expected if file is not None),
        data={
            "scene": {
                "camera_location": list(known.scene.camera_location),
                "objects": [item.as_json() for item in known.scene.objects],
            },
            "generated": any(row.generated for row in rows.values()),
            "rows": [rows[key].as_data() for key in sorted(rows, key=_order)],
        },
    )


def _order(key: tuple[str, str]) -> tuple[int, int]:
    return list(TASKS).index(key[0]), SETTINGS.index(key[1])


def unusable(source: Source, picture: MediaFile) -> str:
    """Return why a picture cannot be shown; '' where it can."""
    try:
        content = source.read_bytes(picture.path) if picture.content is None else picture.content
        source.pixels(content, 1)
    except SourceError as error:
        return f"cannot be decoded ({error})"
    return ""
