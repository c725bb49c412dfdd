"""Build a site in a temporary folder, and publish it when it is whole."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jobs.site.folder import SiteFolder
from jobs.site.samples import TEXT_LIMITS, Samples
from models.scratch import scratch
from pipelines.clean_text import clean
from pipelines.errors import DatasetError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import ManifestEntry, load_existing_runs
from pipelines.plan.selection import check_names
from pipelines.registry import extension
from pipelines.rendering.environment import environment, inline_file
from pipelines.samples.media import MediaReader
from pipelines.samples.outputs import OUTCOMES, Output
from pipelines.samples.prompts import ShownMedia
from pipelines.samples.report_files import report_file, report_names
from pipelines.samples.rows import ExportedRun, RowReader
from pipelines.storage.backend import portable_name, short_labels
from pipelines.storage.lock_owner import LOCK
from pipelines.storage.store import Store

log = logging.getLogger("vlmsweep")

SAMPLES: Final = "samples.html"
_OUTPUTS: Final = "outputs.html.j2"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_MAX_CHOICES: Final = 300  # of a filter
_BEING_WRITTEN: Final = (
    "A run was writing this output, or was cut off: answers may be missing, the report may be older."
)
_DATA_GONE: Final = "its samples are left out, because the data that it was asked about are gone or have changed."
_NO_REPORT: Final = "The output has no report yet; `vlmsweep report` writes it."


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltSite:
    """What was written."""

    index: str
    rows: int
    files: int
    bytes: int


def build_site(
    outs: Sequence[str], to: str, *, data: str, models: Sequence[str], benchmarks: Sequence[str], with_media: bool
) -> BuiltSite:
    """Write reports, samples and leaderboard of outputs as a static site: of several each in a folder of its own.

    Raises UsageError where the folder is not ours, an output holds no run, or has too many answers for a page, and
    DatasetError where no entry's data are where the run read them.
    """
    folder, outs = SiteFolder(to), list({Store(out).uri: out for out in outs}.values())
    load_existing_runs([Store(out) for out in outs])  # refuses one name for different table benchmarks
    runs = _open_runs(outs, data, models, benchmarks)
    outs = [run.out.uri for run in runs]
    board = _board(runs, benchmarks)
    places = {label: portable_name(label) if len(outs) > 1 else "" for label in short_labels(outs)}
    if len({*map(str.lower, places.values()), "index.html", *board}) < len(outs) + 1 + len(board):  # names become one
        places = {label: f"{number}-{name}" for number, (label, name) in enumerate(places.items(), 1)}
    with ExitStack() as stack:
        temporary = stack.enter_context(scratch())
        media, staged, rows = MediaReader(temporary), temporary / "site", 0
        stack.callback(media.close)
        for name, text in board.items():
            _write(staged / name, _without_places(runs, text.encode("utf-8", "backslashreplace")))
        for run, place in zip(runs, places.values(), strict=True):
            reader = RowReader(run, stack.enter_context(PlanStore.reading(run.out)))
            at, page = staged / place, f"{'../' if place else ''}{next(iter(board))}" if board else ""
            output = Output(0, "", run.out, data)
            for name in report_names(output):
                _write(at / name, _without_places([run], report_file(output, name, _address).content))
            rows += _Builder(run, reader, _Media(media, at) if with_media else None, page).write(at)
        if len(outs) > 1:
            (style, source), template = inline_file("report.css"), environment("jobs.site").get_template(_OUTPUTS)
            page = template.render(style=style, source=source, has_board=bool(board), places=places)
            _write(staged / "index.html", _without_places(runs, page.encode("utf-8", "replace")))
        size = sum(path.stat().st_size for path in staged.rglob("*") if path.is_file())
        files = folder.publish(staged)
    return BuiltSite(index=str(folder.path / "index.html"), rows=rows, files=files, bytes=size)


def _open_runs(outs: Sequence[str], data: str, models: Sequence[str], benchmarks: Sequence[str]) -> list[ExportedRun]:
    """Open the outputs that hold something of the models and benchmarks, and name the others."""
    every = [ExportedRun.open(out, data=data, models=(), benchmarks=()) for out in outs]
    check_names("model", models, sorted({entry.model for run in every for entry in run.entries}))
    check_names("benchmark", benchmarks, sorted({entry.benchmark for run in every for entry in run.entries}))
    runs = [run for each in every if (run := each.only(models, benchmarks)).entries]
    if left_out := ", ".join(run.out.uri for run in every if run.out not in [each.out for each in runs]):
        log.warning("%s: skipped, as it has no results for --models and --benchmarks", left_out)
    if not runs:
        raise UsageError("no output holds these models' answers to these benchmarks")
    return runs


def _board(runs: Sequence[ExportedRun], benchmarks: Sequence[str]) -> dict[str, str]:
    """Return the files of the leaderboard, its page first; none if no report has numbers for one."""
    reported = [run.out.uri for run in runs if run.metrics]
    try:
        files: dict[str, str] = extension("leaderboard_files")(reported, benchmarks)
    except UsageError as error:
        log.warning("the site has no leaderboard: %s", error if reported else "no output has a report")
        return {}
    return files


class _Media:
    """Writes small copies of media into the site, each once."""

    def __init__(self, reader: MediaReader, staged: Path) -> None:
        self._reader, self._staged = reader, staged
        self._names: dict[tuple[str, int, str], str] = {}

    def name(self, medium: ShownMedia, dataset: Dataset) -> str:
        """Return the path of a medium's copy; '' where it cannot be shown."""
        frames = max(1, medium.frames) if medium.kind == "video" else 0
        key = (medium.sha256, frames, medium.change)
        if medium.ref is None or not _SHA256.fullmatch(medium.sha256):
            return ""
        if key not in self._names:
            self._names[key] = self._write(medium, dataset, frames)
        return self._names[key]

    def _write(self, medium: ShownMedia, dataset: Dataset, frames: int) -> str:
        assert medium.ref is not None
        try:
            if frames:
                content = self._reader.contact_sheet(dataset, medium.ref, frames, medium.change)
            else:
                content = self._reader.frame(dataset, medium.ref, 0, 0, medium.change)
        except DatasetError as error:
            log.warning("%s; the site is written without it", error)
            return ""
        suffix = "".join(f"-{part}" for part in (frames, medium.change) if part)
        name = f"media/{medium.sha256}{suffix}.jpg"
        _write(self._staged / name, content)
        return name


