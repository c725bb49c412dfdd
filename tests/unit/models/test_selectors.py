from __future__ import annotations

import re
from pathlib import Path

import pytest

from models.catalog_loader import load_models, select_models
from models.engine_choice import choose_engine
from models.entry_fields import Unsupported
from models.errors import UnknownModelError
from models.selectors import add_direct_models, direct_name, is_direct
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
            "unknown model 'Open'; did you mean 'open'? `vlmsweep list models` shows the catalog; your own",
        ),
        ("papers:maia", "unknown model 'papers:maia'; did you mean 'paper:maia'? `vlmsweep list"),
        ("Fit:80gb", "did you mean 'fits:80GB'?"),
        ("smal", "unknown model 'smal'; did you mean 'small'? `vlmsweep list models`"),
        ("xyzzy", "unknown model 'xyzzy'. `vlmsweep list models` shows the catalog; your own models are an entry of"),
        (
            "xyzzy",
            "a file that --models-file names, OWNER/NAME of the hub, ./FOLDER, or http://HOST:PORT/v1#MODEL. Groups",
        ),
        ("xyzzy", "#MODEL. Groups of models: all, open, closed, paper:BENCHMARK, fits:80GB"),
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


@pytest.mark.parametrize(
    ("text", "proposed"),
    [
        ("qwen2.5-vl-3b", "qwen2.5-vl-7b"),
        ("Qwen2.5-VL-7B-Instruct", "qwen2.5-vl-7b"),
        ("gpt-4", None),  # an entry
        ("gpt-4v", "gpt-4"),
        ("rendom", "random"),
        ("my-model", None),
        ("my-checkpoint", None),
        ("instruct", None),
    ],
)
def test_name_of_the_same_family_is_proposed_or_none(text: str, proposed: str | None) -> None:
    models = load_models()
    if text in models:
        assert list(select_models([text], models)) == [text]
        return
    with pytest.raises(UnknownModelError) as caught:
        select_models([text], models)
    found = re.findall("did you mean '(.*?)'", str(caught.value))
    assert found == [proposed] * bool(proposed)
    assert "--models-file" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_folder_of_an_unknown_name_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-checkpoint").mkdir()
    with pytest.raises(UnknownModelError, match=r"The folder of this name is given as \./my-checkpoint\."):
        select_models(["my-checkpoint"], MODELS)


def given(*words: str, models: dict[str, ModelSpec] = MODELS) -> dict[str, ModelSpec]:
    """Return the models that words give in addition to others."""
    return {name: spec for name, spec in add_direct_models(words, models).items() if name not in models}


def test_hub_id_is_a_model_of_its_last_part() -> None:
    (plain,) = given("Qwen/Qwen2.5-VL-3B-Instruct").items()
    assert plain[0] == "Qwen2.5-VL-3B-Instruct"
    assert plain[1].model == "Qwen/Qwen2.5-VL-3B-Instruct"
    assert plain[1].engine == "transformers"  # auto, as vllm is not installed
    assert plain[1].revision is None
    assert given("org/m@refs/pr/1")["m"].revision == "refs/pr/1"
    assert given("org/m@" + "a" * 40)["m"].revision == "a" * 40
    automatic = choose_engine(ModelSpec(engine="auto", model="org/m"))
    assert (given("org/m")["m"].generation, given("org/m")["m"].limits) == (automatic.generation, automatic.limits)


def test_hub_id_of_the_catalog_has_its_facts_and_none_of_its_settings(caplog: pytest.LogCaptureFixture) -> None:
    models = load_models()
    spec = given("Qwen/Qwen2.5-VL-7B-Instruct", models=models)["Qwen2.5-VL-7B-Instruct"]
    entry = models["qwen2.5-vl-7b"]
    assert (spec.architecture, spec.parameters_b, spec.shape) == (entry.architecture, entry.parameters_b, entry.shape)
    assert entry.revision
    assert spec.revision is None
    assert "Qwen/Qwen2.5-VL-7B-Instruct is qwen2.5-vl-7b in the catalog" in caplog.text


