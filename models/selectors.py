"""Words of `--models` that stand for several models: `all`, `open`, `closed`, `paper:BENCHMARK`, `fits:80GB`."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from models.errors import UnknownModelError, suggest
from models.gpu_memory import model_size, plan_placement
from models.spec import ModelSpec

logger = logging.getLogger(__name__)

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(?:GB)?", re.IGNORECASE)


def expand_selector(text: str, models: Mapping[str, ModelSpec]) -> list[str] | None:
    """Return the names that a selector stands for, in the catalog's order; None if `text` is none.

    Withdrawn models and those that no engine runs as listed are left out, which the log tells.

    Raises:
        UnknownModelError: the part after the colon cannot be read, or no model is left.
    """
    kind, _, value = text.partition(":")
    if kind == "paper" and value:
        members = _of_paper(value, models)
    elif kind == "fits" and value:
        members = _that_fit(value, models)
    elif text in ("all", "open", "closed"):
        members = [
            name
            for name, spec in models.items()
            if text == "all" or (spec.runs_locally if text == "open" else spec.is_endpoint)
        ]
    else:
        return None
    usable = [name for name in members if not (models[name].withdrawn or models[name].unsupported)]
    if not usable:
        raise UnknownModelError(f"--models {text}: no model that can be run is among them; see `vlmsweep list models`")
    if left_out := [name for name in members if name not in usable]:
        logger.info("%s leaves out what is withdrawn or cannot run as listed: %s", text, ", ".join(left_out))
    return usable


def _of_paper(paper: str, models: Mapping[str, ModelSpec]) -> list[str]:
    papers = {name for spec in models.values() for name in spec.papers}
    if paper not in papers:
        raise UnknownModelError(f"--models paper:{paper}: unknown paper {paper!r}{suggest(paper, papers)}")
    return [name for name, spec in models.items() if paper in spec.papers]


def _that_fit(memory: str, models: Mapping[str, ModelSpec]) -> list[str]:
    """Return the models that one GPU of this size, in GB, can run."""
    match = _MEMORY.fullmatch(memory)
    gpu_bytes = round(float(match[1]) * 1e9) if match else 0
    if gpu_bytes <= 0:
        raise UnknownModelError(f"--models fits:{memory}: give the memory of one GPU, such as fits:80GB")
    return [
        name
        for name, spec in models.items()
        if (size := model_size(spec)) and plan_placement(spec, size, [gpu_bytes], tensor_parallel=1).fits
    ]
