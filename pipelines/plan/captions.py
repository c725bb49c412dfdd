"""Captions of an output, and the key under which a captioner's captions are found."""

from collections.abc import Mapping
from typing import Any

from pipelines.benchmarks.replies.cleaning import clean_reply
from pipelines.hashing import stable_id
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store


def caption_key(captioner: str, fingerprint: Mapping[str, Any]) -> str:
    """Return a captioner's name with a hash of all that changes its captions."""
    return f"{captioner}@{stable_id(dict(fingerprint))[:12]}"


def captioner_name(key: str) -> str:
    """Return the name in a captioner's key."""
    return key.rpartition("@")[0]


def load_captions(out: Store, benchmark_name: str, key: str) -> dict[str, str]:
    """Load a captioner's captions of this output, cleaned, by picture hash; none where the key is ''.

    One whose thoughts never end is empty: it describes nothing.
    """
    if not key:
        return {}
    columns = ["variant", "prompt_version", "status", "output"]
    folder = part_folder("captions", benchmark_name, captioner_name(key))
    return {
        row["variant"]: "" if "open_thoughts" in dropped else text
        for _, table in iter_parts(out, folder, columns)
        for row in table.to_pylist()
        if row["status"] == "ok" and row["prompt_version"] == key
        for text, dropped in [clean_reply(row["output"])]
    }
