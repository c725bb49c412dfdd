"""The kinds of table benchmarks as data: what is asked, how an answer is read, and which metric stands first."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, Final

from models.errors import suggest
from pipelines.benchmarks.known_tables import KINDS, Kind, TableDefinition
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.errors import SourceError

DEFAULT, NO_IMAGE, CIRCULAR = "default", "no-image", "circular"
PLACEHOLDERS: Final = ("question", "options", "hint", "labels")
JUDGE_PROMPT: Final = "table-judge-v1"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFacts:
    """What is the same in all table benchmarks of a kind."""

    text: str  # the prompt, after the media
    max_new_tokens: int
    headline: str = "accuracy"
    secondary: tuple[str, ...] = ("accuracy_macro", "unreadable")
    further: tuple[str, ...] = ()  # metrics that no summary shows
    needs_options: bool = False
    measure: str


_WORDS: Final[Mapping[str, Any]] = load_facts(__package__, "kinds.yaml")
KIND_FACTS: Final[Mapping[Kind, KindFacts]] = {kind: KindFacts(**_WORDS["kinds"][kind]) for kind in KINDS}
JUDGE_TEXT: Final[str] = _WORDS["judge"]
CORPUS_METRICS: Final = ("precision", "recall", "f1", "bleu", "accuracy_macro")  # those that are no mean over rows


def check_headline(name: str, kind: Kind, where: str) -> None:
    """Raise SourceError for a headline that is no metric of a kind; '' is that of the kind."""
    facts = KIND_FACTS[kind]
    metrics = (facts.headline, *facts.secondary, *facts.further)
    if name and name not in metrics:
        raise SourceError(f"{where}: kind {kind} has no metric {name!r}; it has {', '.join(metrics)}")


def prompt_version(definition: TableDefinition) -> str:
    """Return the version name of a table's prompt; the user's own wording has a name that changes with its words."""
    if definition.prompt:
        return f"table-{definition.kind}-own-{hashlib.sha256(definition.prompt.encode()).hexdigest()[:8]}"
    return f"table-{definition.kind}-v1"


def prompt_texts(definition: TableDefinition) -> dict[str, str]:
    """Return the wording of a table's prompts by version."""
    texts = {prompt_version(definition): definition.prompt or KIND_FACTS[definition.kind].text}
    return {**texts, JUDGE_PROMPT: JUDGE_TEXT} if definition.kind == "open" else texts


def check_prompt(text: str, kind: Kind, roles: Sequence[str], where: str) -> None:
    """Raise SourceError for a user's wording with a placeholder that is unknown, or without one that it needs."""
    given = _PLACEHOLDER.findall(text)
    names = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    for name in given:
        if name not in PLACEHOLDERS:
            raise SourceError(
                f"{where}: unknown placeholder {{{name}}}{suggest(name, PLACEHOLDERS)}; there are {names}"
            )
    needed = [*(["question"] if "question" in roles else []), *(["options"] if kind == "choice" else [])]
    for name in needed:
        if name not in given:
            raise SourceError(f"{where}: the text lacks {{{name}}}, so that no model would see it; there are {names}")


def without_letters(options: Sequence[str]) -> list[str]:
    """Return options without the letters that all of them carry in order, such as `A. cat` and `B. dog`."""
    pairs = zip(ascii_uppercase, options, strict=False)
    matches = [re.fullmatch(rf"\s*(?:\({letter}\)|{letter}[.):])\s+(\S.*)", text, re.DOTALL) for letter, text in pairs]
    plain = [match[1] for match in matches if match]
    return plain if len(plain) == len(options) else [*options]


def rotated(options: Sequence[str], turn: int) -> list[str]:
    """Return options turned by so many places: the first of them comes to the end."""
    return [*options[turn:], *options[:turn]]


def gold_letter(data: Mapping[str, Any], variant: str) -> str:
    """Return the letter of the right option in a rotation."""
    return ascii_uppercase[(int(data["gold"]) - int(variant or 0)) % len(data["options"])]


def settings(definition: TableDefinition) -> tuple[str, ...]:
    """Return the settings of a table's task."""
    return (
        DEFAULT,
        *((NO_IMAGE,) if definition.has_media else ()),
        *((CIRCULAR,) if definition.kind == "choice" else ()),
    )
