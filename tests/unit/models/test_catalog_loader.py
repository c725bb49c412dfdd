from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from models.availability import unavailable_reason
from models.catalog_loader import CATALOG, load_models, select_models, trust_remote_code
from models.checkpoints.installed_transformers import transformers_classes
from models.engines.hub import hub_id
from models.errors import ModelsFileError, UnknownModelError
from models.fingerprint import is_plain_path, is_unpinned
from models.gpu_memory import ASSUMED_GPU_BYTES, model_size, plan_placement
from models.spec import ModelSpec, TransformersEntry, VLLMEntry
from models.strict_yaml import read_yaml
from tests.support.published_frames import published, published_benchmarks
from tests.support.published_models import NO_MODEL, models_published_as


def write(tmp_path: Path, text: str | bytes, name: str = "models.yaml") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def error_of(tmp_path: Path, text: str | bytes) -> str:
    """Return the error message about a file, without its folder."""
    with pytest.raises(ModelsFileError) as caught:
        load_models([write(tmp_path, text)])
    return str(caught.value).replace(f"{tmp_path}/", "")


class TestCatalog:
    def test_catalog_holds_the_models_of_the_tables(self) -> None:
        assert {
            "random",
            "gpt-4o",
            "qwen2.5-vl-7b",
            "qwen2.5-vl-72b",
            "llava-onevision-7b",
            "llava-next-video-7b",
            "internvl2-8b",
            "internvl3-78b",
        } <= set(load_models())

    def test_hub_checkpoints_are_pinned_or_reported_as_unpinned(self) -> None:
        for name, spec in load_models().items():
            if spec.runs_locally:
                assert re.fullmatch(r"[0-9a-f]{40}|main|refs/pr/\d+", spec.revision or ""), name
                assert is_unpinned(spec) == (len(spec.revision or "") < 40), name

    @pytest.mark.parametrize("benchmark", published_benchmarks())
    def test_every_published_row_belongs_to_an_entry_or_is_listed_as_none(self, benchmark: str) -> None:
        meant = models_published_as(load_models())
        for name in set(published(benchmark)["model"]):
            assert ((benchmark, name) in meant) != ((benchmark, name) in NO_MODEL), name

    def test_published_names_of_entries_exist(self) -> None:
        printed = {
            (benchmark, name) for benchmark in published_benchmarks() for name in set(published(benchmark)["model"])
        }
        assert set(models_published_as(load_models())) <= printed
        assert set(NO_MODEL) <= printed

    def test_papers_name_every_benchmark_whose_tables_hold_the_model(self) -> None:
        for name, spec in load_models().items():
            assert {publication.benchmark for publication in spec.published_as} <= set(spec.papers), name
            assert set(spec.papers) <= set(published_benchmarks()), name

    def test_unsupported_models_name_what_runs_them(self) -> None:
        from transformers.models.auto import modeling_auto

        architectures = {
            *modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
            *modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        }
        assert transformers_classes().keys() == architectures
        for name, spec in load_models().items():
            if spec.runs_locally and spec.architecture not in architectures:
                assert spec.unsupported or isinstance(spec, VLLMEntry), name
            if spec.unsupported is None and spec.runs_locally and not spec.remote_code:
                reason = (
                    "" if isinstance(spec, TransformersEntry) else "it runs on vllm alone, which is not installed here"
                )
                assert unavailable_reason(spec).startswith(reason), name
                assert bool(unavailable_reason(spec)) == isinstance(spec, VLLMEntry), name

    def test_models_fit_80_gb_gpus_at_their_degree(self) -> None:
        for name, spec in load_models().items():
            if not spec.runs_locally:
                continue
            size = model_size(spec)
            assert size, name
            assert size.shape or not spec.papers, name
            specified, proposed = (
                plan_placement(spec, size, [ASSUMED_GPU_BYTES] * 16, tensor_parallel=degree)
                for degree in (spec.tensor_parallel, None)
            )
            assert specified.fits, name
            # A guessed shape errs on the large side: the degree of such an entry is the smallest that fits.
            assert not size.shape or proposed.tensor_parallel == spec.tensor_parallel, name

    def test_no_entry_trusts_code_of_its_publisher(self) -> None:
        models = load_models()
        assert not any(spec.trust_remote_code for spec in models.values())
        with_code = {name for name, spec in models.items() if spec.remote_code}
        assert with_code == {name for name, spec in models.items() if spec.engine == "vllm" and not spec.unsupported}
        for name in with_code:
            assert "--trust-remote-code" in unavailable_reason(models[name])

    def test_named_models_are_trusted(self) -> None:
        models = trust_remote_code(load_models(), ["molmo-7b-d"])
        assert [name for name, spec in models.items() if spec.trust_remote_code] == ["molmo-7b-d"]
        assert "--trust-remote-code" not in unavailable_reason(models["molmo-7b-d"])
        with pytest.raises(UnknownModelError, match="unknown model 'molmo-7b-x'"):
            trust_remote_code(models, ["molmo-7b-x"])

    def test_entries_outside_the_papers_state_their_source_and_its_date(self) -> None:
        recent = {name: spec for name, spec in load_models().items() if not spec.papers and spec.checked}
        assert len(recent) >= 25
        assert all(spec.source and spec.checked for spec in recent.values())
        closed = [spec for spec in recent.values() if spec.is_endpoint]
        assert len({spec.base_url for spec in closed}) >= 4

    def test_prices_state_the_day_of_their_source(self) -> None:
        endpoints = [spec for spec in load_models().values() if spec.is_endpoint]
        assert all(spec.price and spec.price.as_of for spec in endpoints)

    def test_architectures_of_entries_outside_the_papers_are_known_to_the_engine(self) -> None:
        for name, spec in load_models().items():
            if isinstance(spec, TransformersEntry) and not spec.unsupported and not spec.papers:
                assert spec.architecture in transformers_classes(), name

    def test_notes_that_call_a_model_withdrawn_agree_with_its_mark(self) -> None:
        for name, spec in load_models().items():
            assert spec.withdrawn or not (spec.notes or "").startswith("Withdrawn"), name

    def test_catalog_overrides_no_generation_settings(self) -> None:
        for name, spec in load_models().items():
            assert not spec.generation.model_dump(exclude_none=True), name

    def test_names_are_unique_over_files(self) -> None:
        names = [name for path in CATALOG.glob("*.yaml") for name in yaml.safe_load(path.read_text())]
        assert len(names) == len(set(names)) == len(load_models())

    def test_the_similarity_row_of_maia_without_a_size_is_the_7b_model(self) -> None:
        meant = models_published_as(load_models())
        assert meant["maia", "Qwen-2.5-VL"] == ("qwen2.5-vl-7b",)
        assert meant["maia", "Qwen-2.5-VL 72B"] == ("qwen2.5-vl-72b",)

    def test_gpt_4o_is_as_documented(self) -> None:
        spec = load_models()["gpt-4o"]
        assert (spec.engine, spec.model) == ("openai", "gpt-4o-2024-11-20")
        assert (spec.base_url, spec.api_key_env) == ("https://api.openai.com/v1", "OPENAI_API_KEY")
        assert spec.requests_per_minute == 500
        assert spec.price is not None
        assert (spec.price.input_per_million, spec.price.output_per_million) == (2.5, 10.0)


