"""Words of `--models` that are no names: groups of models, and models given by hub id, path or address.

Groups are `all`, `open`, `closed`, `paper:BENCHMARK` and `fits:80GB`.
"""

import difflib
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from models.checkpoints.problems import read_config
from models.engine_choice import choose_engine
from models.errors import UnknownModelError, YamlFileError, suggest
from models.families import families_named
from models.gpu_memory import model_size, plan_placement
from models.guards.redaction import shown_address
from models.spec import ModelSpec

logger = logging.getLogger(__name__)

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""The form of names, which appear in comma-separated lists and in paths such as `model=NAME`."""

_WORDS = ("all", "open", "closed")
_HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")  # OWNER/NAME or OWNER/NAME@REVISION
_HUB_ADDRESS = re.compile(r"(?:hf://|https?://(?:www\.)?(?:huggingface\.co|hf\.co)/)([\w.-]+/[\w.-]+)")
_FACTS = ("architecture", "parameters_b", "shape", "license", "remote_code")
_SAME_FAMILY, _ANY_FAMILY = 0.6, 0.8  # similarity from which a name is proposed for one that is unknown
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


def add_direct_models(words: Iterable[str], models: Mapping[str, ModelSpec]) -> dict[str, ModelSpec]:
    """Return models, and those that words give by hub id, path or address, under their `direct_name`.

    Raises:
        UnknownModelError: a word cannot be read, its name is not allowed, or another model has it.
    """
    known, given = dict(models), dict[str, str]()
    for word in dict.fromkeys(words):
        if not is_direct(word):
            continue
        spec, name = choose_engine(_direct_spec(word, models)), direct_name(word)
        if not MODEL_NAME.fullmatch(name) or is_group(name):
            problem = (
                "is a group of models" if is_group(name) else "has characters other than letters, digits and . _ + -"
            )
            raise UnknownModelError(
                f"{_shown(word)}: its name would be {name!r}, which {problem}; name it in {_entry(spec)}"
            )
        if known.get(name, spec) != spec:
            if known[name].model == spec.model and name not in given:
                raise UnknownModelError(
                    f"{_shown(word)}: this is {name!r} of the catalog or of a models file; give that name for its "
                    f"settings, or another one in {_entry(spec)}"
                )
            other = _shown(given[name]) if name in given else "an entry of the catalog or of a models file"
            raise UnknownModelError(
                f"{_shown(word)}: its name would be {name!r}, which {other} has too; give it another name in "
                f"{_entry(spec)}"
            )
        known[name], given[name] = spec, word
    return known


def is_direct(word: str) -> bool:
    """Return whether a word is no name but gives a model itself: a hub id, a path or an address."""
    return "/" in word or word.startswith((".", "~"))


def is_direct_path(word: str) -> bool:
    """Return whether a word is a path of this machine."""
    if "://" in word or not is_direct(word):
        return False
    return word.startswith((".", "/", "~")) or Path(word).exists() or not _HUB_ID.fullmatch(word)


def direct_name(word: str) -> str:
    """Return the name of the model that a word gives by hub id, path or address: its last part. A name stays as it is.

    Of `http://HOST:PORT/v1#MODEL` the last part of MODEL counts, and of a hub id no revision.
    """
    if not is_direct(word):
        return word
    if is_direct_path(word):
        return Path(_absolute(word)).name
    address, _, model = word.partition("#")
    match = _HUB_ID.fullmatch(word)
    return (match[1] if match else model or address).rstrip("/").rsplit("/", 1)[-1]


def _absolute(word: str) -> str:
    return os.path.abspath(os.path.expanduser(word))  # noqa: PTH100, PTH111  links stay as given, and so does ~NOBODY


def _direct_spec(word: str, models: Mapping[str, ModelSpec]) -> ModelSpec:
    """Return the entry that a word stands for, or raise UnknownModelError."""
    if is_direct_path(word):
        path = _absolute(word)
        return ModelSpec(engine="auto", model=path, architecture=_model_type(Path(path)))
    if word.startswith("s3://"):
        return ModelSpec(engine="auto", model=word)
    if "://" in word:
        return _endpoint(word)
    match = _HUB_ID.fullmatch(word)
    hub_id, revision = (match[1], match[2]) if match else (word, None)
    same = {name: spec for name, spec in models.items() if spec.model == hub_id and spec.runs_locally}
    plain = {name: spec for name, spec in same.items() if not (spec.adapter or spec.unsupported)}
    facts = {}
    for name, spec in [*plain.items()][:1]:
        facts = {fact: getattr(spec, fact) for fact in _FACTS}
        if name == direct_name(word):  # refused, with what to give
            continue
        logger.warning("%s is %s in the catalog, whose revision and settings this run does not use", hub_id, name)
    return ModelSpec(engine="auto", model=hub_id, revision=revision, **facts)


def _endpoint(word: str) -> ModelSpec:
    address, _, model = word.partition("#")
    shown = _shown(address)
    if pasted := _HUB_ADDRESS.match(word):
        raise UnknownModelError(f"{pasted[0]}: give a model of the hub by its id: {pasted[1]}")
    if not model:
        raise UnknownModelError(
            f"{shown}: name the model at this server too, as in {shown}#MODEL; most servers list them at "
            f"{shown.rstrip('/')}/models"
        )
    try:
        return ModelSpec.model_validate({"engine": "openai", "model": model, "base_url": address})
    except ValidationError as error:
        message = error.errors(include_url=False, include_context=False)[0]["msg"].removeprefix("Value error, ")
        where = ", in an entry of a models file" if "api_key_env" in message else ""
        raise UnknownModelError(f"{shown}: {message}{where}") from None


def _model_type(folder: Path) -> str | None:
    """Return the `model_type` of a checkpoint's config.json; None where none can be read, which its check reports."""
    try:
        model_type = read_config(folder).get("model_type")
    except (OSError, ValueError, YamlFileError):
        return None
    return model_type if isinstance(model_type, str) else None


