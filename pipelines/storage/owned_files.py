"""Which files this product may delete, move or write again: those with names that only it gives.

A user may keep files of their own in any folder of an output, of data or of a history.
"""

import posixpath
import re

_PART = r"(?:[0-9a-f]{24}|external-\d{5})\.parquet"
_MODEL_FOLDER = r"benchmark=[^/]+/model=[^/]+"
_NIGHT = r"\d{8}T\d{6}\.\d{6}Z"
_NAMES = (
    rf"(?:captions|judgements|predictions|scores)/{_MODEL_FOLDER}/{_PART}",
    r"plan/benchmark=[^/]+/(?:plan-[0-9a-f]{32}\.json|(?:part|judge)-[0-9a-f]{24}\.parquet)",
    r"batches/model=[^/]+/[0-9a-f]{32}(?:\.json|\.results\.gz)",
    rf"pairs/{_MODEL_FOLDER}/fingerprint",
    rf"(?:items|pairs)/{_NIGHT}\.parquet",
    r"samples/[0-9a-f]{12}-\d{5}\.parquet",
    r"checkpoints/(?:(?:best|step)-\d{7,}\.safetensors|examples\.sha256)",
    r"examples/(?:complete\.json|(?:train|validation)\.parquet|pictures/[0-9a-f]{64})",
    r"(?:lock|run|status)\.json|plan/obsolete\.json|\.vlmsweep-probe-[0-9a-f]{32}",
)
_OWNED = re.compile(rf"(?:staging/[0-9a-f]{{16}}/)?(?:{'|'.join(_NAMES)})")
_IS_PART = re.compile(_PART)
TEMPORARY = re.compile(r"\.vlmsweep-[0-9a-f]{32}\.tmp")
"""A file that is being written; it is locked until it has its final name."""


def is_owned(path: str) -> bool:
    """Return whether a file, by its path in a store, has a name of this product."""
    return _OWNED.fullmatch(path) is not None


def is_part(path: str) -> bool:
    """Return whether a file is named as a part of predictions, scores, judgements or captions."""
    return _IS_PART.fullmatch(posixpath.basename(path)) is not None
