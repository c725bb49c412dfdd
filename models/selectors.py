"""Words of `--models` that stand for several models: `all`, `open`, `closed`, `paper:BENCHMARK`, `fits:80GB`."""

import difflib
import logging
import re
from collections.abc import Mapping

from models.errors import UnknownModelError, suggest
from models.gpu_memory import model_size, plan_placement
from models.spec import ModelSpec

logger = logging.getLogger(__name__)

_WORDS = ("all", "open", "closed")
_NEAR_GROUP = 0.75  # similarity from which a word is taken for a misspelled group: names of models are less similar
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(?:GB)?", re.IGNORECASE)


def expand_selector(text: str, models: Mapping[str, ModelSpec]) -> list[str] | None:
    """Return the names that a selector stands for, in the catalog's order; None if `text` is none.

    Withdrawn models, those that no engine runs as listed, and second entries of a model are left out, which the log
    tells.

    Raises:
        UnknownModelError: the part after the colon cannot be read, or no model is left.
    """
    members = group_members(text, models)
    if members is None:
        return None
    specs = {name: models[name] for name in members}
    usable = [name for name, spec in specs.items() if not (spec.withdrawn or spec.unsupported or spec.variant_of)]
    if not usable:
        raise UnknownModelError(f"--models {text}: no model that can be run is among them; see `vlmsweep list models`")
    if left_out := [name for name in members if name not in usable]:
        logger.info(
            "%s leaves out what is withdrawn, cannot run as listed or is listed twice: %s", text, ", ".join(left_out)
        )
    return usable


def is_group(text: str) -> bool:
    """Return whether a word has the form of a selector."""
    return text in _WORDS or text.startswith(("paper:", "fits:"))


def group_members(text: str, models: Mapping[str, ModelSpec]) -> list[str] | None:
    """Return the names of all models that a selector describes, in the catalog's order; None if `text` is none.

    Raises:
        UnknownModelError: the part after the colon cannot be read.
    """
    kind, _, value = text.partition(":")
    if kind == "paper" and value:
        if value not in _papers(models):
            raise UnknownModelError(f"--models {text}: unknown paper {value!r}{suggest(value, _papers(models))}")
        return [name for name, spec in models.items() if value in spec.papers]
    if kind == "fits" and value:
        return _that_fit(value, models)
    if text not in _WORDS:
        return None
    return [
        name
        for name, spec in models.items()
        if text == "all" or (spec.runs_locally if text == "open" else spec.is_endpoint)
    ]


def unknown_model(text: str, models: Mapping[str, ModelSpec]) -> UnknownModelError:
    """Return the error for a word that is neither a model nor a group, with the nearest of either."""
    groups = {
        name.casefold(): name for name in (*_WORDS, *(f"paper:{paper}" for paper in _papers(models)), "fits:80GB")
    }
    near = difflib.get_close_matches(text.casefold(), sorted(groups), n=1, cutoff=_NEAR_GROUP)
    hint = suggest(text, [groups[near[0]]] if near else models)
    end = "" if hint.endswith("?") else "."
    return UnknownModelError(
        f"unknown model {text!r}{hint}{end} Groups of models: {', '.join(_WORDS)}, paper:BENCHMARK, fits:80GB"
    )


def _papers(models: Mapping[str, ModelSpec]) -> set[str]:
    return {name for spec in models.values() for name in spec.papers}


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
