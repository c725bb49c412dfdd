"""Random models of full size on one GPU: questions about one clip, alone, in plain batches, and sharing its prefix.

Then about several clips, with and without what is switched for GPUs: pixels that are preprocessed ahead, segments of
memory that grow. Then one about each of some pictures, prefilled one at a time and in one pass.

    python -m tests.bench.gpu                                # tiny, 2B and 7B in bfloat16
    python -m tests.bench.gpu --device cpu --shape tiny      # does it run at all; a minute
    python -m tests.bench.gpu --device meta --shape 72b      # shapes and memory of each rank, no weights

Needs no Ray and no network: see tests/gpu/README.md. Where vLLM is installed, it answers the same questions with random
weights of its own. The clip is drawn, its decoding is left out. Arithmetic is counted operation by operation. All go to
one file, each way's result when it is done; a way that fails is recorded with its error, and the next one begins.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from models.engines.transformers.checkpoint import allocate_expandable
from models.engines.transformers.engine import TransformersEngine
from models.entry_fields import Limits
from models.messages import Answer, Call, Frames, Generation, Media, user
from models.spec import ModelSpec
from tests.bench.results import FILE, record, show, spread
from tests.bench.shapes import SHAPES, engine_on, memory_by_degree, random_model, write_config

PEAK_TFLOPS = {
    "B200": 2250.0, "GH200": 989.0, "H200": 989.0, "H100 PCIe": 756.0, "H100": 989.0, "A100": 312.0, "A10": 125.0,
    "L40S": 362.0, "L4": 121.0, "RTX 4090": 165.0,
}  # fmt: skip
"""Dense bfloat16, as their makers state; the first name in the device's name counts."""
BUDGET_SHARES = {"tiny": 0.1, "2b": 0.3, "7b": 0.6}
DEFAULTS = {"dtype": "bfloat16", "runs": 5, "questions": 216, "alone": 4, "plain": 32, "pixels": 120_000}
CPU_DEFAULTS = {"dtype": "float32", "runs": 1, "questions": 8, "alone": 2, "plain": 4, "pixels": 20_000}
CLIP = Media("video", "d" * 64, 32)
WAYS: dict[str, dict[str, Any]] = {
    "alone": {"share_prefix": False, "batch_size": 1},
    "padded": {"share_prefix": False},
    "shared": {},
}
STEP_WAYS: dict[str, dict[str, Any]] = {"shared, no graphs": {"cuda_graphs": False}}
LONG = 128
LONG_WAYS: dict[str, dict[str, Any]] = {"long": {}, "long, no graphs": {"cuda_graphs": False}}
"""Answers of so many tokens."""
PICTURES = 16
PICTURE_WAYS: dict[str, dict[str, Any]] = {
    "pictures": {"pictures_per_prefill": 1},
    "pictures, one pass": {"pictures_per_prefill": PICTURES},
}
CLIPS = 4
SWITCHES: dict[str, dict[str, bool]] = {
    "clips": {},
    "clips, ahead": {"ahead": True},
    "clips, fixed segments": {"expandable": False},
}
"""Ways to answer a quarter of the questions about each of some clips."""
Unit = tuple[Sequence[Call], Mapping[Media, Frames]]


