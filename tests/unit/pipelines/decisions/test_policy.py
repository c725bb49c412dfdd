"""Policies: both forms, and one sentence for each that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.decisions.gate import Line, Policy, read_policy
from pipelines.errors import UsageError


def policy(folder: Path, text: str) -> Path:
    path = folder / "policy.yaml"
    path.write_text(text)
    return path


LINE = Line(benchmark="mate", metric="exact_match", at_least=0.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- {benchmark: mate, metric: exact_match, at_least: 0.5}", Policy((LINE,))),
        ("alpha: 0.01\npolicy:\n- {benchmark: mate, metric: exact_match, at_least: 0.5}", Policy((LINE,), 0.01)),
        ("alpha: 0.01\nlines:\n- {benchmark: mate, metric: exact_match, at_least: 0.5}", Policy((LINE,), 0.01)),
        ("- alpha: 0.1\n- {benchmark: mate, metric: exact_match, at_least: 0.5}", Policy((LINE,), 0.1)),
    ],
)
def test_policy_is_a_list_or_a_mapping(text: str, expected: Policy, tmp_path: Path) -> None:
    assert read_policy(policy(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a list of lines"),
        ("[]", "expected a list of lines"),
        ("- alpha: 0.1", "expected a list of lines"),
        ("policy: 5", "expected a list of lines"),
        ("policy: {benchmark: mate, at_least: 1}", "expected a list of lines"),
        ("policy: [{benchmark: mate, at_least: 1}]\nrules: []", "policy and rules both hold lines; give one list"),
        ("- {benchmark: mate, at_least: true}", "line 1 of the list: at_least: Input should be a valid number"),
        ("- 5", "line 1 of the list: expected a mapping"),
        ("- {benchmark: mate, at_lest: 0.5}", "unknown key 'at_lest'; did you mean 'at_least'?"),
        ("- {benchmark: mate}", "give one of at_least, at_most and not_worse_than"),
        ("- {benchmark: mate, at_least: 0.1, at_most: 0.2}", "give one of at_least"),
        ("- {benchmark: mate, at_least: high}", "line 1 of the list: at_least: Input should be a valid number"),
        ("- {benchmark: mate, at_least: .nan}", "at_least: Input should be a finite number"),
        ("- {benchmark: mate, at_least: 0.5, margin: 0.1}", "not_worse_than and margin belong together"),
        ("- {benchmark: mate, not_worse_than: baseline}", "not_worse_than and margin belong together"),
        ("- {benchmark: mate, not_worse_than: baseline, margin: -1}", "margin: Input should be greater than or equal"),
        ("alpha: 2\npolicy: [{benchmark: mate, at_least: 1}]", "alpha is 2, expected a number between 0 and 1"),
        ("alhpa: 2\npolicy: [{benchmark: mate, at_least: 1}]", "unknown key 'alhpa'; did you mean 'alpha'?"),
        ("- {benchmark: mate, benchmark: maia}", "key 'benchmark' is given twice"),
    ],
)
def test_wrong_policy_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--policy .*policy\.yaml") as caught:
        read_policy(policy(tmp_path, text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_policy_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.yaml"):
        read_policy(tmp_path / "no.yaml")
