"""The kinds of table benchmarks as data: what is asked, how an answer is read, and which metric stands first."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any, Final

from models.errors import suggest
from pipelines.benchmarks.known_tables import KINDS, Kind, TableDefinition
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.table.templates import column_names, is_plain_name
from pipelines.errors import SourceError

DEFAULT, NO_IMAGE, CIRCULAR = "default", "no-image", "circular"
SUBTITLES: Final = "subtitles"
PLACEHOLDERS: Final = ("question", "Question", "options", "hint", "labels", SUBTITLES)
JUDGED: Final = ("reply", "answer", "answers")  # placeholders of a judge's prompt besides `question` and columns
OFFICIAL: Final = "official_score"
JUDGE_PROMPT: Final = "table-judge-v1"


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
SCORER_MEASURES: Final[Mapping[str, str]] = _WORDS["scorers"]
JUDGE_TEXT: Final[str] = _WORDS["judge"]
SUBTITLES_TEXT: Final[str] = _WORDS["subtitles"]
CORPUS_METRICS: Final = (
    "precision",
    "recall",
    "f1",
    "bleu",
    "accuracy_macro",
    f"{OFFICIAL}_macro",
)  # those that are no mean over rows


def check_headline(name: str, kind: Kind, where: str, scorers: Mapping[str, str]) -> None:
    """Raise SourceError for a headline that is no metric of a kind; '' is that of the kind."""
    facts = KIND_FACTS[kind]
    official = (OFFICIAL, f"{OFFICIAL}_macro") if kind in scorers else ()
    metrics = (*official, facts.headline, *facts.secondary, *facts.further)
    if name and name not in metrics:
        raise SourceError(f"{where}: kind {kind} has no metric {name!r}; it has {', '.join(metrics)}")


def turn_sample(sample: Sample, variant: str) -> Sample:
    """Return a sample with the question and answer of one of its turns; itself if it has none."""
    turns = sample.data.get("turns")
    if not turns:
        return sample
    return replace(sample, data={**sample.data, **turns[int(variant or 0)]})


def row_kind(definition: TableDefinition, sample: Sample) -> Kind:
    """Return the kind of a row."""
    kind: Kind = sample.data.get("kind", definition.kind)
    return kind


def headline(definition: TableDefinition) -> str:
    """Return the metric that stands for a table: as defined, else the official score, else that of its kind."""
    if definition.headline:
        return definition.headline
    return OFFICIAL if definition.kind in definition.scorers else KIND_FACTS[definition.kind].headline


def prompt_version(definition: TableDefinition, kind: Kind | None = None, key: str = "") -> str:
    """Return the version name of a prompt; the user's own wording has a name that changes with its words."""
    kind = kind or definition.kind
    own = definition.prompt or definition.prompts.get(key) or definition.prompts.get(kind)
    if own:
        return f"table-{kind}-own-{hashlib.sha256(own.encode()).hexdigest()[:8]}"
    return f"table-{kind}-letters-v1" if kind == "choice" and definition.letters else f"table-{kind}-v1"


def judge_version(definition: TableDefinition) -> str:
    """Return the version name of the judge's prompt."""
    own = definition.judge_prompt
    return f"table-judge-own-{hashlib.sha256(own.encode()).hexdigest()[:8]}" if own else JUDGE_PROMPT


def prompt_texts(definition: TableDefinition) -> dict[str, str]:
    """Return the wording of a table's prompts by version."""
    texts = {}
    for kind in definition.kinds:
        for key in ("", *definition.prompts):
            text = definition.prompt or definition.prompts.get(key) or definition.prompts.get(kind)
            usual = KIND_FACTS[kind].text
            usual = usual.replace("{options}\n", "") if definition.letters else usual
            texts[prompt_version(definition, kind, key)] = text or usual
    judged = {judge_version(definition): definition.judge_prompt or JUDGE_TEXT}
    return {**texts, **judged} if "open" in definition.kinds else texts


def check_prompt(text: str, needed: Sequence[str], columns: Sequence[str], where: str) -> None:
    """Raise SourceError for a user's wording with a placeholder that is unknown, or without one that it needs."""
    given = column_names(text)
    names = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    for name in given:
        if name not in (*PLACEHOLDERS, *columns) and is_plain_name(name):
            raise SourceError(
                f"{where}: unknown placeholder {{{name}}}{suggest(name, (*PLACEHOLDERS, *columns))}; there are {names} "
                "and the columns of the source"
            )
    for name in needed:
        if name not in given and name.capitalize() not in given:
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


def settings(definition: TableDefinition, kind: Kind | None = None) -> tuple[str, ...]:
    """Return the settings of a table's task."""
    kind = kind or definition.kind
    own = definition.prompt or definition.prompts.get(kind)
    turns = kind == "choice" and not definition.letters and (not own or "{options" in own)
    return (
        DEFAULT,
        *((NO_IMAGE,) if definition.has_media else ()),
        *((CIRCULAR,) if turns else ()),
        *((SUBTITLES,) if definition.has_subtitles else ()),
    )
