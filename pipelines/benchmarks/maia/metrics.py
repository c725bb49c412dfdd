"""Compute MAIA's metrics from the scored rows of one model.

The paper's (Testa et al., Findings of EMNLP 2025, arXiv 2502.16989), for the whole and for each of twelve categories:

- `statement_accuracy`: share of correct statement pairs; `pool_accuracy`: share of questions with all eight correct.
- `oevqa_accuracy`: share of open answers that the judge accepts; `agg_acc`: share of questions with both.
- `rouge`, `bertscore`, `bleu`, `meteor`, `cider` of the open answers with the eight human ones; failed requests do not
  count. The paper does not name their variants, so values close to its Table 4 are not to be expected.

A failed request is wrong. One never run makes metrics over its setting's questions null. Intervals are over videos.

Several language models that score bare statements make the joint row `unimodal`: the paper's "highest probability among
the five models" is ambiguous, so the highest log-probability per token decides, and the majority vote stands beside it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import numpy as np
import pandas as pd

from pipelines.benchmarks.item_lists import ItemList, ListedItem, listed, rows_of
from pipelines.benchmarks.maia.answers import unimodal_choice, unimodal_vote
from pipelines.benchmarks.maia.facts import (
    BASELINES,
    BLACK_FRAME,
    COLUMNS,
    FULL,
    LEAVE_ONE_OUT,
    LEAVE_ONE_OUT_KEY,
    MEASURES,
    POOL_SIZE,
    gain_key,
)
from pipelines.benchmarks.metrics_kernel.definitions import Grouping, Measure, MetricDef, estimates, with_intervals
from pipelines.benchmarks.metrics_kernel.rows import (
    NO_JUDGE,
    Bools,
    ScoredRows,
    aligned,
    answers_bleu_counts,
    coverage_note,
    not_run_note,
    unjudged_note,
    worst_status,
)
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.records import Metric, Sample
from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.ngrams import bleu_of_counts, bleu_of_sums, cider, plain_bleu_of_counts, plain_bleu_of_sums
from pipelines.metrics.text import tokens_ptb, words


def every(rows: ScoredRows) -> Bools:
    """Count every row."""
    return np.ones(len(rows), dtype=np.bool_)


def right(rows: ScoredRows) -> Bools:
    """Return the pairs whose true statement was chosen."""
    return np.asarray(rows.ok & (rows.floats("correct") == 1), dtype=np.bool_)


def accepted(rows: ScoredRows) -> FloatArray:
    """Return 1 where the judge accepts, 0 where not or where the request failed, NaN without a verdict."""
    return np.where(rows.failed, 0.0, rows.floats("accepted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRows:
    """The rows of one setting; a question with an excluded row is left out, so that a pool always holds eight pairs."""

    tasks: frozenset[str]  # that are part of the sweep in this setting
    pairs: ScoredRows  # of `vsv`
    pools: ScoredRows  # a row a question of `vsv`: `right` pairs, their `share`, whether the `pool` is right
    answers: ScoredRows  # of `oevqa`
    joint: ScoredRows  # a row a question of both: `pool`, and `judged` as of `accepted`
    not_run: int  # requests of both tasks without a result, which leave metrics over questions without a value

    @classmethod
    def of(cls, rows: ScoredRows) -> Self:
        """Split the rows of one setting, as `prepare` returns them, by task."""
        tasks = {name: rows.where(task=name).named(task=name) for name in ("vsv", "oevqa")}
        excluded = {name: set(part.where(part.excluded)["sample_id"]) for name, part in tasks.items()}
        pairs, answers = (
            part.where(np.array([name not in excluded[task] for name in part["sample_id"]], dtype=np.bool_))
            for task, part in tasks.items()
        )
        not_run = int(pairs.missing.sum() + answers.missing.sum())
        blocked, pools = not_run_note(not_run), _pools(pairs)
        # A question of one task alone lacks the requests of the other task, unless these are excluded.
        ids, open_ids = set(pools["sample_id"]), set(answers["sample_id"])
        unmatched = len(ids - open_ids - excluded["oevqa"]) + POOL_SIZE * len(open_ids - ids - excluded["vsv"])
        first, second = aligned(pools, answers, "sample_id")
        joint = first.with_columns(
            judged=accepted(second),
            status=worst_status(first["status"], second["status"]),
            verdict_state=second.texts("verdict_state"),
        )
        return cls(
            tasks=frozenset(name for name, part in tasks.items() if len(part)),
            pairs=pairs.named(note=coverage_note(pairs)),
            pools=pools.named(blocked=blocked),
            answers=answers.named(note=coverage_note(answers), blocked=blocked),
            joint=joint.named(task="aggregate", blocked=not_run_note(not_run + unmatched)),
            not_run=not_run,
        )


def _pools(pairs: ScoredRows) -> ScoredRows:
    """Return a row a question with eight pairs."""
    _, counts = np.unique(pairs["sample_id"].astype(str), return_counts=True)
    whole = pairs.where(np.repeat(counts == POOL_SIZE, counts))
    is_right = right(whole).reshape(-1, POOL_SIZE)
    return whole.at(np.arange(0, len(whole), POOL_SIZE)).with_columns(
        right=is_right.sum(axis=1),
        share=is_right.mean(axis=1),
        pool=np.asarray(is_right.all(axis=1)),
        status=worst_status(*whole["status"].reshape(-1, POOL_SIZE).T),
    )


BY_CATEGORY: Final = Grouping(names=COLUMNS)
WITH_MACRO: Final = Grouping(names=COLUMNS, mean_suffix="_macro")
_NO_WORDNET: Final = "no WordNet in /usr/share/wordnet: install Debian's wordnet-base and score again"
_MEASURED_BY_CATEGORY: Final = ("rouge", "bertscore", "meteor")
_BLEUS: Final = tuple(
    MetricDef(
        name=f"bleu_{order}" if order < 4 else "bleu",
        value="bleu_counts",
        statistic=partial(bleu_of_sums, order=order),
        from_totals=partial(bleu_of_counts, order=order),
        form="single" if order < 4 else "both",
    )
    for order in (4, 1, 2, 3)
)
_BLEU_SHORTEST: Final = MetricDef(
    name="bleu_shortest", value="bleu_shortest_counts", statistic=plain_bleu_of_sums, from_totals=plain_bleu_of_counts
)
_CIDER: Final = MetricDef(
    name="cider", value="cider", missing="one question alone has no document frequencies", unit="score", form="both"
)
_CIDER_PTB: Final = replace(_CIDER, name="cider_ptb", value="cider_ptb", form="single")


def similarity_measures(measured: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield the measures of the answers, by category where an answer has a value of its own."""
    for name in ("rouge", "bertscore", "meteor", "rouge1", "meteor_wordnet"):
        lacks_all = bool(np.isnan(measured.floats(name)[measured.ok]).all())
        missing = _NO_WORDNET if name == "meteor_wordnet" else "no scorer gave it"
        definition = MetricDef(
            name=name,
            value=name,
            missing=missing if lacks_all else lambda rows: f"answers without a score: {len(rows):,}",
        )
        if name in _MEASURED_BY_CATEGORY:
            yield from WITH_MACRO.measures(definition, measured)
        else:
            yield Measure(definition=definition, parts=(measured,))
    if samples:
        compared = _compared(measured, samples)
        for definition in _BLEUS:
            yield from BY_CATEGORY.measures(definition, compared)
        yield from WITH_MACRO.measures(_CIDER, compared)
        for definition in (_BLEU_SHORTEST, _CIDER_PTB):
            yield Measure(definition=definition, parts=(compared,))