class TestMerging:
    def test_engine_random_is_a_complete_entry(self, tmp_path: Path) -> None:
        models = load_models([write(tmp_path, "guess: {engine: random}")])
        assert models["guess"] == ModelSpec(engine="random")
        assert "gpt-4o" in models

    def test_user_entry_replaces_the_catalog_entry(self, tmp_path: Path) -> None:
        models = load_models([str(write(tmp_path, "gpt-4o: {engine: random, seed: 7}"))])
        assert models["gpt-4o"] == ModelSpec(engine="random", seed=7)

    def test_last_file_wins(self, tmp_path: Path) -> None:
        first = write(tmp_path, "a: {engine: random, seed: 1}\nb: {engine: random}", "1.yaml")
        second = write(tmp_path, "a: {engine: random, seed: 2}", "2.yaml")
        models = load_models([first, second])
        assert models["a"].seed == 2
        assert "b" in models

    def test_yaml_anchors_and_merges_are_resolved(self, tmp_path: Path) -> None:
        text = "a: &base {engine: random, seed: 3}\nb: {<<: *base, seed: 4}\nc: *base\n"
        models = load_models([write(tmp_path, text)])
        assert [models[name].seed for name in "abc"] == [3, 4, 3]

    @pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
    def test_empty_file_adds_nothing(self, text: str, tmp_path: Path) -> None:
        assert load_models([write(tmp_path, text)]) == load_models()

    def test_entry_of_the_contract_is_read(self, tmp_path: Path) -> None:
        text = """
qwen:
  engine: transformers
  model: Qwen/Qwen2.5-VL-72B-Instruct
  revision: abc
  dtype: bfloat16
  tensor_parallel: 4
  replicas: {min: 0, max: 8}
  adapter: null
  trust_remote_code: false
  generation: {max_new_tokens: 256, temperature: 0.0}
  limits: {max_pixels: 200704, max_frames: 32, max_model_len: 32768}
"""
        spec = load_models([write(tmp_path, text)])["qwen"]
        assert (spec.tensor_parallel, spec.replicas.max, spec.limits.max_pixels) == (4, 8, 200704)
        assert spec.generation.max_new_tokens == 256

    @pytest.mark.parametrize(("word", "meaning"), [("off", "off"), ("'off'", "off"), ("auto", "auto")])
    def test_prompt_cache_is_written_as_the_contract_writes_it(self, word: str, meaning: str, tmp_path: Path) -> None:
        text = f"a: {{engine: openai, model: m, base_url: http://x/v1, prompt_cache: {word}}}"
        assert load_models([write(tmp_path, text)])["a"].prompt_cache == meaning


