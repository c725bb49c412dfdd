"""TODO doc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipelines.plan.run_spec import ScorerSpec

HUB_PATIENCE_S = 5.0


class TextScorer(Protocol):
    """A text-similarity model, loaded."""

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        """For each candidate its best score over its references."""
        ...


@dataclass(frozen=True, slots=True)
class _Bert:
    scorer: Any

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        from pipelines.metrics.bertscore import best_of

        flat = [(text, one) for text, own in zip(candidates, references, strict=True) for one in own]
        scores = iter(self.scorer.score([text for text, _ in flat], [one for _, one in flat]))
        return [best_of([next(scores) for _ in own]).f1 for own in references]


@dataclass(frozen=True, slots=True)
class _Bleurt:
    scorer: Any

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        flat = [(one, text) for text, own in zip(candidates, references, strict=True) for one in own]
        scores = iter(self.scorer.score([one for one, _ in flat], [text for _, text in flat]))
        return [max(next(scores) for _ in own) for own in references]


def build_scorer(spec: ScorerSpec, device: str) -> TextScorer:
    """Load a scorer model.

    Raises:
        ScorerUnavailableError: it cannot be had.
    """
    if spec.kind == "bleurt":
        from pipelines.metrics.bleurt import BleurtScorer

        return _Bleurt(BleurtScorer(spec.model, device=device))
    from pipelines.metrics.bertscore import BertScorer

    return _Bert(BertScorer(spec.model, spec.layer, device=device))


def look_for(model: str) -> None:
    """Make sure in seconds that a scorer's files are here or that the hub answers.

    Raises:
        ScorerUnavailableError: neither; loading would only find out after half a minute of the library's own retries.
    """
    import requests
    from huggingface_hub import constants, try_to_load_from_cache

    from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

    if Path(model).is_dir() or isinstance(try_to_load_from_cache(model, "config.json"), str):
        return
    try:
        requests.head(constants.ENDPOINT, timeout=HUB_PATIENCE_S)
    except requests.RequestException as error:
        remedy = "Name a local folder with --scorer, or fetch the model into the cache first."
        raise ScorerUnavailableError(
            model, f"it is no folder, not in the cache, and the hub does not answer ({type(error).__name__}).", remedy
        ) from error
