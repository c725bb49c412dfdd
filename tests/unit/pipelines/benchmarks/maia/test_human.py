"""MAIA's human files: import as predictions, and agreement with the judge."""

import pytest

from pipelines.benchmarks.maia.people.human import (
    answers_as_predictions,
    judge_kappa,
    letters_as_predictions,
)

COUNTS = (3, 3, 2, 0, 1, 0)
"""Raters of three who say correct, per item."""


def ratings(counts: tuple[int, ...]) -> str:
    rows = [f"i{item},r{rater},{int(rater < right)}" for item, right in enumerate(counts) for rater in range(3)]
    return "\n".join(["item_id,rater,correct", *rows])


def test_judge_kappa_of_the_protocol() -> None:
    metric = judge_kappa(ratings(COUNTS))
    assert metric.value == pytest.approx(0.5556, abs=5e-5)
    assert (metric.metric, metric.n, metric.subset, metric.unit) == ("fleiss_kappa", 6, "6 samples", "")


def test_judge_kappa_is_undefined_for_equal_ratings() -> None:
    metric = judge_kappa(ratings((3, 3)))
    assert (metric.value, metric.note) == (None, "all ratings are the same")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("item_id,rater\n1,a", "no column correct"),
        ("item_id,rater,correct\n1,a,yes", "line 2: correct is 'yes', expected 0 or 1"),
        (
            "item_id,rater,correct\n1,a,1\n1,a,0",
            "line 3: a second row of 'a' for '1'; the first is on line 2, keep one",
        ),
        ("item_id,rater,correct\n1,,1", "line 2: rater must have a value"),
        (f"item_id,rater,correct\n1,{'x' * 140_000},1", "not readable as CSV: field larger than field limit"),
        ("item_id,rater,correct\n1,a,1\n1,b,1\n2,a,1", "same number of raters"),
        ("item_id,rater,correct\n", "items by categories"),
    ],
)
def test_judge_kappa_rejects_unusable_ratings(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        judge_kappa(text)


def test_answers_as_predictions_returns_one_row_per_answer() -> None:
    text = '\ufeffquestion_id,annotator,answer\nvideo7/Incertezza_B,anna,"Sì, forse"\nvideo7/Incertezza_B,ugo,No\n'
    first, second = answers_as_predictions(text)
    assert first == {
        "benchmark": "maia",
        "model": "human:anna",
        "task": "oevqa",
        "setting": "32-frames",
        "sample_id": "video7/Incertezza_B",
        "variant": "",
        "output": "Sì, forse",
    }
    assert second["model"] == "human:ugo"


def test_letters_as_predictions_returns_one_row_per_pair() -> None:
    (row,) = letters_as_predictions("pair_id,annotator,letter\nvideo7/Incertezza_B/3,anna,B\n")
    assert (row["task"], row["setting"], row["sample_id"]) == ("vsv", "32-frames", "video7/Incertezza_B")
    assert (row["variant"], row["output"]) == ("3", "B")


@pytest.mark.parametrize("row", ["video7/X_A/8,anna,B", "video7/X_A/3,anna,C", "3,anna,A"])
def test_letters_as_predictions_rejects_invalid_letters(row: str) -> None:
    with pytest.raises(ValueError, match=r"line 2: pair_id .* expected such as"):
        letters_as_predictions(f"pair_id,annotator,letter\n{row}")
