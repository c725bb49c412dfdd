"""Keep keys out of files and messages, in whatever form an endpoint quotes them."""

import base64
import binascii
import hashlib
import html
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

STARS: Final = "***"
WITHHELD: Final = "*** (it quotes a key, so it is not shown)"
_RUN: Final = 12  # letters and digits of a key in a row that no text may hold
_SHORTEST: Final = 10  # shorter ones are for show, such as `ollama`: found in any text
_DEPTH: Final = 3  # encodings in one another
_MAX_TEXT: Final = 20_000  # characters that are searched; messages are cut to far fewer
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){6,}")
_WORDS = re.compile(r"[ -~]{6,}")
_OTHER = re.compile(r"[\W_]+")
_PASSWORD = re.compile(r"(?<=://)[^/\s@'\"]+@")
_PLAIN_SEGMENT = re.compile(
    r"[a-z_-]{0,12}|[A-Z]?[a-z]{1,7}[._-]?\d{0,3}|v\d+[a-z]*\d*|\d{1,4}|compatible-mode|chat-completions"
)
PLAIN_QUERY: Final = re.compile(r"[a-z_.-]{0,12}|v?\d[\d.-]{0,15}(?:-?preview)?")
"""A value of a query, such as a version, that can be no key."""
SECRET_NAME: Final = re.compile(
    r"api[-_]?key|access[-_]?key|private[-_]?key|(?:auth|access|bearer|session|refresh)[-_]?token|secret|passw|credential"
    r"|authorization|signature|^(?:key|token|auth|sig|pwd)$",
    re.IGNORECASE,
)
"""Names of fields of a request that hold keys."""


class Redactor:
    """Replaces secrets in texts of other parties; a text that holds one in another form is withheld whole."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        runs = set[str]()
        for secret in self._secrets:
            signs = _signs(secret)
            length = min(_RUN, len(signs))
            if length >= _SHORTEST:
                runs |= {signs[start : start + length] for start in range(len(signs) - length + 1)}
        self._runs = runs

    def __call__(self, text: str) -> str:
        """Return a text without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, STARS)
        text = text[:_MAX_TEXT]
        return WITHHELD if self._runs and any(map(self._is_quoted, set(_readings(text, _DEPTH)))) else text

    def is_quoted_in(self, text: str) -> bool:
        """Return whether a text holds a secret in any form; a long one is searched part by part."""
        if not self._runs:
            return False
        step = _MAX_TEXT // 2
        parts = [text[start : start + _MAX_TEXT] for start in range(0, max(len(text), 1), step)]
        return any(self._is_quoted(reading) for part in parts for reading in _readings(part, _DEPTH))

    def in_record(self, value: Any) -> Any:
        """Return a JSON value without the secrets in its texts."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self(name): self.in_record(item) for name, item in value.items()}
        return [self.in_record(item) for item in value] if isinstance(value, list) else value

    def _is_quoted(self, text: str) -> bool:
        signs = _signs(text)
        return any(run in signs for run in self._runs)


def _signs(text: str) -> str:
    """Return the letters and digits of a text, in which case and what stands between them make no difference."""
    return _OTHER.sub("", text).casefold()


def _readings(text: str, depth: int) -> Iterator[str]:
    """Yield a text and what it says decoded: as escapes, as an address, as HTML, base64 or hexadecimal."""
    yield text
    if not depth:
        return
    joined = "".join(text.split())
    decoded = {
        *(_ESCAPE.sub(_unescaped, text), unquote(text), html.unescape(text)),
        *(piece for run in {*_BASE64.findall(text), *_BASE64.findall(joined)} for piece in _from_base64(run)),
        *(bytes.fromhex(run).decode("latin-1") for run in _HEX.findall(joined)),
    }
    for reading in decoded - {text}:
        yield from _readings(reading, depth - 1)


def _unescaped(match: re.Match[str]) -> str:
    number = match[1] or match[2]
    return chr(int(number, 16)) if number else match[3]


def _from_base64(run: str) -> Iterator[str]:
    """Yield what a run of signs says as base64, from each of the places at which a group of four may begin."""
    signs = run.replace("-", "+").replace("_", "/")
    for start in range(4):
        part = signs[start:]
        try:
            content = base64.b64decode(part[: len(part) // 4 * 4] + _padded(part[len(part) // 4 * 4 :]))
        except binascii.Error:
            continue
        yield from _WORDS.findall(content.decode("latin-1"))


def _padded(rest: str) -> str:
    return rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""


def without_passwords(text: str) -> str:
    """Return a text whose addresses hold no user and password."""
    return _PASSWORD.sub(f"{STARS}@", text)


def shown_address(address: str) -> str:
    """Return an address for messages and files: what may be a key in its path or query is a hash."""
    parts = urlsplit(without_passwords(address))
    path = "/".join(
        segment if _PLAIN_SEGMENT.fullmatch(segment) else _hashed(segment) for segment in parts.path.split("/")
    )
    query = "&".join(
        f"{quote(name)}={value if PLAIN_QUERY.fullmatch(value) else _hashed(value)}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def address_secrets(address: str) -> list[str]:
    """Return the parts of an address that `shown_address` hides, as they stand there and decoded."""
    parts = urlsplit(address)
    values = [segment for segment in parts.path.split("/") if not _PLAIN_SEGMENT.fullmatch(segment)]
    values += [value for _, value in parse_qsl(parts.query) if not PLAIN_QUERY.fullmatch(value)]
    return [*values, *map(unquote, values)]


def secret_field(value: Any, path: str = "") -> str:
    """Return the path of the first field of a JSON value that is named as a key and holds a text, '' for none."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        here = f"{path}.{name}" if path else str(name)
        if isinstance(item, str) and item and SECRET_NAME.search(str(name)):
            return here
        if deeper := secret_field(item, here):
            return deeper
    return ""


def _hashed(text: str) -> str:
    return f"sha256-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
