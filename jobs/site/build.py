"""Build a site with its samples in a temporary folder, and publish it when it is whole."""

import hashlib
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

from models.guards.regular_files import open_regular, read_regular
from models.scratch import scratch
from pipelines.clean_text import clean
from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import ManifestEntry, load_existing_runs
from pipelines.plan.selection import check_names
from pipelines.registry import extension
from pipelines.rendering.environment import environment, inline_file
from pipelines.samples.media import MediaReader, report_file, report_names
from pipelines.samples.outputs import OUTCOMES, Output
from pipelines.samples.prompts import ShownMedia, ShownSteps, last_paragraph, question_of, unshown
from pipelines.samples.rows import ExportedRun, ExportRow, RowReader
from pipelines.storage.backend import is_remote, portable_name, short_labels
from pipelines.storage.local_store import TEMPORARY
from pipelines.storage.lock import LOCK
from pipelines.storage.store import Store

MARKER: Final = ".vlmsweep-site"  # lines `sha256  path`, as `sha256sum` writes them
_Files = set[tuple[str, str]]  # hash and path


class SiteFolder:
    """A folder that is new, empty or has our marker; its files are replaced when all new ones are there."""

    def __init__(self, name: str) -> None:
        """Open a folder; UsageError where it is not ours, StoreError where it cannot be read."""
        if is_remote(name):
            raise UsageError(f"--to {name}: only local folders are supported; upload the folder yourself")
        self._name, self.path = name, Path(name).expanduser().resolve()
        try:
            entries = sorted(entry.name for entry in self.path.iterdir()) if self.path.exists() else []
            # `run_lock` refuses one of the user.
            entries = [name for name in entries if name != LOCK and not TEMPORARY.fullmatch(name)]
            text = read_regular(self.path / MARKER).decode() if MARKER in entries else ""
        except NotADirectoryError as error:
            raise UsageError(f"--to {name}: is a file; give a folder") from error
        except OSError as error:
            raise StoreError(f"--to {name}: cannot be read ({error.strerror})") from error
        if entries and MARKER not in entries:
            raise UsageError(f"--to {name}: holds files that `site` did not write ({entries[0]}); give a new folder")
        self._recorded: _Files = {(line[:64], line[66:]) for line in text.splitlines() if line[64:66] == "  "}

    def publish(self, staged: Path) -> int:
        """Copy the files of a folder here, delete those of the last call that it lacks; return the number of files.

        UsageError, before any is written, where one in the way was not written by `site`, or has changed since.
        """
        files = {path.relative_to(staged).as_posix(): path for path in sorted(staged.rglob("*")) if path.is_file()}
        hashes = {path: _sha256(file) for path, file in files.items()}
        current = {path: self._hash_in_place(path) for path in {*files, *(path for _, path in self._recorded)}}
        for path, sha256 in hashes.items():
            if current[path] and current[path] != sha256 and (current[path], path) not in self._recorded:
                raise UsageError(f"{self._name}/{path}: `site` did not write it, or it has changed; move it away")
        store = Store(str(self.path))
        written = {(sha256, path) for path, sha256 in hashes.items()}
        # Until all is written a file of the marker has its old content or its new one.
        store.put(MARKER, _lines(self._recorded | written))
        for path, file in files.items():
            if current[path] != hashes[path]:
                store.put(path, file.read_bytes())
        for sha256, path in self._recorded:
            if path not in files and current[path] == sha256:
                store.delete(path)
        store.put(MARKER, _lines(written))
        return len(files)

    def _hash_in_place(self, path: str) -> str:
        """Return the hash of a file here; '' where there is none. A link is never followed."""
        target = self.path / path
        if target.resolve() != target or not target.is_relative_to(self.path):
            raise UsageError(f"{self._name}/{path}: leads out of the folder, or through a link; move it away")
        return _sha256(target) if target.exists() else ""


def _sha256(path: Path) -> str:
    if not path.is_file():
        return "no file"
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lines(files: _Files) -> bytes:
    return "".join(f"{sha256}  {path}\n" for sha256, path in sorted(files, key=lambda file: file[::-1])).encode()


MAX_ROWS: Final = 200_000
CHUNK_BYTES: Final = 400_000  # of a script: the first list waits for one alone
MAX_BYTES: Final = 28_000_000  # of all scripts, where texts can be cut to keep within it
TEXT_LIMITS: Final = (4_000, 2_000, 1_000, 500, 250)  # characters of a text: the first that keeps within `MAX_BYTES`
_LINE: Final = 240  # characters of the question in a list
_TEXTS: Final = ("prompt", "output", "reasoning", "read")
_LISTS: Final = ("expected", "steps")
_KEY: Final = ("benchmark", "task", "setting", "variant", "sample_id", "prompt_set")

Text = str | tuple[str, int]  # a text, or its beginning and the number of characters that were cut


