"""Scores of MAIA questions from a few letters a question, and their samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipelines.benchmarks.maia.facts import COLUMNS
from pipelines.benchmarks.maia.metrics import reduce_scores
from pipelines.benchmarks.records import Metric, Sample
from tests.support.sweeps import metric_named

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
class Question:
    """One question in one setting, with the results of its requests.

    `pairs` has a letter per pair: T right, F wrong, N unreadable, E error, M never run, X excluded; '' for no `vsv`.
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
    """Columns that replace those of the `oevqa` row."""

    @property
    def sample_id(self) -> str:
        return f"{self.video}/{self.name}"


def frame(scripted: Sequence[Question]) -> pd.DataFrame:
    """Return the rows of the questions, columns as `Benchmark.reduce` gets them."""
    return pd.DataFrame([row for request in scripted for row in (*_pairs(request), *_open(request))])


def samples(scripted: Sequence[Question]) -> dict[str, Sample]:
    """Return the samples of the questions, all with the same references."""
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
        for request in scripted
    }


def reduced(scripted: Sequence[Question]) -> list[Metric]:
    """Return the metrics of the questions."""
    return reduce_scores(frame(scripted), samples(scripted))


def every_column(videos: int = 2, **how: Any) -> list[Question]:
    """Return one question per category and video."""
    return [
        Question(category=column, video=f"video{v}", name=f"{column}_A", **how)
        for v in range(videos)
        for column in COLUMNS
    ]


def metric_of(
    metrics: Sequence[Metric], name: str, category: str = "", setting: str = "32-frames", task: str = ""
) -> Metric:
    """Return the metric of that name."""
    return metric_named(metrics, name, category=category, setting=setting, **({"task": task} if task else {}))


def _identity(question: Question, task: str, variant: str, status: str) -> dict[str, Any]:
    return {
        "sample_id": question.sample_id, "task": task, "setting": question.setting, "variant": variant, "subset": "",
        "category": question.category, "cluster": question.video, "status": status,
    }  # fmt: skip


def _pairs(question: Question) -> list[dict[str, Any]]:
    rows = []
    for index, letter in enumerate(question.pairs):
        row = _identity(question, "vsv", str(index), _STATUS[letter])
        if row["status"] == "ok":
            row |= {
                "answer": None if letter == "N" else "A",
                "rule": "none" if letter == "N" else "mention",
                "flags": [],
                "finish_reason": "stop", "verdict_state": "absent", "correct": float(letter == "T"),
                "ts_at_a": float(index % 2 == 0),
            }  # fmt: skip
        rows.append(row)
    return rows


def _open(question: Question) -> list[dict[str, Any]]:
    if not question.judged:
        return []
    status = question.judged if question.judged in ("error", "missing", "excluded") else "ok"
    row = _identity(question, "oevqa", "", status)
    if status == "ok":
        state = question.judged if question.judged in ("invalid", "failed", "absent") else "ok"
        row |= {
            "answer": question.answer, "rule": "text", "flags": ["judge_error"] if state == "invalid" else [],
            "finish_reason": "stop", "verdict_state": state, "rouge": 0.5, "meteor": 0.25,
        }  # fmt: skip
        if state in ("ok", "invalid"):
            row["accepted"] = float(question.judged == "accepted")
    return [{**row, **(question.values or {})}]
