"""Fetch a picture by its address, while a data set is read in, and from the public internet only.

The addresses come with the data, so they are not to be trusted: the host is resolved here, every address that it has
must be public, and the connection goes to the very one that was looked at. Each redirect is looked at again.
"""

from __future__ import annotations

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

from pipelines.errors import SourceError

PATIENCE_S: Final = 20.0
"""Seconds for one try, redirects included."""
TRIES: Final = 3
MAX_BYTES: Final = 20_000_000
_REDIRECTS: Final = 5
_PAUSE_S: Final = 1.0
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_IN_PATH: Final = "/%:@!$&'()*+,;=~-._"

Resolve = Callable[[str, int], list[str]]


class PictureError(SourceError):
    """A picture cannot be had. Says why, in a few words."""


class _PassingError(PictureError):
    """It may go better on another try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    status: int
    kind: str
    location: str
    body: bytes


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet: no loopback, private, link-local or multicast one.

    IPv6 addresses that stand for an IPv4 one are as public as that.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None or found.teredo:
            return inner is not None and is_public(str(inner))
    return found.is_global and not found.is_multicast


def resolve(host: str, port: int) -> list[str]:
    """All IP addresses of a host.

    Raises:
        OSError: it has none, or nobody can be asked.
    """
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def fetch(address: str, *, resolver: Resolve = resolve, pause: Callable[[float], None] = time.sleep) -> bytes:
    """The picture at an address.

    Args:
        address: `http` or `https`.
        resolver: host and port to IP addresses.
        pause: waits between tries.

    Returns:
        The file's bytes, of a content type `image/...` and at most `MAX_BYTES`; not yet decoded.

    Raises:
        PictureError: it cannot be had, after `TRIES` tries where another one might have helped.
    """
    for attempt in range(1, TRIES + 1):
        try:
            return _followed(address, resolver)
        except _PassingError:
            if attempt == TRIES:
                raise
        pause(_PAUSE_S * attempt)
    raise AssertionError("a try either returns or raises")


def _followed(address: str, resolver: Resolve) -> bytes:
    """One try, with its redirects."""
    ends = time.monotonic() + PATIENCE_S
    for _ in range(_REDIRECTS + 1):
        response = _get(address, resolver, ends)
        if response.status in _MOVED and response.location:
            address = urljoin(address, response.location)
            continue
        if response.status in _AGAIN:
            raise _PassingError(f"HTTP {response.status}")
        if response.status != http.client.OK:
            raise PictureError(f"HTTP {response.status}")
        if not response.kind.startswith("image/"):
            raise PictureError("the content is no picture")
        return response.body
    raise PictureError("too many redirects")


def _get(address: str, resolver: Resolve, ends: float) -> _Response:
    """Ask one address, without following.

    Raises:
        PictureError: it is refused, or the connection fails.
    """
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise PictureError("not a valid address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise PictureError("not an http address")
    target = quote(parts.path or "/", safe=_IN_PATH) + (
        f"?{quote(parts.query, safe=_IN_PATH + '?')}" * bool(parts.query)
    )
    connection = _Pinned(host, port, _looked_at(host, port, resolver), ends, secure=parts.scheme == "https")
    try:
        return connection.ask(target, parts.netloc.rpartition("@")[2])
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _PassingError(f"no answer ({type(error).__name__})") from error
    finally:
        connection.close()


def _looked_at(host: str, port: int, resolver: Resolve) -> str:
    """The address to connect to.

    Raises:
        PictureError: the host is unknown, or one of its addresses is not public.
    """
    try:
        found = resolver(host, port)
    except (OSError, UnicodeError):
        raise _PassingError("the host cannot be found") from None
    if not found or not all(map(is_public, found)):
        raise PictureError("the host is not on the public internet")
    return found[0]


class _Pinned(http.client.HTTPConnection):
    """A connection to a given IP address in a host's name, cut when its time is up."""

    def __init__(self, host: str, port: int, address: str, ends: float, *, secure: bool) -> None:
        super().__init__(host, port, timeout=max(0.1, ends - time.monotonic()))
        self._address, self._ends, self._secure = address, ends, secure
        self._live: socket.socket | None = None
        self._late = False

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), self.timeout)
        self._live = plain
        self.sock = plain
        if self._secure:
            # The host's name is what the certificate is checked against, though the address was chosen here.
            self._live = self.sock = _tls().wrap_socket(plain, server_hostname=self.host)

    def ask(self, target: str, name: str) -> _Response:
        """Send the request and read the answer; a body only where there is to be a picture."""
        # Time limits of a socket are for each read; a host that sends a byte now and then needs a clock of its own.
        watchdog = threading.Timer(max(0.1, self._ends - time.monotonic()), self._cut)
        watchdog.daemon = True
        watchdog.start()
        try:
            headers = {"Host": name, "User-Agent": "vlmsweep", "Accept": "image/*", "Accept-Encoding": "identity"}
            self.request("GET", target, headers=headers)
            response = self.getresponse()
            kind = (response.getheader("Content-Type") or "").strip().lower()
            wanted = response.status == http.client.OK and kind.startswith("image/")
            length = response.length or 0
            body = response.read(MAX_BYTES + 1) if wanted and length <= MAX_BYTES else b""
        finally:
            watchdog.cancel()
        if self._late:
            raise _PassingError("it took too long")
        if wanted and max(length, len(body)) > MAX_BYTES:
            raise PictureError(f"larger than {MAX_BYTES // 1_000_000} MB")
        if wanted and len(body) < length:
            raise _PassingError("the answer broke off")
        return _Response(status=response.status, kind=kind, location=response.getheader("Location") or "", body=body)

    def _cut(self) -> None:
        self._late = True
        if self._live is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._live, socket.SHUT_RDWR)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
