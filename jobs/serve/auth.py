"""Who may ask: a key that is compared in constant time and known to the server by its hash alone."""

from __future__ import annotations

import hashlib
import hmac


def key_hash(key: str) -> str:
    """SHA-256 of a key, hex: what travels to the server's processes instead of the key."""
    return hashlib.sha256(key.encode()).hexdigest()


def is_authorized(authorization: str | None, wanted: str | None) -> bool:
    """Whether an `Authorization` header holds the key of this hash; anyone may where none is wanted."""
    if wanted is None:
        return True
    scheme, _, key = (authorization or "").partition(" ")
    return hmac.compare_digest(key_hash(key.strip()), wanted) and scheme.lower() == "bearer"