_BOMB = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a:\n  engine: random\n  sed: 1",
            "models.yaml:3: model 'a': unknown key 'sed'; the nearest known key is 'seed'",
        ),
        (
            "a:\n  engine: random\n  limits:\n    max_frames: 3\n    max_pixel: 9",
            "models.yaml:5: model 'a': unknown key 'max_pixel' in limits; the nearest known key is 'max_pixels'",
        ),
        (
            "a: {engine: openai, model: m, base_url: http://x, price: {input: 1, output_per_million: 2}}",
            """models.yaml:1: model 'a': price.input_per_million: Field required
models.yaml:1: model 'a': unknown key 'input' in price; the nearest known key is 'input_per_million'""",
        ),
        (
            "a:\n  engine: scripted\n  fault_injection: {cal_s: x}",
            "models.yaml:3: model 'a': unknown key 'cal_s' in fault_injection; the nearest known key is 'call_s'",
        ),
        (
            "a:\n  engine: random\n  chat_format: odd",
            "models.yaml:3: model 'a': chat_format: Input should be 'plain' or 'vicuna'",
        ),
        ("a: {engine: random, zzz: 1}", "model 'a': unknown key 'zzz'; known keys: base_url, "),
        (
            "a: {engine: random, max_pixls: 1}",
            "models.yaml:1: model 'a': unknown key 'max_pixls'; the nearest known key is 'max_pixels' in limits",
        ),
        ("a: {engine: transfomers}", "or 'random'; did you mean 'transformers'?"),
        ("\n\na: {model: x}", "models.yaml:3: model 'a': engine: Field required"),
        (
            "a: {engine: vlm}",
            "model 'a': engine: Input should be 'auto', 'transformers', 'vllm', 'openai', 'anthropic', 'gemini' or",
        ),
        (
            "a: {engine: random, price: {input_per_million: -1, output_per_million: 2}}",
            "models.yaml:1: model 'a': price.input_per_million: Input should be greater than or equal to 0",
        ),
        ("a: {engine: transformers}", "model 'a': engine transformers needs `model`"),
        ("a: {engine: openai, model: m}", "model 'a': engine openai needs `base_url`"),
        (
            "a: {engine: openai, model: m, base_url: api.openai.com/v1}",
            "base_url: base_url must be an http or https address",
        ),
        ("a: {engine: random, replicas: {min: 3, max: 2}}", "replicas.min is larger than replicas.max"),
        ("a: {engine: random, tensor_parallel: 0}", "tensor_parallel: Input should be greater than 0"),
        (
            "a: {engine: random}\nb: {engine: random}\na: {engine: random}",
            "models.yaml:3: key 'a' is given twice, first on line 1",
        ),
        ("a:\n  engine: random\n  engine: openai", "models.yaml:3: key 'engine' is given twice, first on line 2"),
        ("a: {engine: random, limits: {max_frames: 1, max_frames: 2}}", "key 'max_frames' is given twice"),
        ("a: random", "models.yaml:1: model 'a' must be a mapping such as `engine: random`"),
        ("a:\n", "model 'a' must be a mapping"),
        ("- a\n- b", "models.yaml:1: expected `name:"),
        ("just words", "models.yaml:1: expected `name:"),
        ("7: {engine: random}", "models.yaml:1: model name '7' must be text"),
        ("\nyes: {engine: random}", "models.yaml:2: model name 'yes' must be text"),
        ("[a, b]: {engine: random}", "not valid YAML: found unhashable key"),
        ("? {a: b}\n: {engine: random}", "not valid YAML: found unhashable key"),
        ("<<: {'../a': {engine: random}}", "model name '<<' must be text"),
        ("'a,b': {engine: random}", "model name 'a,b' must be text"),
        ("'../a': {engine: random}", "model name '../a' must be text"),
        ("a: {engine: random", "models.yaml:1: not valid YAML: "),
        ("a: 1\n\tb: 2", "models.yaml:2: not valid YAML: "),
        ("a: {engine: random}\n---\nb: {engine: random}", "models.yaml:2: not valid YAML: "),
        ("a: !!python/object:os.system {engine: random}", "models.yaml:1: not valid YAML: "),
        ("a: 2024-13-45", "models.yaml: not valid YAML: month must be in 1..12"),
        ("[" * 100_000, "models.yaml:1: more than 100 brackets are open at once"),
        ("- " * 1000, "models.yaml: not valid YAML: "),
        ("a: \x00", "models.yaml: not valid YAML: "),
        (b"a: \xff", "models.yaml: not UTF-8 text (byte 3)"),
        ("a: &a {engine: random, limits: *a}", "models.yaml:1: an alias stands for what contains it"),
        (
            _BOMB,
            "models.yaml:6: its aliases stand for more than 100,000 values",
        ),
    ],
)
def test_error_names_file_line_and_remedy(text: str | bytes, message: str, tmp_path: Path) -> None:
    assert message in error_of(tmp_path, text)