def _compared(rows: ScoredRows, samples: Mapping[str, Sample]) -> ScoredRows:
    """Return the rows with the n-gram counts and the CIDEr-D of the answered ones, compared with people's answers."""
    answered = np.flatnonzero(rows.ok)
    texts = [answer or "" for answer in rows.texts("answer")[answered]]
    references = [list(samples[name].data["answers"]) for name in rows["sample_id"][answered]]
    columns: dict[str, np.ndarray] = {}
    for name, is_shortest in (("bleu_counts", False), ("bleu_shortest_counts", True)):
        columns[name] = answers_bleu_counts(rows, rows.ok, references, shortest=is_shortest)
    for name, tokenizer in (("cider", words), ("cider_ptb", tokens_ptb)):
        columns[name] = np.full(len(rows), np.nan)
        if len(answered) > 1:
            columns[name][answered] = cider(texts, references, tokenizer)
    return rows.with_columns(**columns)


SETTINGS: Final = ("black-video", BLACK_FRAME, "1-frame", "32-frames", "unimodal")  # in the paper's order
_MAX_LISTED: Final = 10  # contradictory pools in one note
_over_questions: Final = partial(MetricDef, counted=every)
_STATEMENTS: Final = MetricDef(name="statement_accuracy", value=right, counted=lambda rows: ~rows.missing)
_STATEMENTS_AUTHORS: Final = MetricDef(
    name="statement_accuracy_authors",
    value=lambda rows: rows.ok & (rows.floats("correct_authors") == 1),
    counted=lambda rows: ~rows.missing,
)
_POOLS: Final = _over_questions(name="pool_accuracy", value="pool", form="both")
_GAP: Final = _over_questions(
    name="statement_minus_pool", value=lambda rows: rows.floats("share") - rows.floats("pool"), unit=""
)
_NONE_RATE: Final = MetricDef(name="none_rate", value=lambda rows: ~rows.read)
_SIDES: Final = tuple(
    MetricDef(
        name=f"accuracy_ts_{letter}",
        value=right,
        counted=lambda rows, side=side: rows.ok & (rows.floats("ts_at_a") == side),  # type: ignore[misc]
    )
    for letter, side in (("a", 1.0), ("b", 0.0))
)
_OPEN: Final = _over_questions(name="oevqa_accuracy", value=accepted, missing=unjudged_note, judged=True)
_OPEN_AUTHORS: Final = _over_questions(
    name="oevqa_accuracy_authors",
    value=lambda rows: np.where(rows.failed, 0.0, rows.floats("accepted_authors")),
    missing="no verdict as a label: `--prompt-version maia=authors` asks for one",
)
_AGGREGATE: Final = _over_questions(
    name="agg_acc", value=lambda rows: rows.floats("pool") * rows.floats("judged"), missing=unjudged_note, form="both"
)
_OPEN_GAP: Final = _over_questions(
    name="oevqa_minus_pool",
    value=lambda rows: rows.floats("judged") - rows.floats("pool"),
    missing=unjudged_note,
    unit="",
)


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model, by setting and task; one without a value is None, with a note.

    `scores` are as of `Reporter.reduce`; every question of a `vsv` setting has rows for its eight pairs, also those of
    status `missing`.
    """
    if scores.empty:
        return []
    frame = scores.sort_values(["sample_id", "variant"], kind="stable", ignore_index=True)
    is_people = frame["setting"] == LEAVE_ONE_OUT
    metrics = with_intervals(estimates(_leave_one_out(frame[is_people])))
    settings = _settings(frame[~is_people])
    for setting in settings.values():
        for measures, counts in (_vsv, _vsv_counts), (_oevqa, _oevqa_counts), (_aggregate, _contingency):
            metrics += [*with_intervals(estimates(measures(setting, samples))), *counts(setting, samples)]
    return [*metrics, *with_intervals(estimates(_gains(settings)))]


def paired_measures(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield the metrics over questions, of two models: pool accuracy, Agg-Acc, corpus BLEU and CIDEr."""
    for setting in _settings(scores).values():
        for measures in (_vsv, _oevqa, _aggregate):
            yield from measures(setting, samples)


