"""One clip, its 216 questions, three ways: one at a time, plain batches, one prefill for all.

    python -m tests.bench.group --size small --runs 5

The ways take turns within one process, because machines are noisy; decoding is counted in each. One at a time is
measured on a sample of the questions, and plain batches on another: a rate does not need all 216. The arithmetic limit
is counted: multiplications and additions of all questions asked one at a time, the clip's encoding among them, over
those of the shared way. Beside it stands the same by prompt tokens, which leaves encoding out. The published clip is
used where this machine has it, else the demo's.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch.utils.flop_counter import FlopCounterMode

from models.engines.transformers.engine import TransformersEngine
from models.entry_fields import Limits
from models.messages import Answer, Call, Frames, Media
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.media.decoder import Decoder
from pipelines.plan.selection import TaskSetting
from pipelines.storage.store import Store
from tests.bench.results import record, show, spread
from tests.conftest import REAL_MAIA
from tests.support.checkpoints import ARCHITECTURES, build_tiny
from tests.support.paths import ROOT
from tests.support.requests import build_requests, target_of

ALONE = 6
"""Calls asked one at a time in a run, by default."""
PLAIN = 24
"""Calls asked in plain batches in a run, by default."""


def group(data: Path, pixels: int) -> tuple[list[Call], Media, Callable[[], Frames]]:
    """Return the questions about the first clip at 32 frames, the clip, and a function that decodes it."""
    source = REAL_MAIA if REAL_MAIA.is_dir() else ROOT / "jobs" / "demo" / "data" / "maia"
    ingest_benchmark(benchmark("maia"), Folder(str(source)), Store(str(data)))
    dataset = Dataset.open(Store(str(data)), "maia")
    samples = list(dataset.samples())
    samples = [sample for sample in samples if sample.cluster == samples[0].cluster]
    target = target_of(
        benchmark_name="maia",
        dataset_fingerprint="",
        model="bench",
        generation={"max_new_tokens": 1},
        task_settings=(TaskSetting("vsv", "32-frames"), TaskSetting("oevqa", "32-frames")),
        seed=42,
    )
    steps = [
        (request.request_id, request.request.steps[0])
        for sample in samples
        for request in build_requests(target, sample)
    ]
    calls = [Call(call_id=name, turns=step.turns, generation=step.generation) for name, step in steps]
    path = dataset.media_path(samples[0], calls[0].media[0])
    decoder = Decoder()
    return calls, calls[0].media[0], lambda: decoder.decode(dataset.store, path, calls[0].media[0], pixels)


def arithmetic(spec: ModelSpec, calls: Sequence[Call], clip: Media, decode: Callable[[], Frames]) -> int:
    """Count the floating-point operations of matrix products, attention and convolutions for these calls together."""
    engine = TransformersEngine(spec)
    with FlopCounterMode(display=False) as counter:
        timed(engine, calls, clip, decode)
    engine.close()
    return int(counter.get_total_flops())


def timed(
    engine: TransformersEngine, calls: Sequence[Call], clip: Media, decode: Callable[[], Frames]
) -> tuple[float, float, list[Answer]]:
    """Measure a group, decoding included: seconds, processor seconds of this process, and the answers."""
    start, cpu = time.perf_counter(), time.process_time()
    replies = list(engine.generate(calls, {clip: decode()}))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    answers = [reply.outcome for reply in replies if isinstance(reply.outcome, Answer)]
    if len(answers) != len(calls):
        raise RuntimeError(f"{len(calls) - len(answers)} of {len(calls)} calls failed")
    return seconds, cpu, answers


class Ways:
    """The three ways to answer a clip's questions; every run begins with fresh engines."""

    def __init__(
        self,
        spec: ModelSpec,
        calls: Sequence[Call],
        clip: Media,
        decode: Callable[[], Frames],
        *,
        alone: int = ALONE,
        plain: int = PLAIN,
    ) -> None:
        self._spec, self._calls, self._clip, self._decode = spec, calls, clip, decode
        self._some = {"alone": alone, "plain": plain, "shared": len(calls)}
        self.rates: dict[str, list[float]] = {"alone": [], "plain": [], "shared": []}
        self.cpu_rates: dict[str, list[float]] = {"alone": [], "plain": [], "shared": []}
        self.answers: list[Answer] = []
        one_at_a_time = spec.model_copy(update={"share_prefix": False, "batch_size": 1})
        alone_flops = sum(arithmetic(one_at_a_time, [call], clip, decode) for call in (calls[0], calls[-1])) / 2
        shared_flops = arithmetic(spec, calls, clip, decode)
        self.flops = {"one_call_alone": alone_flops, "all_shared": shared_flops}

    def run(self, turn: int) -> None:
        """Measure each way once."""
        changes: dict[str, dict[str, Any]] = {
            "alone": {"share_prefix": False, "batch_size": 1},
            "plain": {"share_prefix": False},
            "shared": {},
        }
        for way, change in changes.items():
            calls = self._calls[turn :: max(1, len(self._calls) // self._some[way])][: self._some[way]]
            calls = self._calls if way == "shared" else calls
            spec = self._spec.model_copy(update=change)
            lots = [[call] for call in calls] if way == "alone" else [calls]
            timings = [self._timed(TransformersEngine(spec), lot) for lot in lots]
            self.rates[way].append(len(calls) / sum(seconds for seconds, _, _ in timings))
            self.cpu_rates[way].append(len(calls) / sum(cpu for _, cpu, _ in timings))
            self.answers = timings[-1][2]
        print(
            f"run {turn + 1}: " + ", ".join(f"{way} {values[-1]:.3f}/s" for way, values in self.rates.items()),
            flush=True,
        )

    def _timed(self, engine: TransformersEngine, calls: Sequence[Call]) -> tuple[float, float, list[Answer]]:
        try:
            return timed(engine, calls, self._clip, self._decode)
        finally:
            engine.close()

    def result(self) -> dict[str, Any]:
        """Return rates, ratios and the limit."""
        tokens = sum(answer.input_tokens for answer in self.answers)
        computed = tokens - sum(answer.cached_tokens for answer in self.answers)
        ratios = _ratios(self.rates)
        by_cpu = _ratios(self.cpu_rates)
        limit = self.flops["one_call_alone"] * len(self._calls) / self.flops["all_shared"]
        return {
            "calls": len(self._calls),
            "tokens_a_prompt": tokens / len(self._calls),
            "tokens_shared": max(answer.head_tokens for answer in self.answers),
            "prompt_tokens": tokens,
            "tokens_computed": computed,
            "arithmetic_limit": limit,
            "limit_by_tokens": tokens / computed,
            "operations": self.flops,
            "operations_per_second_shared": self.flops["all_shared"]
            * statistics.median(self.rates["shared"])
            / len(self._calls),
            "operations_per_second_alone": self.flops["one_call_alone"] * statistics.median(self.rates["alone"]),
            "calls_per_second": {way: spread(values) for way, values in self.rates.items()},
            "calls_per_processor_second": {way: spread(values) for way, values in self.cpu_rates.items()},
            "shared_over_alone": spread(ratios),
            "shared_over_alone_by_processor_time": spread(by_cpu),
            "share_of_limit": statistics.median(ratios) / limit,
            "share_of_limit_by_processor_time": statistics.median(by_cpu) / limit,
            "shared_over_plain": spread(_ratios(self.rates, "plain")),
            "shared_over_plain_by_processor_time": spread(_ratios(self.cpu_rates, "plain")),
            "extrapolated_from": self._some,
        }


def _ratios(rates: dict[str, list[float]], other: str = "alone") -> list[float]:
    return [a / b for a, b in zip(rates["shared"], rates[other], strict=True)]


def report(name: str, result: dict[str, Any]) -> None:
    """Write and print."""
    record(name, result)
    rows = [
        [way, figures["median"], f"{figures['low']:.4g}-{figures['high']:.4g}"]
        for way, figures in result["calls_per_second"].items()
    ]
    show(f"{name}: {result['calls']} questions about one clip", ["way", "questions/s", "spread"], rows)
    ratio, by_cpu = result["shared_over_alone"], result["shared_over_alone_by_processor_time"]
    print(
        f"{result['tokens_a_prompt']:.0f} tokens a prompt, {result['tokens_shared']} of them the clip's; shared over "
        f"alone {ratio['median']:.1f} ({ratio['low']:.1f}-{ratio['high']:.1f}); arithmetic limit "
        f"{result['arithmetic_limit']:.1f} ({result['limit_by_tokens']:.1f} by tokens); "
        f"{result['share_of_limit']:.0%} of it. "
        f"By processor time: {by_cpu['median']:.1f}, "
        f"{result['share_of_limit_by_processor_time']:.0%} of the limit; "
        f"over plain batches {result['shared_over_plain_by_processor_time']['median']:.1f}",
        flush=True,
    )


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small", choices=("tiny", "small"), help="2 or 50 million parameters")
    parser.add_argument("--architecture", default="qwen2_5_vl", choices=ARCHITECTURES, metavar="NAME")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pixels", type=int, default=120_000, help="of a frame, at the most")
    parser.add_argument("--alone", type=int, default=ALONE, help="questions of a run that are asked one at a time")
    parser.add_argument("--plain", type=int, default=PLAIN, help="questions of a run that go in plain batches")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = build_tiny(Path(folder, "model"), args.architecture, size=args.size)
        calls, clip, decode = group(Path(folder, "data"), args.pixels)
        spec = ModelSpec(
            engine="transformers", model=str(checkpoint), dtype="float32", device="cpu",
            limits=Limits(max_pixels=args.pixels),
        )  # fmt: skip
        ways = Ways(spec, calls, clip, decode, alone=args.alone, plain=args.plain)
        for turn in range(args.runs):
            ways.run(turn)
    suffix = "" if args.architecture == "qwen2_5_vl" else f"-{args.architecture}"
    report(f"group-{args.size}{suffix}", ways.result())


if __name__ == "__main__":
    main()