def test_key_in_place_of_a_variable_name_is_not_quoted(tmp_path: Path) -> None:
    text = "a: {engine: openai, model: m, base_url: 'http://x', api_key_env: sk-very-secret}"
    message = error_of(tmp_path, text)
    assert "api_key_env must be the name of a variable" in message
    assert "very-secret" not in message


def test_password_in_base_url_is_not_quoted(tmp_path: Path) -> None:
    message = error_of(tmp_path, "a: {engine: openai, model: m, base_url: 'http://me:hidden@x/v1'}")
    assert "must not hold a user or password" in message
    assert "hidden" not in message


@pytest.mark.parametrize("field", ["key", "api-key", "access_token", "sig", "subscription-key"])
def test_key_in_the_query_of_base_url_is_refused_and_not_quoted(field: str, tmp_path: Path) -> None:
    """The address stands in run.json and in reports."""
    message = error_of(tmp_path, f"a: {{engine: openai, model: m, base_url: 'http://x/v1?{field}=hidden'}}")
    assert "must not hold a key in its query" in message
    assert "hidden" not in message


@pytest.mark.parametrize(
    "address", ["http://h:99999/v1", "http://h:port/v1", "http:// h/v1", r"http://h\0/v1", "http://h:0"]
)
def test_address_without_meaning_is_no_base_url(address: str, tmp_path: Path) -> None:
    """Each was a failed row a request."""
    assert "base_url: " in error_of(tmp_path, f'a: {{engine: openai, model: m, base_url: "{address}"}}')


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelsFileError, match=r"nowhere\.yaml: no such models file"):
        load_models([tmp_path / "nowhere.yaml"])


