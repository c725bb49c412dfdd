"""Score: read every prediction's answer, compare texts by scorer models, take the judge's verdict in.

One score part a prediction part, under the same name. Its footer holds a hash of all that went in, so that what has not
changed is not scored again.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.parquet as pq

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import JudgeAsk, Row, SimilarityAsk, Verdict
from pipelines.hashing import stable_id
from pipelines.plan.run_spec import ScorerSpec
from pipelines.schemas import SCORES
from pipelines.score.judge import Judge
from pipelines.score.rows import ScoringContext, rows_of
from pipelines.score.text_scorers import TextScorer, build_scorer, look_for
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store

INPUTS_KEY = b"vlmsweep.inputs"
MISSING_KEY = b"vlmsweep.missing_scorers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSpec:
    """What a worker needs to score parts of one benchmark."""

    data: str
    out: str
    benchmark: str
    prompts: str
    """JSON, as `rows.Context.from_json` takes it."""
    seed: int
    scorers: tuple[ScorerSpec, ...]
    judge: tuple[str, ModelSpec] | None
    device: str = "cpu"


class PartScorer:
    """Scores prediction parts one at a time; scorer models are loaded once, when first needed."""

    def __init__(self, spec: ScoringSpec, said: Mapping[str, str], failed: Sequence[str]) -> None:
        self._spec = spec
        self._benchmark = benchmark(spec.benchmark)
        self._context = ScoringContext.from_json(spec.data, spec.benchmark, spec.prompts, spec.seed)
        self._out = Store(spec.out)
        self._judge = (
            Judge(name=spec.judge[0], spec=spec.judge[1], said=dict(said), failed=set(failed)) if spec.judge else None
        )
        self._scorers: dict[str, TextScorer | None] = {}
        self.problems: dict[str, str] = {}
        """Scorers that cannot be had: kind -> why. Their columns stay absent."""

    def score(self, path: str) -> int:
        """Score one prediction part unless its scores are there and up to date; returns its number of rows.

        Raises:
            ScorerUnavailableError: a scorer that the user named cannot be had.
        """
        rows = [replace(row, verdict=self._verdict(row)) for row in rows_of(self._out, path, self._context)]
        target = path.replace("predictions/", "scores/", 1)
        inputs = self._inputs(rows)
        found, missing = _footer(self._out, target)
        if found == inputs and not any(self._scorer(kind) for kind in missing):
            return len(rows)
        rows = self._compared(rows)
        scores = [self._scored(row) for row in rows]
        missing = sorted(kind for kind, scorer in self._scorers.items() if scorer is None)
        schema = SCORES.with_metadata({INPUTS_KEY: inputs.encode(), MISSING_KEY: json.dumps(missing).encode()})
        self._out.put(target, to_parquet(scores, schema))
        return len(rows)

    def _verdict(self, row: Row) -> Verdict:
        if self._judge is None:
            return Verdict(state="absent")
        ask = self._benchmark.judge(row, self._context.texts)
        if isinstance(ask, JudgeAsk):
            return self._judge.verdict(ask, self._benchmark.read_verdict)
        return Verdict(state="absent") if ask is None else Verdict(state="ok", accepted=ask)

    def _inputs(self, rows: Sequence[Row]) -> str:
        """Hash of all that scores depend on."""
        seen = [
            (row.request_id, row.status, row.output, row.verdict.state, row.verdict.accepted, sorted(row.given.items()))
            for row in rows
        ]
        return stable_id(
            {
                "rows": hashlib.sha256(json.dumps(seen).encode()).hexdigest(),
                "benchmark": [self._spec.benchmark, self._benchmark.version],
                "scorers": [[spec.kind, spec.model, spec.layer] for spec in self._spec.scorers],
                "seed": self._spec.seed,
            }
        )

    def _asks(self, row: Row) -> Sequence[SimilarityAsk]:
        return self._benchmark.similarity(row)

    def _scorer(self, kind: str) -> TextScorer | None:
        if kind not in self._scorers:
            self._scorers[kind] = self._build(kind)
        return self._scorers[kind]

    def _build(self, kind: str) -> TextScorer | None:
        from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

        spec = next((one for one in self._spec.scorers if one.kind == kind), None)
        if spec is None:
            return None
        try:
            look_for(spec.model)
            return build_scorer(spec, self._spec.device)
        except ScorerUnavailableError as error:
            if spec.named:
                raise
            self.problems[kind] = str(error)
            return None

    def _baseline(self, kind: str) -> float | None:
        """F1 of unrelated texts, where it is published for the model and layer in use."""
        from pipelines.metrics.bertscore import DEFAULT_LAYERS, ENGLISH_BASELINES

        spec = next((one for one in self._spec.scorers if one.kind == kind), None)
        if spec is None or kind != "bertscore":
            return None
        layer = spec.layer if spec.layer is not None else DEFAULT_LAYERS.get(spec.model, -1)
        known = ENGLISH_BASELINES.get((spec.model, layer))
        return known.f1 if known else None

    def _compared(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with the columns of scorer models; all texts of a part go through the model together."""
        asks = [(i, ask) for i, row in enumerate(rows) for ask in self._asks(row) if ask.column not in row.given]
        found: dict[int, dict[str, float]] = {}
        for kind in sorted({ask.scorer for _, ask in asks}):
            scorer = self._scorer(kind)
            if scorer is None:
                continue
            own = [(i, ask) for i, ask in asks if ask.scorer == kind]
            values = scorer.best([ask.candidate for _, ask in own], [ask.references for _, ask in own])
            baseline = self._baseline(kind)
            for (i, ask), value in zip(own, values, strict=True):
                found.setdefault(i, {})[ask.column] = value
                if ask.rescaled and baseline is not None:
                    # An empty text has no score to rescale and stays at 0.
                    found[i][ask.rescaled] = (value - baseline) / (1.0 - baseline) if value else 0.0
        return [replace(row, given={**row.given, **found.get(i, {})}) for i, row in enumerate(rows)]

    def _scored(self, row: Row) -> dict[str, Any]:
        reading = self._benchmark.read_answer(row)
        return {
            "request_id": row.request_id,
            "sample_id": row.sample.sample_id,
            "benchmark": self._spec.benchmark,
            "task": row.task,
            "setting": row.setting,
            "variant": row.variant,
            "model": row.model,
            "subset": row.sample.subset,
            "category": row.sample.category,
            "cluster": row.sample.cluster,
            "status": row.status,
            "answer": reading.answer,
            "rule": reading.rule,
            "flags": list(reading.flags),
            "finish_reason": row.finish_reason,
            "verdict_state": row.verdict.state,
            "values": list(reading.values.items()),
        }


def _footer(out: Store, path: str) -> tuple[str, list[str]]:
    """Of a score part that is there and whole: the hash of its inputs, and the scorers that could not be had."""
    try:
        metadata = pq.read_schema(io.BytesIO(out.get(path))).metadata or {}
    except (FileNotFoundError, OSError, ValueError):
        return "", []
    return metadata.get(INPUTS_KEY, b"").decode(), json.loads(metadata.get(MISSING_KEY, b"[]"))
