"""Answers of every architecture compared with `generate` for one prompt at a time, as a table.

Run as `python -m tests.bench.equality`; a short form of it is part of `make test`. In float32 answers must be equal
token for token. A difference counts as a near tie, not as an error, where the two best logits at the first differing
token lie within rounding of each other. In bfloat16 rounding decides far more often: there the table only gives the
share of answers that differ, with prefix sharing and with plain batches. Results go to `bench-results/equality.json`.

Model weights are random: their best logits lie closer together than a trained model's, so the bfloat16 figures are
an upper end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers

from models.engines.transformers.engine import TransformersEngine
from models.messages import Answer, Call, Generation, Media
from models.spec import ModelSpec
from tests.support.checkpoints import ARCHITECTURES, build_tiny
from tests.unit.models.engines.transformers.reference_answers import (
    FIRST_FRAME,
    MEDIA,
    OTHER,
    PICTURE,
    QUESTIONS,
    ROUNDING,
    SHORT_CLIP,
    ReferenceModel,
    calls_about,
)

LIMITS = (1, 64)
LONG = (1, 3)
"""Questions that get the long limit too."""
BATCHES = (1, 2, 100)
STOPS = range(300, 360)
"""Tokens that end an answer in the second half of the matrix."""
ONE_PICTURE = ("blip-2", "instructblip", "instructblip_t5")

Tokens = dict[str, tuple[int, ...]]


@dataclass(slots=True)
class Count:
    """Counts of equal and differing answers of one architecture."""

    prompts: int = 0
    equal: int = 0
    near_ties: int = 0
    differing: int = 0


def shown_to(architecture: str) -> list[tuple[Media, ...]]:
    """Return the media to ask about: none, a picture, a clip, two pictures, as far as the model takes them."""
    if not sees(architecture):
        return [()]
    if architecture in ONE_PICTURE:
        return [(), (PICTURE,), (FIRST_FRAME,)]
    clip = FIRST_FRAME if architecture == "phi4_multimodal" else SHORT_CLIP
    return [(), (PICTURE,), (clip,), (PICTURE, OTHER)]


def sees(architecture: str) -> bool:
    """Return whether the architecture takes pictures."""
    from tests.support.checkpoints.more_families import ALL_FAMILIES

    return ALL_FAMILIES[architecture].processor is not None


def matrix(architecture: str) -> list[Call]:
    """Return every question about all media, limited to one token, and two of the questions limited to 64."""
    first, last = (calls_about(*shown_to(architecture), limits=(limit,)) for limit in LIMITS)
    long = [call for number, call in enumerate(last) if number % len(QUESTIONS) in LONG]
    return [replace(call, call_id=f"{call.generation.max_new_tokens}/{call.call_id}") for call in (*first, *long)]


def generate_tokens(engine: TransformersEngine, calls: Sequence[Call]) -> Tokens:
    """Return the tokens of each answer, without the end token.

    Raises:
        RuntimeError: a call failed.
    """
    results: Tokens = {}
    original_reply = engine._reply  # replies hold text, and different tokens may make the same text

    def record_reply(prompt: Any, written: Any, *more: Any) -> Any:
        results[prompt.call.call_id] = tuple(written.ids)
        return original_reply(prompt, written, *more)

    engine._reply = record_reply  # type: ignore[method-assign]
    for reply in engine.generate(calls, MEDIA):
        if not isinstance(reply.outcome, Answer):
            raise RuntimeError(  # noqa: TRY004  # the call failed; no type is wrong
                f"call {reply.call_id}: {reply.outcome}"
            )
    return results


def cut(ids: Sequence[int], stops: range | tuple[int, ...]) -> tuple[int, ...]:
    """Return the tokens before the first stop token."""
    end = next((index for index, token in enumerate(ids) if token in stops), len(ids))
    return tuple(ids[:end])


def compare(count: Count, got: Tokens, want: Mapping[str, tuple[tuple[int, ...], list[float]]]) -> None:
    """Add a run's answers to the counts."""
    for call_id, (alone, gaps) in want.items():
        count.prompts += 1
        actual = got[call_id]
        if actual == alone:
            count.equal += 1
            continue
        pairs = enumerate(zip(actual, alone, strict=False))
        first = next((index for index, (a, b) in pairs if a != b), min(len(actual), len(alone)))
        if first < len(gaps) and gaps[first] < ROUNDING:
            count.near_ties += 1
        else:
            count.differing += 1


def path_of(engine: TransformersEngine) -> str:
    """Return `shared`, `encoder reused` or `plain`."""
    if engine.no_sharing_reason is None:
        return "shared"
    return "encoder reused" if engine.media_kind != "none" else "plain"


def engine_at(folder: Path, **more: Any) -> TransformersEngine:
    """Build the engine on the CPU."""
    return TransformersEngine(ModelSpec(engine="transformers", model=str(folder), device="cpu", **more))


