from __future__ import annotations

import pytest

from models.catalog_loader import load_models, select_models
from models.entry_fields import Unsupported
from models.errors import UnknownModelError
from models.spec import ModelSpec

LOCAL = {"engine": "transformers", "model": "org/name"}
REMOTE = {"engine": "openai", "model": "m", "base_url": "http://x/v1"}
MODELS = {
    "small": ModelSpec(**LOCAL, parameters_b=2.0, papers=("maia",)),
    "large": ModelSpec(**LOCAL, parameters_b=72.0, papers=("maia", "mate")),
    "hosted": ModelSpec(**REMOTE, papers=("mate",)),
    "old": ModelSpec(**REMOTE, withdrawn=True, papers=("mate",)),
    "broken": ModelSpec(**LOCAL, parameters_b=1.0, unsupported=Unsupported(reason="no code", runs_with="an endpoint")),
    "chance": ModelSpec(engine="random"),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", ["small", "large", "hosted", "chance"]),
        ("open", ["small", "large"]),
        ("closed", ["hosted"]),
        ("paper:maia", ["small", "large"]),
        ("paper:mate", ["large", "hosted"]),
        ("fits:80GB", ["small"]),
        ("fits:80gb", ["small"]),
        ("fits:640", ["small", "large"]),
    ],
)
def test_selector_stands_for_the_models_that_can_be_run(text: str, expected: list[str]) -> None:
    assert list(select_models([text], MODELS)) == expected


def test_selectors_mix_with_names_and_each_model_is_selected_once() -> None:
    assert list(select_models(["large", "open", "old"], MODELS)) == ["large", "small", "old"]


def test_model_of_a_selectors_name_is_that_model() -> None:
    assert list(select_models(["all"], {**MODELS, "all": MODELS["chance"]})) == ["all"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("paper:mia", "--models paper:mia: unknown paper 'mia'; did you mean 'maia'?"),
        ("fits:much", "--models fits:much: give the memory of one GPU, such as fits:80GB"),
        ("fits:0GB", "--models fits:0GB: give the memory of one GPU, such as fits:80GB"),
        ("fits:1GB", "--models fits:1GB: no model that can be run is among them"),
        ("fits:", "unknown model 'fits:'"),
        ("paper", "unknown model 'paper'"),
        (
            "Open",
            "unknown model 'Open'; did you mean 'open'? Groups of models: all, open, closed, paper:BENCHMARK",
        ),
        ("papers:maia", "unknown model 'papers:maia'; did you mean 'paper:maia'? Groups of models: all"),
        ("Fit:80gb", "did you mean 'fits:80GB'?"),
        ("smal", "unknown model 'smal'; did you mean 'small'? Groups of models: all"),
        ("xyzzy", "; known: broken, chance, hosted, large, old, small. Groups of models: all"),
    ],
)
def test_unreadable_selector_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        select_models([text], MODELS)
    assert message in str(caught.value)


def test_catalog_splits_into_open_closed_and_chance() -> None:
    models = load_models()
    groups = {text: set(select_models([text], models)) for text in ("all", "open", "closed")}
    assert groups["all"] - groups["open"] - groups["closed"] == {"random"}
    assert "gemini-1.5-pro" not in groups["closed"]
    assert {"gpt-4o", "claude-opus-5.5"} <= groups["closed"]


def test_second_entry_of_a_model_is_chosen_by_name_alone() -> None:
    models = {"a": ModelSpec(**REMOTE), "b": ModelSpec(**REMOTE, variant_of="a")}
    assert list(select_models(["closed"], models)) == ["a"]
    assert list(select_models(["b"], models)) == ["b"]
