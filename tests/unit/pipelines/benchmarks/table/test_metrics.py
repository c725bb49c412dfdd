"""Answers of every kind, and the metrics of a model, against counts made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from pipelines.benchmarks import table_benchmark
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.known_tables import KINDS, Kind, TableDefinition
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeRequest, MediaRef, Metric, Prompt, Row, Sample, Verdict

PICTURE = MediaRef(role="media/0", kind="image", sha256="ab" * 32, extension=".png", bytes=9, width=8, height=8)


def sample(name: str, data: Mapping[str, Any], category: str = "", cluster: str = "") -> Sample:
    return Sample(
        sample_id=name, data={"question": f"{name}?", **data}, category=category, cluster=cluster, media=(PICTURE,)
    )


def row(item: Sample, kind: str, output: str | None, **fields: Any) -> Row:
    values = {"setting": "default", "variant": "", "status": "ok" if output is not None else "error", **fields}
    return Row(request_id=item.sample_id, sample=item, model="m", task=kind, output=output, **values)


def all_metrics(definition: TableDefinition, rows: Sequence[Row]) -> list[Metric]:
    benchmark = table_benchmark(definition)
    columns = []
    for scored in rows:
        reading = benchmark.reading(scored)
        columns.append(
            {
                "sample_id": scored.sample.sample_id,
                "task": scored.task,
                "setting": scored.setting,
                "variant": scored.variant,
                "subset": scored.sample.subset,
                "category": scored.sample.category,
                "cluster": scored.sample.cluster,
                "status": scored.status,
                "answer": reading.answer,
                "rule": reading.rule,
                "flags": list(reading.flags),
                "finish_reason": "stop",
                "verdict_state": scored.verdict.state,
                **reading.values,
            }
        )
    samples = {scored.sample.sample_id: scored.sample for scored in rows}
    return benchmark.metrics(pd.DataFrame(columns), samples)


def metrics(definition: TableDefinition, rows: Sequence[Row]) -> dict[tuple[str, str, str], Metric]:
    return {(metric.metric, metric.setting, metric.category): metric for metric in all_metrics(definition, rows)}


def choice(name: str, gold: int, category: str = "", cluster: str = "") -> Sample:
    options = ["red", "green", "blue"]
    return sample(name, {"options": options, "gold": gold, "answers": [options[gold]]}, category, cluster)


def test_choice_by_letter_category_and_failure() -> None:
    items = [choice("a", 0, "x"), choice("b", 1, "x"), choice("c", 2, "y"), choice("d", 2, "y"), choice("e", 1, "z")]
    outputs = ["A", "The answer is (C)", "blue", "B or C", None]
    measured = metrics(
        TableDefinition(name="t", kind="choice"),
        [row(item, "choice", output) for item, output in zip(items, outputs, strict=True)],
    )
    whole = measured["accuracy", "default", ""]
    assert (whole.value, whole.n, whole.n_failed) == (0.5, 4, 1)
    assert measured["accuracy", "default", "x"].value == 0.5
    assert measured["accuracy", "default", "y"].value == 0.5
    assert measured["accuracy", "default", "z"].value is None
    assert measured["unreadable", "default", ""].value == 0.25
    shares = {letter: measured["letter_share", "default", letter].value for letter in "ABC"}
    assert shares == {"A": pytest.approx(1 / 3), "B": 0.0, "C": pytest.approx(2 / 3)}


def test_macro_is_the_mean_over_categories_and_intervals_count_clusters() -> None:
    items = [choice(f"{name}", 0, "x" if name < 6 else "y", f"picture {name // 2}") for name in range(8)]
    outputs = ["A", "A", "A", "B", "A", "B", "B", "B"]
    definition = TableDefinition(name="t", kind="choice")
    measured = metrics(definition, [row(*pair) for pair in zip(items, ["choice"] * 8, outputs, strict=True)])
    assert measured["accuracy", "default", ""].value == 0.5
    assert measured["accuracy_macro", "default", ""].value == pytest.approx((4 / 6 + 0) / 2)
    alone = [choice(f"{name}", 0, "x" if name < 6 else "y", f"{name}") for name in range(8)]
    wider = measured["accuracy", "default", ""]
    single = metrics(definition, [row(*pair) for pair in zip(alone, ["choice"] * 8, outputs, strict=True)])
    other = single["accuracy", "default", ""]
    assert wider.ci_low is not None
    assert other.ci_low is not None
    assert wider.ci_low < other.ci_low


def test_rotations_are_read_back_and_all_must_be_right() -> None:
    first, second = choice("a", 1), choice("b", 0)
    rows = [row(first, "choice", letter, setting="circular", variant=str(n)) for n, letter in enumerate("BAC")]
    rows += [row(second, "choice", letter, setting="circular", variant=str(n)) for n, letter in enumerate("ACC")]
    measured = metrics(TableDefinition(name="t", kind="choice"), rows)
    assert measured["accuracy", "circular", ""].value == pytest.approx(5 / 6)
    circular = measured["circular_accuracy", "circular", ""]
    assert (circular.value, circular.n) == (0.5, 2)


def test_yes_no_counts() -> None:
    golds, outputs = ["yes", "yes", "no", "no", "yes"], ["Yes", "No.", "yes", "no", "perhaps"]
    items = [sample(str(n), {"answers": [gold]}) for n, gold in enumerate(golds)]
    definition = TableDefinition(name="t", kind="yes-no")
    measured = metrics(definition, [row(*pair) for pair in zip(items, ["yes-no"] * 5, outputs, strict=True)])
    values = {
        name: measured[name, "default", ""].value for name in ("accuracy", "precision", "recall", "f1", "yes_share")
    }
    assert values == {"accuracy": 0.4, "precision": 0.5, "recall": pytest.approx(1 / 3), "f1": 0.4, "yes_share": 0.4}


def test_text_number_label_and_open() -> None:
    text = sample("t", {"answers": ["Two dogs", "dogs"]})
    measured = metrics(TableDefinition(name="t", kind="text"), [row(text, "text", "The answer is 2 dogs.")])
    assert measured["accuracy", "default", ""].value == 1.0
    assert measured["anls", "default", ""].value == pytest.approx(4 / 6)
    assert ("vqa_accuracy", "default", "") not in measured
    ten = sample("v", {"answers": ["red"] * 3 + ["blue"] * 7})
    measured = metrics(TableDefinition(name="t", kind="text"), [row(ten, "text", "red")])
    assert measured["vqa_accuracy", "default", ""].value == pytest.approx((3 * 2 / 3 + 7) / 10)
    numbers = [sample("a", {"answers": ["100"], "gold": 100.0}), sample("b", {"answers": ["7"], "gold": 7.0})]
    rows = [row(item, "number", output) for item, output in zip(numbers, ["104", "7.1"], strict=True)]
    measured = metrics(TableDefinition(name="t", kind="number"), rows)
    assert (measured["accuracy", "default", ""].value, measured["exact", "default", ""].value) == (0.5, 0.0)
    label = TableDefinition(name="t", kind="label", labels=("cat", "dog"))
    measured = metrics(label, [row(sample("a", {"answers": ["cat"]}), "label", "It is a CAT")])
    assert measured["accuracy", "default", ""].value == 1.0


def test_open_answers_have_similarity_always_and_verdicts_by_the_judge() -> None:
    definition = TableDefinition(name="t", kind="open")
    items = [sample(str(n), {"answers": ["a dog runs"]}) for n in range(2)]
    rows = [row(items[0], "open", "a dog runs"), row(items[1], "open", "a cat sleeps")]
    measured = metrics(definition, rows)
    assert measured["judged_accuracy", "default", ""].value is None
    assert measured["judged_accuracy", "default", ""].note == "no judge: give one with --judge"
    assert measured["rouge", "default", ""].value == pytest.approx((1 + 1 / 3) / 2)
    assert {"bleu", "meteor"} <= {name for name, _, _ in measured}
    verdicts = [Verdict(state="ok", accepted=True), Verdict(state="invalid")]
    judged = [row(item, "open", "x", verdict=verdict) for item, verdict in zip(items, verdicts, strict=True)]
    assert (measured["judge_invalid", "default", ""].value, measured["judge_invalid", "default", ""].n) == (None, 2)
    measured = metrics(definition, judged)
    assert measured["judged_accuracy", "default", ""].value == 0.5
    assert measured["judged_accuracy", "default", ""].note == "1 of 2 verdicts could not be read and count as wrong"
    assert (measured["judge_invalid", "default", ""].value, measured["judge_invalid", "default", ""].n) == (1, 2)
    benchmark = table_benchmark(definition)
    assert benchmark.judge is not None
    texts = PromptTexts(benchmark.prompt_texts)
    assert isinstance(benchmark.judge.ask(rows[0], texts), JudgeRequest)
    assert benchmark.judge.ask(row(items[0], "open", " "), texts) is False
    assert [benchmark.judge.read(reply) for reply in ("Yes.", "no", "hm")] == [True, False, None]


def prompts(definition: TableDefinition, item: Sample, setting: str) -> list[Prompt]:
    benchmark = table_benchmark(definition)
    query = PromptInput(item, definition.kind, setting, PromptTexts(benchmark.prompt_texts), 42)
    return list(benchmark.prompts(query))


@pytest.mark.parametrize("kind", KINDS)
def test_the_medium_comes_first_and_the_version_names_the_kind(kind: Kind) -> None:
    item = choice("a", 1) if kind == "choice" else sample("a", {"answers": ["x"]})
    (prompt,) = prompts(TableDefinition(name="t", kind=kind, labels=("x", "y"), has_media=True), item, "default")
    first, second = prompt.steps[0].turns[0].parts
    assert prompt.version == f"table-{kind}-v1"
    assert first.source == PICTURE.sha256  # type: ignore[union-attr]
    assert second.text.startswith("a?")  # type: ignore[union-attr]


def test_settings_of_a_choice() -> None:
    definition = TableDefinition(name="t", kind="choice", has_media=True)
    assert table_benchmark(definition).tasks == {"choice": ("default", "no-image", "circular")}
    turned = prompts(definition, choice("a", 1), "circular")
    assert [prompt.variant for prompt in turned] == ["0", "1", "2"]
    assert "A. green\nB. blue\nC. red" in turned[1].steps[0].turns[0].parts[1].text  # type: ignore[union-attr]
    (white,) = prompts(definition, choice("a", 1), "no-image")
    assert white.steps[0].turns[0].parts[0].source.startswith("blank:FFFFFF")  # type: ignore[union-attr]


EXAMPLE = sample("a", {"answers": ["x"]})


def test_a_prompt_of_ones_own_has_a_version_of_its_own() -> None:
    versions = {
        prompts(TableDefinition(name="t", kind="text", prompt=text), sample("a", {"answers": ["x"]}), "default")[
            0
        ].version
        for text in ("{question}", "Say: {question}", "")
    }
    assert len(versions) == 3


def test_the_kinds_own_headline_stays_beside_another_one() -> None:
    benchmark = table_benchmark(TableDefinition(name="t", kind="number", headline="exact"))
    assert (benchmark.headline, benchmark.secondary_metrics) == ("exact", ("accuracy", "unreadable"))


def test_official_score_by_group_and_grouping_and_its_mean_over_groups() -> None:
    definition = TableDefinition(
        name="t",
        kind="yes-no",
        scorers={"yes-no": "yes-no-first"},
        groups=("pair",),
        by=("level",),
        macro_over="category",
        macro_of="f1",
    )
    facts = [("a", "yes", "x", "1", ["low"]), ("b", "no", "x", "1", ["low", "high"]), ("c", "yes", "y", "2", ["high"]),
             ("d", "no", "y", "2", []), ("e", "yes", "y", "3", ["low"])]  # fmt: skip
    items = [
        sample(name, {"answers": [gold], "groups": {"pair": [pair]}, "by": {"level": levels}}, category, name)
        for name, gold, category, pair, levels in facts
    ]
    outputs = ["yes", "Not sure", "The answer is yes", "no", None]
    found = {
        (each.metric, each.subset, each.category): (each.value, each.n)
        for each in all_metrics(
            definition, [row(item, "yes-no", out) for item, out in zip(items, outputs, strict=True)]
        )
    }
    assert found["official_score", "", ""] == (0.75, 4)
    assert found["official_score", "", "x"] == (1.0, 2)
    assert found["official_score", "", "y"] == (0.5, 2)
    assert found["official_score", "level", "low"] == (1.0, 2)
    assert found["official_score", "level", "high"] == (0.5, 2)
    assert found["accuracy", "level", "high"][1] == 2
    assert found["pair", "", ""] == (0.5, 2)
    assert found["pair", "", "x"] == (1.0, 1)
    assert found["official_score_macro", "", ""][0] == pytest.approx((1.0 + 0.0) / 2)
    assert found["f1", "", "y"][0] == pytest.approx(1.0)


def test_groups_and_groupings_need_no_scorer() -> None:
    definition = TableDefinition(name="t", kind="choice", groups=("pair",), by=("level",))
    facts = {"groups": {"pair": ["1"]}, "by": {"level": ["low"]}}
    items = [replace(item, data={**item.data, **facts}) for item in (choice("a", 0), choice("b", 1))]
    measured = all_metrics(definition, [row(item, "choice", "A") for item in items])
    found = {(each.metric, each.subset, each.category): each.value for each in measured}
    assert (found["pair", "", ""], found["accuracy", "level", "low"]) == (0.0, 0.5)
    assert not any(metric.startswith("official") for metric, *_ in found)


def test_judged_scores_leave_out_unreadable_verdicts_and_count_classes() -> None:
    scale = ("RIGHT", "WRONG", "NONE")
    definition = TableDefinition(name="t", kind="open", scorers={"open": "judge"}, judge_scale=scale)
    items = [sample(name, {"answers": ["cat"]}) for name in "abcd"]
    verdicts = [Verdict(state="ok", accepted=reply == "RIGHT", reply=reply) for reply in ("RIGHT", "NONE", "RIGHT")]
    verdicts.append(Verdict(state="invalid", tries=3))
    pairs = [row(item, "open", "a cat", verdict=verdict) for item, verdict in zip(items, verdicts, strict=True)]
    measured = metrics(definition, pairs)
    assert (measured["official_score", "default", ""].value, measured["official_score", "default", ""].n) == (2 / 3, 3)
    assert measured["class_NONE", "default", ""].value == pytest.approx(1 / 3)
    assert measured["judge_invalid", "default", ""].value == 1
    unjudged = metrics(definition, [row(item, "open", "a cat") for item in items])["official_score", "default", ""]
    assert (unjudged.value, unjudged.note) == (None, "no judge: give one with --judge")


def test_official_scores_have_intervals_and_are_compared() -> None:
    definition = TableDefinition(name="t", kind="choice", scorers={"choice": "letter"}, groups=("pair",))
    items = [choice(str(number), number % 3, cluster=str(number)) for number in range(40)]
    items = [
        Sample(**{name: getattr(item, name) for name in Sample.__slots__}
               | {"data": {**item.data, "groups": {"pair": [str(number // 2)]}}})
        for number, item in enumerate(items)
    ]  # fmt: skip
    rows = [row(item, "choice", "ABC"[number % 3] if number % 4 else "b") for number, item in enumerate(items)]
    found = {each.metric: each for each in all_metrics(definition, rows) if not each.category}
    assert found["official_score"].value == 0.75
    assert found["pair"].value == 0.5
    for name in ("official_score", "pair"):
        assert found[name].ci_low is not None
        assert found[name].ci_low < found[name].value < found[name].ci_high
