"""The costs of a run: tokens and dollars by model, a limit that ends it, and its line in `run.json`."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from models.spec import ModelSpec
from pipelines.errors import CostLimitReachedError
from pipelines.plan.run_manifest import ModelSpending, Spending
from pipelines.predict.records import TokenCounts


@dataclass(slots=True)
class CostTracker:
    """Tokens and dollars of one run by model, where a price is known, with the run's limit.

    Engines enforce what is left of the limit themselves, so that calls in flight cannot exceed it.
    """

    limit: float | None = None  # dollars
    tokens: dict[str, TokenCounts] = field(default_factory=dict)  # by model
    dollars: dict[str, float] = field(default_factory=dict)
    reserved: dict[str, float] = field(default_factory=dict)
    """Of the dollars, those of answers whose endpoint reports no tokens: the most that they may have cost."""
    devices: dict[str, set[str]] = field(default_factory=dict)
    """What the replicas of each model that loads weights computed on."""
    warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What the engines say of how a model runs, by model."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    """A judge may be a model that answers at the same time."""

    @property
    def total(self) -> float:
        """Dollars, all models together."""
        return math.fsum(self.dollars.values())

    def limited(self, spec: ModelSpec) -> ModelSpec:
        """Return the spec for engines that start now: each replica may spend an equal share of the rest.

        A run in batches has one queue, which may spend all of it.
        """
        if self.limit is None or spec.price is None:
            return spec
        share = max(self.limit - self.total, 1e-9) / (1 if spec.batch else spec.replicas.max)
        return spec.model_copy(update={"cost_limit": min(share, spec.cost_limit or share)})

    def add(
        self, name: str, spec: ModelSpec, tokens: TokenCounts, device: str = "", *, reserved_dollars: float = 0.0
    ) -> None:
        """Add the tokens of one commit, the dollars of answers without token counts, and what computed them."""
        with self._lock:
            if device:
                self.devices.setdefault(name, set()).add(device)
            self.tokens[name] = self.tokens.get(name, TokenCounts()).plus(tokens)
            if price := spec.billed_price:
                self.reserved[name] = self.reserved.get(name, 0.0) + reserved_dollars
                self.dollars[name] = price.dollars(*self.tokens[name]) + self.reserved[name]

    def warn(self, name: str, warnings: Sequence[str]) -> None:
        """Add what a model's engine says, each sentence once."""
        if warnings:
            with self._lock:
                self.warnings[name] = tuple(dict.fromkeys((*self.warnings.get(name, ()), *warnings)))

    def check(self, name: str, *, is_refused: bool) -> None:
        """Raise CostLimitReachedError at the limit, or if the model's engine has refused calls because of its own."""
        if self.limit is not None and is_refused and not self.total:
            raise CostLimitReachedError(
                f"model {name!r}: the next request may cost more than the cost limit of ${self.limit:.2f}, or its "
                "entry's, leaves, by the prices of the models file; raise --cost-limit or `cost_limit`"
            )
        if self.limit is not None and (is_refused or self.total >= self.limit):
            raise CostLimitReachedError(
                f"model {name!r}: the cost limit of ${self.limit:.2f} for this run is reached (${self.total:.4f} spent "
                "by the prices of the models file); finished answers are kept. Run the same command again to continue"
            )

    def lines(self) -> list[str]:
        """Return one sentence a model, for people."""
        return [
            f"{name}: {tokens.read:,} tokens read"
            + (f" ({tokens.cached:,} cached)" if tokens.cached else "")
            + f", {tokens.written:,} written{self._cost(name)}"
            for name, tokens in sorted(self.tokens.items())
        ]

    def _cost(self, name: str) -> str:
        if name not in self.dollars:
            return ", no price given" if self.dollars else ""
        estimated = (
            f" (${self.reserved[name]:,.4f} of it estimated, without token counts)" if self.reserved[name] else ""
        )
        return f", ${self.dollars[name]:,.4f}{estimated}"

    def record(self) -> Spending:
        """Return the costs until now as `run.json` holds them."""
        models = {
            name: ModelSpending(
                input_tokens=tokens.read,
                output_tokens=tokens.written,
                dollars=self.dollars.get(name),
                cached_tokens=tokens.cached,
                devices=tuple(sorted(self.devices.get(name, ()))),
            )
            for name, tokens in sorted(self.tokens.items())
        }
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return Spending(at=now, limit=self.limit, dollars=self.total, models=models)
