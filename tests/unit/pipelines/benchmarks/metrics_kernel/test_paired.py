"""Metrics of two models that are no mean of a score, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import PairedTest, Sample


def frames(rows: Sequence[Mapping[str, Any]]) -> list[pd.DataFrame]:
    """Return the rows of A and B; a pair (a, b) as a value differs between the two."""
    sides = []
    for side in (0, 1):
        values = [{key: cell[side] if isinstance(cell, tuple) else cell for key, cell in row.items()} for row in rows]
        frame = pd.DataFrame({name: pd.Series([row.get(name) for row in values]) for name in _names(values)})
        for name in ("answer", "sample_id", "task", "setting", "variant", "category", "cluster"):
            frame[name] = frame[name].astype(object) if name in frame else ""
        sides.append(frame.assign(status="ok"))
    return sides


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def paired_tests(name: str, rows: Sequence[Mapping[str, Any]], samples: Mapping[str, Sample] | None = None) -> Any:
    """Return the tests of a benchmark's metrics by metric, task, subset and category."""
    metrics = list(benchmark(name).paired_metrics(*frames(rows), samples or {}))
    tests = {(m.metric, m.task, m.subset, m.category): m.test() for m in metrics}
    assert len(tests) == len(metrics)
    return tests


def values(test: PairedTest) -> tuple[Any, ...]:
    return (pytest.approx(test.mean_a), pytest.approx(test.mean_b), test.n, test.clusters)


def maia_rows(wrong: Mapping[str, tuple[int, int]], pairs: int = 8) -> list[dict[str, Any]]:
    """Return the pairs of questions, of which A and B have the first so many wrong."""
    return [
        {"task": "vsv", "setting": "1-frame", "sample_id": name, "cluster": name[:2], "variant": str(index)}
        | {"correct": (float(index >= a), float(index >= b))}
        for name, (a, b) in wrong.items()
        for index in range(pairs)
    ]


def test_maia_pools_and_aggregate() -> None:
    rows = maia_rows({"v1/x": (0, 1), "v1/y": (0, 0), "v2/x": (2, 0), "v3/x": (0, 8)})
    rows += maia_rows({"v4/x": (0, 0)}, pairs=7)  # an incomplete pool is left out
    verdicts = {"v1/x": (1.0, 1.0), "v1/y": (0.0, 1.0), "v2/x": (1.0, 1.0), "v3/x": (1.0, None), "v4/x": (1.0, 1.0)}
    rows += [
        {"task": "oevqa", "setting": "1-frame", "sample_id": name, "cluster": name[:2], "variant": "", "accepted": pair}
        for name, pair in verdicts.items()
    ]
    tests = paired_tests("maia", rows)
    pool = tests["pool_accuracy", "vsv", "", ""]
    assert values(pool) == (3 / 4, 2 / 4, 4, 3)  # right pools of A: v1/x v1/y v3/x; of B: v1/y v2/x
    assert pool.p is not None
    assert pool.p > 0.5
    # questions with a pool and both verdicts: v1/x v1/y v2/x; A has v1/x, B has v1/y and v2/x
    assert values(tests["agg_acc", "aggregate", "", ""]) == (1 / 3, 2 / 3, 3, 2)
    assert len(tests) == 2  # corpus metrics need the data


def test_maia_corpus_metrics() -> None:
    samples = {f"v{i}/x": Sample(sample_id=f"v{i}/x", data={"answers": ["nel forno caldo oggi"]}) for i in range(3)}
    rows = [
        {"task": "oevqa", "setting": "1-frame", "sample_id": name, "cluster": name, "variant": ""}
        | {"answer": ("nel forno caldo oggi", "nel forno caldo ieri")}
        for name in samples
    ]
    tests = paired_tests("maia", rows, samples)
    bleu = tests["bleu", "oevqa", "", ""]
    # B's precisions: 9/12, 6/9, 3/6, and without a match half of 1/3: their product is 1/24
    assert values(bleu) == (1.0, (1 / 24) ** 0.25, 3, 3)
    # every clip has the same answers: three clips allow for others, whose share is Wilson's of none
    assert bleu.p is not None
    assert bleu.ci_low is not None
    assert bleu.ci_low < bleu.mean_b - bleu.mean_a < 0
    assert tests["cider", "oevqa", "", ""].n == 3


