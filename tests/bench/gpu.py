"""A model of full size with random weights on a GPU: one clip's questions, three ways. Needs no Ray and no network.

    python -m tests.bench.gpu                     # Qwen2.5-VL-7B's shape in bfloat16
    python -m tests.bench.gpu --shape tiny --device cpu --dtype float32 --runs 1 --questions 8   # does it run at all

Reports questions a second, prompt and answer tokens a second, share of the device's peak arithmetic in the shared
prefill, and peak memory. The clip is drawn, its decoding is left out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.engines.transformers.engine import TransformersEngine
from models.messages import Answer, Call, Frames, Generation, Media, user
from models.spec import Limits, ModelSpec
from tests.bench.results import record, show, spread
from tests.support.checkpoints import build_tiny

FULL: dict[str, dict[str, Any]] = {
    "text_config": {
        "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "max_position_embeddings": 128000,
    },
    "vision_config": {
        "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584,
        "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112,
    },
}  # fmt: skip
"""Qwen2.5-VL-7B as published; its vocabulary is the small tokenizer's."""
PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0, "L40S": 362.0, "L4": 121.0}
"""Dense bfloat16, as their makers state."""
CLIP = Media("video", "d" * 64, 32)
HEAD_WIDTH = 128


def checkpoint(folder: Path, shape: str, dtype: str) -> Path:
    """Write a checkpoint of the shape with random weights: the small configuration and processor, made larger."""
    small = build_tiny(folder, "qwen2_5_vl")
    if shape == "tiny":
        return small
    from transformers import AutoConfig, AutoModelForImageTextToText

    config = AutoConfig.from_pretrained(small)
    for part, values in FULL.items():
        for name, value in values.items():
            setattr(getattr(config, part), name, value)
    sections = [HEAD_WIDTH // 8, HEAD_WIDTH * 3 // 16, HEAD_WIDTH * 3 // 16]
    for name in ("rope_parameters", "rope_scaling"):
        rope = getattr(config.text_config, name, None)
        if isinstance(rope, dict) and "mrope_section" in rope:
            rope["mrope_section"] = sections
    config.text_config.layer_types = ["full_attention"] * config.text_config.num_hidden_layers
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, dtype))
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForImageTextToText.from_config(config)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(small)
    del model
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return small


