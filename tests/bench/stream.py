"""How full a window of calls at an endpoint stays, against a plain loop on the same server.

`python -m tests.bench.stream [--rows N] [--pairs N] [CASE ...]`: each case runs the loop and the product in turns, and
prints medians: seconds, mean calls in flight until the last rows, refusals, and processor seconds of the client. The
calls in flight over time of the last run are written to `CASE-loop.json` and `CASE-vlmsweep.json`;
`python -m tests.bench.stream --draw OUT.svg NAME=FILE ...` draws such files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2

from models.spec import ModelSpec
from pipelines.ingest.dataset import load_tables
from pipelines.plan.run_spec import RunSpec
from pipelines.sweep.run import run_sweep
from tests.support.paths import ROOT


@dataclass(frozen=True, slots=True)
class Case:
    """What a server does, and how many calls a client has in flight."""

    median_s: float
    sigma: float = 0.0  # of the logarithm of a reply's time
    concurrency: int | None = 64  # None: the product's own choice, which may grow; the loop has 256
    refused: float = 0.0  # share of attempts, at random, that get 429 with Retry-After: 1
    most: int = 10**6  # calls at once, above which attempts get that
    rows: int = 2000
    pictures: bool = False


CASES = {
    "text-64": Case(0.5, 1.0),
    "text-256": Case(1.0, 1.0, 256),
    "pictures-64": Case(0.5, 1.0, rows=500, pictures=True),
    "pictures-256": Case(1.0, 1.0, 256, rows=500, pictures=True),
    "refusals": Case(0.05, refused=0.05, rows=1000),
    "limit-20": Case(0.05, most=20, rows=1000),
    "slow": Case(2.0, concurrency=None, rows=1500),
}


@dataclass(slots=True)
class Server:
    """A server of chat completions that counts what is in flight; requests for `/figures` return and reset that."""

    case: Case
    in_flight: int = 0
    refusals: int = 0
    events: list[tuple[float, int]] = field(default_factory=list)
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
                )
                await reader.readexactly(length)
                status, body = await self._reply(head)
                more = "retry-after: 1\r\n" if status == 429 else ""
                start = f"HTTP/1.1 {status} X\r\n{more}content-length: {len(body)}\r\n\r\n"
                writer.write(start.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _reply(self, head: bytes) -> tuple[int, bytes]:
        if head.startswith(b"GET"):
            figures = json.dumps({"events": self.events, "refusals": self.refusals}).encode()
            self.events, self.refusals, self.draw = [], 0, random.Random(7)
            return 200, figures
        case = self.case
        if self.in_flight >= case.most or self.draw.random() < case.refused:
            self.refusals += 1
            return 429, b'{"error": {"message": "slow down"}}'
        self.in_flight += 1
        self.events.append((time.monotonic(), 1))
        await asyncio.sleep(case.median_s * math.exp(case.sigma * self.draw.gauss(0, 1)))
        self.in_flight -= 1
        self.events.append((time.monotonic(), -1))
        choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        return 200, json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()


def figures_of(raw: dict[str, Any], rows: int, window: int) -> dict[str, float]:
    """Return seconds, the mean in flight until the last rows of two windows are left, and refusals."""
    area, flying, answered, before, most = 0.0, 0, 0, raw["events"][0][0], 0
    start = middle = before
    for at, change in raw["events"]:
        if answered < max(rows - 2 * window, rows // 4):
            area += flying * (at - before)
            middle = at
        before, flying, answered = at, flying + change, answered + (change < 0)
        most = max(most, flying)
    mean = area / (middle - start)
    return {"seconds": before - start, "in flight": mean, "most": most, "refusals": raw["refusals"]}


async def loop(port: int, rows: int, workers: int, body: dict[str, Any]) -> None:
    """Send all rows from a number of workers, each of which waits where it is refused."""
    left = iter(range(rows))
    limits = httpx2.Limits(max_connections=workers, max_keepalive_connections=workers)
    async with httpx2.AsyncClient(timeout=None, limits=limits) as client:

        async def work() -> None:
            for _ in left:
                while True:
                    reply = await client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body)
                    if reply.status_code != 429:
                        break
                    await asyncio.sleep(float(reply.headers["retry-after"]))

        await asyncio.gather(*(work() for _ in range(workers)))


def ingest(folder: Path, case: Case) -> str:
    """Return a data folder with a table of questions, each about a picture of its own if the case has pictures."""
    from PIL import Image

    (folder / "pictures").mkdir(parents=True)
    lines = ["id,question,A,B,answer" + (",image" if case.pictures else "")]
    for row in range(case.rows):
        if case.pictures:
            colour = (row % 256, row // 256, 40)
            Image.new("RGB", (256, 256), colour).save(folder / "pictures" / f"{row}.png")
        lines.append(f"q{row},Which is item {row}?,x,y,A" + (f",pictures/{row}.png" if case.pictures else ""))
    (folder / "quiz.csv").write_text("\n".join(lines))
    command = ["ingest", "table", str(folder / "quiz.csv"), "--as", "quiz", "--data", str(folder / "data")]
    subprocess.run([sys.executable, "-m", "jobs.cli", *command], check=True, cwd=ROOT, capture_output=True)
    return str(folder / "data")


def timeline(raw: dict[str, Any], steps: int = 200) -> list[tuple[float, float]]:
    """Return seconds since the first call and the mean in flight, in equal steps of time."""
    events = raw["events"]
    start, end = events[0][0], events[-1][0]
    width = (end - start) / steps
    areas, flying = [0.0] * steps, 0
    for (began, change), (until, _) in pairwise(events):
        flying += change
        first, last = (min(steps - 1, int((at - start) / width)) for at in (began, until))
        for step in range(first, last + 1):
            inside = min(until, start + (step + 1) * width) - max(began, start + step * width)
            areas[step] += flying * max(0.0, inside)
    return [(round((step + 0.5) * width, 2), round(area / width, 2)) for step, area in enumerate(areas)]


def drawn(lines: dict[str, list[tuple[float, float]]]) -> str:
    """Return an SVG of calls in flight over time, a line for each name."""
    most_s, most = (max(point[axis] for line in lines.values() for point in line) for axis in (0, 1))
    colours, parts = ("#b0413e", "#1f6f8b", "#555555"), list[str]()
    for number, (name, line) in enumerate(lines.items()):
        points = " ".join(f"{60 + 620 * at / most_s:.1f},{250 - 220 * value / most:.1f}" for at, value in line)
        parts.append(f'<polyline fill="none" stroke="{colours[number]}" stroke-width="1.5" points="{points}"/>')
        parts.append(f'<text x="{60 + 200 * number}" y="16" fill="{colours[number]}">{name}</text>')
    axis = [
        f'<text x="52" y="{254 - 220 * share:.0f}" text-anchor="end">{most * share:.0f}</text>' for share in (0, 0.5, 1)
    ]
    axis += [
        f'<text x="{60 + 620 * share:.0f}" y="270" text-anchor="middle">{most_s * share:.0f} s</text>'
        for share in (0, 0.5, 1)
    ]
    body = "".join([*axis, *parts, '<path d="M60 30V250H680" fill="none" stroke="#999"/>'])
    box = 'viewBox="0 0 700 280" font-family="sans-serif" font-size="13" role="img"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{body}</svg>\n'


def processor_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage)


def measure(name: str, case: Case, pairs: int, folder: Path) -> list[str]:
    """Return a line of medians for the loop and one for the product."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.stream", "--serve", name], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout
    port, data = int(server.stdout.readline()), ingest(folder / "source", case)
    load_tables(data, ["quiz"])
    results: dict[str, list[dict[str, float]]] = {"loop": [], "vlmsweep": []}
    window = case.concurrency or 256
    limits = {"concurrency": case.concurrency} if case.concurrency else {}
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * (90_000 if case.pictures else 200)}]}
    try:
        for pair in range(pairs):
            for kind in ("loop", "vlmsweep"):
                began = processor_seconds()
                if kind == "loop":
                    asyncio.run(loop(port, case.rows, window, body))
                else:
                    spec = ModelSpec(engine="openai", model="m", base_url=f"http://127.0.0.1:{port}/v1", **limits)
                    run_sweep(
                        RunSpec(data=data, out=str(folder / f"out{pair}"), models={"m": spec}, benchmarks=("quiz",))
                    )
                used = processor_seconds() - began
                raw = httpx2.get(f"http://127.0.0.1:{port}/figures").json()
                results[kind].append({**figures_of(raw, case.rows, window), "processor s": used})
                Path(f"{name}-{kind}.json").write_text(json.dumps(timeline(raw)))
    finally:
        server.terminate()
        server.wait()
    medians = {
        kind: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for kind, runs in results.items()
    }
    ratio = medians["vlmsweep"]["seconds"] / medians["loop"]["seconds"]
    lines = [
        f"{name}, {kind}: " + ", ".join(f"{key} {value:.1f}" for key, value in row.items())
        for kind, row in medians.items()
    ]
    return [
        *lines,
        f"{name}: {ratio:.2f} times the loop's seconds, {medians['vlmsweep']['in flight'] / window:.0%} of the window",
    ]


def main() -> None:
    """Measure the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=[*CASES], metavar="CASE")
    parser.add_argument("--draw", type=Path, metavar="OUT.svg")
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--serve", choices=[*CASES])
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(Server(CASES[arguments.serve]).serve())
        return
    if arguments.draw:
        lines = dict(case.split("=", 1) for case in arguments.cases)
        arguments.draw.write_text(drawn({name: json.loads(Path(file).read_text()) for name, file in lines.items()}))
        return
    for name in arguments.cases:
        with tempfile.TemporaryDirectory() as folder:
            print("\n".join(measure(name, CASES[name], arguments.pairs, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
