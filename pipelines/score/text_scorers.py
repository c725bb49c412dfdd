"""Text-similarity models of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from models.engines.hub import cached_folder
from models.environment import hub_address
from models.shell.connections import REQUESTS, connection_problem, hub_problem
from pipelines.plan.run_spec import ScorerSpec

HUB_TIMEOUT_S = 5.0


class TextScorer(Protocol):
    """A text-similarity model, loaded."""

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        """Return for each candidate its best score over its references."""
        ...


@dataclass(frozen=True, slots=True)
class _Bert:
    scorer: Any

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        from pipelines.metrics.bertscore import best_of

        pairs = [(text, reference) for text, texts in zip(candidates, references, strict=True) for reference in texts]
        scores = iter(self.scorer.score([text for text, _ in pairs], [reference for _, reference in pairs]))
        return [best_of([next(scores) for _ in texts]).f1 for texts in references]


@dataclass(frozen=True, slots=True)
class _Bleurt:
    scorer: Any

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        pairs = [(reference, text) for text, texts in zip(candidates, references, strict=True) for reference in texts]
        scores = iter(self.scorer.score([reference for reference, _ in pairs], [text for _, text in pairs]))
        return [max(next(scores) for _ in texts) for texts in references]


def build_scorer(spec: ScorerSpec, device: str) -> TextScorer:
    """Load a scorer model; ScorerUnavailableError if that fails."""
    if spec.kind == "bleurt":
        from pipelines.metrics.bleurt import BleurtScorer

        return _Bleurt(BleurtScorer(spec.model, device=device, revision=spec.loaded_revision))
    from pipelines.metrics.bertscore import BertScorer

    return _Bert(BertScorer(spec.model, spec.layer, device=device, revision=spec.loaded_revision))


def is_available(spec: ScorerSpec) -> bool:
    """Return whether a scorer's files are local or the hub answers (see `look_for`)."""
    from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

    try:
        look_for(spec)
    except ScorerUnavailableError:
        return False
    return True


def look_for(spec: ScorerSpec) -> ScorerSpec:
    """Return the spec of a scorer whose files are local, or whose hub answers: the library would try for long.

    Raises:
        ScorerUnavailableError: neither.
    """
    import requests

    from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

    if Path(spec.model).is_dir() or cached_folder(spec.model, spec.loaded_revision):
        return spec
    address = hub_address()
    problem = hub_problem() or connection_problem(REQUESTS, address)
    if not problem:
        try:
            requests.head(address, timeout=HUB_TIMEOUT_S)
        except requests.RequestException as error:
            problem = type(error).__name__
    if problem:
        raise ScorerUnavailableError(
            spec.model,
            f"it is no folder, not in the cache, and the hub does not answer ({problem}).",
            "Name a local folder with --scorer, or fetch the model into the cache first.",
        )
    return spec
