"""Read MATE as distributed: the development folder of JSONL files and pictures, or the public version's Parquet.

The rows of one scene are spread over seven files or two splits and become one sample.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipelines.benchmarks.mate.rows import COT, SETTINGS, MateRow, derived_rows, read_row, row_id
from pipelines.benchmarks.mate.scene import CROSSMODAL, FILE_KINDS, TASKS, Scene
from pipelines.benchmarks.parquet_source import (
    MAX_PICTURE_BYTES,
    MAX_TEXT_BYTES,
    open_parquet,
    parquet_rows,
    picture_bytes,
)
from pipelines.benchmarks.records import MediaFile, RawSample, Rejection, Source, SourceWarning
from pipelines.errors import SourceError

PICTURE: Final = "picture"
WHITE: Final = "white"
WHITE_NAME: Final = "0" * 32 + ".png"  # the picture of all `txt2txt` rows

SMALL_LIMIT: Final = 6  # scenes that have every task, as far as the data have it
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

    def warnings(self) -> Iterator[SourceWarning]:
        """Return the oddities, each kind once."""
        for scene in self.scenes.values():
            for task in CROSSMODAL:
                plain, cot = (scene.rows.get((task, setting)) for setting in ("2-shot", COT))
                if plain and cot and (plain.question, str(plain.gold)) != (cot.question, str(cot.gold)):
                    name = cot.sample_id
                    self.note("2-shot and 2-shot-cot ask different questions; they should be the same", name)
        for oddity, locations in self.odd.items():
            more = f" and {len(locations) - 1:,} more" if len(locations) > 1 else ""
            yield SourceWarning(f"{oddity} ({locations[0]}{more})")
        generated = any(row.generated for scene in self.scenes.values() for row in scene.rows.values())
        for first, second in FILE_KINDS.values():
            for setting in SETTINGS:
                first_count, second_count = self.counts[first, setting], self.counts[second, setting]
                odd = (first_count + second_count) % 2 if generated else 0  # an odd number of scenes has no halves
                if abs(first_count - second_count) > odd:
                    yield SourceWarning(
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
            "rows": [
                rows[key].as_data()
                for key in sorted(rows, key=lambda key: (list(TASKS).index(key[0]), SETTINGS.index(key[1])))
            ],
        },
    )


def picture_problem(source: Source, picture: MediaFile) -> str:
    """Return why a picture cannot be shown; '' where it can."""
    try:
        content = source.read_bytes(picture.path) if picture.content is None else picture.content
        source.pixels(content, 1)
    except SourceError as error:
        return f"cannot be decoded ({error})"
    return ""


_FILE = re.compile(r"(mm|um)_([012])shot(_cot)?\.jsonl")


def read_mate(source: Source) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read whichever form the folder holds; SourceError where it holds neither."""
    listed = source.glob("*.jsonl")
    files = [path for path in listed if _FILE.fullmatch(path)]
    tables = [path for pattern in ("*.parquet", "*/*.parquet") for path in source.glob(pattern)]
    if files:
        for path in sorted(set(listed) - set(files)):
            yield SourceWarning(f"{path}: not a file of MATE (mm_0shot.jsonl and so on), skipped")
        if tables:
            yield SourceWarning("Parquet files next to the JSONL files are skipped")
        yield from _development(source, files)
    elif tables:
        yield from read_public(source, tables)
    else:
        raise SourceError(
            f"{source.uri}: neither mm_*shot.jsonl or um_*shot.jsonl (with img/) nor *.parquet, here or in data/"
        )


def _development(source: Source, files: list[str]) -> Iterator[RawSample | Rejection | SourceWarning]:
    collection, pictures = SceneCollection(), set(source.glob("img/*"))
    for path in files:
        for item, row in _lines(source, path):
            problem = row if isinstance(row, str) else missing_picture(row, pictures, path) or collection.add(row, path)
            if problem is not None:
                yield problem if isinstance(problem, Rejection) else Rejection(file=path, item=item, reason=problem)
    yield from collection.warnings()
    white, warning = None, None
    if f"img/{WHITE_NAME}" in pictures:
        white = MediaFile(role=WHITE, kind="image", path=f"img/{WHITE_NAME}")
        warning = picture_problem(source, white)
    if warning:
        white = None
        yield SourceWarning(f"img/{WHITE_NAME}: {warning}; a white picture of 480 x 320 replaces it")
    for name in collection.ordered(list(collection.scenes)):
        entry = collection.scenes[name]
        path = f"img/{entry.image or name + '.png'}"
        picture = MediaFile(role=PICTURE, kind="image", path=path) if path in pictures else None
        yield from sample_of(name, entry, picture, white, path)


