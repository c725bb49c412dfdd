"""Download a picture during ingestion, from the public internet only.

Addresses come with the data and are not trusted: the host is resolved here, all its IP addresses must be public, and
the connection goes to the address that was checked. Each redirect is checked again.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from models.shell.connections import HTTPX, check_certificates
from pipelines.errors import SourceError

TIMEOUT_S: Final = 20.0  # seconds for one attempt, redirects included
MAX_ATTEMPTS: Final = 3
MAX_BYTES: Final = 20_000_000
_MAX_REDIRECTS: Final = 5
_BACKOFF_S: Final = 1.0
_TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECT_STATUS: Final = frozenset({301, 302, 303, 307, 308})
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_PATH_SAFE: Final = "/%:@!$&'()*+,;=~-._"

Resolve = Callable[[str, int], list[str]]


class PictureError(SourceError):
    """A picture is unavailable. Says why, in a few words."""


class _TransientError(PictureError):
    """A retry may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    status: int
    kind: str
    location: str
    body: bytes


def is_public(address: str) -> bool:
    """Return whether an IP address, or the IPv4 address embedded in it, is on the public internet."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None or ip.teredo:
            return inner is not None and is_public(str(inner))
    return ip.is_global and not ip.is_multicast


def resolve(host: str, port: int) -> list[str]:
    """Return all IP addresses of a host; raise OSError where it has none, or no name server answers."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def fetch(address: str, *, resolver: Resolve = resolve, pause: Callable[[float], None] = time.sleep) -> bytes:
    """Download the `image/...` file at an `http` or `https` address, of at most `MAX_BYTES`, without decoding it.

    Raises:
        PictureError: it is unavailable, after `MAX_ATTEMPTS` attempts where a retry may have helped.
    """
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            return _attempt(address, resolver)
        except _TransientError:
            if attempt == MAX_ATTEMPTS:
                raise
        pause(_BACKOFF_S * attempt)
    raise AssertionError("an attempt returns or raises")


def _attempt(address: str, resolver: Resolve) -> bytes:
    deadline = time.monotonic() + TIMEOUT_S
    for _ in range(_MAX_REDIRECTS + 1):
        response = _get(address, resolver, deadline)
        if response.status in _REDIRECT_STATUS and response.location:
            address = urljoin(address, response.location)
            continue
        if response.status in _TRANSIENT_STATUS:
            raise _TransientError(f"HTTP {response.status}")
        if response.status != http.client.OK:
            raise PictureError(f"HTTP {response.status}")
        if not response.kind.startswith("image/"):
            raise PictureError("the content is no picture")
        return response.body
    raise PictureError("too many redirects")


def _get(address: str, resolver: Resolve, deadline: float) -> _Response:
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise PictureError("not a valid address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise PictureError("not an http address")
    target = quote(parts.path or "/", safe=_PATH_SAFE) + (
        f"?{quote(parts.query, safe=_PATH_SAFE + '?')}" * bool(parts.query)
    )
    connection = _PinnedConnection(
        host, port, _public_address(host, port, resolver), deadline, secure=parts.scheme == "https"
    )
    try:
        return connection.request_picture(target, parts.netloc.rpartition("@")[2])
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _TransientError(f"no answer ({type(error).__name__})") from error
    finally:
        connection.close()


def _public_address(host: str, port: int, resolver: Resolve) -> str:
    """Return the IP address to connect to; PictureError where the host is unknown or any address is not public."""
    try:
        addresses = resolver(host, port)
    except (OSError, UnicodeError):
        raise _TransientError("the host is unknown") from None
    if not addresses or not all(map(is_public, addresses)):
        raise PictureError("the host is not on the public internet")
    return addresses[0]


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to a checked IP address of a host, closed at its deadline."""

    def __init__(self, host: str, port: int, address: str, deadline: float, *, secure: bool) -> None:
        super().__init__(host, port, timeout=max(0.1, deadline - time.monotonic()))
        self._address, self._deadline, self._secure = address, deadline, secure
        self._open_socket: socket.socket | None = None
        self._timed_out = False

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), self.timeout)
        self._open_socket = plain
        self.sock = plain
        if self._secure:
            # The certificate is checked against the host's name, though the address was chosen here.
            self._open_socket = self.sock = _tls().wrap_socket(plain, server_hostname=self.host)

    def request_picture(self, target: str, host: str) -> _Response:
        """Send the request and read the response, with its body only where it is a picture."""
        # A socket's timeout limits each read; a host that sends single bytes slowly needs a timer of its own.
        watchdog = threading.Timer(max(0.1, self._deadline - time.monotonic()), self._abort)
        watchdog.daemon = True
        watchdog.start()
        try:
            headers = {"Host": host, "User-Agent": "vlmsweep", "Accept": "image/*", "Accept-Encoding": "identity"}
            self.request("GET", target, headers=headers)
            response = self.getresponse()
            kind = (response.getheader("Content-Type") or "").strip().lower()
            is_picture = response.status == http.client.OK and kind.startswith("image/")
            length = response.length or 0
            body = response.read(MAX_BYTES + 1) if is_picture and length <= MAX_BYTES else b""
        finally:
            watchdog.cancel()
        if self._timed_out:
            raise _TransientError("it took too long")
        if is_picture and max(length, len(body)) > MAX_BYTES:
            raise PictureError(f"larger than {MAX_BYTES // 1_000_000} MB")
        if is_picture and len(body) < length:
            raise _TransientError("the response broke off")
        return _Response(status=response.status, kind=kind, location=response.getheader("Location") or "", body=body)

    def _abort(self) -> None:
        self._timed_out = True
        if self._open_socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._open_socket, socket.SHUT_RDWR)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    check_certificates(HTTPX)  # OpenSSL ignores a file that is missing, and then trusts nobody
    return ssl.create_default_context()
