"""Authentication by a key that the server knows by its hash only and compares in constant time."""

import hashlib
import hmac


def key_hash(key: str) -> str:
    """Return the SHA-256 of a key in hex, which the server's processes get instead of the key."""
    return hashlib.sha256(key.encode()).hexdigest()


def is_authorized(authorization: str | None, required_hash: str | None) -> bool:
    """Return whether an `Authorization` header holds the key of this hash; None requires no key."""
    if required_hash is None:
        return True
    scheme, _, key = (authorization or "").partition(" ")
    return hmac.compare_digest(key_hash(key.strip()), required_hash) and scheme.lower() == "bearer"
