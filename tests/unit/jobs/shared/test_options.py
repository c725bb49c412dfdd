"""`--config`: values as on the command line, names as the flags have, and errors that name the file."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from jobs.cli.compare import compare as compare_command
from jobs.cli.main import app, run
from jobs.cli.run import run as run_command
from jobs.serve.command import serve as serve_command
from jobs.shared.options import RunOptions, as_command, names
from jobs.shared.spec_builder import build_run_spec, validate_remote_flags
from jobs.view.command import view as view_command
from models.errors import UnknownModelError
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError, UsageError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: " + "[" * 3000 + "]" * 3000, "c.yaml:1: more than 100 brackets are open at once"),
        ("models: a\nseed: 1\nmodels: b", "c.yaml:3: key 'models' is given twice, first on line 1"),
        ("sample-id: a\nsample_id: b", "c.yaml: 'sample-id' is given twice, once as 'sample_id'"),
        ("sample-idd: a", "c.yaml: unknown key 'sample-idd'; did you mean 'sample-id'?"),
        ("promt-version: a=b", "c.yaml: unknown key 'promt-version'; did you mean 'prompt-version'?"),
        ("models: a\n  b: c: d", "c.yaml:2: not valid YAML: mapping values are not allowed here"),
        ("models: {a: b}", "c.yaml: models: expected a value or a list of values"),
        ("just words", "c.yaml: expected a mapping of flags"),
    ],
)
def test_config_errors_name_the_file_and_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(text)
    assert run(["run", "--config", str(config)]) == 2
    shown = capsys.readouterr().err
    assert f"vlmsweep: --config {tmp_path}/{message}" in shown
    assert shown.count("\n") == 1


def test_known_keys_are_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.yaml").write_text("zzzz: 1")
    assert run(["run", "--config", str(tmp_path / "c.yaml")]) == 2
    keys = capsys.readouterr().err.partition("known: ")[2].split(", ")
    assert {"sample-id", "scorer", "prompt-version"} <= set(keys)
    assert not {"sample-ids", "sample_ids", "scorers", "instead", "config"} & set(keys)


def taken(command: Callable[..., int], folder: Path, text: str) -> dict[str, object]:
    """Return the values that a command gets when the file holds all of them."""
    flag_values: dict[str, object] = {}
    app = typer.Typer()
    spied = app.command()(as_command(command))
    assert callable(spied)
    (folder / "c.yaml").write_text(text)
    inner = typer.main.get_command(app)
    inner.callback = lambda **flags: flag_values.update(flags)
    inner.main(["--config", str(folder / "c.yaml")], standalone_mode=False)
    return flag_values


def test_config_values_keep_their_spelling(tmp_path: Path) -> None:
    flags = taken(
        run_command,
        tmp_path,
        "models: 2026-13-45\nbenchmarks: [maia, mate]\ndata: 2026-01-02\nout: 1e3\nlimit: 1:30\nsample-id: [010, 1_0]\n"
        "prompt_version: a=b\nscorer:\nseed: 7\ndry-run: yes\njudge: a,b\ncaptioner: [a, b]\n",
    )
    assert names(flags["judge"]) == names(flags["captioner"]) == ("a", "b")
    assert (flags["models"], flags["benchmarks"]) == ("2026-13-45", "maia,mate")
    assert (flags["data"], flags["out"]) == (str(tmp_path / "2026-01-02"), str(tmp_path / "1e3"))
    assert (flags["limit"], flags["sample_ids"]) == ("1:30", ["010", "1_0"])
    assert (flags["prompt_versions"], flags["seed"], flags["dry_run"]) == (["a=b"], 7, True)
    assert not flags["scorers"]
    flags = taken(serve_command, tmp_path, "model: random\nport: 80\nidle-s: 1.5\nno-key: true\n")
    assert (flags["model"], flags["port"], flags["idle_s"], flags["no_key"]) == ("random", 80, 1.5, True)


@pytest.mark.parametrize(
    ("key", "value", "taken_as"),
    [
        ("data", "data", "{folder}/data"),
        ("data", "../d", "{folder}/../d"),
        ("data", "s3://bucket/data", "s3://bucket/data"),
        ("data", "s3:/mistyped", "s3:/mistyped"),
        ("out", "/elsewhere/out", "/elsewhere/out"),
        ("out", "~/out", "~/out"),
        ("models-file", "[seers.yaml, /etc/other.yaml]", ["{folder}/seers.yaml", "/etc/other.yaml"]),
        ("prompts", "prompts", "{folder}/prompts"),
        ("human", "[maia=answers.csv, vague=s3://bucket/x]", ["maia={folder}/answers.csv", "vague=s3://bucket/x"]),
        ("scorer", "[bertscore=model:17, bleurt=some/hub-id]", ["bertscore={folder}/model:17", "bleurt=some/hub-id"]),
        ("models", "[./mine, random, org/name]", "{folder}/mine,random,org/name"),
        ("models", "random, ./mine, ..", "random,{folder}/mine,{folder}/.."),
        ("judge", "[../judge, random]", ["{folder}/../judge", "random"]),
        ("sample-id", "[a/b.json, ./a/b.png]", ["a/b.json", "./a/b.png"]),
    ],
)
def test_paths_in_a_file_of_flags_begin_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, taken_as: str | list[str]
) -> None:
    (tmp_path / "configs" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    needed = {"models": "a", "benchmarks": "b", "data": "/d", "out": "/o", key: value}
    flags = taken(run_command, Path("configs"), "\n".join(f"{name}: {text}" for name, text in needed.items()))
    value_taken = flags[{"models-file": "models_file", "scorer": "scorers", "sample-id": "sample_ids"}.get(key, key)]
    texts = [*map(str, value_taken)] if isinstance(value_taken, list) else str(value_taken)
    folder = tmp_path / "configs"
    expected = taken_as.format(folder=folder) if isinstance(taken_as, str) else None
    assert texts == (expected or [text.format(folder=folder) for text in taken_as])


def test_arguments_in_a_file_of_flags_begin_beside_it_too(tmp_path: Path) -> None:
    assert taken(view_command, tmp_path, "out: [a, s3://b/c]")["out"] == [f"{tmp_path}/a", "s3://b/c"]
    given = taken(compare_command, tmp_path, "out-a: mine:model\nout_b: published:GPT-4o")
    assert (given["out_a"], given["out_b"]) == (f"{tmp_path}/mine:model", "published:GPT-4o")


def test_paths_on_the_command_line_begin_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From another folder, as cron does, a file that is not there is named in full."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "n.yaml").write_text("models: a\nbenchmarks: maia\ndata: d\nout: o\nmodels-file: m.yaml\n")
    monkeypatch.chdir(tmp_path)
    assert run(["nightly", "--config", "configs/n.yaml"]) == 2
    assert f"{tmp_path}/configs/m.yaml: no such models file" in capsys.readouterr().err
    assert run(["nightly", "--config", "configs/n.yaml", "--models-file", "m.yaml"]) == 2
    assert capsys.readouterr().err.startswith("vlmsweep: m.yaml: no such models file")


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("data", "d", "--data d"),
        ("models", "./x", "./x"),
        ("judge", "./x", "./x"),
        ("scorer", "bertscore=./x", "./x"),
    ],
)
def test_locations_of_a_cluster_are_no_folders_beside_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: str, named: str
) -> None:
    (tmp_path / "x").mkdir()
    flags = {"models": "random", "benchmarks": "maia", "data": "/d", "out": "/o", "address": "http://127.0.0.1:9"}
    lines = [f"{name}: {text}\n" for name, text in {**flags, key: value}.items()]
    (tmp_path / "c.yaml").write_text("".join(lines))
    assert run(["submit", "--config", str(tmp_path / "c.yaml")]) == 2
    assert f"{named}: a job runs in a folder of its own on another machine" in capsys.readouterr().err


def test_every_path_in_a_configuration_file_begins_in_its_folder(tmp_path: Path) -> None:
    commands: Any = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    for command in (*commands.pop("export").commands.values(), *commands.values()):
        named = r"s3://|older|--out of|YAML|location"
        paths = [each for each in command.params if re.search(named, each.help or "") and each.name != "config"]
        ours = [each for each in paths if (command.name, each.name) not in (("submit", "data"), ("submit", "out"))]
        keys = {each.opts[0].removeprefix("--") for each in ours} - {"human", "model", "scorer"}
        (tmp_path / "c.yaml").write_text("".join(f"{key}: x\n" for key in keys))
        context = typer.Context(command)
        (config,) = (each for each in command.params if each.name == "config")
        config.callback(context, config, tmp_path / "c.yaml")
        values = [value[0] if isinstance(value, list) else value for value in (context.default_map or {}).values()]
        assert values == [f"{tmp_path}/x"] * len(keys), command.name


def test_missing_options_are_named_all_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--models", "a"]) == 2
    assert capsys.readouterr().err == "vlmsweep: Missing '--benchmarks', '--data', '--out'.\n"
    assert run(["run", "--models", "a", "--benchmarks", "maia", "--data", "d"]) == 2
    assert capsys.readouterr().err == "vlmsweep: Missing option '--out'.\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("version", "No such command 'version'. Did you mean '--version'?"),
        ("export foo out to", "No such command 'foo'. Commands: inspect, lm-eval, hub"),
        ("annotate out --benchmark maia --n x --to f", "Invalid value for '--n': it must be a whole number\n"),
        ("power out --difference big", "Invalid value for '--difference': it must be a number\n"),
        ("run --repeats 1000000000000", "Invalid value for '--repeats': it must be less than or equal to 1000\n"),
        ("list", "Missing argument 'what': benchmarks, models or settings.\n"),
        ("view", "Missing argument 'out': The --out of one run or of several: folders or s3://bucket/key.\n"),
        ("view out --port 99999", "Invalid value for '--port': it must be less than or equal to 65535\n"),
    ],
)
def test_wrong_words_are_answered_with_what_there_is(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr().err.startswith(f"vlmsweep: {message}")


@pytest.mark.parametrize(
    "command",
    [
        ["annotate", "out", "--benchmark", "vague", "--n", "1", "--to"],
        ["gate", "out", "--policy"],
        ["list", "models", "--config"],
        ["nightly", "--models", "random", "--benchmarks", "vague", "--data", "data", "--out", "out", "--summary"],
        ["run", "--models", "a", "--benchmarks", "vague", "--data", "data", "--out", "out", "--models-file"],
        ["score", "--data", "data", "--out", "out", "--predictions"],
    ],
    ids=lambda command: command[0],
)
def test_address_in_a_store_is_refused_where_a_local_path_is_needed(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*command, "s3://bucket/folder/file"]) == 2
    expected = f"vlmsweep: {command[-1]} s3://bucket/folder/file: only local paths are supported\n"
    assert capsys.readouterr().err == expected
    assert not list(tmp_path.iterdir())


def test_help_of_batches_names_every_engine_that_has_them() -> None:
    entries = [kind for kind in ModelSpec.__subclasses__() if kind.batch_builder]
    engines = [engine for entry in entries for engine in get_args(entry.model_fields["engine"].annotation)]
    (batch,) = (field for field in fields(RunOptions) if field.name == "batch")
    assert [engine for engine in engines if engine not in batch.metadata["flag"].help] == []


@pytest.mark.parametrize("command", ["report", "score"])
def test_stage_after_predict_refuses_a_folder_without_a_run(
    command: str, maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--models", "random", "--benchmarks", "maia", "--data", maia_data, "--out", str(tmp_path / "nowhere")]
    assert run([command, *flags]) == 2
    assert "nowhere: no run.json; is this the --out of a run?" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def flags(*captioners: str) -> RunOptions:
    return RunOptions(
        models=("random",), benchmarks=("vague",), data="data", out="out", captioner=",".join(captioners), dry_run=True
    )


def test_captioners_are_listed_or_repeated_and_each_counts_once() -> None:
    for listed in (("random,gpt-4o",), ("random", "gpt-4o"), ("random", "gpt-4o,random")):
        spec = build_run_spec(flags(*listed))
        assert [name for name, _ in spec.captioners] == ["random", "gpt-4o"]
        assert spec.record().captioner == "random,gpt-4o"


def test_own_captions_are_not_listed_with_others() -> None:
    assert build_run_spec(flags("self")).own_captions
    for check in (build_run_spec, validate_remote_flags):
        with pytest.raises(UsageError, match="self allows no other captioner"):
            check(flags("self", "random"))  # type: ignore[operator]


@pytest.mark.parametrize("flag", ["limit", "until"])
def test_limit_of_an_unset_variable_is_no_run_without_one(flag: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag} .*: give "):
        build_run_spec(replace(flags(), **{flag: ""}))


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200.0), ("1.5m", 90.0), ("90s", 90.0)])
def test_wait_for_nodes_is_a_time_with_its_unit(text: str, seconds: float) -> None:
    assert build_run_spec(replace(flags(), wait_for_nodes=text)).wait_for_nodes_s == seconds


@pytest.mark.parametrize("text", ["2", "2d", "-1h", ""])
def test_other_times_to_wait_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 2h"):
        build_run_spec(replace(flags(), wait_for_nodes=text))


def test_unknown_captioner_is_refused_wherever_the_sweep_runs() -> None:
    for check in (build_run_spec, validate_remote_flags):
        with pytest.raises(UnknownModelError, match="randon"):
            check(flags("random", "randon"))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Which?\nA) {a}", "the text lacks the placeholder {b}; this prompt's placeholders: {a}, {b}"),
        ("{a} {b} {c}", "the text has the unknown placeholder {c}; this prompt's placeholders: {a}, {b}"),
    ],
)
def test_wording_must_have_the_prompts_placeholders(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "maia" / "vsv-it-v1.txt"
    path.parent.mkdir()
    path.write_text(text)
    maia = RunOptions(models=("random",), benchmarks=("maia",), data="data", out="out", prompts=tmp_path, dry_run=True)
    for check in (build_run_spec, validate_remote_flags):
        with pytest.raises(UsageError) as raised:
            check(maia)  # type: ignore[operator]
        assert str(raised.value) == f"--prompts {path}: {problem}"
    path.write_text('{a}, {b}: answer {"letter": "A"}\n')
    assert build_run_spec(maia).prompts == {"maia": {"vsv-it-v1": '{a}, {b}: answer {"letter": "A"}'}}


def test_texts_of_no_benchmark_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "maja").mkdir()
    (tmp_path / "maja" / "vsv-it-v1.txt").write_text("{a} {b}")
    maia = RunOptions(models=("random",), benchmarks=("maia",), data="data", out="out", prompts=tmp_path, dry_run=True)
    assert build_run_spec(maia).prompts == {}
    assert "this run uses no text for maja" in caplog.text


def gguf_flags(folder: Path, content: bytes | None) -> RunOptions:
    if content is not None:
        (folder / "m.gguf").write_bytes(content)
    (folder / "models.yaml").write_text(f"m: {{engine: transformers, model: {folder / 'm.gguf'}, device: cpu}}\n")
    files = (folder / "models.yaml",)
    return RunOptions(models=("m",), models_file=files, benchmarks=("vague",), data="data", out="out", dry_run=True)


def text_field(name: str, value: str) -> bytes:
    name_and_kind = struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", 8)
    return name_and_kind + struct.pack("<Q", len(value)) + value.encode()


def header(*fields: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "model 'm': no file .*m.gguf; give a GGUF file"),
        (b"", "m.gguf cannot be read: it is no GGUF file"),
        (b"GGUF\x01\0\0\0", "its format has version 1"),
        (header(text_field("general.architecture", "llama"))[:-1], "it ends within its header"),
        (header(struct.pack("<Q", 1 << 60)), "a text is longer than the file"),
        (header(text_field("general.name", "x")), "it names no architecture"),
    ],
)
def test_unusable_gguf_file_is_refused_before_a_cluster_starts(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        build_run_spec(gguf_flags(tmp_path, content))


def test_missing_chat_template_of_a_gguf_file_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    architecture = text_field("general.architecture", "llama")
    build_run_spec(gguf_flags(tmp_path, header(architecture)))
    assert "model 'm': m.gguf has no chat template" in caplog.text
    caplog.clear()
    build_run_spec(gguf_flags(tmp_path, header(architecture, text_field("tokenizer.chat_template", "{{ 1 }}"))))
    assert caplog.text == ""


def test_gguf_file_needs_its_package_where_the_model_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = replace(gguf_flags(tmp_path, header(text_field("general.architecture", "llama"))), dry_run=False)
    monkeypatch.setattr("models.availability.importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'vlmsweep\[gguf\]'"):
        build_run_spec(flags)
    assert build_run_spec(replace(flags, address="ray://head:10001")).models


def test_folder_of_pickled_weights_is_refused_where_the_model_runs(tmp_path: Path) -> None:
    flags = replace(gguf_flags(tmp_path, None), dry_run=False)
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    (tmp_path / "models.yaml").write_text(f"m: {{engine: transformers, model: {tmp_path}, device: cpu}}\n")
    for is_plan in (False, True):
        message = r"'m': the folder holds pytorch_model.bin and no \*.safetensors"
        with pytest.raises(ModelUnavailableError, match=message):
            build_run_spec(replace(flags, dry_run=is_plan))
    assert "m" in build_run_spec(replace(flags, address="ray://127.0.0.1:1")).models


def test_a_table_of_a_root_that_only_the_cluster_has_is_not_checked_here(tmp_path: Path) -> None:
    table = RunOptions(models=("random",), benchmarks=("my-table",), data=str(tmp_path / "absent"), out="out")
    assert list(validate_remote_flags(table)) == ["random"]
    tmp_path.joinpath("absent").mkdir()
    with pytest.raises(UsageError, match="unknown benchmark 'my-table'"):
        validate_remote_flags(table)
