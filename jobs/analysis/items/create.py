"""Write what the items of outputs say: `items.csv`, a page, and the ids of a compact subset."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import combinations
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jobs.analysis.items import statistics
from jobs.analysis.items.statistics import Rasch, shares_right
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.benchmarks.records import RIGHT, is_person, split_variant
from pipelines.clean_text import one_line
from pipelines.errors import DatasetError, UsageError
from pipelines.ingest.dataset import Datasets
from pipelines.metrics.intervals import SEED, FloatArray, student_p, student_quantile
from pipelines.plan.context import entry_plans
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import load_existing_runs, load_run
from pipelines.plan.selection import check_names
from pipelines.rendering.environment import csv_text, environment, page_head
from pipelines.report.metrics_file import number_or_none
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.backend import short_labels
from pipelines.storage.store import Store, publish_files

SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
MAX_ERROR: Final = 0.03  # root mean square over models
_DRAWS: Final = 200  # random subsets that the chosen one is compared with


@dataclass(frozen=True, slots=True)
class Compact:
    """A subset of samples whose plain mean stands for that of all."""

    places: tuple[int, ...]
    error: float  # root mean square over models that had no part in the choice
    is_random: bool  # a draw by a fixed seed, since choosing by difficulty did no better


def compact_subset(right: FloatArray, shares: Sequence[float] = SHARES) -> Compact:
    """Return the smallest of several subsets whose error on new models is small enough, else the largest.

    `right` is (models, samples). Samples are sorted by difficulty, and by how far they split models, and cut into
    groups of equal size; of each the middle one is chosen. Each model is left out of the choice once. Where its error
    is not below that of random draws by more than chance over models allows, the subset is a random draw.
    """
    rng = np.random.default_rng([SEED, right.shape[1]])
    for share in shares:
        size = max(1, round(share * right.shape[1]))
        left_out = [
            _errors(right[model], [_chosen(np.delete(right, model, axis=0), size)]) for model in range(len(right))
        ]
        draws = np.array([rng.permutation(right.shape[1])[:size] for _ in range(_DRAWS)])
        chosen, drawn = np.array(left_out), np.array([_errors(row, draws) for row in right])
        gains = (drawn - chosen)[~np.isnan(drawn - chosen)]
        is_random = not _is_above_zero(gains)
        error = math.sqrt(float(np.nanmean(drawn if is_random else chosen)))
        places = sorted(map(int, draws[0])) if is_random else _chosen(right, size)
        result = Compact(tuple(places), error, is_random)
        if error <= MAX_ERROR:
            break
    return result


def _errors(row: FloatArray, subsets: Sequence[Sequence[int]] | NDArray[np.int64]) -> float:
    """Return a model's mean squared difference between subsets and the whole."""
    means = shares_right(row[np.asarray(subsets)].T)
    return float(np.nanmean((means - np.nanmean(row)) ** 2))


def _is_above_zero(gains: FloatArray) -> bool:
    """Return whether the mean of models' gains is above 0 by more than chance: its 95% interval leaves out 0."""
    if len(gains) < 2:
        return False
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
    return float(gains.mean()) > student_quantile(len(gains) - 1) * error


