"""Messages between a replica and its ranks: JSON, and pixels as raw bytes; no pickle."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from models.message_codec import dump_requests, load_requests
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, Request


def pack_calls(
    calls: Sequence[Call], media: Mapping[Media, Frames], *, action: str = "generate", pixels: bool = True
) -> list[bytes | memoryview]:
    """Return the messages of one action: its header with the media, calls, then each medium's pixels.

    Without `pixels` media arrive black, in their shape: for ranks that another one preprocesses for.
    """
    described = [
        [[item.kind, item.source, item.frames], frames.pixels.shape, frames.seconds, frames.fps, frames.total_frames]
        for item, frames in media.items()
    ]
    blobs = [np.ascontiguousarray(frames.pixels).data.cast("B") for frames in media.values()] if pixels else []
    requests = [Request(request_id=call.call_id, steps=(call,)) for call in calls]
    header = {"action": action, "pixels": pixels, "media": described}
    return [json.dumps(header).encode(), dump_requests(requests), *blobs]


def unpack_calls(header: bytes, receive: Callable[[], bytes]) -> tuple[str, list[Call], dict[Media, Frames]]:
    """Decode what `pack_calls` encoded, the first message and those that `receive` returns: action, calls, media."""
    raw = json.loads(header)
    requests = load_requests(receive())
    media: dict[Media, Frames] = {}
    for item, shape, seconds, fps, total in raw["media"]:
        values = np.frombuffer(receive(), np.uint8) if raw["pixels"] else np.broadcast_to(np.uint8(0), shape)
        pixels = values.reshape(shape)
        media[Media(*item)] = Frames(pixels=pixels, seconds=tuple(seconds), fps=fps, total_frames=total)
    calls = [Call.of(step, request.request_id) for request in requests for step in request.steps]
    return raw["action"], calls, media


def pack_reply(reply: CallReply) -> dict[str, Any]:
    """Return a reply as a JSON object."""
    kind = "answer" if isinstance(reply.outcome, Answer) else "failure"
    return {"call_id": reply.call_id, "latency_s": reply.latency_s, kind: asdict(reply.outcome)}


def unpack_reply(raw: Mapping[str, Any]) -> CallReply:
    """Decode what `pack_reply` encoded."""
    outcome = Answer(**raw["answer"]) if "answer" in raw else Failure(**raw["failure"])
    return CallReply(call_id=raw["call_id"], outcome=outcome, latency_s=raw["latency_s"])
