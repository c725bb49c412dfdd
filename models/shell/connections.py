"""What the shell says about connections: proxies, certificates, the hub's numbers.

Client libraries read these variables themselves, and fail in words that name none of them. Each is checked before a
client reads it.
"""

import importlib.util
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from models.environment import (
    connection_variables,
    hub_address,
    hub_is_offline,
    object_store_address,
    s3_settings,
    set_variables,
)
from models.errors import ShellSettingError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HUB_NUMBERS = ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClient:
    """How a library reads the shell."""

    certificates: tuple[str, ...]  # variables of a file or folder of certificates; the first that is set counts
    socks_package: str = ""  # what it needs for a SOCKS proxy; '' where it speaks to none
    reads_all_proxies: bool = False  # whether it opens every proxy that is set, whichever an address needs


HTTPX = HttpClient(certificates=("SSL_CERT_FILE", "SSL_CERT_DIR"), socks_package="socksio", reads_all_proxies=True)
"""The clients of endpoints and of the hub; Python's own reads the same certificates."""
REQUESTS = HttpClient(certificates=("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), socks_package="socks")
"""Ray's client of jobs."""
BOTOCORE = HttpClient(certificates=("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"))  # the clients of object stores


def is_loopback(address: str) -> bool:
    """Return whether the host of an address is this machine, by its name or number."""
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _keep_loopback_direct() -> None:
    variables = connection_variables()
    if not any(name.endswith("_proxy") and name != "no_proxy" for name in map(str.lower, variables)):
        return
    direct = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
    missing = [host for host in _LOOPBACK if host not in direct.split(",")]
    if missing and direct != "*":
        value = ",".join((*filter(None, [direct]), *missing))
        set_variables({"no_proxy": value, "NO_PROXY": value})


def http_options(address: str) -> dict[str, Any]:
    """Return the options of an httpx client for an address; this machine's own are never asked through a proxy.

    Raises:
        ShellSettingError: a variable is wrong.
    """
    if not is_loopback(address):
        check_connection(HTTPX, address)
        return {}
    is_secure = urlsplit(address).scheme == "https"
    if is_secure:
        check_certificates(HTTPX)
    return {"trust_env": False, **({"verify": ssl.create_default_context()} if is_secure else {})}


def check_connection(client: HttpClient, address: str) -> None:
    """Raise `ShellSettingError` where a variable keeps a client from opening a connection to an address.

    This machine's own addresses are taken out of what this process sends through proxies.
    """
    _keep_loopback_direct()
    for name, value in _proxies(client, address):
        _check_proxy(name, value, client)
    if client is not REQUESTS or urlsplit(address).scheme == "https":  # the others read them before they are needed
        check_certificates(client)


def connection_problem(client: HttpClient, address: str) -> str:
    """Return why a variable keeps a client from opening a connection to an address, '' if none does."""
    try:
        check_connection(client, address)
    except ShellSettingError as error:
        return str(error)
    return ""


def check_hub_settings() -> None:
    """Raise `ShellSettingError` where the hub's library cannot be imported: a number or address is none."""
    variables = connection_variables()
    for name in _HUB_NUMBERS:
        value = variables.get(name, "0")
        if not re.fullmatch(r"\s*[+-]?\d+(_\d+)*\s*", value):
            raise ShellSettingError(f"{name}={value!r} is no whole number of seconds; unset it or give one")
    if not _is_address(hub_address()):
        raise ShellSettingError(
            "HF_ENDPOINT is no address of a hub; give one such as https://huggingface.co, or unset it"
        )


def check_object_store() -> None:
    """Raise `ShellSettingError` where a variable keeps the clients of object stores from opening a connection."""
    variable, named = object_store_address()
    address = named or "https://s3.amazonaws.com"
    if not _is_address(address):
        raise ShellSettingError(f"{variable} is no address of a store; give one such as http://127.0.0.1:8333")
    token = connection_variables().get("AWS_WEB_IDENTITY_TOKEN_FILE", "")
    if token and not Path(token).is_file() and s3_settings().key is None:
        raise ShellSettingError(f"AWS_WEB_IDENTITY_TOKEN_FILE={token} does not exist; correct it or unset it")
    check_connection(BOTOCORE, address)


def _is_address(address: str, schemes: tuple[str, ...] = ("http", "https")) -> bool:
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and parts.port != 0 and (not schemes or parts.scheme in schemes)
    except ValueError:  # the host or the port
        return False


def hub_problem(address: str | None = None) -> str:
    """Return why a variable keeps the hub's client from asking, '' if none does or it is in its offline mode.

    Raises:
        ShellSettingError: the client cannot even be imported.
    """
    check_hub_settings()
    problem = "" if hub_is_offline() else connection_problem(HTTPX, address or hub_address())
    return f"{problem}; HF_HUB_OFFLINE=1 uses the hub's cache alone" if problem else ""


def _proxies(client: HttpClient, address: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of the variables whose proxies a client would open for an address."""
    variables = connection_variables()
    direct = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
    if "*" in direct.split(",") or (is_loopback(address) and not client.reads_all_proxies):
        return
    schemes = ("http", "https", "all") if client.reads_all_proxies else (urlsplit(address).scheme, "all")
    for scheme in schemes:
        lower = f"{scheme}_proxy"
        # As urllib: a name in lower case counts first, and an empty one unsets the other.
        name = next((name for name in (lower, lower.upper()) if name in variables), "")
        if name and variables[name]:
            yield name, variables[name]


def _check_proxy(name: str, value: str, client: HttpClient) -> None:
    # The value stays out of messages: it may hold a password.
    address = value if "://" in value else f"http://{value}"
    remedy = "give one such as http://proxy.example:3128, unset it, or name the host in NO_PROXY"
    if not _is_address(address, schemes=()) or re.search(r"\s", value):
        raise ShellSettingError(f"{name} is no address of a proxy; {remedy}")
    scheme = urlsplit(address).scheme
    if scheme in ("socks4", "socks4a", "socks5", "socks5h"):
        if not client.socks_package:
            raise ShellSettingError(
                f"{name} is a SOCKS proxy, which the object store client does not support; {remedy}"
            )
        if importlib.util.find_spec(client.socks_package) is None:
            package = "PySocks" if client.socks_package == "socks" else client.socks_package
            raise ShellSettingError(f"{name} is a SOCKS proxy, which needs `pip install {package}`; or {remedy}")
        if client is HTTPX and scheme.startswith("socks4"):
            raise ShellSettingError(f"{name} is a SOCKS 4 proxy, which is not supported; {remedy}")
    elif scheme not in ("http", "https"):
        raise ShellSettingError(f"{name} has the unknown scheme {scheme!r}; {remedy}")


def check_certificates(client: HttpClient) -> None:
    """Raise `ShellSettingError` where the certificates that a client trusts are named and cannot be read."""
    variables = connection_variables()
    name = next((name for name in client.certificates if variables.get(name)), "")
    if not (value := variables.get(name, "")):
        return
    remedy = "give a file of certificates in PEM, or unset it"
    if name == "SSL_CERT_DIR":
        if not any(Path(folder).is_dir() for folder in value.split(":")):
            raise ShellSettingError(f"{name}={value} is no folder; give one of certificates, or unset it")
        return
    path = Path(value)
    if not path.exists():
        raise ShellSettingError(f"{name}={value} does not exist; {remedy}")
    try:
        _load_certificates("capath" if path.is_dir() else "cafile", value, path.stat().st_mtime_ns)
    except OSError as error:  # ssl's errors are OSErrors
        raise ShellSettingError(f"{name}={value} cannot be read as certificates ({error}); {remedy}") from error


@lru_cache(maxsize=16)
def _load_certificates(kind: str, place: str, _modified_ns: int) -> None:
    # A bundle takes 0.1 s, and each model of a list asks.
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(**{kind: place})