def frames(pixels: int) -> Frames:
    """Return a clip of 4:3 noise."""
    height = int((pixels * 3 / 4) ** 0.5)
    drawn = np.random.default_rng(0).integers(0, 256, (32, height, height * 4 // 3, 3), np.uint8)
    return Frames(pixels=drawn, seconds=tuple(n * 0.9 for n in range(32)), fps=25.0, total_frames=700)


def questions(count: int, new: int) -> list[Call]:
    """Return distinct questions as long as MAIA's."""
    words = "Quale delle due affermazioni descrive meglio quello che si vede nel video? Rispondi con una lettera."
    return [
        Call(
            call_id=str(n),
            turns=(user(CLIP, f"{n}. {words} A: la persona {n} prende una cosa dal tavolo. B: la lascia dov'era."),),
            generation=Generation(max_new_tokens=new),
        )
        for n in range(count)
    ]


class Bench:
    """Three engines on one checkpoint, one after the other: a full-size model is in memory once."""

    def __init__(self, spec: ModelSpec, clip: Frames) -> None:
        self._engine = TransformersEngine(spec)
        self._media = {CLIP: clip}

    def run(self, calls: Sequence[Call]) -> tuple[float, list[Answer]]:
        """Return seconds and answers; the prefix cache is emptied first."""
        engine = self._engine
        if engine._shared is not None:
            engine._shared.clear()
        engine._maker._heads.clear()
        _wait()
        start = time.perf_counter()
        replies = list(engine.generate(calls, self._media))
        _wait()
        seconds = time.perf_counter() - start
        failed = [reply.outcome for reply in replies if not isinstance(reply.outcome, Answer)]
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(calls)} calls failed, first {failed[0]}")
        return seconds, [reply.outcome for reply in replies if isinstance(reply.outcome, Answer)]

    def prefill(self, call: Call) -> tuple[float, int, float]:
        """Measure one prompt: seconds in vision tower and language model, its tokens, its arithmetic in TFLOP."""
        engine = self._engine
        (prompt,) = engine._maker.make([call], self._media)
        if engine._shared is None:
            return 0.0, 0, 0.0
        engine._shared.prefill_single(prompt)
        _wait()
        start = time.perf_counter()
        engine._shared.prefill_single(prompt)
        _wait()
        seconds = time.perf_counter() - start
        model = engine._checkpoint.model
        text = sum(p.numel() for name, p in model.named_parameters() if "visual" not in name and "embed" not in name)
        vision = sum(p.numel() for name, p in model.named_parameters() if "visual" in name)
        patches = max((len(t) for name, t in prompt.head.inputs.items() if name.startswith("pixel_values")), default=0)
        return seconds, len(prompt.ids), 2e-12 * (text * len(prompt.ids) + vision * patches)

    def close(self) -> None:
        """Give the memory back."""
        self._engine.close()


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _peak(name: str) -> float | None:
    return next((value for key, value in PEAK_TFLOPS.items() if key in name), None)


def measure(args: argparse.Namespace, model: Path) -> dict[str, Any]:
    """Measure all ways in turn, `--runs` times."""
    clip, calls = frames(args.pixels), questions(args.questions, args.new)
    base = ModelSpec(
        engine="transformers", model=str(model), dtype=args.dtype, device=args.device,
        limits=Limits(max_pixels=args.pixels),
    )  # fmt: skip
    ways = {
        "alone": ({"share_prefix": False, "batch_size": 1}, min(args.alone, len(calls))),
        "padded": ({"share_prefix": False}, min(args.plain, len(calls))),
        "shared": ({}, len(calls)),
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    tokens: dict[str, list[float]] = {way: [] for way in ways}
    peaks: dict[str, float] = {}
    prefills: list[tuple[float, int, float]] = []
    for way, (change, count) in [pair for _ in range(args.runs) for pair in ways.items()]:
        bench = Bench(base.model_copy(update=change), clip)
        bench.run(calls[:1])  # kernels are chosen and memory is taken outside the measurement
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        seconds, answers = bench.run(calls[:count])
        rates[way].append(count / seconds)
        tokens[way].append(sum(a.input_tokens + a.output_tokens for a in answers) / seconds)
        if torch.cuda.is_available():
            peaks[way] = torch.cuda.max_memory_allocated() / 2**30
        if way == "shared":
            prefills.append(bench.prefill(calls[0]))
        bench.close()
        print(f"{way}: {rates[way][-1]:.3f} questions a second", flush=True)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    peak = _peak(name)
    tflops = spread([flop / seconds for seconds, _, flop in prefills if seconds] or [0.0])
    return {
        "device": name,
        "torch": torch.__version__,
        "shape": args.shape,
        "dtype": args.dtype,
        "questions": len(calls),
        "new_tokens": args.new,
        "tokens_a_prompt": prefills[0][1],
        "questions_per_second": {way: spread(values) for way, values in rates.items()},
        "tokens_per_second": {way: spread(values) for way, values in tokens.items()},
        "extrapolated_from": {way: count for way, (_, count) in ways.items()},
        "prefill_tflops": tflops,
        "prefill_share_of_peak": tflops["median"] / peak if peak else None,
        "peak_memory_gib": peaks,
    }


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="7b", choices=("7b", "tiny"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--questions", type=int, default=216)
    parser.add_argument("--alone", type=int, default=12)
    parser.add_argument("--plain", type=int, default=48)
    parser.add_argument("--new", type=int, default=16, help="tokens of an answer")
    parser.add_argument("--pixels", type=int, default=120_000, help="of a frame")
    parser.add_argument("--json", action="store_true", help="print the result as JSON too")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.exit(0, "skipped: torch sees no CUDA device on this machine\n")
    with tempfile.TemporaryDirectory() as folder:
        result = measure(args, checkpoint(Path(folder), args.shape, args.dtype))
    record(f"gpu-{args.shape}", result)
    rows = [
        [way, rate["median"], f"{rate['low']:.4g}-{rate['high']:.4g}", result["tokens_per_second"][way]["median"],
         result["peak_memory_gib"].get(way)]
        for way, rate in result["questions_per_second"].items()
    ]  # fmt: skip
    show(f"{args.shape} on {result['device']}", ["way", "questions/s", "spread", "tokens/s", "peak GiB"], rows)
    print(f"prefill: {result['prefill_tflops']['median']:.4g} TFLOP/s, of peak: {result['prefill_share_of_peak']}")
    if args.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
