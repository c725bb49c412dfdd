"""Score a prediction part: read its answers, compare texts by scorer models, add the judge's verdicts.

Its score part has the same name; a hash of all inputs in the footer shows whether it is up to date.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from pipelines.benchmarks.judges import CHECKS, UNREADABLE, changed_row, check_value, verdict_value
from pipelines.benchmarks.records import JudgeRequest, Row, Verdict, repeated_variant
from pipelines.benchmarks.replies.cleaning import CLEANING_VERSION
from pipelines.errors import DamagedPartError
from pipelines.hashing import stable_id
from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import WorkerContext
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.run_spec import ScorerSpec
from pipelines.plan.stopping.until import STOPPED
from pipelines.schemas import SCORES
from pipelines.score.judge import JudgeReplies
from pipelines.score.text_scorers import ScoringContext, TextScorer, build_scorer, is_available, look_for, rows_of
from pipelines.storage.backend import FileInfo
from pipelines.storage.parts import open_part, read_part, score_path, to_parquet
from pipelines.storage.store import Store

T = TypeVar("T")

INPUTS_KEY = b"vlmsweep.inputs"
MISSING_KEY = b"vlmsweep.missing_scorers"
_ANSWER = attrgetter("request_id", "status", "output", "verdict.state", "verdict.accepted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSpec:
    """The inputs with which a worker scores parts of one benchmark."""

    context: WorkerContext
    prompts: PromptPlan  # of any model: its wording and seed count
    scorers: tuple[ScorerSpec, ...]
    device: str = "cpu"
    judge_checks: bool = False
    defers_defaults: bool = False  # only named scorers are loaded: a part keeps what it has of others, or gets it later

    @property
    def used_scorers(self) -> tuple[ScorerSpec, ...]:
        """The scorers that may be loaded now."""
        return tuple(scorer for scorer in self.scorers if scorer.named or not self.defers_defaults)

    def has_scorer_model(self) -> bool:
        """Return whether a text-similarity model may be loaded: the benchmark wants one and it is available."""
        return self.prompts.benchmark.similarity is not None and any(map(is_available, self.used_scorers))


class PartScorer:
    """Scores prediction parts one at a time; scorer models are loaded once, when first needed."""

    def __init__(
        self,
        spec: ScoringSpec,
        judges: Sequence[JudgeReplies] = (),
        *,
        out: Store | None = None,
        dataset: Dataset | None = None,
    ) -> None:
        """Open output and data, unless the caller has opened them."""
        self._spec, self._judges = spec, judges
        self._benchmark = spec.prompts.benchmark
        self._out, self._is_shared = out or Store(spec.context.out_uri), out is not None
        self._context = ScoringContext.open(spec.context.data_uri, spec.prompts, self._out, dataset)
        self._specs: dict[str, ScorerSpec | None] = {}
        self._scorers: dict[str, TextScorer | None] = {}
        self.problems: dict[str, str] = {}  # Unavailable scorers: kind -> why. Their columns stay absent.

    def score(self, part: str | FileInfo, *, is_scored: bool = True) -> int:
        """Score one prediction part unless its scores are up to date; return its number of rows.

        It is read by path, or from a listing. Without `is_scored` nothing was stored for it yet, and is not looked for.

        Raises:
            DamagedPartError: the part is damaged.
            ScorerUnavailableError: a scorer that the user named is unavailable.
        """
        rows = list(rows_of(read_part(self._out, part), self._context))
        verdicts = {row.request_id: row_verdicts for row in rows if (row_verdicts := self._verdicts(row))}
        rows = [replace(row, verdict=given[0]) if (given := verdicts.get(row.request_id)) else row for row in rows]
        by_judge = {
            row.request_id: values
            for row in rows
            if (values := {**self._by_judge(verdicts.get(row.request_id, ())), **self._checks(row)})
        }
        target = score_path(part if isinstance(part, str) else part.path)
        inputs = self._inputs(rows, by_judge)
        scored_inputs, missing = _footer(self._out, target) if is_scored else ("", [])
        if scored_inputs == inputs and not any(map(self._is_possible, missing)):
            return len(rows)
        rows, missing = self._compare_texts(rows)
        scores = [self._score_row(row, by_judge.get(row.request_id, {})) for row in rows]
        schema = SCORES.with_metadata({INPUTS_KEY: inputs.encode(), MISSING_KEY: json.dumps(missing).encode()})
        self._out.put(target, to_parquet(scores, schema), hold=self._is_shared)  # for the report
        return len(rows)

    def _verdicts(self, row: Row) -> list[Verdict]:
        """Return the verdict of each judge; a single one where a rule decides, none where nobody does."""
        prompter = self._benchmark.judge
        if not self._judges or prompter is None:
            return []
        judge_request = prompter.ask(row, self._context.texts)
        if isinstance(judge_request, JudgeRequest):
            return [judge.verdict(judge_request, prompter.read) for judge in self._judges]
        return [] if judge_request is None else [Verdict(state="ok", accepted=judge_request)]

    def _checks(self, row: Row) -> dict[str, float]:
        """Return the first judge's verdicts on the row's changed questions, of those that it was asked."""
        prompter, texts = self._benchmark.judge, self._context.texts
        if not self._spec.judge_checks or not self._judges or prompter is None or row.verdict.state == "absent":
            return {}
        rows = {check: changed for check in CHECKS if (changed := changed_row(row, check)) is not None}
        requests = {check: prompter.ask(changed, texts) for check, changed in rows.items()}
        verdicts = {
            check: self._judges[0].verdict(request, prompter.read)
            for check, request in requests.items()
            if isinstance(request, JudgeRequest)
        }
        return {
            check_value(check): float(bool(verdict.accepted))
            for check, verdict in verdicts.items()
            if verdict.state in ("ok", "invalid")
        }

    def _by_judge(self, verdicts: Sequence[Verdict]) -> dict[str, float]:
        """Return the verdicts as values by judge, where there are several."""
        if len(self._judges) < 2 or len(verdicts) < 2:
            return {}
        names = [verdict_value(judge.name) for judge in self._judges]
        return {
            name: UNREADABLE if verdict.state == "invalid" else float(bool(verdict.accepted))
            for name, verdict in zip(names, verdicts, strict=True)
            if verdict.state in ("ok", "invalid")
        }

    def _inputs(self, rows: Sequence[Row], by_judge: Mapping[str, Mapping[str, float]]) -> str:
        answers = [(*_ANSWER(row), sorted(row.given.items()), row.dropped) for row in rows]
        judged = {"judges": [judge.name for judge in self._judges], "verdicts": by_judge}
        return stable_id(
            {
                "rows": hashlib.sha256(json.dumps(answers).encode()).hexdigest(),
                "benchmark": [self._benchmark.name, self._benchmark.version, CLEANING_VERSION],
                "scorers": [_identity(spec) for spec in self._spec.scorers],
                "seed": self._spec.prompts.seed,
                **(judged if any(by_judge.values()) else {}),
            }
        )

    def _reachable(self, kind: str) -> ScorerSpec | None:
        """Return a scorer's spec where its files or the hub can be reached; nothing is loaded."""
        if kind not in self._specs:
            spec = next((scorer for scorer in self._spec.used_scorers if scorer.kind == kind), None)
            self._specs[kind] = self._unless_unavailable(spec, partial(look_for, spec)) if spec else None
        return self._specs[kind]

    def _scorer(self, kind: str) -> TextScorer | None:
        if kind not in self._scorers:
            spec, device = self._reachable(kind), self._spec.device
            self._scorers[kind] = self._unless_unavailable(spec, partial(build_scorer, spec, device)) if spec else None
        return self._scorers[kind]

    def _is_possible(self, kind: str) -> bool:
        """Return whether a scorer is loaded or may be; nothing is loaded."""
        return (self._scorers[kind] if kind in self._scorers else self._reachable(kind)) is not None

    def _unless_unavailable(self, spec: ScorerSpec, action: Callable[[], T]) -> T | None:
        """Return the action's result, None for a scorer that is unavailable; one that the user named must be there."""
        from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

        try:
            return action()
        except ScorerUnavailableError as error:
            if spec.named:
                raise
            self.problems[spec.kind] = str(error)
            return None

    def _baseline(self, kind: str) -> float | None:
        """Return the F1 of unrelated texts, where it is published for the model and layer in use."""
        from pipelines.metrics.bertscore import DEFAULT_LAYERS, ENGLISH_BASELINES

        spec = next((scorer for scorer in self._spec.scorers if scorer.kind == kind), None)
        if spec is None or kind != "bertscore":
            return None
        layer = spec.layer if spec.layer is not None else DEFAULT_LAYERS.get(spec.model, -1)
        return ENGLISH_BASELINES.get((spec.model, layer))

    def _compare_texts(self, rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
        """Add the columns of scorer models, and name those that are missing; all texts of a part are one call."""
        if self._benchmark.similarity is None:
            return list(rows), []
        requests = [
            (i, request)
            for i, row in enumerate(rows)
            for request in self._benchmark.similarity(row)
            if request.column not in row.given
        ]
        columns, missing = dict[int, dict[str, float]](), list[str]()
        for kind in sorted({request.scorer for _, request in requests}):
            scorer = self._scorer(kind)
            if scorer is None:
                missing.append(kind)
                continue
            kind_requests = [(i, request) for i, request in requests if request.scorer == kind]
            values = scorer.best(
                [request.candidate for _, request in kind_requests],
                [request.references for _, request in kind_requests],
            )
            baseline = self._baseline(kind)
            for (i, request), value in zip(kind_requests, values, strict=True):
                columns.setdefault(i, {})[request.column] = value
                if request.rescaled and baseline is not None and request.rescaled not in rows[i].given:
                    # An empty text has no score to rescale and stays at 0.
                    columns[i][request.rescaled] = (value - baseline) / (1.0 - baseline) if value else 0.0
        given = [{**row.given, **columns.get(i, {})} for i, row in enumerate(rows)]
        return [replace(row, given=values) for row, values in zip(rows, given, strict=True)], missing

    def _score_row(self, row: Row, by_judge: Mapping[str, float]) -> dict[str, Any]:
        reading = self._benchmark.reading(row)
        return {
            "request_id": row.request_id,
            "sample_id": row.sample.sample_id,
            "benchmark": self._benchmark.name,
            "task": row.task,
            "setting": row.setting,
            "variant": repeated_variant(row.variant, row.repeat),
            "model": row.model,
            "subset": row.sample.subset,
            "category": row.sample.category,
            "cluster": row.sample.cluster,
            "status": row.status,
            "answer": reading.answer,
            "rule": reading.rule,
            "flags": [*((STOPPED,) if row.is_stopped else ()), *row.dropped, *reading.flags],
            "finish_reason": row.finish_reason,
            "verdict_state": row.verdict.state,
            "values": [*reading.values.items(), *by_judge.items()],
        }


def _identity(scorer: ScorerSpec) -> list[str | int | None]:
    """Return what names a scorer in a hash; without a revision, as before scorers had one."""
    revision = scorer.loaded_revision
    return [scorer.kind, scorer.model, scorer.layer, *([revision] if revision else [])]


def _footer(out: Store, path: str) -> tuple[str, list[str]]:
    """Return the hash of a score part's inputs and the scorers that were unavailable; '' where it is not readable."""
    try:
        metadata = open_part(out, path).schema_arrow.metadata or {}
    except (FileNotFoundError, DamagedPartError):
        return "", []
    return metadata.get(INPUTS_KEY, b"").decode(), json.loads(metadata.get(MISSING_KEY, b"[]"))
