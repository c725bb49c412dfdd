"""Which pins of models files are behind the hub's main."""

from __future__ import annotations

import huggingface_hub.constants
import pytest

from jobs.cli.main import run
from jobs.revision_check import check_revisions
from models.errors import HubUnreachableError
from models.spec import ModelSpec
from tests.support.hub import COMMITS, LocalHub

HEAD, OLD = COMMITS[:2]


def model(name: str, revision: str | None) -> ModelSpec:
    return ModelSpec(engine="transformers", model=name, revision=revision)


def test_every_pin_has_a_state() -> None:
    models = {
        "new": model("org/name", HEAD),
        "old": model("org/name", OLD),
        "open": model("org/name", "main"),
        "typo": model("org/name", "f" * 40),
        "gone": model("org/gone", OLD),
        "busy": model("org/busy", OLD),
        "folder": model("./folder", None),
        "guess": ModelSpec(engine="random"),
    }
    with LocalHub({"org/name": {"main": HEAD}, "org/busy": {"main": HEAD}}) as hub:
        hub.status["org/busy"] = 429
        rows = check_revisions(models, endpoint=hub.url)
    assert {row[0]: row[3:] for row in rows} == {
        "busy": ["", "status 429"],
        "gone": ["", "the hub has no org/gone, or shows it only with a token that may read it"],
        "new": [HEAD, "current"],
        "old": [HEAD, "behind"],
        "open": [HEAD, "not pinned"],
        "typo": [HEAD, f"the hub has no revision '{'f' * 40}' of org/name"],
    }


def test_adapter_of_the_hub_has_a_row_of_its_own() -> None:
    pinned = {"adapter": "org/lora", "adapter_revision": OLD}
    models = {
        "trained": model("org/name", HEAD).model_copy(update=pinned),
        "local base": model("./folder", None).model_copy(update={"adapter": "org/lora"}),
        "local adapter": model("org/name", HEAD).model_copy(update={"adapter": "./adapter"}),
        "gone": model("org/name", HEAD).model_copy(update={"adapter": "org/gone"}),
    }
    with LocalHub({"org/name": {"main": HEAD}, "org/lora": {"main": HEAD}}) as hub:
        rows = check_revisions(models, endpoint=hub.url)
    assert rows == [
        ["gone", "org/name", HEAD, HEAD, "current"],
        ["gone", "org/gone", "main", "", "the hub has no org/gone, or shows it only with a token that may read it"],
        ["local adapter", "org/name", HEAD, HEAD, "current"],
        ["local base", "org/lora", "main", HEAD, "not pinned"],
        ["trained", "org/name", HEAD, HEAD, "current"],
        ["trained", "org/lora", OLD, HEAD, "behind"],
    ]


def test_hub_that_answers_nothing_is_an_error_and_no_state() -> None:
    with LocalHub({}) as hub:
        hub.status["org/name"] = 503
        with pytest.raises(HubUnreachableError, match="status 503"):
            check_revisions({"a": model("org/name", OLD)}, endpoint=hub.url)


def test_command_ends_with_3_without_the_hub_and_2_for_what_has_no_revisions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert run(["list", "models", "--check"]) == 3
    assert capsys.readouterr().err.startswith("vlmsweep: the hub cannot be reached (offline mode)")
    assert run(["list", "benchmarks", "--check"]) == 2
    assert "vlmsweep list models --check" in capsys.readouterr().err
