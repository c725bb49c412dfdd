from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from models.environment import ray_address, s3_settings, secret
from models.errors import MissingSecretError

VALUE = "sk-0123456789"
AWS = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*AWS, "RAY_ADDRESS", "SOME_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("value", [VALUE, f" {VALUE}\n"])
def test_secret_prints_as_stars(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", value)
    key = secret("SOME_KEY")
    assert key.get_secret_value() == VALUE
    for shown in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert VALUE not in shown
    assert pickle.loads(pickle.dumps(key)) == key


def test_key_in_place_of_its_variable_is_not_shown() -> None:
    with pytest.raises(MissingSecretError, match=r"variable sk_l\.\.\. is not set; `export sk_l\.\.\.=") as refused:
        secret("sk_live_0123456789abcdef")
    assert "0123456789" not in str(refused.value)


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_missing_key_names_variable_model_and_remedy(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(
        MissingSecretError, match=r"model 'judge' needs a key: variable SOME_KEY is not set; `export SOME_KEY"
    ):
        secret("SOME_KEY", model="judge")


@pytest.mark.parametrize("value", [f"{VALUE}\n{VALUE}", f"Bearer {VALUE}", f"{VALUE}\u2026", f"{VALUE}\x07x"])
def test_invalid_key_is_rejected_without_quoting_it(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(MissingSecretError) as caught:
        secret("SOME_KEY")
    assert VALUE not in str(caught.value)


def test_object_store_defaults_to_the_client_settings() -> None:
    settings = s3_settings()
    assert (settings.endpoint_url, settings.key, settings.secret, settings.token, settings.region) == (None,) * 5


def test_object_store_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:8333")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", VALUE)
    monkeypatch.setenv("AWS_SESSION_TOKEN", VALUE)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-south-1")
    settings = s3_settings()
    assert (settings.endpoint_url, settings.key, settings.region) == (
        "http://127.0.0.1:8333",
        "me",
        "eu-south-1",
    )
    assert settings.secret is not None
    assert settings.token is not None
    assert settings.secret.get_secret_value() == settings.token.get_secret_value() == VALUE
    assert VALUE not in repr(settings)


def test_specific_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://all")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "a")
    monkeypatch.setenv("AWS_REGION", "b")
    settings = s3_settings()
    assert (settings.endpoint_url, settings.region) == ("http://s3", "b")


@pytest.mark.parametrize(
    ("present", "missing"),
    [("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")],
)
def test_half_a_key_pair_is_rejected(present: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(present, "x")
    with pytest.raises(MissingSecretError, match=f"{missing} is not set"):
        s3_settings()


def test_ray_address_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ray_address() is None
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    assert ray_address() == "ray://head:10001"


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's files")
@pytest.mark.parametrize(("given", "threads"), [("", None), ("3", 3), ("0", None), ("many", None)])
def test_users_threads_are_those_that_a_process_starts_with(given: str, threads: int | None) -> None:
    code = (
        "import os; os.environ['OMP_NUM_THREADS'] = '7'; from models import environment as e; print(e.user_threads())"
    )
    env = {**os.environ, "OMP_NUM_THREADS": given}
    assert subprocess.check_output([sys.executable, "-c", code], env=env, text=True).strip() == str(threads)


@pytest.mark.parametrize(("given", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_waiting_threads_of_the_engine_sleep(given: dict[str, str], policy: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-c", "import models.engines.transformers.checkpoint"]
    run = subprocess.run(
        command, env={**env, **given, "OMP_DISPLAY_ENV": "TRUE"}, capture_output=True, text=True, check=True
    )
    assert f"OMP_WAIT_POLICY = '{policy}'" in run.stderr