def _shown(word: str) -> str:
    """Return a word for messages, without keys."""
    if "://" not in word:
        return word
    address, sign, model = word.partition("#")
    try:
        return shown_address(address) + sign + model
    except ValueError:  # no address
        return address.partition("://")[0] + "://..."


def _entry(spec: ModelSpec) -> str:
    """Return an entry of a models file for a model, under a name of the user's choice."""
    address = f", base_url: {_shown(spec.base_url)}" if spec.base_url else ""
    engine = "openai" if spec.base_url else "auto"
    return f"a models file, as in `my-model: {{engine: {engine}, model: {spec.model!r}{address}}}`, and --models-file"


def unknown_model(text: str, models: Mapping[str, ModelSpec], flag: str = "") -> UnknownModelError:
    """Return the error for a word that is neither a model nor a group, with the nearest of either.

    `flag` takes names of models alone; '' for one that takes groups too.
    """
    groups = {
        name.casefold(): name for name in (*_WORDS, *(f"paper:{paper}" for paper in _papers(models)), "fits:80GB")
    }
    near = [] if flag else difflib.get_close_matches(text.casefold(), sorted(groups), n=1, cutoff=_NEAR_GROUP)
    nearest = groups[near[0]] if near else _nearest_model(text, models)
    hint = f"; did you mean {nearest!r}?" if nearest else "."
    folder = f" The folder of this name is given as ./{text}." if text and Path(text).is_dir() else ""
    kinds = "" if flag else f" Groups of models: {', '.join(_WORDS)}, paper:BENCHMARK, fits:80GB"
    return UnknownModelError(
        f"{flag + ': ' if flag else ''}unknown model {text!r}{hint}{folder} `vlmsweep list models` shows the catalog; "
        "your own models are an entry of a file that --models-file names, OWNER/NAME of the hub, ./FOLDER, or "
        f"http://HOST:PORT/v1#MODEL.{kinds}"
    )


def _nearest_model(text: str, models: Mapping[str, ModelSpec]) -> str | None:
    """Return the most similar name, of the same family if the text names one that is known."""
    families = families_named(text)
    is_known = families != {text.lower()}
    names = {name.casefold(): name for name in models if not is_known or families & families_named(name)}
    cutoff = _SAME_FAMILY if is_known else _ANY_FAMILY
    near = difflib.get_close_matches(text.casefold(), sorted(names), n=1, cutoff=cutoff)
    return names[near[0]] if near else None


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
