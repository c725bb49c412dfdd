"""Loading a unit and committing it, without any cluster; between the two it is answered, see `answering`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from models.messages import Failure, Frames, Media, Reply, Request
from pipelines.benchmarks.records import Sample
from pipelines.errors import DecodeError, PlanMismatchError
from pipelines.ingest.dataset import Dataset, media_path
from pipelines.media.decoder import Decoder, blank_frames
from pipelines.media.frame_cache import FrameSource, LocalFrameCache
from pipelines.plan.captions import load_captions
from pipelines.plan.requests import PlannedRequest, RequestBuilder, media_group_key
from pipelines.plan.units import WorkUnit, unit_name
from pipelines.schemas import prediction_row
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store

_BLANK = "blank:"
_DEADLY = "processes died each time they loaded this, as for want of memory; lower max_pixels, or see Ray's own logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A unit made ready for an engine."""

    unit: WorkUnit
    columns: dict[str, dict[str, Any]]
    """Columns of PREDICTIONS that are known beforehand, by request id."""
    requests: list[Request]
    """What the engine shall answer."""
    media: dict[Media, Frames]
    ready: list[dict[str, Any]] = field(default_factory=list)
    """Rows that need no engine: excluded ones, those whose media failed, those carried over from an earlier part."""


@lru_cache(maxsize=4)
def shard_samples(data_uri: str, benchmark: str, shard: str) -> dict[str, Sample]:
    """One shard's samples by id; units of one shard come one after the other."""
    dataset = Dataset.open(Store(data_uri), benchmark)
    return {sample.sample_id: sample for sample in dataset.read_shard(shard)}


class Loader:
    """Loads units: samples, requests, and media fetched, decoded and shrunk to what the model takes."""

    def __init__(
        self,
        *,
        data: str,
        out: str,
        askers: Sequence[RequestBuilder],
        max_pixels: int | None = None,
        max_frames: int | None = None,
        frames: FrameSource | None = None,
    ) -> None:
        self._data, self._out = Store(data), Store(out)
        self._askers = {asker.benchmark_name: asker for asker in askers}
        self._max_pixels, self._max_frames = max_pixels, max_frames
        self._known_captions: dict[str, dict[str, str]] = {}
        self._decoder = Decoder()
        self._frames = frames or LocalFrameCache()

    def load(self, unit: WorkUnit, alone: Collection[str] = (), *, blind: bool = False) -> Loaded:
        """Load one unit.

        Args:
            unit: which.
            alone: media groups that nobody else is going to load.
            blind: read no medium; what would show one fails.

        Raises:
            PlanMismatchError: the requests are not those of the plan.
            StoreError: data could not be fetched.
        """
        asked = list({one.request_id: (one, sample) for one, sample in self._asked(unit)}.values())
        names = [one.request_id for one, _ in asked]
        wanted = unit.only or names
        if set(wanted) - set(names) or (not unit.carry and f"{unit_name(wanted)}.parquet" != unit.part.split("/")[-1]):
            raise PlanMismatchError(f"{unit.part}: the requests made here are not those of the plan; run again")
        chosen = [(one, sample) for one, sample in asked if one.request_id in set(wanted)]
        ready = self._carried(unit)
        ready += [_excluded(one) for one, _ in chosen if one.excluded]
        shown = [pair for pair in chosen if not pair[0].excluded]
        media, problems = self._fetch(shown, self._data.sub(unit.benchmark), alone, blind=blind)
        requests = []
        for one, _ in chosen:
            problem = next((problems[m] for m in _media_of(one.request) if m in problems), None)
            if problem is not None:
                failed = Reply(request_id=one.request_id, outcome=Failure(type="media", message=problem))
                ready.append(prediction_row(one.columns, failed))
            elif not one.excluded:
                requests.append(one.request)
        columns = {one.request_id: one.columns for one, _ in chosen}
        return Loaded(unit=unit, columns=columns, requests=requests, media=media, ready=ready)

    def close(self) -> None:
        """End the decoder's process."""
        self._decoder.close()

    def _asked(self, unit: WorkUnit) -> Iterator[tuple[PlannedRequest, Sample]]:
        asker = self._askers[unit.benchmark]
        captions = self._captions(asker)
        for piece in unit.pieces:
            samples = shard_samples(self._data.uri, unit.benchmark, piece.shard)
            for name in piece.samples:
                for asked in asker.ask(samples[name], captions):
                    if asked.group == piece.group:
                        yield asked, samples[name]

    def _captions(self, asker: RequestBuilder) -> dict[str, str]:
        """Read once: the captions were all made before the first unit was planned."""
        if asker.captioner and asker.benchmark_name not in self._known_captions:
            found = load_captions(self._out, asker.benchmark_name, asker.captioner)
            self._known_captions[asker.benchmark_name] = found
        return self._known_captions.get(asker.benchmark_name, {})

    def _carried(self, unit: WorkUnit) -> list[dict[str, Any]]:
        if not unit.carry:
            return []
        again = set(unit.only)
        rows: list[dict[str, Any]] = read_part(self._out, unit.part).to_pylist()
        return [row for row in rows if row["request_id"] not in again]

    def _fetch(
        self, asked: Sequence[tuple[PlannedRequest, Sample]], store: Store, alone: Collection[str], *, blind: bool
    ) -> tuple[dict[Media, Frames], dict[Media, str]]:
        """Decode each distinct medium once; what cannot be decoded is told by medium."""
        frames: dict[Media, Frames] = {}
        problems: dict[Media, str] = {}
        for one, sample in asked:
            for media in _media_of(one.request):
                if media in frames or media in problems:
                    continue
                if blind and not media.source.startswith(_BLANK):
                    problems[media] = _DEADLY
                    continue
                try:
                    frames[media] = self._decode(media, sample, store, shared=media_group_key(media) not in alone)
                except DecodeError as error:
                    problems[media] = str(error)
                except FileNotFoundError as error:
                    problems[media] = f"the stored file is gone: {error}"
        return frames, problems

    def _decode(self, media: Media, sample: Sample, store: Store, *, shared: bool) -> Frames:
        if self._max_frames and media.frames > self._max_frames:
            media = replace(media, frames=self._max_frames)
        if media.source.startswith(_BLANK):
            return blank_frames(media)
        ref = next(ref for ref in sample.media if ref.sha256 == media.source)
        return self._frames.fetch(
            f"{media.kind}:{media.source}:{media.frames}:{self._max_pixels}",
            lambda: self._decoder.decode(store, media_path(ref), media, self._max_pixels),
            shared=shared,
        )


def _media_of(request: Request) -> list[Media]:
    return [part for step in request.steps for turn in step.turns for part in turn.parts if isinstance(part, Media)]


def _excluded(asked: PlannedRequest) -> dict[str, Any]:
    return {**asked.columns, "status": "excluded", "error_type": "excluded", "error": asked.excluded, "steps": []}


@dataclass(frozen=True, kw_only=True)
class UnitLoaderSpec:
    """Light and hashable, so that a worker process keeps one loader for all units of a run."""

    data: str
    out: str
    askers: tuple[str, ...]
    """JSON of each benchmark's `RequestBuilder`."""
    max_pixels: int | None = None
    max_frames: int | None = None

    def build(self, frames: FrameSource | None = None) -> Loader:
        """The loader, with a decoder of its own; what others have decoded comes from `frames`."""
        return Loader(
            data=self.data,
            out=self.out,
            askers=[RequestBuilder.from_json(text) for text in self.askers],
            max_pixels=self.max_pixels,
            max_frames=self.max_frames,
            frames=frames,
        )