def test_mate_errors_outside_the_scene() -> None:
    right = {"img2txt": [(1, 0), (0, 0), (0, 0)], "txt2img": [(1, 1), (0, 1)]}
    inside = {"img2txt": [(1, 0), (0, 0), (1, 1)], "txt2img": [(1, 1), (0, 1)]}
    rows = [
        {"task": task, "setting": "2-shot", "sample_id": f"{task}{i}", "cluster": f"{task}{i}", "variant": ""}
        | {"correct": tuple(map(float, right[task][i])), "in_scene": tuple(map(float, inside[task][i]))}
        for task in right
        for i in range(len(right[task]))
    ]
    tests = paired_tests("mate", rows)
    # img2txt: A errs twice, once outside; B three times, twice outside
    assert values(tests["ose", "img2txt", "", ""]) == (1 / 2, 2 / 3, 3, 3)
    assert tests["ose", "txt2img", "", ""] is None  # B has no error
    assert values(tests["ose", "crossmodal", "", ""]) == (2 / 3, 2 / 3, 4, 4)
    # means of 1/3 and 1/2, of 0/3 and 2/2
    assert values(tests["exact_match", "crossmodal", "", ""]) == (5 / 12, 1 / 2, 5, 5)


def unpie_rows(task: str, scores: Mapping[str, list[tuple[Any, Any]]], column: str) -> list[dict[str, Any]]:
    """Return the rows of puns by kind: one, or two for both meanings in German."""
    rows = []
    for name, pairs in scores.items():
        for index, pair in enumerate(pairs):
            variant = f"de/{index}" if len(pairs) > 1 else ""
            kind = name.split("/")[0]
            row = {"task": task, "setting": "vlm", "sample_id": name, "variant": variant, "category": kind}
            rows.append({**row, "cluster": name, column: pair})
    return rows


def test_unpie_means_of_both_kinds_and_pairs() -> None:
    rows = unpie_rows(
        "grounding", {"Homo/1": [(1.0, 0.0)], "Homo/2": [(1.0, 1.0)], "Hetero/1": [(0.0, 1.0)]}, "correct"
    )
    translations = {
        "Homo/1": [(1.0, 1.0), (1.0, 0.0)],
        "Homo/2": [(0.0, 1.0), (1.0, 1.0)],
        "Hetero/1": [(1.0, 1.0), (1.0, 1.0)],
        "Hetero/2": [(0.0, 0.0), (None, 0.0)],  # A's second has no score, and the first decides the pair
    }
    rows += unpie_rows("disambiguation", translations, "correct")
    tests = paired_tests("unpie", rows)
    # Homo 2/2 and 1/2, Hetero 0/1 and 1/1; pooled it would be 2/3 of both
    assert values(tests["exact_match", "grounding", "", "All"]) == (1 / 2, 3 / 4, 3, 3)
    # Homo 3/4 and 3/4, Hetero 2/3 and 2/3
    assert values(tests["accuracy", "disambiguation", "En-De", "All"]) == (17 / 24, 17 / 24, 7, 4)
    # pairs: Homo 1/2 and 1/2, Hetero 1/2 and 1/2
    assert values(tests["pair_accuracy", "disambiguation", "En-De", "All"]) == (1 / 2, 1 / 2, 4, 4)
    assert tests["accuracy", "disambiguation", "En-De", "All"].p == 1.0


