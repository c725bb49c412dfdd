"""A flame graph of a sweep of the guessing model in one process: `python -m tests.bench.flame docs/profiles/sweep.svg`.

A thread samples the main thread's stack every few milliseconds; the width of a box is its share of the samples. Waiting
for the decoder's process counts, since that process works meanwhile; imports that all runs need are made before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from types import FrameType

from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.sweep.run import run_sweep
from tests.bench.many import write_many
from tests.bench.quick import run_stages_here
from tests.support.paths import ROOT

EVERY_S = 0.003
WIDTH, ROW = 1200, 17
LEAST_SHARE = 0.004
"""Narrower boxes are left out."""
CHAR_WIDTH = 6.4
STAGES = {
    "pipelines/plan": "#4c78a8",
    "pipelines/predict": "#f58518",
    "pipelines/score": "#54a24b",
    "pipelines/report": "#b279a2",
}
OTHER = "#9aa0a6"

Stack = tuple[str, ...]


@contextmanager
def sampled() -> Iterator[Counter[Stack]]:
    """Count the main thread's stacks within the block, outermost frame first."""
    stacks: Counter[Stack] = Counter()
    main, done = threading.get_ident(), threading.Event()

    def loop() -> None:
        while not done.wait(EVERY_S):
            stacks[tuple(reversed(list(names(sys._current_frames()[main]))))] += 1

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield stacks
    finally:
        done.set()
        thread.join()


def names(frame: FrameType | None) -> Iterator[str]:
    """Yield file and function of a frame and its callers, of the project's files and of what these call directly."""
    below = ""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        name = f"{path.parent.name}/{path.stem}.{frame.f_code.co_name}"
        if path.is_relative_to(ROOT) and ".venv" not in path.parts:
            if below:
                yield below
            below = ""
            yield f"{path.relative_to(ROOT).with_suffix('')}:{frame.f_code.co_name}"
        else:
            below = name
        frame = frame.f_back


def boxes(stacks: Counter[Stack], depth: int = 0, left: float = 0.0) -> Iterator[tuple[int, float, float, str]]:
    """Yield depth, left end, share of the samples and name of each box."""
    branches: dict[str, Counter[Stack]] = {}
    for stack, count in stacks.items():
        if len(stack) > depth:
            branches.setdefault(stack[depth], Counter())[stack] += count
    for name, branch in sorted(branches.items(), key=lambda item: -item[1].total()):
        yield depth, left, branch.total(), name
        yield from boxes(branch, depth + 1, left)
        left += branch.total()


def to_svg(stacks: Counter[Stack], title: str) -> str:
    """Draw the stacks."""
    total = stacks.total()
    drawn = [box for box in boxes(stacks) if box[2] >= LEAST_SHARE * total]
    height = ROW * (max(depth for depth, *_ in drawn) + 1) + 40
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace"'
    lines = [
        f'{head} font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="6" y="16" font-size="13">{escape(title)}</text>',
    ]
    for depth, left, samples, name in drawn:
        x, width, y = WIDTH * left / total, WIDTH * samples / total, 26 + ROW * depth
        colour = next((colour for stage, colour in STAGES.items() if name.startswith(stage)), OTHER)
        label = name.rpartition("/")[2][: int(width / CHAR_WIDTH)]
        lines.append(
            f'<g><title>{escape(name)}: {samples / total:.1%}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{ROW - 1}" fill="{colour}" fill-opacity=".75" stroke="#fff"/>'
            + (f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(label)}</text>' if len(label) > 2 else "")
            + "</g>"
        )
    return "\n".join([*lines, "</svg>\n"])


def main() -> None:
    """Run a sweep and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--requests", type=int, default=20_000)
    options = parser.parse_args()
    run_stages_here()
    with tempfile.TemporaryDirectory() as folder:
        for requests in (1000, options.requests):  # the first loads what is imported late
            data = Path(folder, f"data-{requests}")
            write_many(data, max(1, requests // 20), requests)
            spec = RunSpec(
                data=str(data),
                out=str(Path(folder, f"out-{requests}")),
                models={"chance": ModelSpec(engine="random")},
                benchmarks=("maia",),
                settings=("1-frame",),
            )
            with sampled() as stacks:
                run_sweep(spec)
    options.svg.parent.mkdir(parents=True, exist_ok=True)
    options.svg.write_text(
        to_svg(stacks, f"A sweep of {options.requests:,} requests in one process, share of its time")
    )


if __name__ == "__main__":
    main()
