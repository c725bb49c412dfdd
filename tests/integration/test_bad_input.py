"""Usage errors on the command line: one clear message, the documented exit code, no traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.errors import StoreError
from pipelines.storage.store import Store
from tests.integration.conftest import S3, Cli, s3_server
from tests.support.maia_source import questions, write_source


@pytest.fixture
def source(maia_source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(maia_source, tmp_path / "source"))


def rejected(data: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (data / "maia" / "rejected.jsonl").read_text().splitlines()]


def test_invalid_question_rejects_neither_video_nor_neighbours(inline_cli: Cli, source: Path, tmp_path: Path) -> None:
    raw = questions(2)
    raw[0]["question_categories_A"][0]["true_statement"].pop()
    raw[0]["question_categories_A"][1]["category"] = "Sentimenti_A"
    raw[0]["question_categories_A"][2]["question"] = "  "
    raw[0]["question_categories_A"][3]["answer"][4] = 7
    raw[1]["question_categories_B"][0] = "nonsense"
    (source / "data.json").write_text(json.dumps(raw))
    result = inline_cli("ingest", "maia", str(source), "--data", str(tmp_path / "d"), "--json")
    assert json.loads(result.stdout)["samples"] == 43
    reasons = {row["item"]: row["reason"] for row in rejected(tmp_path / "d")}
    assert len(reasons) == 5
    assert "true_statement" in reasons["video1/CausaleEsplicita_A"]
    assert "7" in reasons["video1/CausaleEsplicita_A"]
    assert "Sentiment" in reasons["video1/Sentimenti_A"]
    assert "question" in reasons["video1/OutofScope_A"]
    assert "answer" in reasons["video1/Pianificazione_A"]


def test_malformed_json_error_names_file_and_position(inline_cli: Cli, source: Path, tmp_path: Path) -> None:
    (source / "data.json").write_text('[{"video": "video1", ')
    result = inline_cli("ingest", "maia", str(source), "--data", str(tmp_path / "d"), code=2)
    assert "data.json" in result.stderr
    assert "line 1" in result.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--models": "randm"}, "'random'"),
        ({"--benchmarks": "maja"}, "'maia'"),
        ({"--settings": "32frames"}, "'32-frames'"),
        ({"--tasks": "vsw"}, "'vsv'"),
        ({"--judge": "gpt4o"}, "'gpt-4o'"),
        ({"--limit": "many"}, "a count"),
        ({"--fail-on-error": "perhaps"}, "a fraction"),
        ({"--scorer": "rouge=x"}, "bertscore="),
        ({"--sample-id": "video9/Sentiment_A"}, "video9/Sentiment_A"),
        ({"--models-file": "/no/such/file.yaml"}, "/no/such/file.yaml"),
        ({"--config": "/no/such/config.yaml"}, "/no/such/config.yaml"),
        ({"--data": "/no/such/data"}, "vlmsweep ingest maia"),
        ({"--data": "gs://x/y"}, "s3://"),
        ({"--prompts": "/no/such/prompts"}, "/no/such/prompts"),
        ({"--prompt-version": "a=b"}, "prompt version"),
        ({"--prompt-version": "maia=default,plan"}, "did you mean 'plain'?"),
        ({"--prompt-version": "unpie=default,paper"}, "benchmark of --prompt-version 'unpie'"),
        ({"--prompt-version": "maia="}, "BENCHMARK=SET,SET"),
        ({"--modles": "random"}, "--models"),
    ],
)
def test_usage_errors_exit_with_2(
    inline_cli: Cli, maia_data: str, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    flags = {"--models": "random", "--benchmarks": "maia", "--data": maia_data, "--out": str(tmp_path / "o"), **change}
    result = inline_cli("run", *(word for pair in flags.items() for word in pair), code=2)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_unknown_config_key_suggests_the_nearest(inline_cli: Cli, maia_data: str, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("models: [random]\nbenchmark: maia\n")
    result = inline_cli("run", "--config", str(config), "--data", maia_data, "--out", str(tmp_path / "o"), code=2)
    assert "did you mean 'benchmarks'" in result.stderr


def test_flags_override_the_config_and_accept_dashes_and_underscores(
    inline_cli: Cli, maia_data: str, tmp_path: Path
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        f"models: [random]\nbenchmarks: maia\nlimit: 1\ndata: {maia_data}\nsample_id: video1/Sentiment_A\n"
    )
    result = inline_cli(
        "run", "--config", str(config), "--limit", "30", "--out", str(tmp_path / "o"), "--dry_run", "--json"
    )
    (row,) = json.loads(result.stdout)["plan"]
    assert row["requests"] == 27
    assert not (tmp_path / "o").exists()


def test_unwritable_output_is_reported(inline_cli: Cli, maia_data: str) -> None:
    result = inline_cli(
        "run", "--models", "random", "--benchmarks", "maia", "--data", maia_data, "--out", "/proc/no/out", code=3
    )
    assert "/proc/no/out" in result.stderr


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a store that fails again at once."""
    monkeypatch.setattr("pipelines.storage.errors.time", SimpleNamespace(sleep=lambda _: None))