def test_unpie_verdicts_and_bleu_of_one_kind() -> None:
    rows = unpie_rows("reconstruction", {"Homo/1": [(1.0, 0.0), (1.0, 1.0)], "Homo/2": [(0.0, 0.0)] * 2}, "accepted")
    rows = [{**row, "answer": ("the baker needed some dough", "")} for row in rows]
    samples = {
        f"Homo/{i}": Sample(sample_id=f"Homo/{i}", data={"sentence": "the baker needed some dough"}) for i in (1, 2)
    }
    tests = paired_tests("unpie", rows, samples)
    assert values(tests["correct_pct", "reconstruction", "De-En", "Homo"]) == (2 / 4, 1 / 4, 4, 2)
    assert values(tests["bleu4", "reconstruction", "De-En", "Homo"]) == (1.0, 0.0, 4, 2)


def vague_sample(name: str) -> Sample:
    readings = {"correct": "The speaker wants Ann to close the door", "fs": "f", "su": "s", "ne": "n"}
    return Sample(sample_id=name, data={"ordering": ["A", "B", "C", "D"], "readings": readings})


def test_vague_shares_of_error_types_and_corpus_bleu() -> None:
    samples = {f"i{n}": vague_sample(f"i{n}") for n in range(5)}
    letters = [("A", "B"), ("B", "B"), ("C", "A"), ("B", "D"), (None, "A")]
    texts = ("The speaker wants Ann to close the door", "the speaker wants Ann to open the window")
    rows = [
        {"task": task, "setting": "vlm", "sample_id": name, "cluster": name, "variant": "", "answer": answer}
        for task, answers in (("mcq", letters), ("freeform", [texts] * 5))
        for name, answer in zip(samples, answers, strict=True)
    ]
    tests = paired_tests("vague", rows, samples)
    # wrong readings of A: fs su fs; of B: fs fs ne; an unreadable answer is of no kind
    assert values(tests["error_share_fs", "mcq", "", ""]) == (2 / 3, 2 / 3, 4, 4)
    assert values(tests["error_share_su", "mcq", "", ""]) == (1 / 3, 0.0, 4, 4)
    assert values(tests["error_share_ne", "mcq", "", ""]) == (0.0, 1 / 3, 4, 4)
    # B: six of eight words, in lower case
    assert values(tests["bleu1_corpus", "freeform", "", ""]) == (1.0, 6 / 8, 5, 5)
    assert paired_tests("vague", rows) == {}


def test_vflute_f1_at_thresholds() -> None:
    gold = ["entailment", "entailment", "contradiction", "contradiction"]
    samples = {f"r{n}": Sample(sample_id=f"r{n}", data={"label": label}) for n, label in enumerate(gold)}
    labels = [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0), (0.0, 1.0)]
    scores = [(0.7, 0.5), (0.9, 0.7), (0.55, 0.7), (0.7, 0.7)]
    rows = [
        {"task": "entailment", "setting": "zero-shot", "sample_id": f"r{n}", "cluster": f"r{n}", "variant": ""}
        | {"subset": "", "flags": None, "label": labels[n], "es": scores[n]}
        for n in range(4)
    ]
    tests = paired_tests("vflute", rows, samples)
    # A: one entailment and both contradictions right: F1 2/3 and 4/5; B: both and one: 4/5 and 2/3
    assert values(tests["label_f1", "entailment", "", ""]) == (11 / 15, 11 / 15, 4, 4)
    # above 0.6: A keeps r0 and r3, one of each class, of B's r1 and r2 too: F1 1/2 and 1/2
    assert values(tests["f1_at_60", "entailment", "", ""]) == (1 / 2, 1 / 2, 4, 4)
    # above 0.53: A keeps all three, B loses r0
    assert values(tests["f1_at_53", "entailment", "", ""]) == (11 / 15, 1 / 2, 4, 4)
    rows[0]["es"] = (0.7, None)
    assert [key[0] for key in paired_tests("vflute", rows, samples)] == ["label_f1"]
