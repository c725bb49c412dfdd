"""Table benchmarks: their definitions as data, and those that this process has read from data sets and outputs.

A table benchmark has no code. Its `TableDefinition` is stored with its data and with every plan of it; a process that
reads either makes it known here, so that its name works like that of any other benchmark. An entry of an output is read
with the definition of its plan, whatever the name stands for here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from pipelines.benchmarks.records import PublishedValue
from pipelines.errors import UsageError

Kind: TypeAlias = Literal["choice", "yes-no", "label", "text", "number", "open", "box", "point", "generate"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
DEFAULT_TOLERANCE: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What a table benchmark is: stored as JSON, so all fields are texts, numbers, and lists of them."""

    name: str
    kind: Kind
    title: str = ""
    citation: str = ""
    headline: str = ""  # '': that of the kind
    prompt: str = ""  # the user's own wording; '': that of the kind
    max_new_tokens: int = 0  # 0: those of the kind
    tolerance: float = DEFAULT_TOLERANCE  # of numbers, relative
    labels: tuple[str, ...] = ()  # the closed set of `label`
    first_index: int | None = 0  # of answers that are indices of options; None: digits are the text of an option
    has_media: bool = False
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # our name -> those of the source
    published: tuple[PublishedValue, ...] = ()
    further_kinds: tuple[Kind, ...] = ()  # of a table that mixes kinds, besides `kind`
    prompts: Mapping[str, str] = field(default_factory=dict)  # by kind, or by the key in a row's data; `prompt` is one
    scorers: Mapping[str, str] = field(default_factory=dict)  # kind -> name of its scorer
    letters: str = ""  # of options that the question holds
    fields: tuple[str, ...] = ()  # columns whose values prompts show
    groups: tuple[str, ...] = ()  # metrics of rows that are right together
    by: tuple[str, ...] = ()  # further groupings
    macro_over: str = ""  # the grouping over which `official_score_macro` is a mean
    macro_of: str = "official_score"  # the metric that it is a mean of
    frames: int = 0  # of a clip; 0: by `fps`, else the default
    fps: float = 0.0  # frames a second of a clip; 0: none
    has_subtitles: bool = False
    judge_prompt: str = ""
    judge_scale: tuple[str, ...] = ()
    coordinates: str = "0-1"  # of boxes in replies
    note: str = ""  # how to read its numbers, for the report
    extract: str = ""  # what of a reply is scored; `braces`: the last text in braces

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of its rows, each a task."""
        return self.kind, *self.further_kinds

    def identity(self) -> dict[str, Any]:
        """Return what the fingerprint of its data contains: fields of later versions only if they are set."""
        plain = {each.name: each for each in fields(self)}
        later = [*plain][[*plain].index("further_kinds") :]
        default = asdict(TableDefinition(name=self.name, kind=self.kind))
        return {name: value for name, value in asdict(self).items() if name not in later or value != default[name]}

    @property
    def described_columns(self) -> str:
        """Which column of the source is read as what, for a message."""
        return ", ".join(f"{role} from {' '.join(names)}" for role, names in self.columns.items())

    def differences(self, other: Self) -> list[str]:
        """Return in which fields two definitions differ that must agree where both stand in one table."""
        return [name for name in _SHARED_FIELDS if getattr(self, name) != getattr(other, name)]


_KNOWN: Final[dict[str, TableDefinition]] = {}


_SHARED_FIELDS: Final = ("kind", "further_kinds", "scorers", "headline", "published")
"""What two definitions of a name must share to stand in one table: its columns, its main column and its other rows."""


def add_table(definition: TableDefinition) -> None:
    """Make a table benchmark known to this process, unless its name stands for another one already."""
    _KNOWN.setdefault(definition.name, definition)


def use_tables(definitions: Iterable[tuple[str, TableDefinition]]) -> None:
    """Let names stand for these definitions from now on, each with the place where it is; of one name the last.

    Raises UsageError where two definitions of a name have other metrics.
    """
    chosen: dict[str, tuple[str, TableDefinition]] = {}
    for place, definition in definitions:
        first_place, first = chosen.get(definition.name, (place, definition))
        if differing := first.differences(definition):
            raise UsageError(
                f"{definition.name} in {first_place} and {definition.name} in {place} are different table benchmarks "
                f"({', '.join(differing)}); read them one at a time, or ingest one of them --as another name"
            )
        chosen[definition.name] = (place, definition)
    _KNOWN.update({name: definition for name, (_, definition) in chosen.items()})


def known_tables() -> Mapping[str, TableDefinition]:
    """Return the table benchmarks that this process knows, by name."""
    return dict(sorted(_KNOWN.items()))
