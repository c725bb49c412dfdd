"""One engine of `tests.bench.vllm_group` in a process of its own: reads orders from standard input, answers in JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from PIL import Image

from models.engines.base import Engine
from models.entry_fields import Limits
from models.messages import Answer, Call, Frames, Media, Turn
from models.spec import ModelSpec
from tests.bench.group import group

MAX_LEN = 4_096
_SIDE = 28  # pixels of a patch that no processor of Qwen2.5-VL rounds: both engines see the same tokens
_KV_CACHE_BYTES = 2 << 30
_FPS = 25.0


def build(args: argparse.Namespace) -> Engine:
    """Load the engine; vLLM with the product's settings except for limits that only cost time to profile."""
    spec = ModelSpec(
        engine=args.engine,
        model=args.model,
        dtype=args.dtype,
        device="cpu",
        limits=Limits(max_pixels=args.pixels, max_model_len=MAX_LEN),
    )
    if args.engine == "transformers":
        from models.engines.transformers.engine import TransformersEngine

        return TransformersEngine(spec)
    import vllm

    from models.engines.vllm.engine import VLLMEngine

    more: dict[str, Any] = {
        "limit_mm_per_prompt": {"image": 0, "video": 1},
        "kv_cache_memory_bytes": _KV_CACHE_BYTES,
        "skip_mm_profiling": True,
        "enforce_eager": args.eager,
        "disable_log_stats": False,
        **({"block_size": args.block} if args.block else {}),
    }
    return VLLMEngine(spec, make=lambda **settings: vllm.LLM(**{**settings, **more}))


def round_frames(frames: Frames) -> Frames:
    """Resize to multiples of the patch's side, so that every processor leaves the size as it is, and shorten the time.

    transformers 5 places the text after a clip by its height and width alone, vLLM after its last moment: the two agree
    on clips of a second or so.
    """
    height, width = (side // _SIDE * _SIDE for side in frames.pixels.shape[1:3])
    resized = [np.asarray(Image.fromarray(picture).resize((width, height))) for picture in frames.pixels]
    seconds = tuple(index / _FPS for index in range(len(resized)))
    return replace(frames, pixels=np.stack(resized), seconds=seconds, fps=_FPS, total_frames=len(resized))


def rename(call: Call, media: Media, tokens: int) -> Call:
    """Return the call about another clip, with another limit: caches of earlier runs do not hit."""
    turns = tuple(
        Turn(turn.role, tuple(media if isinstance(part, Media) else part for part in turn.parts)) for turn in call.turns
    )
    return replace(call, turns=turns, generation=replace(call.generation, max_new_tokens=tokens))


def processor_seconds() -> float:
    """Return the processor time of this process and its children, seconds."""
    current = psutil.Process()
    times = [process.cpu_times() for process in (current, *current.children(recursive=True))]
    return sum(spent.user + spent.system for spent in times)


def measure(engine: Engine, calls: Sequence[Call], media: Media, frames: Frames) -> dict[str, Any]:
    """Answer the calls; return times, tokens and texts by call."""
    start, cpu = time.perf_counter(), processor_seconds()
    replies = list(engine.generate(calls, {media: frames}))
    seconds, cpu = time.perf_counter() - start, processor_seconds() - cpu
    answers = {reply.call_id: reply.outcome for reply in replies if isinstance(reply.outcome, Answer)}
    if len(answers) != len(calls):
        raise RuntimeError(f"calls failed: {[reply.outcome for reply in replies if reply.call_id not in answers][:2]}")
    return {
        "seconds": seconds,
        "cpu": cpu,
        "prompt_tokens": sum(answer.input_tokens for answer in answers.values()),
        "cached_tokens": sum(answer.cached_tokens for answer in answers.values()),
        "output_tokens": sum(answer.output_tokens for answer in answers.values()),
        "texts": {name: answer.text for name, answer in sorted(answers.items())},
    }


def main() -> None:
    """Load, answer two questions about another clip, then serve orders until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=("transformers", "vllm"))
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--pixels", type=int, default=120_000)
    parser.add_argument("--block", type=int, default=0)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    replies = os.fdopen(os.dup(1), "w")  # libraries print to standard output
    os.dup2(2, 1)
    calls, clip, decode = group(args.data, args.pixels)
    frames = round_frames(decode())
    engine = build(args)
    warm = replace(clip, source="warm")
    measure(engine, [rename(call, warm, 2) for call in calls[:2]], warm, frames)
    print(json.dumps({"frames": frames.pixels.shape, "calls": len(calls)}), file=replies, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        media = replace(clip, source=order["name"])
        step = max(1, len(calls) // order["questions"])
        lot = [rename(call, media, order["tokens"]) for call in calls[::step][: order["questions"]]]
        print(json.dumps(measure(engine, lot, media, frames)), file=replies, flush=True)
    engine.close()


if __name__ == "__main__":
    main()
