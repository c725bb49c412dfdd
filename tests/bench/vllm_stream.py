"""vLLM fed by the product's stream, unit by unit in threads, against `LLM.generate` with everything at once.

    .venv-vllm/bin/python -m tests.bench.vllm_stream --pairs 3

One engine on the CPU, with tiny random weights, gets 300 questions about a picture each, then 216 about one clip, by
both ways in turns. Each turn names its media anew, so that no cache of an earlier one hits; all processes count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from models.entry_fields import Limits
from models.messages import Answer, Call, Frames, Generation, Media, user
from models.spec import ModelSpec
from tests.bench.vllm_worker import processor_seconds
from tests.support.checkpoints import build_tiny

PICTURES, QUESTIONS, UNIT, OPEN_UNITS, SIDE = 300, 216, 64, 8, 224


def build(folder: Path) -> Any:
    """Load vLLM by the product's engine, without what only costs time to profile."""
    import vllm

    from models.engines.vllm.engine import VLLMEngine

    build_tiny(folder, "qwen2_5_vl")
    spec = ModelSpec(engine="vllm", model=str(folder), dtype="float32", device="cpu", limits=Limits(max_model_len=4096))
    more: dict[str, Any] = {
        "limit_mm_per_prompt": {"image": 1, "video": 1},
        "kv_cache_memory_bytes": 2 << 30,
        "skip_mm_profiling": True,
        "enforce_eager": True,
    }
    return VLLMEngine(spec, make=lambda **settings: vllm.LLM(**{**settings, **more}))


def pictures(turn: int) -> tuple[list[Call], dict[Media, Frames]]:
    """Return a question about each of 300 pictures."""
    rng, calls, media = np.random.default_rng(turn), list[Call](), dict[Media, Frames]()
    for number in range(PICTURES):
        medium = Media("image", f"{turn:04d}{number:060d}")
        media[medium] = Frames(pixels=rng.integers(0, 255, (1, SIDE, SIDE, 3), np.uint8))
        calls.append(asked(f"{number}/0", medium, f"What is item {number}?"))
    return calls, media


def clip(turn: int) -> tuple[list[Call], dict[Media, Frames]]:
    """Return 216 questions about a clip of eight frames."""
    medium = Media("video", f"{turn:064d}", 8)
    frames = np.random.default_rng(turn).integers(0, 255, (8, SIDE, SIDE, 3), np.uint8)
    seconds = tuple(number / 25.0 for number in range(8))
    shown = {medium: Frames(pixels=frames, seconds=seconds, fps=25.0, total_frames=8)}
    return [asked(f"{number}/0", medium, f"What happens in part {number}?") for number in range(QUESTIONS)], shown


def asked(name: str, medium: Media, text: str) -> Call:
    return Call(call_id=name, turns=(user(medium, text),), generation=Generation(max_new_tokens=16))


def streamed(engine: Any, calls: Sequence[Call], media: Mapping[Media, Frames]) -> dict[str, str]:
    """Answer units of 64 calls, several at once, as a replica does."""
    units = [calls[start : start + UNIT] for start in range(0, len(calls), UNIT)]
    with ThreadPoolExecutor(OPEN_UNITS) as threads:
        replies = [reply for unit in threads.map(lambda unit: [*engine.generate(unit, media)], units) for reply in unit]
    return {reply.call_id: reply.outcome.text for reply in replies if isinstance(reply.outcome, Answer)}


def at_once(engine: Any, calls: Sequence[Call], media: Mapping[Media, Frames]) -> dict[str, str]:
    """Answer all calls by one `LLM.generate` of the same engine, with the same prompts."""
    from models.engines.vllm.stream import Submission, _sampling

    prompts = [engine._prompt(call, media) for call in calls]
    parameters = [_sampling(Submission(call, prompt)) for call, prompt in zip(calls, prompts, strict=True)]
    outputs = engine._llm.generate(prompts, parameters, use_tqdm=False)
    return {call.call_id: output.outputs[0].text for call, output in zip(calls, outputs, strict=True)}


def main() -> None:
    """Print medians of processor seconds, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    pairs = parser.parse_args().pairs
    ways: dict[str, Callable[..., dict[str, str]]] = {"LLM.generate": at_once, "stream": streamed}
    with tempfile.TemporaryDirectory() as folder:
        engine = build(Path(folder))
        for ask in ways.values():
            ask(engine, *clip(9_999))
        for name, work in {"300 pictures": pictures, "216 questions about a clip": clip}.items():
            spent: dict[str, list[float]] = {way: [] for way in ways}
            for pair in range(pairs):
                texts = []
                for way, ask in ways.items():
                    calls, media = work(pair)
                    began = processor_seconds()
                    texts.append(ask(engine, *renamed(calls, media, f"{way}{pair}")))
                    spent[way].append(processor_seconds() - began)
                assert texts[0] == texts[1], "the answers differ"
            medians = {way: statistics.median(seconds) for way, seconds in spent.items()}
            ratio = statistics.median(ours / theirs for theirs, ours in zip(*spent.values(), strict=True))
            print(f"{name}: {medians}, stream over generate {ratio:.2f}", flush=True)
        engine.close()


def renamed(calls: Sequence[Call], media: Mapping[Media, Frames], turn: str) -> tuple[list[Call], dict[Media, Frames]]:
    """Return the calls about media of other names, with the same pixels: caches of the other way do not hit."""
    names = {medium: replace(medium, source=f"{turn}-{medium.source}") for medium in media}
    shown = {names[medium]: frames for medium, frames in media.items()}
    changed = list[Call]()
    for call in calls:
        turns = (
            replace(turn, parts=tuple(names[part] if isinstance(part, Media) else part for part in turn.parts))
            for turn in call.turns
        )
        changed.append(replace(call, turns=tuple(turns)))
    return changed, shown


if __name__ == "__main__":
    main()