def test_folder_is_a_model_of_its_last_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "runs" / "my-checkpoint"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "qwen2_5_vl"}')
    words = (
        "./runs/my-checkpoint",
        "runs/my-checkpoint/",
        str(folder),
        "~/runs/my-checkpoint",
        "runs/../runs/my-checkpoint",
    )
    for word in words:
        assert given(word) == {"my-checkpoint": given(str(folder))["my-checkpoint"]}, word
    assert given(*words)["my-checkpoint"].model == str(folder)
    assert given(str(folder))["my-checkpoint"].architecture == "qwen2_5_vl"
    monkeypatch.chdir(folder)
    assert given(".") == given(str(folder))
    assert given("./absent")["absent"].model == str(folder / "absent")  # refused where models are checked
    assert given("s3://bucket/models/tuned/")["tuned"].model == "s3://bucket/models/tuned/"


def test_address_is_an_endpoint_named_by_the_last_part_of_its_model() -> None:
    for word in ("http://127.0.0.1:8000/v1#org/My-VL", "http://127.0.0.1:8000/v1/#My-VL"):
        (name,) = spec_by_name = given(word)
        assert name == "My-VL"
        assert spec_by_name[name].engine == "openai"
        assert spec_by_name[name].base_url == "http://127.0.0.1:8000/v1"
        assert spec_by_name[name].model == word.partition("#")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["http://h:1/v1"],
            "http://h:1/v1: name the model at this server too, as in http://h:1/v1#MODEL; most servers",
        ),
        (["http://h:1/v1#"], "as in http://h:1/v1#MODEL"),
        (["http://u:pw@h/v1#m"], "http://***@h/v1: base_url must not hold a user or password; name a variable in"),
        (["http://h/v1?key=sk-abcdefgh12345678#m"], "base_url must not hold a key in its query"),
        (["https://huggingface.co/org/m"], "https://huggingface.co/org/m: give a model of the hub by its id: org/m"),
        (["hf://org/m"], "hf://org/m: give a model of the hub by its id: org/m"),
        (["ftp://h/v1#m"], "ftp://h/v1: base_url must be an http or https address"),
        (["http://[x/v1#m"], "http://...: "),
        (
            ["http://h:1/v1#qwen2.5vl:7b"],
            "as in `my-model: {engine: openai, model: 'qwen2.5vl:7b', base_url: http://h:1/v1}`, and --models-file",
        ),
        (["./all"], "./all: its name would be 'all', which is a group of models; name it in a models file"),
        (
            ["http://h/v1#a:b"],
            "its name would be 'a:b', which has characters other than letters, digits and . _ + -; name",
        ),
        (["/"], "/: its name would be '', which has characters other than"),
        (["./a b"], "its name would be 'a b', which has"),
        (
            ["./chance"],
            "its name would be 'chance', which an entry of the catalog or of a models file has too; give it",
        ),
        (["org/m", "other/m"], "other/m: its name would be 'm', which org/m has too; give it another name in a models"),
        (["org/m", "org/m@v2"], "org/m@v2: its name would be 'm', which org/m has too"),
        (["http://h/v1#m", "http://g/v1#m"], "http://g/v1#m: its name would be 'm', which http://h/v1#m has too"),
    ],
)
def test_model_without_a_name_of_its_own_is_refused_with_the_remedy(words: list[str], message: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        add_direct_models(words, MODELS)
    assert message in str(caught.value)
    assert not re.search("pw|abcdefgh", str(caught.value))


def test_hub_id_of_an_entry_of_its_name_is_given_by_that_name() -> None:
    entry = ModelSpec(engine="transformers", model="org/m", revision="v1")
    with pytest.raises(
        UnknownModelError, match="org/m: this is 'm' of the catalog or of a models file; give that name"
    ):
        add_direct_models(["org/m"], {"m": entry})


def test_same_model_given_twice_is_one() -> None:
    assert list(given("org/m", "org/m")) == ["m"]
    assert add_direct_models(["org/m"], {"m": given("org/m")["m"]}) == {"m": given("org/m")["m"]}


def test_names_and_groups_are_no_direct_models() -> None:
    for word in ("small", "all", "paper:maia", "fits:80GB", "qwen2.5-vl-7b", ""):
        assert not is_direct(word)
        assert direct_name(word) == word
    assert add_direct_models(["small", "all", "xyzzy"], MODELS) == MODELS
