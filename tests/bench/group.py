"""One clip, its 216 questions, three ways: one at a time, plain batches, one prefill for all.

Run by `make bench`. The ways take turns within one process, several times, because machines are noisy; medians, spread
and ratios go to `bench-results/group.json`. The published clip is used where this machine has it, else the demo's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from models.engines.transformers_engine import TransformersEngine
from models.messages import Answer, Call, Frames, Media
from models.spec import Limits, ModelSpec
from models.tiny import build_tiny
from pipelines.asking import Asker
from pipelines.benchmarks import benchmark
from pipelines.dataset import Dataset
from pipelines.ingest import Folder, ingest
from pipelines.media.decoder import Decoder
from pipelines.selection import Cell
from pipelines.store import Store
from tests.conftest import REAL_MAIA

ALONE = 12
"""Calls asked one at a time in a run; the rate does not need all 216."""


def group(data: Path, pixels: int) -> tuple[list[Call], Media, Callable[[], Frames]]:
    """The questions about the first clip at 32 frames, the clip, and how to decode it."""
    source = REAL_MAIA if REAL_MAIA.is_dir() else Path(__file__).parents[2] / "jobs" / "demo" / "data"
    ingest(benchmark("maia"), Folder(str(source)), Store(str(data)))
    dataset = Dataset.open(Store(str(data)), "maia")
    samples = list(dataset.samples())
    samples = [sample for sample in samples if sample.cluster == samples[0].cluster]
    asker = Asker(
        benchmark_name="maia",
        dataset_fingerprint="",
        model="bench",
        model_fingerprint={},
        generation={"max_new_tokens": 1},
        cells=(Cell("vsv", "32-frames"), Cell("oevqa", "32-frames")),
        prompts={},
        instead={},
        seed=42,
    )
    steps = [(asked.request_id, asked.request.steps[0]) for sample in samples for asked in asker.ask(sample)]
    calls = [Call(call_id=name, turns=step.turns, generation=step.generation) for name, step in steps]
    path = dataset.media_path(samples[0], calls[0].media[0])
    decoder = Decoder()
    return calls, calls[0].media[0], lambda: decoder.decode(dataset.store, path, calls[0].media[0], pixels)


def timed(
    engine: TransformersEngine, calls: Sequence[Call], clip: Media, decode: Callable[[], Frames]
) -> tuple[float, list[Answer]]:
    """Seconds for a group, its decoding counted, and the answers."""
    start = time.perf_counter()
    replies = list(engine.generate(calls, {clip: decode()}))
    seconds = time.perf_counter() - start
    answers = [reply.outcome for reply in replies if isinstance(reply.outcome, Answer)]
    if len(answers) != len(calls):
        raise RuntimeError(f"{len(calls) - len(answers)} of {len(calls)} calls failed")
    return seconds, answers


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="tiny", choices=("tiny", "small"), help="2 or 50 million parameters")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pixels", type=int, default=50176, help="of a frame, at the most")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = build_tiny(Path(folder, "model"), "qwen2_5_vl", size=args.size)
        calls, clip, decode = group(Path(folder, "data"), args.pixels)
        spec = ModelSpec(
            engine="transformers", model=str(checkpoint), dtype="float32", device="cpu",
            limits=Limits(max_pixels=args.pixels),
        )  # fmt: skip
        plain = TransformersEngine(spec.model_copy(update={"share_prefix": False}))
        rates: dict[str, list[float]] = {"alone": [], "plain": [], "shared": []}
        answers: list[Answer] = []
        for run in range(args.runs):
            spent = 0.0
            for call in calls[run :: len(calls) // ALONE][:ALONE]:
                plain = TransformersEngine(spec.model_copy(update={"share_prefix": False, "batch_size": 1}))
                spent += timed(plain, [call], clip, decode)[0]
            rates["alone"].append(ALONE / spent)
            plain = TransformersEngine(spec.model_copy(update={"share_prefix": False}))
            rates["plain"].append(len(calls) / timed(plain, calls, clip, decode)[0])
            seconds, answers = timed(TransformersEngine(spec), calls, clip, decode)
            rates["shared"].append(len(calls) / seconds)
            print(f"run {run + 1}: " + ", ".join(f"{way} {own[-1]:.2f}/s" for way, own in rates.items()), flush=True)
    tokens = sum(answer.input_tokens for answer in answers)
    computed = tokens - sum(answer.cached_tokens for answer in answers)
    medians = {way: statistics.median(own) for way, own in rates.items()}
    result = {
        "calls": len(calls),
        "size": args.size,
        "prompt_tokens": tokens,
        "tokens_computed": computed,
        "arithmetic_limit": tokens / computed,
        "calls_per_second": {way: {"median": medians[way], "all": own} for way, own in rates.items()},
        "shared_over_alone": medians["shared"] / medians["alone"],
        "shared_over_plain": medians["shared"] / medians["plain"],
        "load": Path("/proc/loadavg").read_text().split()[:3],
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"group-{args.size}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({name: value for name, value in result.items() if name != "calls_per_second"}, indent=2))


if __name__ == "__main__":
    main()
