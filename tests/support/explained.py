"""Two sides of an explanation in memory, with a difference planted between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase

import numpy as np
import pandas as pd

from jobs.analysis.explain.requests import Key, PromptStore, Side, StoredRequest, read_rows
from models.messages import Media, Step, user
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.table.benchmark import table_definition
from pipelines.plan.stored_plan import PlanRow
from pipelines.report.metrics_file import MetricKey

CHOICE = table_definition(TableDefinition(name="planted", kind="choice"))
OPEN = table_definition(TableDefinition(name="planted-open", kind="open"))
KEY = MetricKey("accuracy", "choice", "default")
JUDGED_KEY = MetricKey("judged_accuracy", "open", "default")
FINGERPRINT = {"engine": "random", "model": "w", "revision": "r"}
LETTERS = "ABCD"


class Prompts(PromptStore):
    """Prompts whose text and picture stand in the hash: `words|picture`."""

    def __init__(self) -> None:
        super().__init__([])

    def row(self, request: StoredRequest) -> PlanRow:
        """Return a request of the hash's words and picture."""
        words, _, picture = request.prompt_sha256.partition("|")
        return _Row(Step(turns=(user(Media("image", picture), words),)))


class _Row(PlanRow):
    def __init__(self, step: Step) -> None:
        object.__setattr__(self, "_step", step)

    __slots__ = ("_step",)

    @property
    def steps(self) -> tuple[Step, ...]:
        return (self._step,)


def samples_of(count: int, *, is_open: bool = False) -> dict[str, Sample]:
    """Return questions by id."""
    data = [
        {"question": f"Which is {number}?", "answers": [f"gold {number}"]}
        if is_open
        else {
            "question": f"Which is {number}?",
            "options": [f"{letter.lower()} {number} thing" for letter in LETTERS],
            "gold": number % 4,
        }
        for number in range(count)
    ]
    return {f"s{number}": Sample(sample_id=f"s{number}", data=of) for number, of in enumerate(data)}


def side(label: str, replies: Sequence[str | None], *, is_open: bool = False, verdicts: Sequence[bool] = ()) -> Side:
    """Return a side that gave these replies, None for a request that failed."""
    definition, task = (OPEN, "open") if is_open else (CHOICE, "choice")
    samples = samples_of(len(replies), is_open=is_open)
    rows = {
        (task, "default", name, ""): Row(
            request_id=f"{label}/{name}",
            sample=sample,
            model=label,
            task=task,
            setting="default",
            variant="",
            status="error" if reply is None else "ok",
            output=reply,
        )
        for (name, sample), reply in zip(samples.items(), replies, strict=True)
    }
    requests = {
        key: StoredRequest(
            prompt_sha256="words|picture", has_media=True, generation="[[32, 0.0, 1, 0]]", decoding="greedy"
        )
        for key in rows
    }
    return replace(
        Side(
            label=label,
            model=label,
            definition=definition,
            samples=samples,
            frame=pd.DataFrame(),
            rows=rows,
            requests=requests,
            prompts=Prompts(),
            fingerprint=FINGERPRINT,
        ),
        frame=frame_of(rows, verdicts),
    )


def frame_of(rows: dict[Key, Row], verdicts: Sequence[bool] = ()) -> pd.DataFrame:
    """Return rows as they are scored."""
    names = ("task", "setting", "sample_id", "variant")
    frame = pd.DataFrame([dict(zip(names, key, strict=True)) for key in rows])
    for name in ("subset", "category", "cluster", "answer", "rule", "finish_reason"):
        frame[name] = pd.Series([""] * len(frame), dtype=object)
    frame["request_id"] = [row.request_id for row in rows.values()]
    frame["status"] = [row.status for row in rows.values()]
    frame["flags"] = pd.Series([[] for _ in rows], dtype=object)
    frame["verdict_state"] = "ok" if len(verdicts) else "absent"
    if len(verdicts):
        frame["accepted"] = np.array(verdicts, np.float64)
    definition = OPEN if len(verdicts) else CHOICE
    return read_rows(frame, [*rows.values()], definition)


def letters(rng: np.random.Generator, count: int, share: float) -> list[str | None]:
    """Return the letters of a model that is right in a share of the questions."""
    right = rng.random(count) < share
    return [ascii_uppercase[(number + (0 if ok else int(rng.integers(1, 4)))) % 4] for number, ok in enumerate(right)]


def worse(rng: np.random.Generator, replies: Sequence[str | None], share: float) -> tuple[list[str | None], np.ndarray]:
    """Return replies of which some right ones became wrong, and which were drawn."""
    right = np.array([reply == ascii_uppercase[number % 4] for number, reply in enumerate(replies)])
    drawn = right & (rng.random(len(replies)) < share)
    return [
        ascii_uppercase[(number + 1) % 4] if drawn[number] else reply for number, reply in enumerate(replies)
    ], drawn


def noisy(rng: np.random.Generator, replies: Sequence[str | None]) -> list[str | None]:
    """Return replies of which 4% are drawn anew: what is left to the models in every plant."""
    return [LETTERS[int(rng.integers(4))] if reply is not None and rng.random() < 0.04 else reply for reply in replies]