@pytest.mark.usefixtures("no_pauses")
def test_unreachable_object_store_is_reported(inline_cli: Cli, maia_data: str, s3: S3, closed_port: str) -> None:
    env = {**s3.env, "AWS_ENDPOINT_URL": f"http://{closed_port}"}
    flags = ("--models", "random", "--benchmarks", "maia", "--data", maia_data, "--out", "s3://bench/out")
    result = inline_cli("run", *flags, env=env, code=3)
    assert "AWS_ENDPOINT_URL" in result.stderr
    assert s3.env["AWS_SECRET_ACCESS_KEY"] not in result.stderr + result.stdout


def test_missing_key_is_reported_before_the_run_starts(inline_cli: Cli, maia_data: str, tmp_path: Path) -> None:
    flags = ("--models", "gpt-4o", "--benchmarks", "maia", "--data", maia_data, "--out", str(tmp_path / "o"))
    result = inline_cli("run", *flags, code=2)
    assert "OPENAI_API_KEY" in result.stderr


def test_missing_checkpoint_is_reported_before_the_run_starts(inline_cli: Cli, maia_data: str, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("m: {engine: transformers, model: /no/such/checkpoint}\n")
    flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--data", maia_data)
    result = inline_cli("run", *flags, "--out", str(tmp_path / "o"), code=2)
    assert "/no/such/checkpoint" in result.stderr


def test_unreachable_cluster_is_reported(inline_cli: Cli, maia_data: str, tmp_path: Path, closed_port: str) -> None:
    flags = ("--models", "random", "--benchmarks", "maia", "--data", maia_data, "--out", str(tmp_path / "o"))
    result = inline_cli("run", *flags, "--address", closed_port, code=3)
    assert "cannot be reached" in result.stderr


def test_limit_without_samples_is_refused(inline_cli: Cli, maia_data: str, tmp_path: Path) -> None:
    flags = ("--models", "random", "--benchmarks", "maia", "--data", maia_data, "--out", str(tmp_path / "o"))
    assert "leaves nothing of the 48" in inline_cli("run", *flags, "--limit", "200-300", code=2).stderr


def test_status_of_an_empty_output_is_refused(inline_cli: Cli, tmp_path: Path) -> None:
    assert "--out of a run" in inline_cli("status", str(tmp_path), code=2).stderr


def test_source_without_data_is_refused(inline_cli: Cli, tmp_path: Path) -> None:
    assert "no such folder" in inline_cli("ingest", "maia", str(tmp_path / "x"), "--data", str(tmp_path), code=2).stderr
    assert "data_20%.json" in inline_cli("ingest", "maia", str(tmp_path), "--data", str(tmp_path), code=2).stderr
    write_source(tmp_path / "two", videos=1, categories=1)
    (tmp_path / "two" / "other.json").write_text("[]")
    assert (
        "several JSON files"
        in inline_cli("ingest", "maia", str(tmp_path / "two"), "--data", str(tmp_path), code=2).stderr
    )


OPERATIONS: dict[str, Callable[[Store], object]] = {
    "put": lambda store: store.put("b", b"2"),
    "put_if": lambda store: store.put_if("a", b"2", None),
    "get": lambda store: store.get("a"),
    "get_version": lambda store: store.get_version("a"),
    "exists": lambda store: store.exists("a"),
    "exists not": lambda store: store.exists("c"),
    "list": lambda store: store.list(),
    "delete": lambda store: store.delete("a"),
}
MESSAGES = {
    "ExpiredToken": r"ExpiredToken .*renew the credentials|check that the credentials are valid",
    "RequestTimeTooSkewed": r"RequestTimeTooSkewed .*this machine's clock|no permission",
}


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Path]]:
    folder = tmp_path_factory.mktemp("moody")
    with s3_server(folder / "log", mode=folder / "mood") as s3, pytest.MonkeyPatch.context() as patch:
        for name, value in s3.env.items():
            patch.setenv(name, value)
        store = Store("s3://bench/folder")
        store.put("a", b"1")
        yield store, folder / "mood"


@pytest.mark.parametrize("code", sorted(MESSAGES))
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_store_refusal_names_the_remedy(refusing: tuple[Store, Path], operation: str, code: str) -> None:
    store, mode = refusing
    mode.write_text(code)
    try:
        with pytest.raises(StoreError, match=MESSAGES[code]):
            OPERATIONS[operation](store)
    finally:
        mode.unlink()
    assert (store.get("a"), store.exists("a"), store.exists("c")) == (b"1", True, False)
    assert [file.path for file in store.list()] == ["a"]
    with pytest.raises(FileNotFoundError):
        store.get("c")


@pytest.mark.parametrize(
    "operation", [pytest.param(name, marks=[] if name == "put_if" else pytest.mark.full) for name in sorted(OPERATIONS)]
)
def test_lost_store_is_a_store_error(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """The lock's heartbeat survives store errors only: another exception would end it."""
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    store = Store("s3://bench/folder")
    store.backend.filesystem.retries = 1
    with pytest.raises(StoreError, match=r"cannot be reached .* check AWS_ENDPOINT_URL"):
        OPERATIONS[operation](store)
