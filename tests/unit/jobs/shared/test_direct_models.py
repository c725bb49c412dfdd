"""Models given by hub id, folder or address: every command that runs models takes them, by one function."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli.main import run
from jobs.cli.run import ReportOptions
from jobs.shared.model_checks import ModelChecks, checked_model, runnable_models
from jobs.shared.options import RunOptions
from jobs.shared.spec_builder import build_run_spec, external_spec, validate_remote_flags
from models.entry_fields import Unsupported
from models.errors import UnknownModelError
from models.fingerprint import answer_fingerprint
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError, UsageError
from tests.support.checkpoint_folder import POINTER, safetensors, write_checkpoint

SWEEP = ("--benchmarks", "vague", "--data", "data", "--out", "out")
HUB = "Qwen/Qwen2.5-VL-3B-Instruct"
URL = "http://127.0.0.1:9/v1#org/served"


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunOptions:
    """A sweep of a folder in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "my-checkpoint")
    return RunOptions(models=("./my-checkpoint",), benchmarks=("vague",), data="data", out="out", dry_run=True)


def test_models_judges_and_captioners_are_given_alike(flags: RunOptions, tmp_path: Path) -> None:
    spec = build_run_spec(
        replace(flags, models=("random", "./my-checkpoint", HUB), judge=URL, captioner=f"./my-checkpoint,{HUB}")
    )
    assert list(spec.models) == ["random", "my-checkpoint", "Qwen2.5-VL-3B-Instruct"]
    assert spec.models["my-checkpoint"].model == str(tmp_path / "my-checkpoint")
    assert [(name, judge.model) for name, judge in spec.judges] == [("served", "org/served")]
    assert [name for name, _ in spec.captioners] == ["my-checkpoint", "Qwen2.5-VL-3B-Instruct"]


def test_model_is_trusted_by_the_word_that_gives_it_or_by_its_name(flags: RunOptions) -> None:
    for word in ("./my-checkpoint", "my-checkpoint"):
        assert build_run_spec(replace(flags, trust_remote_code=(word,))).models["my-checkpoint"].trust_remote_code
    with pytest.raises(UnknownModelError, match="--trust-remote-code: unknown model 'other'"):
        build_run_spec(replace(flags, trust_remote_code=("org/other",)))


def test_other_weights_in_the_folder_are_another_model(flags: RunOptions, tmp_path: Path) -> None:
    first = answer_fingerprint(build_run_spec(flags).models["my-checkpoint"])
    assert (
        answer_fingerprint(
            build_run_spec(replace(flags, models=(str(tmp_path / "my-checkpoint"),))).models["my-checkpoint"]
        )
        == first
    )
    (tmp_path / "my-checkpoint" / "model.safetensors").write_bytes(safetensors()[:-1] + b"1")
    assert answer_fingerprint(build_run_spec(flags).models["my-checkpoint"]) != first


