"""TODO doc."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def stable_id(fields: Mapping[str, Any]) -> str:
    """Hash of named fields: 32 hex digits, the same on every machine."""
    text = json.dumps(fields, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
