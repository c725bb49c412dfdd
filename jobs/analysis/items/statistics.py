"""Statistics of items from the answers of many models: pure functions of (models, items) arrays.

- Difficulty: the share of models that are wrong.
- Discrimination: the correlation of an item with the models' share right on all other items.
- Suspect label: the log odds by `ResponseModel` that an answer on which models agree is right and the label is not.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import SEED, FloatArray

NO_ANSWER: Final = -1
LABEL: Final = 0
_NODES: Final = np.linspace(-4.5, 4.5, 31)
_NODE_WEIGHTS: Final = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()
_STEPS: Final = 200
_CONVERGED: Final = 1e-3
_LEAST_SPREAD: Final = 0.05
_CONCENTRATIONS: Final = np.geomspace(0.05, 50, 31)
_BLOCK_ITEMS: Final = 10_000
MIN_SIMULATED: Final = 20_000  # items without a wrong label
SIMULATED_PER_ITEM: Final = 30  # the smallest p-value is then below what the correction for all items asks for


@dataclass(frozen=True, slots=True, eq=False)
class Rasch:
    """Abilities of models, (models,), and the standard deviation of items' difficulties, in logits."""

    abilities: FloatArray
    spread: float

    @classmethod
    def fit(cls, right: FloatArray) -> Self:
        """Fit to (models, items) of 1, 0 and NaN."""
        present = ~np.isnan(right)
        # Half a right and half a wrong answer to an item of mean difficulty keep abilities finite.
        totals = np.nansum(right, axis=1) + 0.5
        abilities, spread = np.log(totals / (present.sum(axis=1) + 1 - totals)), 1.0
        for _ in range(_STEPS):
            fitted = cls(abilities, spread)
            weights = fitted.posterior(right)  # (items, nodes)
            exposure = present @ weights + np.where(_NODES == 0, 1.0, 0.0)
            p = fitted._chances
            change = (totals - (exposure * p).sum(axis=1)) / (exposure * p * (1 - p)).sum(axis=1)
            abilities = abilities + np.clip(change, -1, 1)
            spread = max(_LEAST_SPREAD, spread * math.sqrt(float((weights @ _NODES**2).mean())))
            if max(abs(change).max(), abs(spread / fitted.spread - 1)) < _CONVERGED:
                break
        return cls(abilities, spread)

    @property
    def _chances(self) -> FloatArray:
        """P(right) of each model at each node, (models, nodes)."""
        return np.asarray(0.5 * (1 + np.tanh((self.abilities[:, None] - self.spread * _NODES) / 2)))

    def log_likelihood(self, right: NDArray[np.bool_], present: NDArray[np.bool_]) -> FloatArray:
        """Return the log likelihood of items, (models, items) each, at every node, (items, nodes)."""
        p = np.clip(self._chances, 1e-12, 1 - 1e-12)
        log_wrong = np.log1p(-p)
        return np.asarray(right.T @ (np.log(p) - log_wrong) + present.T @ log_wrong)

    def posterior(self, right: FloatArray) -> FloatArray:
        """Return the posterior weights of the nodes, (items, nodes)."""
        logs = self.log_likelihood(right == 1, ~np.isnan(right)) + np.log(_NODE_WEIGHTS)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def difficulties(self, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return difficulties and their standard errors, (items,) each: mean and deviation of the posterior."""
        weights, nodes = self.posterior(right), self.spread * _NODES
        means = weights @ nodes
        return means, np.sqrt(np.maximum(weights @ nodes**2 - means**2, 0))


@dataclass(frozen=True, slots=True, eq=False)
class ResponseModel:
    """The Rasch model, the number of wrong options, and the concentration of their shares."""

    rasch: Rasch
    wrong_options: int
    concentration: float

    @classmethod
    def fit(cls, codes: NDArray[np.int64], wrong_options: int) -> Self:
        """Fit to (models, items) of `NO_ANSWER`, `LABEL`, or the number of a wrong option."""
        rasch = Rasch.fit(np.where(codes == NO_ANSWER, np.nan, codes == LABEL))
        counts = _counts(codes, wrong_options)[1:]
        likelihoods = [float(_urn(counts, a).sum()) for a in _CONCENTRATIONS]
        return cls(rasch, wrong_options, float(_CONCENTRATIONS[int(np.argmax(likelihoods))]))

    def log_odds(self, codes: NDArray[np.int64]) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the log odds that the likeliest wrong option is right and the label not, and that option, (items,)."""
        present, counts = codes != NO_ANSWER, _counts(codes, self.wrong_options)
        logs = np.empty(counts.shape)
        for option in range(self.wrong_options + 1):
            by_node = self.rasch.log_likelihood(codes == option, present) + np.log(_NODE_WEIGHTS)
            highest = by_node.max(axis=1)
            others = np.delete(counts, option, axis=0)
            logs[option] = highest + np.log(np.exp(by_node - highest[:, None]).sum(axis=1))
            logs[option] += _urn(others, self.concentration)
        logs[1:][counts[1:] == 0] = -np.inf  # an answer that no model gave is none that models agree on
        best = 1 + logs[1:].argmax(axis=0)
        return logs[best, np.arange(codes.shape[1])] - logs[LABEL], best

    def simulate(self, present: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return codes, (models, items), of items whose labels are right, answered where `present`."""
        items = present.shape[1]
        difficulty = self.rasch.spread * rng.standard_normal(items)
        chances = 0.5 * (1 + np.tanh((self.rasch.abilities[:, None] - difficulty) / 2))
        shares = rng.standard_gamma(self.concentration, (items, self.wrong_options)) + 1e-300
        ends = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
        draws = rng.random(present.shape)
        wrong = 1 + sum((draws > end).astype(np.int64) for end in ends.T[:-1])
        codes = np.where(rng.random(present.shape) < chances, LABEL, wrong)
        return np.where(present, codes, NO_ANSWER)

    def null_odds(self, present: NDArray[np.bool_]) -> FloatArray:
        """Return sorted log odds of many simulated items whose labels are right."""
        rng = np.random.default_rng([SEED, *present.shape])
        blocks = [self.log_odds(self.simulate(part, rng))[0] for part in _repeated(present)]
        return np.sort(np.concatenate(blocks))


def _repeated(present: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
    """Yield blocks of columns until enough items are simulated, each column equally often."""
    items = present.shape[1]
    total = items * max(SIMULATED_PER_ITEM, -(-MIN_SIMULATED // items))
    for start in range(0, total, _BLOCK_ITEMS):
        yield present[:, np.arange(start, min(total, start + _BLOCK_ITEMS)) % items]


def _counts(codes: NDArray[np.int64], wrong_options: int) -> NDArray[np.int64]:
    """Return how many models gave each option, (1 + wrong options, items)."""
    return np.array([(codes == option).sum(axis=0) for option in range(wrong_options + 1)])


def _urn(counts: NDArray[Any], concentration: float) -> FloatArray:
    """Return the log probability of (options, items) counts of wrong answers if shares are Dirichlet draws."""
    options, most = len(counts), int(counts.sum(axis=0).max(initial=0))
    each, all_of_them = (
        np.concatenate([[0.0], np.cumsum(np.log(start + np.arange(most)))])
        for start in (concentration, options * concentration)
    )
    return np.asarray(each[counts].sum(axis=0) - all_of_them[counts.sum(axis=0)])


MOST_OPTIONS: Final = 10
SHORTCUT_SHARE: Final = 0.5  # of models that answer an item right without its medium
_ROUNDING: Final = 1e-9


def shares_right(right: FloatArray) -> FloatArray:
    """Return the share of models that are right, (items,); NaN where none has a score."""
    counts = np.sum(~np.isnan(right), axis=0)
    return np.where(counts > 0, np.nansum(right, axis=0) / np.maximum(counts, 1), np.nan)


def sample_shares(right: FloatArray, samples: Sequence[str]) -> tuple[tuple[str, ...], FloatArray]:
    """Return samples and each model's share right of its items, (models, samples); items are sorted by sample."""
    names, starts = np.unique(np.array(samples), return_index=True)
    counts = np.add.reduceat((~np.isnan(right)).astype(float), starts, axis=1)
    sums = np.add.reduceat(np.nan_to_num(right), starts, axis=1)
    return tuple(map(str, names)), np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def rest_shares(right: FloatArray) -> FloatArray:
    """Return each model's share right on all other items than each, (models, items); NaN where it has no score."""
    present = ~np.isnan(right)
    totals, counts = np.nansum(right, axis=1, keepdims=True), present.sum(axis=1, keepdims=True)
    return np.where(present, (totals - np.nan_to_num(right)) / np.maximum(counts - present, 1), np.nan)


def discrimination(right: FloatArray) -> FloatArray:
    """Return the correlation of each item with the rest, (items,); NaN where models do not differ."""
    rest = rest_shares(right)
    x, y = right - shares_right(right), rest - shares_right(rest)
    spread = np.sqrt(np.nansum(x**2, axis=0) * np.nansum(y**2, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0, np.nansum(x * y, axis=0) / spread, np.nan)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The answer that models agree on against a label, and the log odds that it is right."""

    answer: str
    odds: float
    models: int  # that give it
    p: float  # share of items with a right label whose odds are as high


def suspicions(right: FloatArray, answers: NDArray[Any]) -> list[Suspicion | None]:
    """Return for each item the wrong answer that most likely is right; None where no model gave one."""
    codes, names = _coded(right, answers)
    if not any(names):
        return [None] * right.shape[1]
    model = ResponseModel.fit(codes, max(_options(answers) - 1, *map(len, names)))
    odds, best = model.log_odds(codes)
    null = model.null_odds(codes != NO_ANSWER)
    p_values = (1 + len(null) - np.searchsorted(null, odds - _ROUNDING)) / (1 + len(null))
    return [
        Suspicion(given[option - 1], float(value), int((column == option).sum()), float(p)) if given else None
        for given, option, value, p, column in zip(names, best, odds, p_values, codes.T, strict=True)
    ]


def _coded(right: FloatArray, answers: NDArray[Any]) -> tuple[NDArray[np.int64], list[list[str]]]:
    """Return answers as codes of `ResponseModel`, and the wrong answers of each item, of which the first has code 1."""
    codes = np.where(right == 1, LABEL, NO_ANSWER)
    names = []
    for place, (column, given) in enumerate(zip(right.T, answers.T, strict=True)):
        wrong = [model for model in np.flatnonzero(column == 0) if given[model] is not None]
        distinct = sorted({str(given[model]) for model in wrong})
        codes[wrong, place] = [1 + distinct.index(str(given[model])) for model in wrong]
        names.append(distinct)
    return codes, names


def _options(answers: NDArray[Any]) -> int:
    """Return how many answers an item has: those of all items where they are few, such as letters."""
    distinct = len({answer for answer in answers.flat if answer is not None})
    by_item = [len({answer for answer in column if answer is not None}) for column in answers.T]
    return max(2, distinct if distinct <= MOST_OPTIONS else int(np.median(by_item)) + 1)