def frames(pixels: int, seed: int = 0) -> Frames:
    """Return a clip of 4:3 noise."""
    height = int((pixels * 3 / 4) ** 0.5)
    drawn = np.random.default_rng(seed).integers(0, 256, (32, height, height * 4 // 3, 3), np.uint8)
    return Frames(pixels=drawn, seconds=tuple(n * 0.9 for n in range(32)), fps=25.0, total_frames=700)


def questions(count: int, new: int, clip: Media = CLIP) -> list[Call]:
    """Return distinct questions as long as MAIA's."""
    words = "Quale delle due affermazioni descrive meglio quello che si vede nel video? Rispondi con una lettera."
    return [
        Call(
            call_id=str(n),
            turns=(user(clip, f"{n}. {words} A: la persona {n} prende una cosa dal tavolo. B: la lascia dov'era."),),
            generation=Generation(max_new_tokens=new),
        )
        for n in range(count)
    ]


def clip_units(count: int, new: int, pixels: int) -> list[Unit]:
    """Return questions about each of some clips."""
    clips = [Media("video", f"{n:x}" * 64, 32) for n in range(CLIPS)]
    return [(questions(count, new, clip), {clip: frames(pixels, n)}) for n, clip in enumerate(clips)]


def picture_unit(new: int, pixels: int) -> Unit:
    """Return a question about each of some pictures of different sizes."""
    pictures = {Media("image", f"{n:x}" * 64): frames(pixels * (PICTURES + n) // 32, n) for n in range(PICTURES)}
    first = {medium: Frames(pixels=clip.pixels[:1]) for medium, clip in pictures.items()}
    return [replace(questions(1, new, medium)[0], call_id=medium.source) for medium in first], first


def attention_flops(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: object, **__: object) -> int:
    """Return the operations of attention with shapes (batch, heads, tokens, width), fewer heads in keys or not.

    The counter of torch 2.11 demands as many heads in keys; that of 2.15 gives the same number.
    """
    batch, heads, rows, width = query
    return 2 * batch * heads * rows * key[2] * (width + value[3])


def flop_counter() -> FlopCounterMode:
    """Return a counter that knows grouped heads in any version of torch."""
    aten = torch.ops.aten
    names = ("flash_attention", "efficient_attention", "cudnn_attention")
    kernels = [getattr(aten, f"_scaled_dot_product_{name}") for name in names]
    return FlopCounterMode(display=False, custom_mapping=dict.fromkeys(kernels, attention_flops))


class Way:
    """Measures one way to answer the questions, each time with an engine whose caches are empty."""

    def __init__(
        self, model: Any, spec: ModelSpec, units: Sequence[Unit], *, is_counted: bool = False, ahead: bool = False,
        expandable: bool = True,
    ) -> None:  # fmt: skip
        self._model, self._spec, self._units, self._ahead, self._expandable = model, spec, units, ahead, expandable
        self._count = sum(len(calls) for calls, _ in units)
        self.seconds: list[float] = []
        self.peak_bytes = 0
        self.answers: list[Answer] = []
        # Not timed: kernels are chosen and memory is taken. The counter, which makes a pass several times as long, does
        # not see what a graph repeats.
        counter = flop_counter() if is_counted else nullcontext()
        with engine_on(model, spec.model_copy(update={"cuda_graphs": not is_counted})) as engine, counter:
            self._answer(engine)
        self.flops = int(counter.get_total_flops()) if isinstance(counter, FlopCounterMode) else None

    def run(self) -> None:
        """Measure once."""
        with engine_on(self._model, self._spec) as engine:
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            _wait()
            start = time.perf_counter()
            self._answer(engine)
            _wait()
            self.seconds.append(time.perf_counter() - start)
        if torch.cuda.is_available():
            self.peak_bytes = torch.cuda.max_memory_allocated()

    def _answer(self, engine: TransformersEngine) -> None:
        allocate_expandable(self._expandable)
        replies = []
        with ThreadPoolExecutor(1) if self._ahead else nullcontext() as other:
            for unit, following in zip_longest(self._units, self._units[1:]):
                if other and following:
                    other.submit(engine.prepare, *following)
                replies += engine.generate(*unit)
        self.answers = [reply.outcome for reply in replies if isinstance(reply.outcome, Answer)]
        if len(self.answers) != self._count:
            failure = next(reply.outcome for reply in replies if not isinstance(reply.outcome, Answer))
            raise RuntimeError(f"{self._count - len(self.answers)} of {self._count} calls failed: {failure}")

    def result(self, peak_tflops: float | None) -> dict[str, Any]:
        """Return rates, arithmetic and memory."""
        prompt = sum(answer.input_tokens for answer in self.answers)
        computed = prompt - sum(answer.cached_tokens for answer in self.answers)
        output = sum(answer.output_tokens for answer in self.answers)
        tflops = [self.flops / seconds / 1e12 for seconds in self.seconds] if self.flops else []
        return {
            "questions": self._count,
            "prompt_tokens": prompt,
            "prompt_tokens_computed": computed,
            "output_tokens": output,
            "flops": self.flops,
            "questions_per_second": spread([self._count / s for s in self.seconds]),
            "tokens_per_second": spread([(prompt + output) / s for s in self.seconds]),
            "output_tokens_per_second": spread([output / s for s in self.seconds]),
            "tflops": spread(tflops) if tflops else None,
            "share_of_peak": statistics.median(tflops) / peak_tflops if tflops and peak_tflops else None,
            "peak_memory_bytes": self.peak_bytes or None,
        }


Keep = Callable[[Mapping[str, Any]], None]
"""Stores what is measured of a shape until now."""


def measure(args: argparse.Namespace, shape: str, deadline: float, keep: Keep = lambda _: None) -> dict[str, Any]:
    """Measure all ways of one shape in turn, each at least once, until the deadline or `--runs`."""
    calls, clip = questions(args.questions, args.new), frames(args.pixels)
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder), shape)
        base = ModelSpec(
            engine="transformers", model=folder, dtype=args.dtype, device=args.device,
            limits=Limits(max_pixels=args.pixels),
        )  # fmt: skip
        result = _measure_ways(args, shape, deadline, keep, config, base)
        gc.collect()  # all of the model: vLLM wants most of the memory
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            result["vllm"] = run_vllm(base, calls, clip) if time.monotonic() < deadline else "not run: the time is up"
            keep(result)
    return result


def _measure_ways(
    args: argparse.Namespace, shape: str, deadline: float, keep: Keep, config: Any, base: ModelSpec
) -> dict[str, Any]:
    calls, clip = questions(args.questions, args.new), frames(args.pixels)
    counts = {"alone": args.alone, "padded": args.plain, "shared": len(calls)}
    several = clip_units(max(1, args.questions // CLIPS), args.new, args.pixels)
    ways_of = {name: partial(Way, units=[(calls[: counts[name]], {CLIP: clip})], is_counted=True) for name in WAYS}
    ways_of |= {name: partial(Way, units=several, **options) for name, options in SWITCHES.items()}
    ways_of |= {name: partial(Way, units=[picture_unit(args.new, args.pixels)]) for name in PICTURE_WAYS}
    ways_of |= {name: partial(Way, units=[(calls, {CLIP: clip})]) for name in STEP_WAYS}
    long = questions(args.questions, LONG if args.new > 1 and args.questions > 8 else args.new)
    ways_of |= {name: partial(Way, units=[(long, {CLIP: clip})]) for name in LONG_WAYS}
    changes = {**WAYS, **PICTURE_WAYS, **STEP_WAYS, **LONG_WAYS}
    model, peak = random_model(config, args.device, args.dtype), peak_tflops()
    ways: dict[str, Way] = {}
    result: dict[str, Any] = {"parameters": sum(weight.numel() for weight in model.parameters()), "runs": 0, "ways": {}}
    for done in range(args.runs):
        if done and time.monotonic() > deadline:
            print(f"{shape}: {done} of {args.runs} runs, for the time is up", flush=True)
            break
        for name, build in ways_of.items():
            if "error" in result["ways"].get(name, {}):
                continue
            try:
                way = ways.get(name) or build(model, base.model_copy(update=changes.get(name, {})))
                ways[name] = way
                way.run()
            except Exception as error:  # the other ways are measured all the same
                result["ways"][name] = {"error": f"{type(error).__name__}: {error}"}
                print(f"{shape} {name}: {type(error).__name__}: {error}", flush=True)
            else:
                result["ways"][name] = way.result(peak)
                print(f"{shape} {name}: {len(way.answers) / way.seconds[-1]:.3f} questions/s", flush=True)
            keep(result)
        result["runs"] = done + 1
    return result


def run_vllm(spec: ModelSpec, calls: Sequence[Call], clip: Frames) -> dict[str, Any] | str:
    """Answer the calls on vLLM with random weights of its own; return rates, or why there are none."""
    if importlib.util.find_spec("vllm") is None:
        return "not installed"
    import vllm

    from models.engines.vllm.engine import VLLMEngine

    try:
        engine = VLLMEngine(spec, make=lambda **settings: vllm.LLM(**{**settings, "load_format": "dummy"}))
        list(engine.generate(calls[:1], {CLIP: clip}))
        start = time.perf_counter()
        replies = list(engine.generate(calls, {CLIP: clip}))
        seconds = time.perf_counter() - start
        engine.close()
    except Exception as error:  # results of the other ways are worth more than this one's
        return f"{type(error).__name__}: {error}"
    answers = [reply.outcome for reply in replies if isinstance(reply.outcome, Answer)]
    tokens = sum(answer.input_tokens + answer.output_tokens for answer in answers)
    rates = {"questions_per_second": len(answers) / seconds, "tokens_per_second": tokens / seconds}
    return {"answered": len(answers), **rates}


def device_name() -> str:
    """Return the name of the GPU, or `cpu`."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def peak_tflops() -> float | None:
    """Return the device's stated peak; None where it is not in the table."""
    return next((value for name, value in PEAK_TFLOPS.items() if name in device_name()), None)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def show_memory(shape: str, memory: Mapping[str, Any]) -> None:
    """Print what each rank of a model holds."""
    rows = [
        [degree, rank["weights_by_plan"] / 1e9, rank["weights_estimated"] / 1e9, rank["estimate_over_plan"],
         rank["cache_per_token"], rank["without_cache"] / 1e9]
        for degree, rank in memory["ranks"].items()
    ]  # fmt: skip
    print(f"{shape}: {memory['parameters'] / 1e9:.2f} thousand million parameters, {memory['shape']}")
    show("each rank", ["ranks", "weights GB", "estimate GB", "ratio", "bytes/token", "all but cache GB"], rows)


def show_ways(shape: str, result: Mapping[str, Any]) -> None:
    """Print the rates of a shape."""
    rows = [
        [name, way["questions_per_second"]["median"], way["tokens_per_second"]["median"],
         way["tflops"] and way["tflops"]["median"], way["share_of_peak"], (way["peak_memory_bytes"] or 0) / 1e9]
        for name, way in result.get("ways", {}).items() if "error" not in way
    ]  # fmt: skip
    show(f"{shape} on {device_name()}", ["way", "questions/s", "tokens/s", "TFLOP/s", "of peak", "peak GB"], rows)
    print(f"vllm: {result.get('vllm', 'needs a GPU')}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", default=["tiny", "2b", "7b"], choices=("tiny", *SHAPES))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu", "meta"))
    parser.add_argument("--dtype", help="bfloat16 unless on a CPU, there float32")
    parser.add_argument("--runs", type=int, help="5; on a CPU 1")
    parser.add_argument("--budget-s", type=float, default=480.0, help="no run begins later; one of each kind is made")
    parser.add_argument("--questions", type=int, help="216; on a CPU 8")
    parser.add_argument("--alone", type=int, help="of them, asked one at a time: 4; on a CPU 2")
    parser.add_argument("--plain", type=int, help="of them, asked in plain batches: 32; on a CPU 4")
    parser.add_argument("--new", type=int, default=16, help="tokens of an answer")
    parser.add_argument("--pixels", type=int, help="of a frame: 120,000; on a CPU 20,000")
    parser.add_argument("--out", type=Path, default=FILE, help="results file; those of other benchmarks stay in it")
    args = parser.parse_args(arguments)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.exit(0, "skipped: torch sees no CUDA device on this machine\n")
    for name, value in (CPU_DEFAULTS if args.device == "cpu" else DEFAULTS).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    results: dict[str, Any] = {}
    begin, total = time.monotonic(), sum(BUDGET_SHARES.get(shape, 1.0) for shape in args.shape)
    deadline = begin
    facts = {"device": device_name(), "torch": torch.__version__, "dtype": args.dtype, "new_tokens": args.new}
    name = "gpu-memory" if args.device == "meta" else "gpu"

    def keep(result: Mapping[str, Any]) -> None:
        results[shape] = result
        record(name, {**facts, "shapes": results}, args.out)

    for shape in args.shape:
        deadline += args.budget_s * BUDGET_SHARES.get(shape, 1.0) / total
        if args.device == "meta":
            with tempfile.TemporaryDirectory() as folder:
                keep(memory_by_degree(write_config(Path(folder), shape), args.dtype))
            show_memory(shape, results[shape])
            continue
        try:
            keep(measure(args, shape, deadline, keep))
        except Exception as error:  # the shapes before it are recorded, and those after it begin
            keep({**results.get(shape, {}), "error": f"{type(error).__name__}: {error}"})
            traceback.print_exc()
        show_ways(shape, results[shape])
    print(f"{time.monotonic() - begin:.0f} s, results in {args.out}")


if __name__ == "__main__":
    main()
