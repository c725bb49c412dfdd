"""Variables of the shell that keep clients from opening connections: named, never a traceback."""

from __future__ import annotations

import os
import shutil
import ssl
import urllib.request
from pathlib import Path

import certifi
import pytest

from models.availability import unavailable_reason
from models.engines.hub import ask_hub
from models.engines.openai.batch_api import OpenAIBatchApi
from models.engines.openai.engine import OpenAIEngine
from models.errors import ShellSettingError
from models.messages import Answer
from models.shell import connections
from models.shell.connections import (
    BOTOCORE,
    HTTPX,
    REQUESTS,
    check_certificates,
    check_connection,
    check_hub_settings,
    check_object_store,
    hub_problem,
    is_loopback,
)
from models.spec import ModelSpec
from pipelines.benchmarks.unpie import download
from tests.support.calls import call
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import always

FAR = "https://api.example.invalid/v1"
BROKEN = {
    "HTTPS_PROXY": ("socks5://127.0.0.1:1", "socks4://h:1", "http://:port", "::::", "ht!tp://x y:99999", "ftp://h:1"),
    "https_proxy": ("http://user:pa ss@h:1", "http://", "http://h:99999", "http://h:0"),
    "SSL_CERT_FILE": ("/nonexistent/ca.pem", __file__),
}
ALL = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)  # no package for SOCKS
    for name in (*ALL, *map(str.lower, ALL), "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "")  # restored afterwards, though the product sets some
        monkeypatch.delenv(name)
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_CA_BUNDLE",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "HF_ENDPOINT",
        "HF_HUB_OFFLINE",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BROKEN.items() for value in values])
@pytest.mark.parametrize("opened", [OpenAIEngine, OpenAIBatchApi])
def test_clients_of_far_endpoints_name_the_variable(
    name: str, value: str, opened: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    spec = ModelSpec(engine="openai", model="m", base_url=FAR)
    with pytest.raises(ShellSettingError, match=f"^{name}") as raised:
        opened(spec)
    assert unavailable_reason(spec) == str(raised.value)
    assert "pa ss" not in str(raised.value)  # a password


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BROKEN.items() for value in values])
def test_an_endpoint_of_this_machine_is_reached_whatever_the_shell_says(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTP_PROXY", value)
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with ScriptedEndpoint(always("B")) as endpoint:
        spec = ModelSpec(engine="openai", model="m", base_url=endpoint.base_url, retries=0)
        assert not unavailable_reason(spec)
        engine = OpenAIEngine(spec)
        (reply,) = engine.generate([call("a/0", "which?")], {})
        engine.close()
    assert isinstance(reply.outcome, Answer)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BROKEN.items() for value in values])
def test_the_hub_is_unreachable_because_of_a_variable(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    (answer,) = ask_hub([("owner/name", "main")]).values()
    assert answer.state == "unreachable"
    assert answer.problem.startswith(name)
    assert "HF_HUB_OFFLINE=1" in answer.problem
    spec = ModelSpec(engine="transformers", model="owner/name")
    assert unavailable_reason(spec).startswith(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub_problem()


def test_downloaded_pictures_need_readable_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent/ca.pem")
    download._tls.cache_clear()
    with pytest.raises(ShellSettingError, match=r"^SSL_CERT_FILE=/nonexistent/ca\.pem does not exist"):
        download._tls()


def test_a_bundle_of_certificates_is_read_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "ca.pem"
    shutil.copy(certifi.where(), bundle)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    hits = connections._load_certificates.cache_info().hits
    check_certificates(HTTPX)
    check_certificates(HTTPX)
    assert connections._load_certificates.cache_info().hits == hits + 1
    bundle.write_text("damaged")
    with pytest.raises(ShellSettingError, match=r"^SSL_CERT_FILE=.*ca\.pem cannot be read as certificates"):
        check_certificates(HTTPX)


@pytest.mark.parametrize("value", ["soon", "", "1.5", "0x10"])
def test_numbers_that_the_hubs_client_cannot_read_are_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hub_settings()
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", value)
    with pytest.raises(ValueError, match="invalid literal"):
        int(value)  # as the client does, when it is imported
    with pytest.raises(ShellSettingError, match=r"^HF_HUB_DOWNLOAD_TIMEOUT="):
        check_hub_settings()
    assert unavailable_reason(ModelSpec(engine="transformers", model="/")).startswith("HF_HUB_DOWNLOAD_TIMEOUT")


@pytest.mark.parametrize("value", ["not an address", "ftp://h", "http://[::", "http://h:port"])
def test_address_of_the_hub_that_is_none_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", value)
    with pytest.raises(ShellSettingError, match=r"^HF_ENDPOINT is no address of a hub"):
        ask_hub([("owner/name", "main")])


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AWS_ENDPOINT_URL": "not a url"}, "AWS_ENDPOINT_URL is no address"),
        ({"AWS_ENDPOINT_URL_S3": "ftp://h"}, "AWS_ENDPOINT_URL_S3 is no address"),
        ({"AWS_ENDPOINT_URL": "http://h:port"}, "AWS_ENDPOINT_URL is no address"),
        ({"AWS_CA_BUNDLE": "/nonexistent", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "AWS_CA_BUNDLE=/nonexistent"),
        ({"REQUESTS_CA_BUNDLE": "/nonexistent"}, "REQUESTS_CA_BUNDLE=/nonexistent"),
        ({"HTTPS_PROXY": "socks5://h:1"}, "HTTPS_PROXY is a SOCKS proxy, which the object store client"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/nonexistent"}, "AWS_WEB_IDENTITY_TOKEN_FILE=/nonexistent"),
        ({"HTTP_PROXY": "socks5://h:1"}, ""),  # the store is asked by https
        ({"HTTP_PROXY": "::::", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, ""),
    ],
)
def test_object_stores(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if expected:
        with pytest.raises(ShellSettingError, match=f"^{expected}"):
            check_object_store()
    else:
        check_object_store()


@pytest.mark.parametrize("given", ["", "example.org", "127.0.0.1,example.org"])
def test_this_machines_addresses_go_through_no_proxy(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", given)
    check_connection(REQUESTS, "http://127.0.0.1:8265")
    for host in ("127.0.0.1:8265", "localhost", *filter(None, given.split(","))):
        assert urllib.request.proxy_bypass(host), host
    assert not urllib.request.proxy_bypass("example.com")
    assert len(os.environ["no_proxy"].split(",")) == len({*os.environ["no_proxy"].split(",")})


def test_variables_of_a_client_that_do_not_concern_an_address_have_no_effect(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nonexistent")
    check_connection(HTTPX, FAR)
    check_connection(REQUESTS, "http://127.0.0.1:8265")
    with pytest.raises(ShellSettingError, match="REQUESTS_CA_BUNDLE"):
        check_connection(REQUESTS, FAR)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("ALL_PROXY", "socks5://h:1")
    check_connection(HTTPX, FAR)
    monkeypatch.setenv("AWS_CA_BUNDLE", ssl.get_default_verify_paths().openssl_cafile)
    check_connection(BOTOCORE, FAR)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    with pytest.raises(ShellSettingError, match="SSL_CERT_DIR"):
        check_connection(HTTPX, FAR)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.8.9.1/v1", True),
        ("http://[::1]:8/v1", True),
        ("http://a.localhost", True),
        ("http://0.0.0.0", False),
        ("http://localhost.example.com", False),
        ("http://10.0.0.1", False),
    ],
)
def test_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) == expected
