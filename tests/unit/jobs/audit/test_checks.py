"""The audit of the papers' tables: what it finds as printed, and faults planted in sound numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from jobs.audit.cells import Finding, Paper
from jobs.audit.checks import RULES, audit, audit_paper, load_paper, papers
from jobs.cli.main import run
from pipelines.errors import UsageError

# Worked out by hand from the printed tables: number, rule, as printed, what the rule gives.
FINDINGS = {
    "maia": [
        ("Table 2", "InternVL3 78B", "32-frames", "mean", "0.77", "0.693"),  # 8.31 / 12
        ("Table 5", "InternVL3 78B", "32-frames", "mean", "0.64", "0.709"),  # 8.51 / 12
        ("Table 1", "Qwen-2.5-VL 7B", "1-frame", "bound", "0.81", "at most 0.70"),
        ("Table 2", "InternVL3 78B", "black-video", "repeated", "0.50; 0.54; 0.49; 0.62",
         "other numbers than 32-frames"),
    ],
    "mate": [
        ("Table 5", "Qwen2.5-VL", "2-shot", "repeated", "0.522", "another label"),
        ("Table 4", "Gemini 1.5", "2-shot-cot", "change", "0.051", "0.053"),  # 72.5 - 67.2
        ("Table 8", "gemini-1.5-flash", "2-shot", "mean", "0.959", "0.9795"),  # (95.9 + 100.0) / 2
        ("text", "", "", "count", "16", "17"),
    ],
    "unpie": [
        ("Table 6", "GPT-4", "sm", "range", "2.980", "0 to 1"),
        ("Table 6", "GPT-4", "sm", "range", "6.550", "0 to 1"),
        ("Table 6", "GPT-4", "sm", "range", "3.070", "0 to 1"),
        ("Table 6", "GPT-4", "sm", "range", "6.850", "0 to 1"),
        ("Table 6", "LLaVA", "vlm", "change", "0.050", "0.045"),  # 16.4 - 11.9
        ("Table 6", "LLaVA", "vlm", "mean", "0.260", "0.2895"),  # (28.7 + 29.2) / 2
        ("Table 6", "LLaVA-MMT", "vlm", "mean", "0.185", "0.1895"),  # (12.3 + 25.6) / 2
        ("Table 6", "LLaVA-MMT", "vlm", "mean", "0.178", "0.186"),  # (12.9 + 24.3) / 2
        ("Table 6", "LLaVA-MMT", "vlm", "mean", "0.233", "0.2315"),  # (28.0 + 18.3) / 2
        ("Table 7", "Pun-aware translation", "", "order", "0.966", "at most 0.955"),
    ],
    "vague": [
        ("Table 1", "Ovis2 (16B)", "vlm", "change", "0.036", "0.0262"),  # (280 - 250) / 1144
        ("Table 1", "GPT-4o", "vlm", "change", "0.153", "0.1538"),  # (339 - 257) / 533
        ("Table 2", "Human", "vlm", "count against percentage", "0.940", "0.935"),  # 374 / 400
        ("Table 2", "Human", "vlm", "sum", "12; 4; 8; 374", "a total of 400"),  # 398
        ("Table H3", "GPT-4o", "vlm-cot", "repeated", "0.689; 0.306", "other numbers than lm"),
    ],
    "vflute": [],
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_audit_finds_the_contradictions_of_a_paper_and_no_others(name: str) -> None:
    findings, numbers = audit([name])
    assert [
        (item.table, item.model, item.setting, item.rule, item.printed,
         item.expected.partition(",")[0].partition(":")[0])
        for item in findings
    ] == FINDINGS[name]  # fmt: skip
    assert numbers[name] == sum(row.value is not None for row in load_paper(name).numbers.rows)


def test_every_doubtful_line_is_in_a_finding_but_an_outlier_that_breaks_no_rule() -> None:
    doubtful = {
        (name, row.table, row.model, row.setting)
        for name in papers()
        for row in load_paper(name).numbers.rows
        if row.doubtful
    }
    lines = {(item.paper, item.table, item.model, item.setting) for item in audit()[0]}
    assert doubtful - lines == {
        ("vague", "Table H3", "LLaVA-NeXT-vicuna (13B)", "lm"),  # low, but possible
        ("maia", "Table 5", "Qwen-2.5-VL 7B", "1-frame"),  # its contradiction is shown at Table 1
    }


def changed(name: str, values: Mapping[str, str], value: float) -> Paper:
    """Return a paper with another value of the one number that `values` describe."""
    paper = load_paper(name)
    rows = list(paper.numbers.rows)
    (index,) = (i for i, row in enumerate(rows) if all(getattr(row, key) == text for key, text in values.items()))
    rows[index] = replace(rows[index], value=value)
    return replace(paper, numbers=replace(paper.numbers, rows=tuple(rows)))


MAIA = {"table": "Table 1", "model": "Qwen-2.5-VL 72B", "setting": "32-frames"}
LLAVA = {"table": "Table 6", "model": "LLaVA", "setting": "sm"}
H4 = {"table": "Table H4", "model": "Idefics2 (8B)", "task": "mcq", "setting": "vlm"}
VFLUTE = {"table": "Table 4", "model": "Claude-3 Opus", "setting": "zero-shot"}


@pytest.mark.parametrize(
    ("name", "number", "value", "rule"),
    [
        ("maia", {**MAIA, "category": ""}, 0.52, "mean"),
        ("maia", {**MAIA, "category": "Causal"}, 0.97, "bound"),
        ("vague", {**H4, "metric": "count_fs"}, 5.0, "sum"),
        ("vague", {**H4, "metric": "accuracy"}, 0.3, "count against percentage"),
        ("vague", {"table": "Table 1", "model": "GPT-4o", "setting": "sm", "subset": "VCR", "metric": "delta_vs_lm"},
         0.2, "change"),
        ("vague", {"table": "Table 1", "model": "Idefics2 (8B)", "setting": "vlm", "subset": "Ego4D",
                   "metric": "accuracy"}, 0.3, "count against percentage"),
        ("vague", {"table": "Table 3", "model": "GPT-4o", "setting": "vlm", "metric": "accuracy"}, 0.5, "mean"),
        ("vflute", {**VFLUTE, "metric": "f1_at_60"}, 0.454, "bound"),
        ("vflute", {**VFLUTE, "metric": "f1_at_0"}, 56.07, "range"),
        ("mate", {"table": "Table 9", "model": "gpt-4o-2024-11-20", "task": "img2txt", "setting": "2-shot"}, 0.5,
         "printed twice"),
        ("mate", {"table": "Table 1", "model": "Random", "task": "crossmodal"}, 0.30, "mean"),
        ("unpie", {"table": "Table 4", "model": "GPT-4", "setting": "vlm", "category": "Homo",
                   "metric": "exact_match"}, 0.975, "count against percentage"),
        ("unpie", {"table": "Table 7", "model": "Plain translation", "subset": "Ko", "category": "Homo",
                   "metric": "win_rate"}, 0.80, "sum"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found_by_its_rule(name: str, number: dict[str, str], value: float, rule: str) -> None:
    new = set(audit_paper(changed(name, number, value))) - set(audit_paper(load_paper(name)))
    assert rule in {finding.rule for finding in new}
    assert {finding.model for finding in new} <= {number["model"], "Pun-aware translation", "GPT-4o"}


def test_a_copied_line_is_found() -> None:
    paper = load_paper("maia")
    key = {"table": "Table 3", "task": "aggregate"}
    values = {
        row.category: row.value
        for row in paper.numbers.rows
        if row.setting == "1-frame" and all(getattr(row, name) == text for name, text in key.items())
    }
    rows = [
        replace(row, value=values[row.category]) if (row.table, row.setting) == ("Table 3", "32-frames") else row
        for row in paper.numbers.rows
    ]
    new = audit_paper(replace(paper, numbers=replace(paper.numbers, rows=tuple(rows))))
    assert [(item.setting, item.rule) for item in new if item.table == "Table 3"] == [("1-frame", "repeated")]


def test_figures_about_the_data_are_added_up() -> None:
    paper = load_paper("vflute")
    (finding,) = audit_paper(replace(paper, facts={**paper.facts, "train/MuSE": "829"}))[:1]
    assert finding == Finding(
        paper="vflute", table="text", rule="sum", metric="train/Total", printed="4578",
        expected="4577, the sum of " + ", ".join(f"train/{name}" for name in (
            "HAIVMET", "IRFL (metaphor/simile)", "IRFL (idiom)", "MuSE", "MemeCap", "NYCartoons")),
    )  # fmt: skip


@pytest.mark.parametrize("printed", [0.719, 0.72])
def test_an_average_may_be_rounded_either_way(printed: float) -> None:
    number = {"table": "Table 8", "model": "molmo", "task": "unimodal"}
    rows = [row for row in load_paper("mate").numbers.rows if row.task in ("img2img", "txt2txt", "unimodal")]
    names = {row.model for row in rows if row.table == "Table 8" and row.task == "unimodal" and row.value == 0.719}
    number["model"] = names.pop()
    new = set(audit_paper(changed("mate", number, printed))) - set(audit_paper(load_paper("mate")))
    assert not new


def test_rules_name_metrics_and_values_that_are_printed() -> None:
    for name, rules in RULES.items():
        rows = load_paper(name).numbers.rows
        metrics = {row.metric for row in rows}
        for rule in rules:
            named = {*getattr(rule, "metrics", ())} | {
                getattr(rule, key, "") for key in ("metric", "of", "lower", "upper")
            }
            assert named - {""} <= metrics, rule
            dimension = getattr(rule, "dimension", "")
            if dimension:
                values = {getattr(row, dimension) for row in rows}
                assert {*rule.parts} <= values, rule  # type: ignore[union-attr]


def test_papers_are_named_as_benchmarks_or_nearly() -> None:
    assert audit(["V-FLUTE"]) == audit(["vflute"])
    with pytest.raises(UsageError, match="no published tables of 'maja'; did you mean 'maia'"):
        audit(["maja"])


def test_audit_prints_contradictions_and_counts_and_names_the_nearest_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "mate"]) == 0
    out = capsys.readouterr().out
    assert "0.9795, the mean of img2img, txt2txt" in out
    assert out.endswith("mate: 414 printed numbers, 4 contradictions beyond rounding\n")
    assert run(["audit", "unpi"]) == 2
    assert "no published tables of 'unpi'; did you mean 'unpie'?" in capsys.readouterr().err


def test_audit_as_json_lists_findings_of_all_papers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["numbers"] == {"maia": 798, "mate": 414, "unpie": 494, "vague": 803, "vflute": 81}
    finding = next(item for item in result["findings"] if item["paper"] == "mate" and item["rule"] == "mean")
    assert finding == {
        "paper": "mate", "table": "Table 8", "rule": "mean", "model": "gemini-1.5-flash", "task": "unimodal",
        "setting": "2-shot", "subset": "", "category": "", "metric": "exact_match", "printed": "0.959",
        "expected": "0.9795, the mean of img2img, txt2txt",
    }  # fmt: skip
