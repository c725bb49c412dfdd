from __future__ import annotations

from models.availability import transformers_classes
from models.catalog_loader import load_models
from models.spec import TransformersEntry
from tests.support.checkpoints import ARCHITECTURES
from tests.support.families import NOT_IN_CATALOG, TRIALS, covered, elsewhere, healthy, only_vllm, page, untried
from tests.support.paths import ROOT


def test_every_catalog_entry_has_a_trial_or_a_reason() -> None:
    tried = {trial.architecture for trial in TRIALS}
    assert tried == set(ARCHITECTURES)
    displayed = {name for architecture in tried for name in covered(architecture)}
    displayed |= {*elsewhere(), *only_vllm(), *untried()}
    assert displayed == {name for name, spec in load_models().items() if spec.runs_locally}


TODAY = {
    *("qwen3_vl", "qwen3_vl_moe", "internvl", "gemma4", "glm4v", "glm4v_moe", "minicpmv4_7", "molmo2", "lfm3_vl"),
    *("hunyuan_vl", "ernie4_5_vl_moe", "kimi_k25", "minimax_m3_vl", "llama4", "mistral3", "smolvlm", "ovis2"),
    *("perception_lm", "granite4_vision"),
}


def test_every_family_of_today_has_an_entry_or_a_reason() -> None:
    named = {
        spec.architecture
        for spec in load_models().values()
        if isinstance(spec, TransformersEntry) and not spec.unsupported
    }
    assert transformers_classes().keys() >= TODAY
    assert TODAY - named == set(NOT_IN_CATALOG)
    assert all(f"- {family}: {reason}\n" in page([]) for family, reason in NOT_IN_CATALOG.items())


def test_packages_that_families_lack_are_no_dependencies() -> None:
    locked = {line.partition("==")[0].strip() for line in (ROOT / "requirements.lock").read_text().splitlines()}
    assert "transformers" in locked
    assert not {"timm", "compressed-tensors"} & locked


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
