"""Load a unit of work: its rows of the plan become requests, their media are fetched, decoded and shrunk."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from models.messages import Failure, Frames, Media, Reply, Request
from pipelines.errors import DecodeError
from pipelines.ingest.dataset import Manifest
from pipelines.media.clip_folder import ClipFolder
from pipelines.media.decoder import Decoder, blank_frames
from pipelines.media.recent_frames import FrameSource, RecentFrames
from pipelines.plan.context import WorkerContext
from pipelines.plan.requests import ModelTarget
from pipelines.plan.stored_plan import PlanReader, PlanRow, iter_media, media_group_key
from pipelines.plan.units import WorkUnit
from pipelines.schemas import prediction_row
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store

_BLANK = "blank:"
_FATAL_MEDIUM = (
    "processes died each time they loaded this, for example out of memory; lower max_pixels, or see Ray's own logs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A unit ready for an engine."""

    unit: WorkUnit
    columns: dict[str, dict[str, Any]]  # columns of PREDICTIONS that are known beforehand, by request id
    requests: list[Request]  # sent to the engine
    media: dict[Media, Frames]
    ready: list[dict[str, Any]] = field(default_factory=list)
    """Rows that need no engine: excluded ones, those whose media failed, those kept from an earlier part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaGuard:
    """Decides which media of a unit are decoded, and records each before it is: one call of an actor a medium.

    So it records only for a unit at which a process died.
    """

    unit: str = ""
    record: Callable[[str, str], object] | None = None
    """`AttemptTracker.begin_medium`; None records nothing: no process died at this unit."""
    fatal_media: frozenset[str] = frozenset()  # media at which processes died, by `media_group_key`
    skips_all: bool = False  # no medium is decoded: too many processes died at the unit

    def begin(self, medium: Media) -> str:
        """Record that a medium is decoded next; return why it must not be, else ''."""
        key = media_group_key(medium)
        if self.skips_all or key in self.fatal_media:
            return _FATAL_MEDIUM
        if self.record:
            self.record(self.unit, key)
        return ""

    def end(self) -> None:
        """Record that all media of the unit are decoded."""
        if self.record:
            self.record(self.unit, "")


UNGUARDED = MediaGuard()  # decodes every medium and records nothing


@dataclass(frozen=True, slots=True)
class _Planned:
    row: PlanRow
    columns: dict[str, Any]
    request: Request
    media: tuple[Media, ...]

    @property
    def request_id(self) -> str:
        return self.request.request_id


class Loader:
    """Loads units of one model."""

    def __init__(self, spec: "UnitLoaderSpec", frames: FrameSource | None = None) -> None:
        self._spec = spec
        self._data, self._out = Store(spec.context.data_uri), Store(spec.context.out_uri)
        self._plans = PlanReader(self._out)
        self._targets = {target.prompts.benchmark_name: target for target in spec.targets}
        self._decoder = Decoder()
        self._manifests: dict[str, Manifest] = {}  # by the address of a benchmark's data
        self._frames = frames or RecentFrames()
        self._clips = ClipFolder(spec.clip_folder) if spec.clip_folder else None

    def load(self, unit: WorkUnit, exclusive_groups: Collection[str] = (), *, guard: MediaGuard = UNGUARDED) -> Loaded:
        """Load one unit; no other unit needs `exclusive_groups`. Requests fail whose medium `guard` refuses.

        Raises:
            StoreError: data is unavailable.
            DamagedPartError: the plan was altered.
        """
        planned = self._planned(unit)
        included = [entry for entry in planned if not entry.row.excluded]
        store = self._data.sub(unit.benchmark)
        media, problems = self._fetch(included, store, exclusive_groups, guard)
        ready = self._kept_rows(unit)
        ready += [excluded_row(entry.columns, entry.row.excluded) for entry in planned if entry.row.excluded]
        requests = []
        for entry in included:
            problem = next((problems[medium] for medium in entry.media if medium in problems), None)
            if problem is None:
                requests.append(entry.request)
            else:
                failure = Failure(type="media", message=problem)
                ready.append(prediction_row(entry.columns, Reply(request_id=entry.request_id, outcome=failure)))
        columns = {entry.request_id: entry.columns for entry in planned}
        return Loaded(unit=unit, columns=columns, requests=requests, media=media, ready=ready)

    def close(self) -> None:
        """End the decoder's process."""
        self._decoder.close()

    def _planned(self, unit: WorkUnit) -> list[_Planned]:
        target = self._targets[unit.benchmark]
        planned = []
        for plan_part, slices in groupby(unit.slices, attrgetter("plan_part")):
            for row in self._plans.rows(plan_part, [index for media_slice in slices for index in media_slice.rows]):
                columns = target.columns(row)
                request = target.request(row, columns["request_id"])
                planned.append(_Planned(row, columns, request, tuple(iter_media(request.steps))))
        return planned

    def _kept_rows(self, unit: WorkUnit) -> list[dict[str, Any]]:
        if not unit.retried:
            return []
        retried = set(unit.retried)
        rows: list[dict[str, Any]] = read_part(self._out, unit.part).to_pylist()
        return [row for row in rows if row["request_id"] not in retried]

    def _fetch(
        self, planned: Sequence[_Planned], store: Store, exclusive_groups: Collection[str], guard: MediaGuard
    ) -> tuple[dict[Media, Frames], dict[Media, str]]:
        """Decode each distinct medium once; return the frames, and the reason for each failure."""
        frames: dict[Media, Frames] = {}
        problems: dict[Media, str] = {}
        for entry in planned:
            for medium in entry.media:
                if medium in frames or medium in problems:
                    continue
                refusal = "" if medium.source.startswith(_BLANK) else guard.begin(medium)
                if refusal:
                    problems[medium] = refusal
                    continue
                shared = self._spec.keeps_clips or media_group_key(medium) not in exclusive_groups
                try:
                    frames[medium] = self._decode(medium, entry.row, store, shared=shared)
                except DecodeError as error:
                    problems[medium] = str(error)
                except FileNotFoundError as error:
                    problems[medium] = f"the stored file is gone: {error}"
        guard.end()
        return frames, problems

    def _decode(self, medium: Media, row: PlanRow, store: Store, *, shared: bool) -> Frames:
        max_frames, max_pixels = self._spec.max_frames, self._spec.max_pixels
        if max_frames and medium.frames > max_frames:
            medium = replace(medium, frames=max_frames)
        if medium.source.startswith(_BLANK):
            return blank_frames(medium)
        path = row.media_files[medium.source]

        def decode() -> Frames:
            decoders = self._manifest(store).decoders_of(medium.file) if medium.kind == "video" else ()
            return self._decoder.decode(store, path, medium, max_pixels, decoders)

        def fetch() -> Frames:
            if self._clips is None or medium.kind != "video" or not shared:
                return decode()
            return self._clips.fetch(medium, max_pixels, decode)

        return self._frames.fetch(f"{medium.kind}:{medium.source}:{medium.frames}:{max_pixels}", fetch)

    def _manifest(self, store: Store) -> Manifest:
        if store.uri not in self._manifests:
            self._manifests[store.uri] = Manifest.from_json(store.get("manifest.json"))
        return self._manifests[store.uri]


def excluded_row(columns: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return the prediction of a request that is not sent."""
    return {**columns, "status": "excluded", "error_type": "excluded", "error": reason, "steps": []}


@dataclass(frozen=True, kw_only=True)
class UnitLoaderSpec:
    """Light and hashable, so that a worker process keeps one loader for all units of a run."""

    context: WorkerContext
    targets: tuple[ModelTarget, ...]
    max_pixels: int | None = None
    max_frames: int | None = None
    clip_folder: str = ""  # where a machine holds the decoded clips of several batches; '' if a run shows none
    keeps_clips: bool = False  # other models of the run see the same frames: clips of one batch are kept too

    def build(self, frames: FrameSource | None = None) -> Loader:
        """Build the loader with its own decoder; `frames` holds what it has decoded."""
        return Loader(self, frames)
