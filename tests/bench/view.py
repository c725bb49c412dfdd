"""`vlmsweep view` on a large output: time to load, time of pages and filters, memory.

    python -m tests.bench.view --rows 1000000 --part 2000

Writes an output with that many answers of four models to a temporary folder, then loads it and opens pages in this
process. Prints wall-clock and processor seconds of each page, and the most memory that was in use.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.testclient import TestClient

from jobs.view.run import viewer
from pipelines.samples.outputs import open_outputs
from pipelines.schemas import PREDICTIONS, SCORES
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store

MODELS = ("model-a", "model-b", "model-c", "model-d")
SETTINGS = ("black-video", "1-frame", "32-frames")
WORDS = ("the", "a", "red", "dog", "ball", "runs", "behind", "house", "before", "tree", "after", "child", "bridge")
PAGES = {
    "overview": "",
    "list": "samples",
    "list, last page": "samples?page=5000",
    "outcome of a model": "samples?benchmark=maia&model=model-b&outcome=wrong",
    "category and setting": "samples?category=category-3&setting=1-frame",
    "judge said": "samples?judge=rejected",
    "models disagree": "samples?disagree=1&sort=disagreement",
    "slowest first": "samples?sort=latency",
    "rare text": "samples?q=zebra",
    "frequent text": "samples?q=bridge&model=model-a",
}


def answer_rows(model: str, first: int, count: int, seed: random.Random) -> Iterator[tuple[dict[str, Any], ...]]:
    """Yield predictions with their scores."""
    for number in range(first, first + count):
        sample, variant = divmod(number, 24)
        right = seed.random() < 0.6
        output = " ".join(seed.choices(WORDS, k=seed.randint(1, 40))) + (" zebra" if number % 9973 == 0 else "")
        identity = {
            "request_id": f"{seed.getrandbits(128):032x}",
            "sample_id": f"video{sample // 12}/sample-{sample}",
            "benchmark": "maia",
            "task": "oevqa" if variant > 20 else "vsv",
            "setting": SETTINGS[variant % 3],
            "variant": str(variant // 3),
            "model": model,
            "status": "error" if number % 501 == 0 else "ok",
            "finish_reason": "stop",
        }
        prediction = {"output": output, "latency_s": seed.random(), "input_tokens": 900, "output_tokens": 12}
        score = {
            "category": f"category-{sample % 12}",
            "answer": output[:20] if number % 40 else None,
            "rule": "single",
            "verdict_state": "ok" if variant > 20 else "absent",
            "values": [("correct", float(right))] if variant <= 20 else [("accepted", float(right))],
        }
        yield {**identity, **prediction}, {**identity, **score}


def write_output(out: Path, rows: int, part: int) -> None:
    """Write an output of `rows` answers in parts of `part`."""
    store, seed = Store(str(out)), random.Random(42)
    for model in MODELS:
        for first in range(0, rows // len(MODELS), part):
            count = min(part, rows // len(MODELS) - first)
            predictions, scores = zip(*answer_rows(model, first, count, seed), strict=True)
            for kind, content, schema in (("predictions", predictions, PREDICTIONS), ("scores", scores, SCORES)):
                path = f"{part_folder(kind, 'maia', model)}/{first:024x}.parquet"
                store.put(path, to_parquet(content, schema))


def peak_mb() -> float:
    """Return the largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Write, load and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part", type=int, default=2_000, help="answers a part")
    parser.add_argument("--out", type=Path, help="an output that an earlier call wrote, or where to write it")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        out = arguments.out or Path(folder)
        if not (out / "predictions").exists():
            write_output(out, arguments.rows, arguments.part)
        print(f"written; at most {peak_mb():.0f} MB", flush=True)
        measure(out)


def measure(out: Path) -> None:
    """Print the time of each page."""
    clocks = time.perf_counter, time.process_time
    start = [clock() for clock in clocks]
    with viewer(open_outputs([str(out)]), "key") as app:
        client = TestClient(app)
        client.get("/key/samples")
        print("first page of the list, while loading", *_since(start), flush=True)
        while "Reading the outputs" in client.get("/key/").text:
            time.sleep(1)
        print("loaded", *_since(start), f"at most {peak_mb():.0f} MB", flush=True)
        for name, address in PAGES.items():
            for _ in range(2):
                start = [clock() for clock in clocks]
                response = client.get(f"/key/{address}")
                assert response.status_code == 200, response.text
            print(f"{name:24}", *_since(start), flush=True)
        print(f"at most {peak_mb():.0f} MB")


def _since(start: list[float]) -> tuple[str, str]:
    return f"{time.perf_counter() - start[0]:.2f} s", f"{time.process_time() - start[1]:.2f} s of processor time"


if __name__ == "__main__":
    main()