class _Builder:
    """Collects the samples of a run, and writes their page."""

    def __init__(self, run: ExportedRun, reader: RowReader, media: _Media | None, board: str) -> None:
        self._run, self._reader, self._media, self._board = run, reader, media, board
        self._samples = Samples()
        self._notes = [_BEING_WRITTEN] if run.out.exists(LOCK) else []

    def write(self, staged: Path) -> int:
        """Write page and data; return the number of answers."""
        self._collect()
        limit, scripts = self._samples.scripts()
        for number, (_, script) in enumerate(scripts):
            _write(staged / "data" / f"{number}.js", script)
        if limit < TEXT_LIMITS[0]:
            self._notes.append(f"The output is large: texts are cut after {limit:,} characters.")
        has_report = (staged / "index.html").exists()
        notes = [*dict.fromkeys([*self._notes, *self._reader.problems, *([] if has_report else [_NO_REPORT])])]
        page = self._page([first for first, _ in scripts], notes, has_report=has_report).encode("utf-8", "replace")
        for name in (SAMPLES, *(() if has_report else ("index.html",))):
            _write(staged / name, page)
        return self._samples.rows

    def _collect(self) -> None:
        """Read all answers; an entry whose data are gone or have changed is left out, with a note."""
        problems = []
        for entry in self._run.entries:
            try:
                dataset = self._reader.dataset(entry)
            except DatasetError as error:
                problems.append(error)
                log.warning("%s; the site skips the samples of %s", error, entry.model)
                self._notes.append(f"{entry.benchmark} {entry.model}: {_DATA_GONE}")
                continue
            for row in self._reader.rows(entry):
                self._samples.add(row, entry, [self._medium(medium, dataset) for medium in row.media])
        if problems and len(problems) == len(self._run.entries):
            raise problems[0]
        self._notes += _mixed(self._run.entries)

    def _medium(self, medium: ShownMedia, dataset: Dataset) -> dict[str, str]:
        fields = {"kind": medium.kind, **({"change": medium.changed} if medium.changed else {})}
        if medium.blank or self._media is None:
            fields |= {"blank": medium.blank} if medium.blank else {"left_out": "1"}
        elif name := self._media.name(medium, dataset):
            fields["src"] = name
        return fields

    def _page(self, starts: Sequence[int], notes: Sequence[str], *, has_report: bool) -> str:
        samples = self._samples
        (base, base_source), (css, css_source) = inline_file("report.css"), inline_file("site.css", "jobs.site")
        script, script_source = inline_file("site.js", "jobs.site")
        # The page's own script alone may load others, those of `data`: no element of the page can.
        policy = (
            f"default-src 'none'; img-src 'self'; style-src {base_source} {css_source}; "
            f"script-src {script_source} 'strict-dynamic'; base-uri 'none'; form-action 'none'"
        )
        facts = {"models": list(samples.models), "starts": starts, "items": len(samples.items), "outcomes": OUTCOMES}
        choices = {name: samples.values(name)[:_MAX_CHOICES] for name in ("benchmark", "task", "setting", "category")}
        parts = {"policy": policy, "styles": (base, css), "script": script, "notes": notes, "board": self._board}
        counts = {"has_report": has_report, "rows": samples.rows, "items": len(samples.items), "outcomes": OUTCOMES}
        choices = {**choices, "model": list(samples.models)}
        template = environment("jobs.site").get_template("samples.html.j2")
        return str(template.render(**parts, **counts, facts=json.dumps(facts), choices=choices))


def _without_places(runs: Sequence[ExportedRun], content: bytes) -> bytes:
    """Return a page without the locations of runs and their data."""
    run_places = ((run.out.uri, run.run.sweep.data, *(entry.data for entry in run.entries)) for run in runs)
    places = {place for named_places in run_places for place in named_places} - {""}
    texts = sorted({form for place in places for form in (place, escape(place))}, key=len, reverse=True)
    # A short one, such as /d, is no part of a tag, a name or a hash.
    hidden = re.compile(rf"(?<![\w/<+=.-])(?:{'|'.join(map(re.escape, texts))})(?![\w+=-])".encode())
    return hidden.sub("\N{HORIZONTAL ELLIPSIS}".encode(), content)


def _address(_page: str, query: Mapping[str, str]) -> str:
    """Return the address of samples in the site: the part behind `#` holds the state of the page."""
    return f"{SAMPLES}#{urlencode({name: clean(value) for name, value in query.items() if name != 'out'})}"


def _mixed(entries: Sequence[ManifestEntry]) -> Iterator[str]:
    fingerprints: dict[str, set[Any]] = {}
    for entry in entries:
        fingerprints.setdefault(entry.benchmark, set()).add(entry.prompts.dataset_fingerprint)
    for benchmark, benchmark_fingerprints in fingerprints.items():
        if len(benchmark_fingerprints) > 1:
            yield f"{benchmark}: models were asked about different data; a sample stands here once for each."


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
