"""Hashes that are equal on every machine."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

ID_DIGITS = 32  # hex digits of a hash that names something


def stable_id(fields: Mapping[str, Any]) -> str:
    """Return a hash of named fields: 32 hex digits."""
    return hash_text(stable_json(fields))


def stable_json(value: object) -> str:
    """Return ASCII JSON without spaces, keys sorted."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def json_members(fields: Mapping[str, Any]) -> str:
    """Return the members of an object in `stable_json`, without its braces: those of two objects can be joined."""
    return stable_json(fields)[1:-1]


def hash_text(text: str) -> str:
    """Return a hash of a text: 32 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]
