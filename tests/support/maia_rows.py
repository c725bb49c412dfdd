"""Scores of MAIA questions from a few letters a question, and their samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.metrics import reduce_scores
from pipelines.benchmarks.records import Metric, Sample

ANSWERS = (
    "la pizza è nel forno",
    "una pizza cuoce nel forno a legna",
    "nel forno",
    "in un forno a legna",
    "la pizza sta nel forno",
    "nel forno del cuoco",
    "dentro il forno",
    "il cuoco la mette nel forno",
)
_STATUS = {"T": "ok", "F": "ok", "N": "ok", "E": "error", "M": "missing", "X": "excluded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question in one setting.

    `pairs` is a letter a pair: T right, F wrong, N nothing read, E error, M never run, X excluded; '' for no `vsv`.
    `judged` is one of: accepted, rejected, invalid, failed, absent, error, missing, excluded; '' for no `oevqa`.
    """

    pairs: str = "TTTTTTTT"
    judged: str = "accepted"
    category: str = "Causal"
    video: str = "video1"
    name: str = "CausaleEsplicita_A"
    setting: str = "32-frames"
    answer: str = "la pizza cuoce nel forno a legna"
    values: Mapping[str, Any] | None = None
    """Columns laid over those of the `oevqa` row."""

    @property
    def sample_id(self) -> str:
        return f"{self.video}/{self.name}"


def frame(asked: Sequence[Asked]) -> pd.DataFrame:
    """Their rows, columns as `Benchmark.reduce` gets them."""
    return pd.DataFrame([row for request in asked for row in (*_pairs(request), *_open(request))])


def samples(asked: Sequence[Asked]) -> dict[str, Sample]:
    """Their samples, all with the same references."""
    return {
        request.sample_id: Sample(
            sample_id=request.sample_id,
            category=request.category,
            cluster=request.video,
            data={
                "answers": list(ANSWERS),
                "true": [f"vera {i}" for i in range(8)],
                "false": [f"falsa {i}" for i in range(8)],
            },
        )
        for request in asked
    }


def reduced(asked: Sequence[Asked]) -> list[Metric]:
    """Their metrics."""
    return reduce_scores(frame(asked), samples(asked))


def every_column(videos: int = 2, **how: Any) -> list[Asked]:
    """One question a category and video."""
    return [
        Asked(category=column, video=f"video{v}", name=f"{column}_A", **how)
        for v in range(videos)
        for column in COLUMNS
    ]


def found(
    metrics: Sequence[Metric], name: str, category: str = "", setting: str = "32-frames", task: str = ""
) -> Metric:
    """The one metric of that name."""
    (item,) = (
        m for m in metrics if (m.metric, m.category, m.setting) == (name, category, setting) and task in ("", m.task)
    )
    return item


def _identity(one: Asked, task: str, variant: str, status: str) -> dict[str, Any]:
    return {
        "sample_id": one.sample_id,
        "task": task,
        "setting": one.setting,
        "variant": variant,
        "subset": "",
        "category": one.category,
        "cluster": one.video,
        "status": status,
    }


def _pairs(one: Asked) -> list[dict[str, Any]]:
    rows = []
    for index, letter in enumerate(one.pairs):
        row = _identity(one, "vsv", str(index), _STATUS[letter])
        if row["status"] == "ok":
            row |= {
                "answer": None if letter == "N" else "A",
                "rule": "none" if letter == "N" else "mention",
                "flags": [],
                "finish_reason": "stop",
                "verdict_state": "absent",
                "correct": float(letter == "T"),
                "ts_at_a": float(index % 2 == 0),
            }
        rows.append(row)
    return rows


def _open(one: Asked) -> list[dict[str, Any]]:
    if not one.judged:
        return []
    status = one.judged if one.judged in ("error", "missing", "excluded") else "ok"
    row = _identity(one, "oevqa", "", status)
    if status == "ok":
        state = one.judged if one.judged in ("invalid", "failed", "absent") else "ok"
        row |= {
            "answer": one.answer,
            "rule": "text",
            "flags": ["judge_error"] if state == "invalid" else [],
            "finish_reason": "stop",
            "verdict_state": state,
            "rouge": 0.5,
            "meteor": 0.25,
        }
        if state in ("ok", "invalid"):
            row["accepted"] = float(one.judged == "accepted")
    return [{**row, **(one.values or {})}]