def with_stops(folder: Path) -> Path:
    """Copy the checkpoint, with more stop tokens."""
    stopping = shutil.copytree(folder, folder.with_name(f"{folder.name}-stops"))
    settings = json.loads((stopping / "generation_config.json").read_text())
    settings["eos_token_id"] = [settings["eos_token_id"], *STOPS]
    (stopping / "generation_config.json").write_text(json.dumps(settings))
    return stopping


def in_float32(architecture: str, folder: Path) -> dict[str, Any]:
    """Compare all batch sizes, with and without a stop token inside, with one prompt at a time."""
    calls = matrix(architecture)
    alone = ReferenceModel(folder)
    want = {}
    for call in calls:
        ids, gaps = alone.generate(call)
        want[call.call_id] = (tuple(ids), gaps)
    stopping = with_stops(folder)
    # Greedy decoding stops at the first end token and is the same before it; the last call checks it.
    ended = {call_id: (cut(ids, STOPS), gaps) for call_id, (ids, gaps) in want.items()}
    if cut(ReferenceModel(stopping).generate(calls[-1])[0], STOPS) != ended[calls[-1].call_id][0]:
        raise RuntimeError(f"{architecture}: an end token does more than end the answer")
    default_count, plain_count = Count(), Count()
    path = ""
    for batch in BATCHES:
        # Small batches run where answers end early, as that is where rows leave them.
        for where, expected in ((stopping, ended), (folder, want))[: 1 + (batch == BATCHES[-1])]:
            engine = engine_at(where, batch_size=batch)
            compare(default_count, generate_tokens(engine, calls), expected)
            path = path_of(engine)
    for where, expected in ((folder, want), (stopping, ended)):
        compare(plain_count, generate_tokens(engine_at(where, share_prefix=False), calls), expected)
    shorter = sum(ended[name][0] != want[name][0] for name in want)
    return {"path": path, "own": asdict(default_count), "plain_batches": asdict(plain_count), "ended_inside": shorter}


def in_bfloat16(architecture: str, folder: Path) -> dict[str, Any]:
    """Count the answers that differ from one prompt at a time, all in bfloat16."""
    calls = [
        replace(call, generation=Generation(max_new_tokens=8))
        for call in matrix(architecture)[: len(shown_to(architecture)) * len(QUESTIONS)]
    ]
    alone = ReferenceModel(folder, dtype=torch.bfloat16)
    want = {call.call_id: tuple(alone.generate(call)[0]) for call in calls}
    results: dict[str, Any] = {"prompts": len(calls)}
    for way, share in (("own", True), ("plain_batches", False)):
        got = generate_tokens(engine_at(folder, dtype="bfloat16", share_prefix=share), calls)
        results[way] = sum(got[name] != want[name] for name in want)
        results[f"{way}_first_token"] = sum(got[name][:1] != want[name][:1] for name in want)
    return results


def row(architecture: str, exact: Mapping[str, Any], rough: Mapping[str, Any]) -> str:
    """Format one line of the table."""
    default, plain = exact["own"], exact["plain_batches"]
    share = [f"{rough[way] / rough['prompts']:.0%}" for way in ("own", "own_first_token", "plain_batches")]
    cells = [
        architecture, exact["path"], default["prompts"], default["equal"], default["near_ties"], default["differing"],
        f"{plain['equal']}/{plain['near_ties']}/{plain['differing']}", *share,
    ]  # fmt: skip
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


HEADING = (
    "| architecture | path | prompts | equal | near ties | differing | plain batches: equal/near ties/differing "
    "| bfloat16: answers that differ | at the first token | bfloat16 plain batches |\n" + "|---" * 10 + "|"
)


def main() -> int:
    """Measure, print the table and write the results file; 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architectures", default=",".join(ARCHITECTURES), help="comma-separated")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    args = parser.parse_args()
    os.sched_getaffinity = lambda _: set(range(args.threads))  # type: ignore[assignment]  # the engine asks it
    torch.set_num_threads(args.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"torch": torch.__version__, "transformers": transformers.__version__, "rows": {}}
    print(HEADING, flush=True)
    wrong = 0
    for architecture in args.architectures.split(","):
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as root:
            folder = build_tiny(Path(root, architecture), architecture)
            exact = in_float32(architecture, folder)
            rough = in_bfloat16(architecture, folder)
        seconds = time.perf_counter() - started
        results["rows"][architecture] = {"float32": exact, "bfloat16": rough, "seconds": seconds}
        wrong += exact["own"]["differing"] + exact["plain_batches"]["differing"]
        print(row(architecture, exact, rough), flush=True)
        (args.out / "equality.json").write_text(json.dumps(results, indent=2) + "\n")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
