"""Hashes that are equal on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def stable_id(fields: Mapping[str, Any]) -> str:
    """Return a hash of named fields: 32 hex digits."""
    text = json.dumps(fields, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