def _settings(frame: pd.DataFrame) -> dict[str, SettingRows]:
    rows, present = ScoredRows.of(frame), set(frame["setting"])
    ordered = [name for name in SETTINGS if name in present] + sorted(present - set(SETTINGS))
    return {name: SettingRows.of(rows.where(setting=name).named(setting=name)) for name in ordered}


def _vsv(setting: SettingRows, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    if "vsv" in setting.tasks:
        yield from WITH_MACRO.measures(_STATEMENTS, setting.pairs)
        if not np.isnan(setting.pairs.floats("correct_authors")).all():  # answers are letters
            yield Measure(definition=_STATEMENTS_AUTHORS, parts=(setting.pairs,))
        yield from WITH_MACRO.measures(_POOLS, setting.pools)
        yield Measure(definition=_GAP, parts=(setting.pools,))
        for definition in (_NONE_RATE, *_SIDES):
            yield Measure(definition=definition, parts=(setting.pairs,))


def _vsv_counts(setting: SettingRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    if "vsv" not in setting.tasks:
        return
    pairs, pools = setting.pairs, setting.pools
    for name in ("elimination", "echo"):
        yield pairs.count(f"{name}_count", int((pairs.ok & (pairs["rule"] == name)).sum()))
    by_authors = pairs.floats("correct_authors")
    if not np.isnan(by_authors).all():
        differ = pairs.ok & (pairs.floats("correct") != by_authors)
        yield pairs.count("readings_differ", int(differ.sum()))
    yield pairs.count("errors", int(pairs.failed.sum()), int((~pairs.missing).sum()))
    histogram = np.bincount(pools["right"], minlength=POOL_SIZE + 1)
    for correct, questions in enumerate(histogram.tolist()):
        value = None if pools.blocked else questions
        yield pools.count(f"pool_right_{correct}", value, len(pools), note=pools.blocked)
    statements = {name: samples[name].data for name in pools["sample_id"]}
    ids = [name for name, data in statements.items() if not set(data["true"]).isdisjoint(data["false"])]
    more = f" and {len(ids) - _MAX_LISTED:,} more" if len(ids) > _MAX_LISTED else ""
    note = f"a false statement is also a true one: {', '.join(ids[:_MAX_LISTED])}{more}" if ids else ""
    yield pools.count("contradictory_pools", len(ids), len(pools), n_failed=0, note=note)


def _oevqa(setting: SettingRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    if "oevqa" not in setting.tasks:
        return
    answers = setting.answers
    yield from WITH_MACRO.measures(_OPEN, answers)
    if not np.isnan(answers.floats("accepted_authors")).all():
        yield Measure(definition=_OPEN_AUTHORS, parts=(answers,))
    yield from similarity_measures(answers.named(blocked=""), samples)


def _oevqa_counts(setting: SettingRows, _samples: Mapping[str, Sample]) -> Iterator[Metric]:
    if "oevqa" not in setting.tasks:
        return
    answered = setting.answers.where(setting.answers.ok)
    count = partial(setting.answers.count, n=len(answered))
    states = answered["verdict_state"]
    judged = not len(answered) or bool(np.isin(states.astype(str), ["ok", "invalid"]).any())
    invalid = int((states == "invalid").sum()) if judged else None
    yield count("judge_error_count", invalid, note="" if judged else unjudged_note(answered))
    yield count("truncated_count", int(answered.flagged("truncated").sum()))
    failed, run = setting.answers.failed, ~setting.answers.missing
    yield count("errors", int(failed.sum()), n=int(run.sum()))


def _aggregate(setting: SettingRows, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    if len(setting.tasks) == 2:
        yield from WITH_MACRO.measures(_AGGREGATE, setting.joint)
        yield Measure(definition=_OPEN_GAP, parts=(setting.joint,))


def _contingency(setting: SettingRows, _samples: Mapping[str, Sample]) -> Iterator[Metric]:
    """Count the questions of each row of Agg-Acc by their results in both tasks."""
    if len(setting.tasks) < 2:
        return
    kinds = {"both": (1, 1), "pool_only": (1, 0), "judge_only": (0, 1), "neither": (0, 0)}
    for rows in (setting.joint, *BY_CATEGORY.groups(setting.joint)):
        aggregate = _AGGREGATE.estimate(rows).metric
        pool, judged = rows.floats("pool"), rows.floats("judged")
        for name, (in_pool, by_judge) in kinds.items():
            value = int(((pool == in_pool) & (judged == by_judge)).sum()) if aggregate.value is not None else None
            yield rows.count(f"agg_{name}", value, aggregate.n, note=aggregate.note)


def _leave_one_out(frame: pd.DataFrame) -> list[Measure]:
    """Return the share of people's answers that the judge accepts by the other seven; none without such answers."""
    if frame.empty:
        return []
    note = "each of the eight human answers, judged by the other seven"
    rows = ScoredRows.of(frame, task=LEAVE_ONE_OUT_KEY.task, setting=LEAVE_ONE_OUT_KEY.setting, note=note)
    return WITH_MACRO.measures(MetricDef(name=LEAVE_ONE_OUT_KEY.metric, value="accepted", missing=NO_JUDGE), rows)


def _gains(settings: Mapping[str, SettingRows]) -> Iterator[Measure]:
    """Yield the gains of 32 frames over fewer, where both settings cover the same questions."""
    full = settings.get(FULL)
    values: dict[str, Callable[[ScoredRows], np.ndarray]] = {
        "statement": lambda rows: rows.floats("share"),
        "pool": lambda rows: rows.floats("pool"),
        "oevqa": accepted,
    }
    for baseline in BASELINES:
        base = settings.get(baseline)
        if full is None or base is None:
            continue
        for measure, (task, _) in MEASURES.items():
            rows, others = (side.pools if task == "vsv" else side.answers for side in (full, base))
            if task not in full.tasks or not np.array_equal(rows["sample_id"], others["sample_id"]):
                continue
            gain = values[measure](rows) - values[measure](others)
            compared = rows.with_columns(gain=gain, status=worst_status(rows["status"], others["status"]))
            definition = _over_questions(
                name=gain_key(measure, baseline).metric, value="gain", missing="not every answer has a verdict", unit=""
            )
            blocked = not_run_note(full.not_run + base.not_run)
            yield from WITH_MACRO.measures(definition, compared.named(note="", blocked=blocked))


_KEYS = ["sample_id", "variant"]
_SCORES = ["true_logprob", "false_logprob"]


def reduce_unimodal(scores: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample]) -> dict[str, list[Metric]]:
    """Return rule -> joint metrics of all models that scored statements; empty for fewer than two, or unequal pairs."""
    scored = [frame for frame in scores.values() if "true_logprob" in frame]
    parts = (frame[(frame["task"] == "vsv") & (frame["setting"] == "unimodal")] for frame in scored)
    frames = [part.sort_values(_KEYS, ignore_index=True) for part in parts if len(part)]
    if len(frames) < 2 or any(not frame[_KEYS].equals(frames[0][_KEYS]) for frame in frames):
        return {}
    rules: dict[str, Callable[[Sequence[float], Sequence[float]], bool]] = {
        f"best of {len(frames)} text models": unimodal_choice,
        f"vote of {len(frames)} text models": unimodal_vote,
    }
    return {name: reduce_scores(_joint_rows(frames, rule), samples) for name, rule in rules.items()}


def _joint_rows(
    frames: Sequence[pd.DataFrame], rule: Callable[[Sequence[float], Sequence[float]], bool]
) -> pd.DataFrame:
    """Return the first model's rows with the joint choice; a pair that any model failed to score is an error."""
    rows = frames[0]
    scored = [list(zip(*(frame[name].tolist() for name in ("status", *_SCORES)), strict=True)) for frame in frames]
    status, correct, answers = list[str](), list[float](), list[str | None]()
    for pair, at_a in zip(zip(*scored, strict=True), rows["ts_at_a"].tolist(), strict=True):
        failures = [state for state, _, _ in pair if state != "ok"]
        true, false = [float(score) for _, score, _ in pair], [float(score) for _, _, score in pair]
        readable = not failures and not any(math.isnan(score) for score in (*true, *false))
        is_correct = readable and rule(true, false)
        status.append(failures[0] if failures else "ok")
        correct.append(math.nan if failures else float(is_correct))
        answers.append(("A" if (at_a == 1.0) == is_correct else "B") if readable else None)
    return rows.assign(status=status, correct=correct, answer=pd.Series(answers, rows.index, dtype=object))


_LISTS: Final[Mapping[str, tuple[str, str]]] = load_facts(__package__, "facts.yaml")["lists"]


def item_lists(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[ItemList]:
    """Return the lists of one model, from its scores and samples by id; a failed request counts as wrong."""
    if "accepted" not in scores:
        return []
    run = scores[scores["status"].isin(["ok", "error"])]
    answers = run[(run["task"] == "oevqa") & (run["setting"] != LEAVE_ONE_OUT)]
    answers = answers.assign(accepted=answers["accepted"].where(answers["status"] == "ok", 0.0))
    pairs = run[run["task"] == "vsv"]
    right = (pairs["correct"] == 1.0) if "correct" in pairs else pairs["status"] == ""
    pools = right.groupby([pairs["setting"], pairs["sample_id"]]).agg(["sum", "size"])
    counts = {key: int(row["sum"]) for key, row in pools.iterrows() if row["size"] == POOL_SIZE}
    lists: dict[str, list[ListedItem]] = {name: [] for name in _LISTS}
    for row in rows_of(answers.dropna(subset=["accepted"])):
        sample, pool = samples[row["sample_id"]], counts.get((row["setting"], row["sample_id"]))
        item = listed(
            row,
            question=str(sample.data["question"]),
            expected="; ".join(sample.data["answers"]),
            answer=row["answer"],
            detail="" if pool is None else f"{pool} of {POOL_SIZE} statements right",
        )
        is_wrong = row["accepted"] != 1.0
        belongs = {
            "maia_pool_only": pool == POOL_SIZE and is_wrong,
            "maia_judge_only": pool is not None and pool < POOL_SIZE and not is_wrong,
            "maia_out_of_scope": is_wrong and row["category"] == "Out-of-Scope",
            "maia_uncertainty": is_wrong and row["category"] == "Uncertainty",
        }
        for name in filter(belongs.__getitem__, belongs):
            lists[name].append(item)
    return [ItemList(id=name, title=title, about=about, items=lists[name]) for name, (title, about) in _LISTS.items()]