def _lines(source: Source, path: str) -> Iterator[tuple[str, MateRow | str]]:
    """Yield the rows of one file, or the reasons why lines are invalid, with their ids or line numbers."""
    match = _FILE.fullmatch(path)
    assert match
    kind, shots, cot = match.groups()
    if cot and (kind, shots) != ("mm", "2"):
        raise SourceError(f"{source.uri}/{path}: only mm_2shot_cot.jsonl may contain prompts with steps")
    setting = COT if cot else SETTINGS[int(shots)]
    for number, line in enumerate(source.read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield _read(line, f"line {number}", setting, FILE_KINDS[kind])


def _read(line: bytes, location: str, setting: str, tasks: tuple[str, ...]) -> tuple[str, MateRow | str]:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        return location, f"not JSON: {error}"
    return parse_row(raw, location, setting, tasks)


_COLUMNS: Final = ("id", "scene", "question", "answer", "task", "pointer_attribute", "target_attribute")
_BATCH: Final = 64  # rows per batch with pictures


def read_public(source: Source, paths: list[str]) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read texts first, then pictures batch by batch: they are never all in memory.

    Raises:
        SourceError: a file is no Parquet, or lacks a column.
    """
    collection, bare = SceneCollection(), 0
    for path in paths:
        for location, raw in _records(source, path, with_picture=False):
            item, row = parse_row(raw, location, None, tuple(TASKS))
            if isinstance(row, str):
                yield Rejection(file=path, item=item, reason=row)
                continue
            if (problem := collection.add(row, path)) is not None:
                yield problem
            elif row.text is None:
                bare += 1
                for derived_row in derived_rows(row):
                    collection.add(derived_row, path)
    yield from collection.warnings()
    if bare:
        yield SourceWarning(
            f"{bare:,} rows hold a question and no prompt: their prompts are built, and for 1-shot, 2-shot and"
            " 2-shot-cot with solved examples drawn from the scene, so that numbers are not the published ones'"
        )
    yield from _with_pictures(source, paths, collection)


def _with_pictures(
    source: Source, paths: list[str], collection: SceneCollection
) -> Iterator[RawSample | Rejection | SourceWarning]:
    white = _white(source, paths)
    if white is not None and (problem := picture_problem(source, white)):
        yield SourceWarning(
            f"{white.path}: {problem}; a white picture of 480 x 320 replaces all pictures of txt2txt rows"
        )
        white = None
    names = sorted(collection.scenes, key=lambda name: not collection.scenes[name].pictured)
    ordered = collection.ordered(names)
    split = 0 if ordered == names else len(TASKS)
    for names in filter(None, (ordered[:split], ordered[split:])):  # pictures come as the files have them
        waiting = {name for name in names if collection.scenes[name].pictured}
        for path in paths:
            for _, raw in _records(source, path, with_picture=True) if waiting else ():
                name, content = raw["id"], picture_bytes(raw.get("image"))
                if name in waiting and content and not _is_text_only(raw):
                    waiting.remove(name)
                    picture = MediaFile(role=PICTURE, kind="image", path=f"{path}:{name}.png", content=content)
                    yield from sample_of(name, collection.scenes[name], picture, white, path)
        for name in names:
            if name in waiting or not collection.scenes[name].pictured:
                yield from sample_of(name, collection.scenes[name], None, white, f"of {name}")


def _white(source: Source, paths: list[str]) -> MediaFile | None:
    """Return the first picture of a `txt2txt` row; it stands for all of them."""
    for path in paths:
        for _, raw in _records(source, path, with_picture=True):
            if _is_text_only(raw) and (content := picture_bytes(raw.get("image"))):
                return MediaFile(role=WHITE, kind="image", path=f"{path}:{WHITE_NAME}", content=content)
    return None


def _is_text_only(raw: Mapping[str, Any]) -> bool:
    return str(raw["task"]).strip() in ("txt2txt", "data2data")


def _records(source: Source, path: str, *, with_picture: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield rows with their locations; the picture's column next to id and task, or all the others."""
    where = f"{source.uri}/{path}"
    file = open_parquet(source.read_bytes(path), where, _COLUMNS)
    names = [
        name
        for name in file.schema_arrow.names
        if (name in ("id", "task", "image")) == with_picture or name in ("id", "task")
    ]
    max_bytes = MAX_PICTURE_BYTES if with_picture else MAX_TEXT_BYTES
    for number, raw in enumerate(parquet_rows(file, names, rows=_BATCH, max_bytes=max_bytes, where=where), start=1):
        yield f"row {number}", raw
