"""Write annotation forms: pages with their own script and style, allowed by hash, and all foreign text escaped."""

import base64
import csv
import hashlib
import io
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from models.errors import YamlFileError
from models.messages import DEFAULT_SEED, Media
from models.strict_yaml import read_text
from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.human import AnnotationForm, AnnotationItem
from pipelines.benchmarks.records import MediaRef, Row, Sample, is_person
from pipelines.errors import DatasetError, DecodeError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import DRAW_RECORD
from pipelines.media.decoder import Decoder
from pipelines.plan.planner import ids_of_other_prompt_sets
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.plan.selection import check_names
from pipelines.rendering.contact_sheet import contact_sheet
from pipelines.rendering.environment import csv_cell, environment, page_head
from pipelines.score.text_scorers import ScoringContext, rows_of
from pipelines.storage.parts import iter_parts, part_folder, read_part
from pipelines.storage.store import Store, publish_files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationSpec:
    """The items to sample from an output, and their annotators; empty names select everything."""

    out: str
    benchmark: str
    n: int
    people: tuple[str, ...]  # codes, one form per person
    strata: tuple[str, ...] = ()  # empty: those of the benchmark's form
    models: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    suspects: Path | None = None  # `items.csv`, of whose suspect labels alone items are drawn
    seed: int = DEFAULT_SEED


def create_forms(spec: AnnotationSpec, folder: Path) -> list[Path]:
    """Draw items and write one page per person, and `draw.json` with what was drawn; return the pages.

    Raises:
        UsageError: the output has no such benchmark or answers, an unknown stratum, or a folder that is not writable.
        DatasetError: the data is missing, damaged or not what the models were asked.
    """
    entries = _entries(spec)
    dataset = Dataset.open(Store(entries[0].data), spec.benchmark)
    for entry in entries:
        dataset.check_fingerprint(entry.prompts.dataset_fingerprint)
    suspects = _suspects(spec)
    form = entries[0].definition.human.annotation_form(
        (sample for sample in dataset.samples() if _is_among(suspects, sample)),
        (row for entry in entries for row in _rows(entry, spec) if _is_among(suspects, row.sample)),
    )
    if form is None:
        raise UsageError(f"--benchmark {spec.benchmark}: it declares no annotation form")
    items = [item for item in form.items if _is_selected(item, spec)]
    if not items:
        chosen = "models, tasks and settings"
        chosen += "" if suspects is None else f", and of the {len(suspects)} suspects of {spec.suspects}"
        raise UsageError(f"{spec.out}: {spec.benchmark} has nothing to annotate in these {chosen}")
    strata = spec.strata or tuple(form.default_strata)
    check_names("stratum of --by", strata, list(items[0].strata))
    selected = draw(items, spec.n, strata, spec.seed)
    if len(selected) < spec.n:
        log.warning("--n %d: there are %d items, and all are drawn", spec.n, len(selected))
    return _write(spec, form, selected, dataset, folder)


def _entries(spec: AnnotationSpec) -> list[ManifestEntry]:
    run = load_existing_run(Store(spec.out))
    entries = [entry for entry in run.entries if entry.benchmark == spec.benchmark and not is_person(entry.model)]
    if not entries:
        names = ", ".join(sorted({entry.benchmark for entry in run.entries})) or "none"
        raise UsageError(f"{spec.out}: holds no answers of models to {spec.benchmark}; benchmarks there: {names}")
    check_names("model", spec.models, [entry.model for entry in entries])
    return [entry for entry in entries if not spec.models or entry.model in spec.models]


def _rows(entry: ManifestEntry, spec: AnnotationSpec) -> Iterator[Row]:
    """Yield a model's answers in the tasks and settings of the sweep."""
    out, context = Store(spec.out), ScoringContext.open(entry.data, entry.prompts)
    groups = {(group.task, group.setting) for group in entry.prompts.task_settings}
    for path, _ in iter_parts(out, part_folder("predictions", entry.benchmark, entry.model), ["request_id"]):
        other_set_ids = ids_of_other_prompt_sets(out, entry, path)
        for row in rows_of(read_part(out, path), context):
            is_shown = row.status == "ok" and not row.repeat and row.request_id not in other_set_ids
            if is_shown and (row.task, row.setting) in groups and _is_wanted(row.task, row.setting, spec):
                yield row


def _suspects(spec: AnnotationSpec) -> set[str] | None:
    """Return the ids of samples with a suspect label as `items.csv` writes them; None for no such file."""
    if spec.suspects is None:
        return None
    try:
        rows = CsvRows(read_text(spec.suspects, "items.csv").removeprefix("\ufeff"))
        if missing := {"benchmark", "sample_id", "suspect"}.difference(rows.columns):
            raise UsageError(f"--suspects {spec.suspects}: has no column {min(missing)}; give the items.csv of `items`")
        read = [row for _, row in rows.read() if isinstance(row, dict)]
    except (YamlFileError, csv.Error) as error:
        raise UsageError(f"--suspects {spec.suspects}: {error}; give the items.csv that `items` wrote") from error
    return {row["sample_id"] for row in read if row["benchmark"] == spec.benchmark and row["suspect"] == "True"}


def _is_among(suspects: Collection[str] | None, sample: Sample) -> bool:
    return suspects is None or csv_cell(sample.sample_id) in suspects


