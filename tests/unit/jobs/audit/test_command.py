from __future__ import annotations

import json

import pytest

from jobs.cli.main import run


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