def test_folder_that_cannot_be_loaded_ends_a_run_with_3_before_ray_starts(flags: RunOptions, tmp_path: Path) -> None:
    (tmp_path / "my-checkpoint" / "model.safetensors").write_text(POINTER)
    flags = replace(flags, dry_run=False)
    with pytest.raises(
        ModelUnavailableError, match=r"model 'my-checkpoint': .*model\.safetensors is a pointer of git-lfs"
    ):
        build_run_spec(flags)
    with pytest.raises(UsageError, match="2 of the named models cannot run:"):  # a missing folder is a wrong flag
        build_run_spec(replace(flags, models=("./my-checkpoint", "./absent")))
    with pytest.raises(ModelUnavailableError, match="is a pointer of git-lfs"):
        checked_model("./my-checkpoint", [])
    assert "my-checkpoint" in build_run_spec(replace(flags, dry_run=True)).models


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "--models", "{0}", *SWEEP), 2),
        (("run", "--models", "{0}", *SWEEP, "--dry-run"), 2),
        (("run", "--models", "random", "--judge", "{0}", *SWEEP), 2),
        (("run", "--models", "random", "--captioner", "{0}", *SWEEP), 2),
        (("predict", "--models", "{0}", *SWEEP), 2),
        (("score", "--models", "random", "--judge", "{0}", *SWEEP), 2),
        (("stress", "--models", "{0}", *SWEEP), 2),
        (("nightly", "--models", "{0}", *SWEEP), 2),
        (("doctor", "--models", "{0}"), 3),
        (("doctor", "--eyes", "{0}"), 2),
        (("serve", "{0}", "--no-key"), 2),
    ],
)
def test_every_command_takes_a_folder(
    arguments: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert run([argument.format("./absent") for argument in arguments]) == code
    output = capsys.readouterr()
    assert f"no folder {tmp_path / 'absent'}; give" in output.err + output.out
    assert run([argument.format("http://127.0.0.1:9/v1") for argument in arguments]) == 2
    assert "as in http://127.0.0.1:9/v1#MODEL" in capsys.readouterr().err


def test_job_on_another_machine_takes_no_relative_folder(flags: RunOptions, tmp_path: Path) -> None:
    for word in ("./my-checkpoint", "~/my-checkpoint"):
        for relative in (replace(flags, models=(word,)), replace(flags, models=("random",), judge=word)):
            with pytest.raises(UsageError, match="my-checkpoint: a job runs in a folder of its own on another machine"):
                validate_remote_flags(relative)
    there = (str(tmp_path / "on-the-cluster"), HUB, URL, "s3://bucket/tuned")
    assert list(validate_remote_flags(replace(flags, models=there))) == [
        *("on-the-cluster", "Qwen2.5-VL-3B-Instruct", "served", "tuned")
    ]


ENDPOINT = {"engine": "openai", "model": "m", "base_url": "http://x/v1"}
LOCAL = {"engine": "transformers", "model": "org/name"}
CATALOG = {
    "free": ModelSpec(**ENDPOINT, papers=("mate",)),
    "paid": ModelSpec(**ENDPOINT, api_key_env="ABSENT_KEY", papers=("mate",)),
    "paid-2": ModelSpec(**ENDPOINT, api_key_env="ABSENT_KEY"),
    "old": ModelSpec(**ENDPOINT, withdrawn=True, papers=("unpie",)),
    "broken": ModelSpec(**LOCAL, unsupported=Unsupported(reason="No code.", runs_with="an endpoint"), papers=("maia",)),
    "with-code": ModelSpec(engine="vllm", model="org/code", remote_code=True, parameters_b=1.0),
    "small": ModelSpec(**LOCAL, parameters_b=2.0),
    "new": ModelSpec(**LOCAL, architecture="not_known_yet", papers=("maia",)),
    "away": ModelSpec(engine="transformers", model="/no/such/folder"),
    "chance": ModelSpec(engine="random"),
}
HERE = ModelChecks(place="here")
CLUSTER = ModelChecks(place="cluster")
PLAN = ModelChecks(place="plan")


def selected(text: str, checks: ModelChecks = HERE, helpers: tuple[str, ...] = ()) -> list[str]:
    return list(runnable_models(text.split(","), CATALOG, {name: CATALOG[name] for name in helpers}, checks))


@pytest.mark.parametrize(
    ("text", "checks", "expected"),
    [
        ("all", HERE, ["free", "small", "chance"]),
        ("all", CLUSTER, ["free", "small", "new", "chance"]),  # its workers may have another transformers
        ("all", PLAN, ["free", "paid", "paid-2", "with-code", "small", "new", "chance"]),
        ("all", ModelChecks(place="here", cost_limit=True), ["small", "chance"]),
        ("open", HERE, ["small"]),
        ("closed", HERE, ["free"]),
        ("paper:mate", HERE, ["free"]),
        ("fits:80GB", HERE, ["small"]),
        ("chance,open,closed", HERE, ["chance", "small", "free"]),
    ],
)
def test_groups_leave_out_what_cannot_run(text: str, checks: ModelChecks, expected: list[str]) -> None:
    assert selected(text, checks) == expected


def test_folder_without_a_model_is_refused_before_a_plan_reads_it(tmp_path: Path) -> None:
    wrong = {"wrong": ModelSpec(engine="transformers", model=str(tmp_path))}
    with pytest.raises(ModelUnavailableError, match=r"no config\.json"):
        runnable_models(["wrong"], wrong, {}, PLAN)


def test_one_warning_names_each_model_left_out_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    selected("all")
    (record,) = caplog.records
    first, *reasons = record.getMessage().splitlines()
    assert first == "--models all skips 7 of 10 models, which cannot run here:"
    assert len(reasons) == 6
    assert reasons[0].startswith("  paid, paid-2: variable ABSENT_KEY is not set; `export ABSENT_KEY=...`")
    assert reasons[1] == "  old: withdrawn by its maker: name it to send it requests all the same"
    assert reasons[2] == "  broken: No code. Runs with: an endpoint"
    assert "then name the model in --trust-remote-code" in reasons[3]
    assert "has no code for not_known_yet" in reasons[4]
    assert reasons[5].startswith("  away: no folder /no/such/folder; give")


def test_group_without_exceptions_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    catalog = {name: CATALOG[name] for name in ("free", "chance")}
    assert list(runnable_models(["all"], catalog, {}, HERE)) == ["free", "chance"]
    assert caplog.text == ""


def test_named_models_are_refused_all_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        selected("chance,paid,paid-2,away")
    assert str(caught.value).splitlines()[0] == "3 of the named models cannot run:"
    assert "\n  paid, paid-2: variable ABSENT_KEY is not set" in str(caught.value)
    assert "\n  away: no folder /no/such/folder" in str(caught.value)


def test_named_model_of_a_group_counts_as_named() -> None:
    for text in ("all,paid", "paid,all"):
        with pytest.raises(UsageError, match="model 'paid': variable ABSENT_KEY"):
            selected(text)
    assert selected("old,all") == ["old", "free", "small", "chance"]


def test_judge_that_is_also_in_a_group_counts_as_named() -> None:
    with pytest.raises(UsageError, match="model 'paid': variable ABSENT_KEY"):
        selected("all", helpers=("paid",))


def test_withdrawn_judge_is_not_evaluated_with_a_group() -> None:
    assert selected("closed", helpers=("old",)) == ["free"]
    assert selected("closed,old", helpers=("old",)) == ["free", "old"]


@pytest.mark.parametrize("group", ["all", "open", "paper:maia", "fits:80GB"])
def test_flags_for_names_alone_refuse_a_group(paid_flags: RunOptions, group: str) -> None:
    with pytest.raises(UnknownModelError, match=f"MODEL {group}: that is a group; name models"):
        checked_model(group, [])
    for field, flag in (("judge", "--judge"), ("captioner", "--captioner")):
        named = replace(paid_flags, models=("random",), **{field: group})
        for build in (build_run_spec, validate_remote_flags):
            with pytest.raises(UnknownModelError, match=f"{flag} {group}: that is a group; name models"):
                build(named)
    trusting = replace(paid_flags, models=("random",), trust_remote_code=(group,))
    with pytest.raises(UnknownModelError, match=f"--trust-remote-code {group}: that is a group"):
        build_run_spec(trusting)


def test_group_that_leaves_nothing_is_refused_with_the_reasons() -> None:
    with pytest.raises(UsageError) as caught:
        selected("chance,paper:maia")
    assert str(caught.value).startswith("--models paper:maia: none of these models can run; see `vlmsweep list models`")
    assert "\n  broken: No code." in str(caught.value)
    assert "\n  new: transformers" in str(caught.value)
    with pytest.raises(UsageError, match="--models paper:unpie: none of these models can run"):
        selected("paper:unpie")
    with pytest.raises(UsageError, match="--models fits:1GB: no model is in this group"):
        selected("fits:1GB")


def test_word_that_is_no_model_is_unknown() -> None:
    for word in ("Opem", "", "paper:mia"):
        with pytest.raises(UnknownModelError):
            selected(f"chance,{word}")


@pytest.fixture
def paid_flags(tmp_path: Path) -> RunOptions:
    """A sweep of a model without key, by its name."""
    file = tmp_path / "models.yaml"
    file.write_text(
        "paid: {engine: openai, model: m, base_url: 'http://x/v1', api_key_env: ABSENT_KEY}\n"
        "broken: {engine: transformers, model: a/b, unsupported: {reason: No code., runs_with: an endpoint.}}\n"
        "with-code: {engine: vllm, model: a/b, remote_code: true}\n"
    )
    return RunOptions(models=("paid",), models_file=(file,), benchmarks=("vague",), data="data", out="out")


def test_stages_after_the_answers_need_no_key_of_the_models(paid_flags: RunOptions) -> None:
    with pytest.raises(UsageError, match="ABSENT_KEY"):
        build_run_spec(paid_flags, ("predict",))
    assert set(build_run_spec(paid_flags, ("score",)).models) == {"paid"}
    assert set(build_run_spec(paid_flags, ("report",)).models) == {"paid"}
    judged = replace(paid_flags, judge="paid", models=("random",))
    for build in (build_run_spec, external_spec):
        with pytest.raises(UsageError, match="ABSENT_KEY"):
            build(judged) if build is external_spec else build_run_spec(judged, ("score",))
    reported = ReportOptions(
        models=("random",),
        judge="paid",
        models_file=paid_flags.models_file,
        benchmarks=("vague",),
        data="data",
        out="out",
    )
    assert build_run_spec(reported, ("report",)).judges == ()


def test_job_elsewhere_is_refused_for_what_is_known_here(paid_flags: RunOptions) -> None:
    assert set(validate_remote_flags(paid_flags)) == {"paid"}
    with pytest.raises(UsageError, match="2 of the named models cannot run") as caught:
        validate_remote_flags(replace(paid_flags, models=("paid", "broken", "with-code")))
    assert "paid" not in str(caught.value)
    assert "with-code" in validate_remote_flags(
        replace(paid_flags, models=("with-code",), trust_remote_code=("with-code",))
    )
    assert "broken" not in validate_remote_flags(replace(paid_flags, models=("all",)))
    with pytest.raises(UsageError, match="model 'paid': --cost-limit needs its price"):
        validate_remote_flags(replace(paid_flags, cost_limit=5.0))