class Samples:
    """Items in the order of the plan: what several models were asked, and their answers."""

    def __init__(self) -> None:
        self.models: dict[str, int] = {}
        self.rows = 0
        self._items: dict[tuple[str, ...], dict[str, Any]] = {}

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items."""
        return list(self._items.values())

    def values(self, name: str) -> list[str]:
        """Return the values of a column of the items, each once."""
        return list(dict.fromkeys(item[name] for item in self._items.values() if item[name]))

    def add(self, row: ExportRow, entry: ManifestEntry, media: Sequence[dict[str, str]]) -> None:
        """Add one answer; UsageError when there are more than a page can hold."""
        self.rows += 1
        if self.rows > MAX_ROWS:
            raise UsageError(f"more than {MAX_ROWS:,} answers; choose some with --models and --benchmarks")
        planned, sample = row.planned, row.sample
        identity = (entry.benchmark, planned.task, planned.setting, planned.variant, sample.sample_id, row.prompt_set)
        prompt = _cut(_prompt(row.steps), TEXT_LIMITS[0])
        item = self._items.setdefault(
            (*identity, entry.prompts.dataset_fingerprint),
            {
                **{name: clean(value) for name, value in zip(_KEY, identity, strict=True)},
                "category": clean(sample.category),
                "prompt": prompt,
                "line": clean(last_paragraph(question_of(row.steps, sample))[:_LINE]),
                "expected": [_cut(text, TEXT_LIMITS[0]) for text in row.expected],
                "media": media,
                **({"unshown": text} if (text := unshown(row.steps, sample)) else {}),
                "answers": [],
            },
        )
        answer = _answer(row)
        answer["model"] = self.models.setdefault(clean(entry.model), len(self.models))
        if prompt != item["prompt"]:
            answer["prompt"] = prompt
        item["answers"].append({name: value for name, value in answer.items() if value not in ("", [])})

    def scripts(self) -> tuple[int, list[tuple[int, bytes]]]:
        """Return the limit of texts, and each script with the number of its first item."""
        for limit in TEXT_LIMITS:
            items = [_json(_with_limit(item, limit)) for item in self._items.values()]
            if sum(map(len, items)) <= MAX_BYTES:
                break
        return limit, list(_scripts(items))


def _answer(row: ExportRow) -> dict[str, Any]:
    """Return what came back. Messages of errors stay out: they may hold keys and paths."""
    prediction, scores = row.prediction, row.scores or {}
    is_ok = prediction["status"] == "ok"
    fields = {"output": prediction["output"], "reasoning": prediction.get("reasoning"), "read": scores.get("answer")}
    return {
        "outcome": outcome_of(row),
        "error": "" if is_ok else clean(prediction.get("error_type") or ""),
        **{name: _cut(text or "", TEXT_LIMITS[0]) for name, text in fields.items()},
        "steps": [_cut(text, TEXT_LIMITS[0]) for text in (prediction.get("steps") or ())[:-1]],
        "scores": [[clean(name), f"{value:.4g}"] for name, value in row.values.items() if value is not None],
    }


def outcome_of(row: ExportRow) -> str:
    """Return how an answer counts: a name of `jobs.view.listing.OUTCOMES`."""
    if row.prediction["status"] != "ok":
        return str(row.prediction["status"])
    if row.scores is None:
        return "none"
    if row.scores.get("answer") is None:
        return "unread"
    correct = row.values.get("correct", row.values.get("accepted"))
    if correct is None:
        return "none"
    return "right" if correct >= 0.5 else "wrong"


def _prompt(steps: ShownSteps) -> str:
    """Return a prompt as text; media are shown beside it, and each model has its own answers to earlier steps."""
    turns = []
    for step in steps:
        for role, parts in step:
            texts = [part.text if part.step is None else f"[answer {part.step + 1}]" for part in parts]
            named = zip(parts, texts, strict=True)
            text = "".join(f"[{part.media.kind}] " if part.media else text for part, text in named)
            turns.append(text if role == "user" else f"[{role}] {text}")
    return "\n\n".join(turns)


def _cut(text: Text, limit: int) -> Text:
    """Clean a text and cut it; the number of characters cut stays with it."""
    shown, cut = (text[: limit + 1], max(0, len(text) - limit - 1)) if isinstance(text, str) else text
    if len(shown) <= limit:
        return clean(shown) if not cut else (shown, cut)
    return clean(shown[:limit]), cut + len(shown) - limit


def _with_limit(fields: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return an item or an answer with its texts cut."""
    return {
        **fields,
        **{name: _cut(fields[name], limit) for name in _TEXTS if name in fields},
        **{name: [_cut(text, limit) for text in fields[name]] for name in _LISTS if name in fields},
        **{name: [_with_limit(each, limit) for each in fields[name]] for name in ("answers",) if name in fields},
    }


def _json(value: object) -> bytes:
    """Return JSON that ends no element and no line of a script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "replace")


def _scripts(items: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    first, size = 0, 0
    for number, item in enumerate(items):
        if size and size + len(item) > CHUNK_BYTES:
            yield first, _script(first, items[first:number])
            first, size = number, 0
        size += len(item)
    if items:
        yield first, _script(first, items[first:])


def _script(first: int, items: Sequence[bytes]) -> bytes:
    return b"siteItems(%d,[%s]);\n" % (first, b",\n".join(items))


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
