"""Mutated bytes, and the parsers of foreign bytes that must end with a sentence on each of them, soon and small."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.data_fuzzing import DATA_PARSERS
from tests.support.log_fuzzing import LOG_PARSERS
from tests.support.model_fuzzing import MODEL_PARSERS
from tests.support.source_fuzzing import SOURCE_PARSERS

PARSERS = {**LOG_PARSERS, **MODEL_PARSERS, **DATA_PARSERS, **SOURCE_PARSERS}

_NUMBERS = (0, 1, 0xFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
_WORDS = (
    b"Infinity",
    b"NaN",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b"[" * 5000,
    b"null",
    b'"\\ud800"',
    b"\x00",
    b"{}",
    b"\xff\xfe",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the mutated inputs of one parser."""

    inputs: int
    refused: int
    unexpected: tuple[str, ...]
    """Errors that are no sentence, each with the number of its input."""
    slowest_s: float
    peak_mb: float
    """Growth of the process's peak memory."""


def mutate(seed: bytes, number: int) -> bytes:
    """Return a copy with one to four changes: bits, numbers, words, cuts, repeats; every twentieth is unchanged."""
    draw, content = random.Random(number), bytearray(seed)
    for _ in range(0 if number % 20 == 0 else draw.choice((1, 1, 2, 4))):
        _change(draw, content)
    return bytes(content)


def _change(draw: random.Random, content: bytearray) -> None:
    near_the_head = min(int(draw.expovariate(1 / 200)), len(content))
    place = near_the_head if draw.random() < 0.5 else draw.randrange(len(content) + 1)
    way = draw.randrange(6)
    if way == 0 and place < len(content):
        content[place] ^= 1 << draw.randrange(8)
    elif way == 1:
        layout = draw.choice(("<I", "<Q", ">I", ">Q"))
        number = draw.choice(_NUMBERS) & ((1 << 8 * struct.calcsize(layout)) - 1)
        content[place : place + struct.calcsize(layout)] = struct.pack(layout, number)
    elif way == 2:
        content[place : place + draw.choice((0, 1, 4))] = draw.choice(_WORDS)
    elif way == 3:
        del content[place : None if draw.random() < 0.5 else place + draw.randrange(1, 64)]
    elif way == 4:
        content[place:place] = content[place : place + draw.randrange(1, 4096)]
    else:
        content[place : place + 8] = draw.randbytes(8)


def fuzz(name: str, count: int, folder: Path) -> Outcome:
    """Parse `count` mutated inputs in this process."""
    make_seed, parse = PARSERS[name]
    seed = make_seed(folder)
    parse(seed, folder)  # also loads what it imports
    before, slowest, refused, unexpected = _peak_mb(), 0.0, 0, []
    for number in range(count):
        content, start = mutate(seed, number), time.process_time()
        try:
            parse(content, folder)
        except _named_errors() as error:
            refused += 1
            if not str(error).strip() or "Traceback" in str(error):
                unexpected.append(f"{number}: no sentence: {error!r}")
        except Exception as error:
            unexpected.append(f"{number}: {type(error).__name__}: {str(error)[:200]}")
        slowest = max(slowest, time.process_time() - start)
    return Outcome(count, refused, tuple(unexpected), slowest, _peak_mb() - before)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _named_errors() -> tuple[type[Exception], ...]:
    from models.errors import ModelError
    from pipelines.errors import PipelineError

    return (ModelError, PipelineError)


def fuzz_each(names: list[str], count: int, folder: Path) -> dict[str, Outcome]:
    """Fuzz parsers, each in a process of its own that begins with what all import; leave out those that end it."""
    for make_seed, parse in (PARSERS[name] for name in names):
        where = Path(tempfile.mkdtemp(dir=folder))
        parse(make_seed(where), where)
    outcomes = {}
    for name in names:
        where = Path(tempfile.mkdtemp(dir=folder))
        pid = os.fork()
        if not pid:
            signal.alarm(300)
            try:
                (where / "outcome").write_text(json.dumps(asdict(fuzz(name, count, where))))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        if (where / "outcome").exists():
            outcomes[name] = Outcome(**json.loads((where / "outcome").read_text()))
    return outcomes


if __name__ == "__main__":
    where, count, *names = sys.argv[1:]
    outcomes = fuzz_each(names, int(count), Path(where))
    sys.stdout.write(json.dumps({name: asdict(outcome) for name, outcome in outcomes.items()}))