def _is_wanted(task: str | None, setting: str | None, spec: AnnotationSpec) -> bool:
    return (not spec.tasks or task in (None, *spec.tasks)) and (not spec.settings or setting in (None, *spec.settings))


def _is_selected(item: AnnotationItem, spec: AnnotationSpec) -> bool:
    return _is_wanted(item.strata.get("task"), item.strata.get("setting"), spec)


def _write(
    spec: AnnotationSpec, form: AnnotationForm, selected: Sequence[AnnotationItem], dataset: Dataset, folder: Path
) -> list[Path]:
    with Decoder() as decoder:
        refs = {ref.sha256: ref for item in selected for ref in item.pictures}
        pictures = {sha256: data_uri(dataset, ref, decoder) for sha256, ref in refs.items()}
    record = {
        "benchmark": spec.benchmark,
        "dataset_fingerprint": dataset.manifest.dataset_fingerprint,
        "seed": spec.seed,
        "people": list(spec.people),
        "items": [{"item": item.item_id, **item.strata} for item in selected],
    }
    pages = {
        f"{spec.benchmark}-{person}.html": form_page(
            spec.benchmark, form, _for_person(selected, person, spec.seed), person, pictures
        ).encode("utf-8", "replace")
        for person in spec.people
    }
    publish_files(Store(str(folder)), {**pages, DRAW_RECORD: f"{json.dumps(record, indent=1)}\n".encode()})
    return [folder / name for name in pages]


def _for_person(selected: Sequence[AnnotationItem], person: str, seed: int) -> list[AnnotationItem]:
    """Return the items in a person's own order, and the parts of each in an order that hides the systems."""
    return [
        replace(
            item,
            parts=sorted(item.parts, key=lambda part: order_key(seed, person, item.item_id, *part.fields.values())),
        )
        for item in sorted(selected, key=lambda item: order_key(seed, person, item.item_id))
    ]


_PACKAGE: Final = "jobs.annotate"
_FRAMES: Final = 8  # of a clip that a form shows


def form_page(
    benchmark: str,
    form: AnnotationForm,
    items: Sequence[AnnotationItem],
    person: str,
    pictures: Mapping[str, str],
) -> str:
    """Return the page of one person; `pictures` holds a `data:` address by the hash of each picture."""
    head = {"benchmark": benchmark, "kind": form.kind, "annotator_column": form.annotator, "annotator": person}
    return (
        environment(_PACKAGE)
        .get_template("form.html.j2")
        .render(
            **page_head("form.css", "form.js", _PACKAGE, images="data:"),
            form=form,
            items=items,
            person=person,
            pictures=pictures,
            frames=_FRAMES,
            head=_as_json({**head, "preferred": form.preferred, "draw": draw_id(items)}),
            as_json=_as_json,
        )
    )


def draw_id(items: Sequence[AnnotationItem]) -> str:
    """Return what distinguishes this draw from others, independently of the order of its items."""
    return hashlib.sha256("\n".join(sorted(item.item_id for item in items)).encode()).hexdigest()[:16]


def _as_json(values: Mapping[str, str]) -> str:
    return json.dumps(dict(values), ensure_ascii=True, sort_keys=True)


_SIDE: Final = 1024  # longest side in pixels
_FRAME_SIDE: Final = 512  # of a frame of a clip
_COLUMNS: Final = 2  # of frames
_QUALITY: Final = 85


def data_uri(dataset: Dataset, ref: MediaRef, decoder: Decoder) -> str:
    """Return a picture, or frames of a clip, as a `data:` address; DatasetError for one that is missing or damaged."""
    path = f"media/{ref.sha256}{ref.extension}"
    media = Media(ref.kind, ref.sha256, _FRAMES if ref.kind == "video" else 0)
    try:
        frames = decoder.decode(dataset.store, path, media, _SIDE * _SIDE, dataset.manifest.decoders_of(ref.sha256))
    except DecodeError as error:
        raise DatasetError(f"{dataset.store.uri}/{path}: cannot be decoded ({error}); ingest again") from error
    picture = contact_sheet(frames, _FRAME_SIDE, _COLUMNS)
    if ref.kind == "image":
        picture.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def draw(items: Sequence[AnnotationItem], n: int, strata: Sequence[str], seed: int) -> list[AnnotationItem]:
    """Draw `n` items, or all if there are fewer, spread over strata as evenly as possible.

    Strata take turns in an order that the seed determines; one whose items are used up passes its turn on. Within a
    stratum the order of items is that of a hash of seed and id, so that a larger draw contains a smaller one.
    """
    groups: dict[tuple[str, ...], list[AnnotationItem]] = {}
    for item in sorted(items, key=lambda item: order_key(seed, item.item_id)):
        groups.setdefault(tuple(item.strata[name] for name in strata), []).append(item)
    turns = [groups[key] for key in sorted(groups, key=lambda key: order_key(seed, *key))]
    selected: list[AnnotationItem] = []
    for rank in range(max((len(group) for group in turns), default=0)):
        selected += [group[rank] for group in turns if rank < len(group)]
    return selected[:n]


def order_key(seed: int, *names: str) -> str:
    """Return a sort key that orders names at random, determined by the seed and the names alone."""
    return hashlib.sha256("\x1f".join((str(seed), *names)).encode("utf-8", "surrogatepass")).hexdigest()
