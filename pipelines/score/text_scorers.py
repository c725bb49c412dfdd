"""Text-similarity models of a sweep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.engines.hub import cached_folder
from models.environment import hub_address
from models.shell.connections import REQUESTS, connection_problem, hub_problem
from pipelines.plan.run_spec import ScorerSpec

HUB_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class TextScorer:
    """A text-similarity model, loaded."""

    score: Callable[[Sequence[str], Sequence[str]], list[float]]  # of candidates and references in pairs

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        """Return for each candidate its best score over its references."""
        pairs = [(text, reference) for text, texts in zip(candidates, references, strict=True) for reference in texts]
        scores = iter(self.score([text for text, _ in pairs], [reference for _, reference in pairs]))
        return [max(next(scores) for _ in texts) for texts in references]


def build_scorer(spec: ScorerSpec, device: str) -> TextScorer:
    """Load a scorer model; ScorerUnavailableError if that fails."""
    if spec.kind == "bleurt":
        from pipelines.metrics.bleurt import BleurtScorer

        bleurt = BleurtScorer(spec.model, device=device, revision=spec.loaded_revision)
        return TextScorer(lambda candidates, references: bleurt.score(references, candidates))
    from pipelines.metrics.bertscore import BertScorer

    return TextScorer(BertScorer(spec.model, spec.layer, device=device, revision=spec.loaded_revision).score)


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