def _chosen(right: FloatArray, size: int) -> list[int]:
    difficulty, strength = shares_right(right), _ability_split(right)
    groups = np.array_split(np.lexsort((strength, difficulty)), size)
    return sorted(int(group[len(group) // 2]) for group in groups if len(group))


def _ability_split(right: FloatArray) -> FloatArray:
    """Return by how much the better half of the models is more often right than the other, (items,)."""
    order = np.argsort(shares_right(right.T), kind="stable")
    half = len(order) // 2
    worse, better = (np.nan_to_num(shares_right(right[part])) for part in (order[:half], order[half:]))
    return np.asarray(better - worse)


LISTED_Q: Final = 0.1  # an item is listed below it
_ENUMERATED: Final = 20_000  # ways to choose the models that are right, at most; above, Pitman's t
_ROUNDING: Final = 1e-9
_Z95: Final = 1.959964


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Return q-values (Benjamini and Hochberg 1995) in the order of the p-values; None stays and does not count."""
    ordered = sorted(((p, place) for place, p in enumerate(p_values) if p is not None), reverse=True)
    q_values: list[float | None] = [None] * len(p_values)
    lowest = 1.0
    for rank, (p, place) in zip(range(len(ordered), 0, -1), ordered, strict=True):
        lowest = min(lowest, p * len(ordered) / rank)
        q_values[place] = lowest
    return q_values


def reversed_p(right: FloatArray, rest: FloatArray) -> list[float | None]:
    """Return each item's one-sided p-value that its correlation with the rest, (models, items) each, is not negative.

    The models that are right are permuted among those that answered the item, which is exact for any difficulty.
    """
    return [_reversed_p(x[~np.isnan(x)], y[~np.isnan(x)]) for x, y in zip(right.T, rest.T, strict=True)]


def _reversed_p(x: FloatArray, y: FloatArray) -> float | None:
    models, n_right = len(x), int(x.sum())
    if not 0 < n_right < models or np.ptp(y) <= _ROUNDING:
        return None
    if math.comb(models, n_right) <= _ENUMERATED:
        chosen = np.array(list(combinations(range(models), n_right)))
        return float(np.mean(y[chosen].sum(axis=1) <= x @ y + _ROUNDING))
    r = float(np.corrcoef(x, y)[0, 1])
    half = student_p(r * math.sqrt((models - 2) / max(1 - r * r, _ROUNDING)), models - 2) / 2
    return half if r < 0 else 1 - half


def shrunk(correlations: FloatArray, models: NDArray[np.int64]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return correlations over models shrunk to their mean by empirical Bayes, and the ends of 95% intervals."""
    is_known = ~np.isnan(correlations) & (models > 2)
    if not is_known.any():
        return (np.full(len(correlations), np.nan),) * 3
    mean = float(correlations[is_known].mean())
    error = (1 - mean**2) ** 2 / np.maximum(models - 1, 1)  # variance of a correlation
    between = max(0.0, float(((correlations[is_known] - mean) ** 2 - error[is_known]).mean()))
    means = np.where(is_known, mean + (correlations - mean) * between / (between + error), np.nan)
    # Where all differences are errors the items share the mean, which is known no better than its own error.
    variance = between * error / (between + error) + float(error[is_known].mean()) / int(is_known.sum())
    reach = _Z95 * np.sqrt(variance)
    return means, np.clip(means - reach, -1, 1), np.clip(means + reach, -1, 1)


MIN_MODELS: Final = 5  # fewer say nothing about an item: a share of four has an interval of half the scale
MIN_RASCH_MODELS: Final = 20
SHOWN: Final = 50
Item: TypeAlias = tuple[str, str]  # sample and variant
BLIND: Final = ("no-image", "lm", "black-video", "black-1-frame", "unimodal")  # their models see no medium


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRow:
    """One line of `items.csv`."""

    benchmark: str
    task: str
    setting: str
    sample_id: str
    variant: str
    models: int  # with a score
    difficulty: float | None  # share of models that are wrong
    rasch_difficulty: float | None = None  # in logits, 0 for the mean item; from 20 models on
    rasch_error: float | None = None  # its standard error
    discrimination: float | None  # correlation with the rest, shrunk to the mean of all items
    discrimination_low: float | None = None
    discrimination_high: float | None = None
    reversed: bool = False  # strong models get it wrong and weak ones right
    reversed_p: float | None = None
    reversed_q: float | None = None
    blind_models: int = 0  # with a score in a setting without the medium
    blind_share: float | None = None  # of them right
    medium_share: float | None = None  # of what is not solved without the medium, solved with it; below 0: it misleads
    shortcut: bool = False
    suspect: bool = False
    agreed_answer: str = ""  # the wrong answer with most weight
    agreed_models: int = 0
    log_odds: float | None = None  # that this answer is right and the label is not
    p: float | None = None  # of these odds if the label is right
    q: float | None = None  # after Benjamini and Hochberg's correction for all items
    duplicate_of: str = ""  # the first item that asks the same about the same media


_COLUMNS: Final = [field.name for field in fields(ItemRow)]


@dataclass(frozen=True, slots=True, eq=False)
class AnswerMatrix:
    """Answers of models to the items of one task in one setting."""

    benchmark: str
    task: str
    setting: str
    models: tuple[str, ...]
    items: tuple[Item, ...]
    right: NDArray[np.float64]  # (models, items): 1, 0, or NaN where there is no score
    answers: NDArray[Any]  # (models, items) texts as read; None where there is none

    @property
    def is_blind(self) -> bool:
        """Whether the models did not see the medium."""
        return self.setting in BLIND

    def rows_of(self, items: Sequence[Item]) -> NDArray[np.float64]:
        """Return the columns of these items, (models, items); NaN for one that is not here."""
        places = {item: place for place, item in enumerate(self.items)}
        indices = np.array([places.get(item, -1) for item in items])
        return np.where(indices >= 0, self.right[:, indices], np.nan)


@dataclass(frozen=True, slots=True)
class ItemReport:
    """The items of one task in one setting, and a subset of their samples that stands for them."""

    matrix: AnswerMatrix
    rows: tuple[ItemRow, ...]
    samples: tuple[str, ...]
    compact: Compact
    not_searched: str = ""  # why duplicates were not looked for


def describe_items(uris: Sequence[str], benchmarks: Sequence[str] = ()) -> list[ItemReport]:
    """Describe the items of outputs; UsageError where no task has answers of at least five models."""
    matrices = read_matrices(uris, benchmarks)
    check_names("benchmark", benchmarks, benchmark_names())  # those of the outputs are known now
    if not matrices:
        raise UsageError(f"{', '.join(uris)}: no scored answers of models; run `vlmsweep score` first")
    enough = [matrix for matrix in matrices if len(matrix.models) >= MIN_MODELS and len(matrix.items) > 1]
    if not enough:
        most = max(len(matrix.models) for matrix in matrices)
        raise UsageError(
            f"at most {most} models answered the same items, and fewer than {MIN_MODELS} say nothing about an item; "
            "give more outputs"
        )
    seen = [matrix for matrix in enough if not matrix.is_blind] or enough
    firsts = {name: _duplicates(uris, name) for name in sorted({matrix.benchmark for matrix in seen})}
    return [_report(matrix, matrices, *firsts[matrix.benchmark]) for matrix in seen]


def _report(
    matrix: AnswerMatrix, matrices: Sequence[AnswerMatrix], firsts: Mapping[tuple[str, ...], str], not_searched: str
) -> ItemReport:
    blind = [
        other.rows_of(matrix.items)
        for other in matrices
        if other.is_blind and (other.benchmark, other.task) == (matrix.benchmark, matrix.task) and other is not matrix
    ]
    without = np.concatenate(blind) if blind else np.empty((0, len(matrix.items)))
    wrong = 1 - statistics.shares_right(matrix.right)
    counts, blind_counts = (np.sum(~np.isnan(right), axis=0) for right in (matrix.right, without))
    blind_shares = statistics.shares_right(without)
    solved = 1 - wrong / np.where(blind_shares < 1, 1 - blind_shares, np.nan)  # right = blind + (1 - blind) x solved
    solved[np.minimum(counts, blind_counts) < MIN_MODELS] = np.nan
    measures = zip(_discriminations(matrix.right, counts), _suspicions(matrix), _rasch(matrix.right), strict=True)
    rows = []
    for place, (item, fields_of_item) in enumerate(zip(matrix.items, measures, strict=True)):
        share, n_blind = number_or_none(blind_shares[place]), int(blind_counts[place])
        rows.append(
            ItemRow(
                benchmark=matrix.benchmark,
                task=matrix.task,
                setting=matrix.setting,
                sample_id=item[0],
                variant=item[1],
                models=int(counts[place]),
                difficulty=number_or_none(wrong[place]),
                blind_models=n_blind,
                blind_share=share,
                medium_share=number_or_none(solved[place]),
                shortcut=n_blind >= MIN_MODELS and share is not None and share > statistics.SHORTCUT_SHARE,
                duplicate_of=firsts.get((matrix.task, matrix.setting, *item), ""),
                **{name: value for measured in fields_of_item for name, value in measured.items()},
            )
        )
    samples, shares = statistics.sample_shares(matrix.right, [sample for sample, _ in matrix.items])
    return ItemReport(matrix, tuple(rows), samples, compact_subset(shares), not_searched)


def _discriminations(right: NDArray[np.float64], counts: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    """Yield each item's shrunk discrimination with its interval, and the test for a negative one."""
    ends = shrunk(statistics.discrimination(right), counts)
    p_values = reversed_p(right, statistics.rest_shares(right))
    for value, low, high, p, q in zip(*ends, p_values, benjamini_hochberg(p_values), strict=True):
        yield {
            "discrimination": number_or_none(value),
            "discrimination_low": number_or_none(low),
            "discrimination_high": number_or_none(high),
            "reversed": q is not None and q < LISTED_Q,
            "reversed_p": p,
            "reversed_q": q,
        }


def _suspicions(matrix: AnswerMatrix) -> Iterator[dict[str, Any]]:
    """Yield each item's answer that models agree on against the label, and the test of the label."""
    suspected = statistics.suspicions(matrix.right, matrix.answers)
    q_values = benjamini_hochberg([None if suspicion is None else suspicion.p for suspicion in suspected])
    for suspicion, q in zip(suspected, q_values, strict=True):
        if suspicion is None:
            yield {}
            continue
        yield {
            "suspect": q is not None and q < LISTED_Q,
            "agreed_answer": suspicion.answer,
            "agreed_models": suspicion.models,
            "log_odds": suspicion.odds,
            "p": suspicion.p,
            "q": q,
        }


def _rasch(right: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    """Yield each item's difficulty by a Rasch model with its standard error; nothing below 20 models."""
    if len(right) < MIN_RASCH_MODELS:
        yield from ({} for _ in range(right.shape[1]))
        return
    for value, error in zip(*Rasch.fit(right).difficulties(right), strict=True):
        yield {"rasch_difficulty": float(value), "rasch_error": float(error)}


def _duplicates(uris: Sequence[str], name: str) -> tuple[dict[tuple[str, ...], str], str]:
    """Return (task, setting, sample, variant) -> the first sample with the same prompt; and why there was no search."""
    first: dict[tuple[str, ...], str] = {}
    duplicates: dict[tuple[str, ...], str] = {}
    problems: list[str] = []
    for out in map(Store, uris):
        entry = next((e for e in load_run(out).entries if e.benchmark == name and not e.external), None)
        if entry is None:
            problems.append(f"{out.uri} has no prompts of its own")
            continue
        try:
            plans = entry_plans(next(iter(entry.by_prompt_set())), out, PlanStore(out), Datasets())
        except DatasetError as error:
            problems.append(f"{out.uri}: {error}")
            continue
        for key in (
            key for plan in plans for part in plan.plan.parts for key in plan.plan.read_columns(part).request_keys()
        ):
            original = first.setdefault((key.task, key.setting, key.prompt_sha256), key.sample_id)
            if original != key.sample_id:
                duplicates[key.task, key.setting, key.sample_id, key.variant] = original
    return duplicates, "" if first else "; ".join(problems)


def write_items(reports: Sequence[ItemReport], to: Store) -> list[str]:
    """Write page, CSV and compact subset; return their addresses."""
    files = {
        "items.html": _page(reports),
        "items.csv": csv_text(_COLUMNS, (astuple(row) for report in reports for row in report.rows)),
        "compact.txt": "".join(map(_compact_text, reports)),
    }
    publish_files(to, {name: text.encode("utf-8", "backslashreplace") for name, text in files.items()})
    return [f"{to.uri}/{name}" for name in files]


def _compact_text(report: ItemReport) -> str:
    matrix, compact = report.matrix, report.compact
    choice = "a random draw, since choosing by difficulty did no better" if compact.is_random else "by difficulty"
    head = (
        f"# {matrix.benchmark} {matrix.task} {matrix.setting}: {len(compact.places):,} of {len(report.samples):,} "
        f"samples, {choice}; the mean over them differs from that over all by {100 * compact.error:.1f} points (root "
        f"mean square) for a new model, cross-validated over {len(matrix.models)} models\n"
    )
    return head + "".join(f"{one_line(report.samples[place])}\n" for place in compact.places)


def _page(reports: Sequence[ItemReport]) -> str:
    parts = [
        {
            "title": f"{benchmark(report.matrix.benchmark).title}: {report.matrix.task}, {report.matrix.setting}",
            "items": len(report.matrix.items),
            "models": len(report.matrix.models),
            "parts": _two_parts(report.rows),
            "lists": list(_lists(report)),
            "compact": _compact_text(report).partition("\n")[0].removeprefix("# "),
        }
        for report in reports
    ]
    template = environment("jobs.analysis.items").get_template("items.html.j2")
    return template.render(**page_head("report.css"), parts=parts, shown=SHOWN)


def _two_parts(rows: Sequence[ItemRow]) -> str:
    """Return what is solved without the medium and what needs it; empty where too few models say."""
    both = (row for row in rows if min(row.models, row.blind_models) >= MIN_MODELS)
    right = [(1 - (row.difficulty or 0.0), row.blind_share or 0.0) for row in both]
    by_all, blind = np.mean(right or [(0.0, 1.0)], axis=0)
    needs = f" and {(by_all - blind) / (1 - blind):.0%} of the rest by it" if blind < 1 else ""
    return f"{blind:.0%} of {len(right):,} items are solved without the medium{needs}." if right else ""


def _lists(report: ItemReport) -> Iterator[dict[str, Any]]:
    """Yield the lists of `lists.yaml` with their rows."""
    rows = report.rows
    rows_by_kind = {
        "suspects": sorted((row for row in rows if row.suspect), key=lambda row: row.p or 0.0),
        "shortcuts": [row for row in rows if row.shortcut],
        "duplicates": [row for row in rows if row.duplicate_of],
        "reversed": sorted((row for row in rows if row.reversed), key=lambda row: row.reversed_p or 0.0),
    }
    words = {
        "q": LISTED_Q,
        "models": MIN_MODELS,
        "shown": SHOWN,
        "benchmark": report.matrix.benchmark,
    }
    for kind, texts in load_yaml("jobs.analysis.items", "lists.yaml").items():
        filled = {name: text.format(**words) if isinstance(text, str) else text for name, text in texts.items()}
        is_counted = kind != "duplicates" or not report.not_searched
        note = filled["note"] if is_counted else f"Not looked for: {report.not_searched}."
        yield {
            "kind": kind,
            "command": "",
            **filled,
            "note": note,
            "rows": rows_by_kind[kind],
            "is_counted": is_counted,
        }


def read_matrices(uris: Sequence[str], benchmarks: Sequence[str] = ()) -> list[AnswerMatrix]:
    """Read the matrices of outputs by benchmark, task and setting; a model of several outputs has each one's label."""
    columns: dict[tuple[str, str, str], dict[str, dict[Item, tuple[float, str | None]]]] = {}
    uris = list(dict.fromkeys(uris))
    outs = [Store(uri) for uri in uris]
    for out, run, label in zip(outs, load_existing_runs(outs), short_labels(uris), strict=True):
        for entry in run.entries:
            if is_person(entry.model) or (benchmarks and entry.benchmark not in benchmarks):
                continue
            name = entry.model if len(uris) == 1 else f"{entry.model} ({label})"
            rows = ScoreRows.read(out, entry)
            values = _right(rows)
            keys = zip(*(rows.texts[key].tolist() for key in ("task", "setting", "sample_id", "variant")), strict=True)
            for (task, setting, sample, variant), value, answer in zip(keys, values, rows.texts["answer"], strict=True):
                if split_variant(variant)[1]:
                    continue
                given = columns.setdefault((entry.benchmark, task, setting), {}).setdefault(name, {})
                given[sample, variant] = (float(value), answer)
    return [_matrix(*key, by_model) for key, by_model in sorted(columns.items())]


def _right(rows: ScoreRows) -> NDArray[np.float64]:
    right = np.full(len(rows.texts["task"]), np.nan)
    for name in RIGHT:
        if name in rows.values:
            right = np.where(np.isnan(right), rows.values[name], right)
    return np.where(np.isin(right, (0.0, 1.0)), right, np.nan)


def _matrix(
    name: str, task: str, setting: str, by_model: dict[str, dict[Item, tuple[float, str | None]]]
) -> AnswerMatrix:
    by_model = {model: given for model, given in by_model.items() if not all(math.isnan(r) for r, _ in given.values())}
    items = sorted({item for given in by_model.values() for item, (right, _) in given.items() if not math.isnan(right)})
    right = np.full((len(by_model), len(items)), np.nan)
    answers = np.full((len(by_model), len(items)), None, dtype=object)
    for row, given in enumerate(by_model.values()):
        for column, item in enumerate(items):
            if item in given:
                right[row, column], answers[row, column] = given[item]
    return AnswerMatrix(name, task, setting, tuple(by_model), tuple(items), right, answers)
