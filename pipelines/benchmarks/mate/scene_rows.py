"""Collect the rows of one scene, which lie in several files, into one sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipelines.benchmarks.mate.row_parser import read_row, row_id
from pipelines.benchmarks.mate.rows import COT, CROSSMODAL, SETTINGS, MateRow
from pipelines.benchmarks.mate.scene import TASKS, Scene
from pipelines.benchmarks.records import MediaFile, Notice, RawSample, Rejection, Source
from pipelines.errors import SourceError

PICTURE: Final = "picture"
WHITE: Final = "white"
WHITE_NAME: Final = "0" * 32 + ".png"  # the picture of all `txt2txt` rows

SMALL_LIMIT: Final = 6  # scenes that have every task, as far as the data have it
KINDS: Final[Mapping[str, tuple[str, ...]]] = {"mm": CROSSMODAL, "um": ("img2img", "txt2txt")}
"""First part of a file's name -> its tasks."""
_BAD_PICTURE = "the picture {0} is missing"


@dataclass(slots=True)
class SceneRows:
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
class SceneCollection:
    """All scenes, with their counts and oddities."""

    scenes: dict[str, SceneRows] = field(default_factory=dict)
    odd: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, row: MateRow, file: str) -> Rejection | None:
        """Add a row; the first row of a key stays, and the first row's scene and picture are the sample's."""
        entry = self.scenes.get(row.sample_id)
        problem = _conflict(entry, row)
        if problem:
            return Rejection(file=file, item=row.sample_id, reason=problem)
        for oddity in row.odd:
            self.note(oddity, f"{file}: {row.sample_id}")
        if entry is None:
            entry = self.scenes.setdefault(row.sample_id, SceneRows(file, row.scene))
        entry.rows[row.key] = replace(row, scene=entry.scene)  # one scene in memory for all of its rows
        self.counts[row.key] += 1
        if row.question.task != "txt2txt":
            entry.image = entry.image or row.image
        return None

    def ordered(self, names: Sequence[str]) -> list[str]:
        """Return the scenes in an order in which a small `--limit` reaches every task: the given one where it does.

        Otherwise the first scene of each task moves to the front.
        """
        first, reached, small = [], set[str](), set[str]()
        for index, name in enumerate(names):
            tasks = {task for task, _ in self.scenes[name].rows}
            first += [] if tasks <= reached else [name]
            reached |= tasks
            small |= tasks if index < SMALL_LIMIT else set()
        return list(names) if small == reached else list(dict.fromkeys((*first, *names)))

    def note(self, oddity: str, location: str) -> None:
        """Record an oddity and its location."""
        self.odd.setdefault(oddity, []).append(location)

    def notices(self) -> Iterator[Notice]:
        """Return the oddities, each kind once."""
        for scene in self.scenes.values():
            for task in CROSSMODAL:
                plain, cot = (scene.rows.get((task, setting)) for setting in ("2-shot", COT))
                if plain and cot and (plain.question, str(plain.gold)) != (cot.question, str(cot.gold)):
                    name = cot.sample_id
                    self.note("2-shot and 2-shot-cot ask different questions; they should be the same", name)
        for oddity, locations in self.odd.items():
            more = f" and {len(locations) - 1:,} more" if len(locations) > 1 else ""
            yield Notice(f"{oddity} ({locations[0]}{more})")
        for first, second in KINDS.values():
            for setting in SETTINGS:
                first_count, second_count = self.counts[first, setting], self.counts[second, setting]
                if first_count != second_count:
                    yield Notice(
                        f"{setting}: {first_count:,} rows of {first}, {second_count:,} of {second};"
                        " the counts should be equal"
                    )


def _conflict(entry: SceneRows | None, row: MateRow) -> str:
    """Return why a row contradicts those that its scene has already; '' where it does not."""
    if entry is None:
        return ""
    if row.key in entry.rows:
        return f"duplicate row of {row.question.task}, {row.setting}; the first is kept"
    if row.scene != entry.scene:
        return f"its scene differs from that of the same id in {entry.file}"
    if row.question.task != "txt2txt" and entry.image and row.image and entry.image != row.image:
        return f"its picture {row.image!r:.60} differs from that of its other rows, {entry.image!r:.60}"
    return ""


def missing_picture(row: MateRow, pictures: Collection[str], file: str) -> Rejection | None:
    """Return the rejection of a row that shows a picture which is none of the source's files; None otherwise."""
    path = f"img/{row.image or row.sample_id + '.png'}"
    if row.question.task == "txt2txt" or path in pictures:
        return None
    item = f"{row.sample_id} {row.question.task} {row.setting}"
    return Rejection(file=file, item=item, reason=_BAD_PICTURE.format(path))


def parse_row(raw: Any, location: str, setting: str | None, tasks: tuple[str, ...]) -> tuple[str, MateRow | str]:
    """Return the id and the row, or the id (else its location in the file) and why it cannot be used."""
    try:
        location = row_id(raw)
        return location, read_row(raw, setting=setting, tasks=tasks)
    except (ValueError, OverflowError, RecursionError) as error:  # numbers beyond a double, lists nested without end
        return location, str(error) or type(error).__name__


def sample_of(
    name: str, entry: SceneRows, picture: MediaFile | None, white: MediaFile | None, path: str
) -> Iterator[RawSample | Rejection]:
    """Yield the sample of one scene; without a picture only its `txt2txt` rows."""
    rows = entry.rows
    if picture is None:
        rows = {key: row for key, row in entry.rows.items() if key[0] == "txt2txt"}
        for task, setting in entry.rows.keys() - rows.keys():
            yield Rejection(file=entry.file, item=f"{name} {task} {setting}", reason=_BAD_PICTURE.format(path))
    if not rows:
        return
    needs_white = white is not None and any(task == "txt2txt" for task, _ in rows)
    media_files = (picture if entry.pictured else None, white if needs_white else None)
    count = len(entry.scene.objects)
    yield RawSample(
        sample_id=name,
        file=entry.file,
        category=f"{count} objects",
        cluster="" if media_files[0] else name,
        media=tuple(file for file in media_files if file is not None),
        data={
            "scene": {
                "camera_location": list(entry.scene.camera_location),
                "objects": [item.as_json() for item in entry.scene.objects],
            },
            "generated": any(row.generated for row in rows.values()),
            "rows": [rows[key].as_data() for key in sorted(rows, key=_order)],
        },
    )


def _order(key: tuple[str, str]) -> tuple[int, int]:
    return list(TASKS).index(key[0]), SETTINGS.index(key[1])


def picture_problem(source: Source, picture: MediaFile) -> str:
    """Return why a picture cannot be shown; '' where it can."""
    try:
        content = source.read_bytes(picture.path) if picture.content is None else picture.content
        source.pixels(content, 1)
    except SourceError as error:
        return f"cannot be decoded ({error})"
    return ""