def test_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelsFileError, match="cannot be read: it is a folder, not a regular file"):
        load_models([tmp_path])


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab: {}[]-&*!'\"\n\t<7|>#%@,engirandom", max_size=60) | st.text(max_size=40))
def test_any_text_gives_models_or_an_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text.encode("utf-8", "replace"))
    try:
        models = load_models([path])
    except ModelsFileError as error:
        message = str(error)
    else:
        message = f"{path}:"
        assert all(isinstance(spec, ModelSpec) for spec in models.values())
    assert message.startswith(f"{path}:")


THREE = {name: ModelSpec(engine="random", seed=seed) for seed, name in enumerate(("gpt-4o", "qwen", "random"))}


class TestSelectModels:
    def test_models_are_selected_in_order_once(self) -> None:
        assert list(select_models(["random", "gpt-4o", "random"], THREE)) == ["random", "gpt-4o"]
        assert select_models([], THREE) == {}

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("gpt4o", "unknown model 'gpt4o'; did you mean 'gpt-4o'?"),
            ("RANDOM", "did you mean 'random'?"),
            ("llama", "unknown model 'llama'. `vlmsweep list models` shows the catalog"),
            ("", "unknown model ''. `vlmsweep list models`"),
        ],
    )
    def test_unknown_name_suggests_the_nearest(self, name: str, message: str) -> None:
        with pytest.raises(UnknownModelError) as caught:
            select_models(["random", name], THREE)
        assert message in str(caught.value)

    def test_unknown_name_among_no_models(self) -> None:
        with pytest.raises(UnknownModelError, match="unknown model 'a'"):
            select_models(["a"], {})


class TestPaths:
    """A relative path is looked for beside the models file, then in the working directory."""

    def model(self, folder: Path, name: str, **more: str) -> ModelSpec:
        file = folder / "models.json"
        file.write_text(json.dumps({"m": {"engine": "transformers", "model": name, **more}}))
        return load_models([file])["m"]

    def test_beside_the_models_file_comes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for folder in ("a/ck/tiny", "b/ck/tiny", "b/lora"):
            (tmp_path / folder).mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "b")
        spec = self.model(tmp_path / "a", "ck/tiny", adapter="lora")
        assert (spec.model, spec.adapter) == (str(tmp_path / "a/ck/tiny"), str(tmp_path / "b/lora"))
        assert self.model(tmp_path, "./ck/tiny").model == str(tmp_path / "b/ck/tiny")

    def test_what_is_nowhere_stays_as_it_is_named(self, tmp_path: Path) -> None:
        for name in ("org/name", "./none", "runs/7/last", "s3://bucket/folder"):
            assert self.model(tmp_path, name).model == name

    @pytest.mark.parametrize(
        "name", ["./none", "runs/7/last", "none/", "../x", "~/x", "/x", "x y", "q.gguf", "org/q.GGUF"]
    )
    def test_a_path_is_never_an_id_of_the_hub(self, tmp_path: Path, name: str) -> None:
        spec = self.model(tmp_path, name)
        assert is_plain_path(name)
        assert hub_id(spec) == ""
        kind = "file" if name.lower().endswith("gguf") else "folder"
        places = "" if name.startswith("/") else ", beside the models file or in the working directory"
        assert unavailable_reason(spec).startswith(f"no {kind} {name}{places}; give a GGUF file")

    def test_folder_of_the_home_is_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        (tmp_path / "home" / "tiny").mkdir(parents=True)
        assert self.model(tmp_path, "~/tiny").model == str(tmp_path / "home" / "tiny")

    def test_ids_of_the_hub_are_no_paths(self) -> None:
        models = [spec for spec in load_models().values() if spec.runs_locally]
        assert len(models) > 50
        assert not [spec.model for spec in models if is_plain_path(spec.model)]


def test_file_without_end_is_refused() -> None:
    with pytest.raises(ModelsFileError, match="/dev/zero: the models file cannot be read: it is a device"):
        load_models(["/dev/zero"])


@pytest.mark.parametrize("path", sorted(CATALOG.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_files_are_what_the_strict_reader_reads(path: Path) -> None:
    assert read_yaml(path, "models file", is_shipped=True)[0] == read_yaml(path, "models file")[0]
