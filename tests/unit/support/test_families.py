from __future__ import annotations

from models.catalog_loader import load_models
from tests.support.checkpoints import ARCHITECTURES
from tests.support.families import TRIALS, covered, elsewhere, healthy, only_vllm, page, untried


def test_every_catalog_entry_has_a_trial_or_a_reason() -> None:
    tried = {trial.architecture for trial in TRIALS}
    assert tried == set(ARCHITECTURES)
    displayed = {name for architecture in tried for name in covered(architecture)}
    displayed |= {*elsewhere(), *only_vllm(), *untried()}
    assert displayed == {name for name, spec in load_models().items() if spec.runs_locally}


def test_trial_is_healthy_when_every_request_ends_once() -> None:
    row = {"exit": 0, "ok": 8, "error": 0, "repeated": 0, "metrics": 3}
    assert healthy(row)
    assert not any(healthy({**row, **change}) for change in ({"exit": 1}, {"ok": 0}, {"error": 1}, {"metrics": 0}))
    assert "`qwen-vl-chat`: Published with code of its own" in page([])


def test_page_keeps_the_lines_of_architectures_that_were_not_tried_again() -> None:
    row = {
        **dict.fromkeys(("role", "benchmark", "tasks", "settings"), "x"),
        **dict.fromkeys(("ok", "error", "tokens_a_request", "cached", "metrics", "seconds"), 0),
        "entries": ["some"],
    }
    first = page([{**row, "architecture": "llama"}, {**row, "architecture": "gemma4"}])
    second = page([{**row, "architecture": "gemma4", "ok": 7}], first)
    lines = [line for line in second.splitlines() if line.startswith(("| llama", "| gemma4"))]
    assert [line.split(" | ")[0] for line in lines] == ["| llama", "| gemma4"]
    assert " | 7 | " in lines[1]
    assert page([], second) == second
