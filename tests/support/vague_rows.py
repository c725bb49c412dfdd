"""Scores of VAGUE items from a few words an item, and their samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vague.benchmark import BENCHMARK
from tests.support import sweeps
from tests.support.sweeps import answered_row, scored_row

SETTINGS = ("lm", "sm", "vlm", "sm-cot", "vlm-cot")
CELLS = tuple(itertools.product(("mcq", "freeform"), SETTINGS))
ORDERINGS = (["A", "B", "C", "D"], ["B", "A", "C", "D"], ["C", "A", "B", "D"], ["D", "C", "B", "A"])
Say = Callable[[Sample, str, str], str | None]
"""Sample, task and setting -> what the model says; None is a failed request."""


def item(number: int, subset: str = "VCR", human: str = "", **data: Any) -> Sample:
    """Return one sample; gold letters rotate."""
    return Sample(
        sample_id=f"{subset}-{number:05d}",
        subset=subset,
        cluster=f"{number:064x}",
        data={
            "direct": "person1, please open the window.",
            "indirect": "person1, is it not rather warm?",
            "solution": f"(person1, {('open', 'close', 'wash')[number % 3]}, window)",
            "readings": {
                "correct": f"The speaker wants person1 to open window {number}.",
                "fs": "The speaker wants person1 to feed the parrot.",
                "su": "The speaker wants person1 to feel warm.",
                "ne": "The speaker wants person1 to open the curtain.",
            },
            "ordering": ORDERINGS[number % 4],
            "rating": {"direct": 4 + number % 2, "indirect": 3},
            "object_tags": 5 + number % 2,
            "people": 2,
            "human": human,
            **data,
        },
    )


def items(vcr: int, ego4d: int = 0, human: int = 0, name: str = "human-400") -> list[Sample]:
    """Return samples of both subsets, the first `human` of them answered by a human."""
    both = [("VCR", number) for number in range(vcr)] + [("Ego4D", vcr + number) for number in range(ego4d)]
    return [item(number, subset, name if number < human else "") for subset, number in both]


def perfect(sample: Sample, task: str, setting: str) -> str:
    """Answer every request correctly."""
    del setting
    letter: str = sample.data["ordering"][0]
    return letter if task == "mcq" else str(sample.data["readings"]["correct"])


def frame(
    samples: Sequence[Sample],
    say: Say,
    *,
    cells: Sequence[tuple[str, str]] = CELLS,
    status: Mapping[tuple[str, str], str] | None = None,
    similarity_scores: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Return rows as `Benchmark.reduce` gets them. `status` overrides by (sample id, setting)."""
    rows = []
    for sample in samples:
        for task, setting in cells:
            output = say(sample, task, setting)
            state = (status or {}).get((sample.sample_id, setting), "ok" if output is not None else "error")
            given = similarity_scores or {} if task == "freeform" else {}
            row = answered_row(sample, task, setting, output, given=given)
            rows.append(scored_row(row, "vague", "" if state in ("ok", "error") else state))
    return pd.DataFrame(rows)


def reduced(samples: Sequence[Sample], say: Say, **how: Any) -> list[Metric]:
    """Reduce the answers to metrics."""
    return BENCHMARK.metrics(frame(samples, say, **how), {sample.sample_id: sample for sample in samples})


def metric_named(metrics: Sequence[Metric], metric: str, setting: str = "vlm", subset: str = "", **more: str) -> Metric:
    """Return the only metric of a name in a cell."""
    return sweeps.metric_named(metrics, metric, **{"task": "mcq", "setting": setting, "subset": subset, **more})
