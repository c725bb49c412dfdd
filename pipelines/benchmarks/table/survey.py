"""What a table as a whole must tell before its rows are read: columns, kind, labels, how indices count."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipelines.benchmarks.known_tables import KINDS, Kind, TableDefinition
from pipelines.benchmarks.readers.amounts import parse_number
from pipelines.benchmarks.readers.short_answers import spelled
from pipelines.benchmarks.records import RawSample, Rejection, Source, SourceWarning
from pipelines.benchmarks.scorers import JUDGE, SCORERS
from pipelines.benchmarks.table.columns import described, find_columns
from pipelines.benchmarks.table.columns_file import ByValue, ColumnsFile
from pipelines.benchmarks.table.conversations import Conversations, conversations_of
from pipelines.benchmarks.table.files import TableFiles, remarks
from pipelines.benchmarks.table.kinds import (
    JUDGED,
    KIND_FACTS,
    PLACEHOLDERS,
    check_headline,
    check_prompt,
    without_letters,
)
from pipelines.benchmarks.table.left_over import check_left_over, media_stems
from pipelines.benchmarks.table.media import is_empty
from pipelines.benchmarks.table.rows import (
    RowReader,
    answers_of,
    digits_of,
    equal_options,
    options_of,
    value_of,
    yes_or_no,
)
from pipelines.benchmarks.table.shape import TableRows
from pipelines.benchmarks.table.templates import as_text, is_derived, sources
from pipelines.clean_text import counted
from pipelines.errors import LayoutError, SourceError

MAX_LABELS: Final = 100
_MOSTLY: Final = 0.9  # of digits that are the text of an option: the others are wrong
_NO_PLAIN_NUMBER = re.compile(r"(?![eE][-+]?\d)[^\W\d_]|[/\\_]")
_MAX_EQUAL: Final = 0.02  # of the rows have equal options; with more something is wrong with all
_SHORT_WORDS, _SHORT_CHARS = 10, 100  # of a short free text


@dataclass(slots=True)
class _Answers:
    """Counts of the answers of a table."""

    rows: int = 0
    yes_no: int = 0
    numbers: int = 0
    short: int = 0
    longest: int = 0  # words
    labels: dict[str, str] = field(default_factory=dict)  # form -> text as first spelled
    respelled: dict[str, str] = field(default_factory=dict)  # other spellings of a label -> the first one
    indices: Counter[str] = field(default_factory=Counter)  # of choices: `zero`, `count`, `other`
    option_texts: int = 0  # of these digits, those that are the text of an option too
    in_range: int = 0  # of these digits, those that may be an index
    equal_options: list[str] = field(default_factory=list)  # rows of choices, each with its place

    def add(self, cell: Any) -> None:
        """Count the answer of one row."""
        try:
            answers = answers_of(cell)
        except ValueError:  # its row is rejected when it is read
            return
        if not answers or isinstance(answers[0], dict | list):
            return
        self.rows += 1
        try:
            texts = [as_text(answer, "answer") for answer in answers]
        except ValueError:
            return
        words = max(len(text.split()) for text in texts)
        self.yes_no += all(
            yes_or_no(answer) and text not in ("0", "1") for answer, text in zip(answers, texts, strict=True)
        )
        self.numbers += len(answers) == 1 and _is_number(answers[0])
        self.short += words <= _SHORT_WORDS and max(map(len, texts)) <= _SHORT_CHARS
        self.longest = max(self.longest, words)
        if len(self.labels) <= MAX_LABELS:
            first = self.labels.setdefault(spelled(texts[0]), texts[0])
            if first != texts[0]:
                self.respelled[texts[0]] = first

    def add_index(self, cell: Any, options: Sequence[str], where: str) -> None:
        """Count digits, which are an index of an option or its text, and rows with equal options."""
        if problem := equal_options(options):
            self.equal_options.append(f"{where}: {problem}")
        references = answers_of(cell)
        if digits := digits_of(references[0]) if len(references) == 1 else "":
            number = int(digits)
            self.indices["zero" if number == 0 else "count" if number == len(options) else "other"] += 1
            self.option_texts += digits in options
            self.in_range += number <= len(options)


def _is_number(value: Any) -> bool:
    """Return whether an answer is plainly a number: with words, units or a fraction it is one if `--kind` says so."""
    if isinstance(value, str) and _NO_PLAIN_NUMBER.search(value):
        return False
    try:
        parse_number(value)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A table that was surveyed: its definition, and its rows as samples."""

    definition: TableDefinition
    table: TableRows
    split: str
    media_optional: bool
    warnings: tuple[str, ...] = ()

    def read(
        self, source: Source, _column_map: Mapping[str, str], /
    ) -> Iterator[RawSample | Rejection | SourceWarning]:
        """Yield the rows of the files."""
        yield from map(SourceWarning, self.warnings)
        reader = None
        for count, (path, where, row) in enumerate(self.table.rows()):
            if reader is None or reader.file != path:
                reader = RowReader(
                    definition=self.definition,
                    given=self.table.given,
                    source=source,
                    file=path,
                    before=count,
                    split=self.split,
                    media_optional=self.media_optional,
                )
            if (item := reader.read(where, row)) is not None:
                yield item


def survey(source: Source, files: TableFiles, *, name: str, kind: str, split: str, given: ColumnsFile) -> TableSource:
    """Return the source of a table with its definition; SourceError where it has none."""
    where = f"{source.uri}/{files.paths[0]}"
    table = TableRows(source, files, given)
    columns = _columns(table)
    given = given.without_absent(columns)
    table = TableRows(source, files, given)
    _check_references(given, columns, where, name)
    warnings = [remark for path in files.paths for remark in remarks(source, path)]
    if talk := conversations_of(columns, given, where):
        if earlier := _with_earlier_turns(table, talk):
            warnings.append(f"{counted(earlier, 'row')} of several exchanges: the earlier turns are in the question")
        table = table.with_conversations(talk)
        columns = [*dict.fromkeys((*columns, *_columns(table)))]
        columns.remove(talk.column)
    roles = find_columns([name for name in columns if name not in given.ignore], given.columns, where, given.unmapped)
    if "answer" not in roles and "generate" not in (kind, given.kind):
        raise SourceError(
            f"{where}: no column of answers (answer, answers, label, target, gold); it has the columns "
            f"{described(columns)}; name it in a columns file (`answer: COLUMN`, --columns FILE.yaml)"
        )
    check_left_over(
        ((at, row) for _, at, row in table.rows()),
        roles,
        given,
        where,
        stems=() if "media" in roles else media_stems(source, columns),
        asks_boxes=(kind or given.kind) in ("box", "point"),
    )
    answers = _answers(table, roles)
    kinds = _kinds(kind, given, roles, answers, (where, columns))
    chosen = kinds[0]
    scorers = _scorers(kinds, given, where)
    fields = _check_roles(kinds, scorers, roles, given, (where, columns))
    labels = tuple(sorted(answers.labels.values())) if "label" in kinds else ()
    if len(labels) > MAX_LABELS:
        raise SourceError(f"{where}: more than {MAX_LABELS} different labels; that is no closed set: --kind text")
    prompts = given.prompt.values if isinstance(given.prompt, ByValue) else given.prompt
    is_counted = "choice" in kinds and given.first_index is None
    first_index, index_warnings = _first_index(answers) if is_counted else (given.first_index or 0, [])
    warnings += index_warnings
    is_wrong = len(answers.equal_options) > _MAX_EQUAL * answers.rows
    if "choice" in kinds and is_wrong and not given.reject_equal_options:
        columns_of_options = ", ".join(roles["options"])
        raise SourceError(
            f"{where}: {len(answers.equal_options):,} of {answers.rows:,} rows have two equal options in "
            f"{columns_of_options} ({answers.equal_options[0]}); correct the table, or say in a columns file which "
            "texts mean an empty cell (`missing: [nan]`), or that these rows are rejected "
            "(`reject_equal_options: true`, --columns FILE.yaml)"
        )
    if "label" in kinds and answers.respelled:
        pairs = [f"{first!r} and {other!r}" for other, first in answers.respelled.items()]
        warnings.append(f"labels that differ by case, hyphens, quotes or stops alone count as one: {described(pairs)}")
    if not (kind or given.kind) and chosen != "choice":
        counts = {"number": answers.numbers, "yes-no": answers.yes_no}
        warnings += [
            f"the kind is {chosen}, though {count:,} of {answers.rows:,} fit {name}; --kind {name} rejects the rest"
            for name, count in counts.items()
            if name != chosen and answers.rows / 2 < count < answers.rows
        ]
    definition = TableDefinition(
        name=name,
        kind=chosen,
        max_new_tokens=given.max_new_tokens,
        tolerance=given.tolerance,
        labels=labels,
        has_media="media" in roles,
        columns=roles,
        first_index=first_index,
        published=tuple(replace(row, task=row.task or chosen) for row in given.published),
        title=given.title,
        citation=given.citation,
        headline=given.headline,
        prompt=prompts if isinstance(prompts, str) else "",
        further_kinds=kinds[1:],
        prompts=prompts if isinstance(prompts, dict) else {},
        scorers=scorers,
        letters=given.letters,
        fields=fields,
        groups=tuple(group.name for group in given.groups),
        by=tuple(given.by),
        macro_over=given.macro.over if given.macro else "",
        macro_of=given.macro.of if given.macro else "official_score",
        frames=given.frames,
        fps=given.fps,
        has_subtitles="subtitles" in roles,
        judge_prompt=given.judge_prompt,
        judge_scale=given.judge_scale,
        coordinates=given.coordinates,
        extract=given.extract,
        note=given.note,
    )
    in_rows = split if split and "split" in roles and not files.split else ""
    if split and not in_rows and not files.split:
        raise SourceError(f"--split {split}: {where} has no column split; it has the columns {described(columns)}")
    if in_rows and in_rows not in (names := _splits(table, roles["split"][0])):
        raise SourceError(f"--split {split}: {where} has the splits {described(sorted(names))}")
    return TableSource(
        definition=definition, table=table, split=in_rows, media_optional=given.media_optional, warnings=tuple(warnings)
    )


def _check_references(given: ColumnsFile, columns: Sequence[str], where: str, name: str) -> None:
    """Raise SourceError for names of a definition that no column has; a single missing one is named with its key."""
    forms = {column.strip().casefold() for column in columns}
    missing = {
        part: key
        for key, references in given.references.items()
        for reference in references
        for part in sources(reference)
        if part.casefold() not in forms and not (is_derived(part) and part.partition(".")[0].casefold() in forms)
    }
    if not missing or (not given.layout and all(part in given.columns.get(key, ()) for part, key in missing.items())):
        return  # a column of the user's own is looked for by its form too
    if given.layout:
        raise LayoutError(
            f"{where}: not the data of {name}: no column {', '.join(missing)}; it has the columns "
            f"{described(columns)}. {name} is read as distributed: {given.layout}"
        )
    part, key = next(iter(missing.items()))
    raise SourceError(f"{where}: no column {part!r}, which {key} names; it has the columns {described(columns)}")


def _with_earlier_turns(table: TableRows, talk: Conversations) -> int:
    count = 0
    for _, _, row in table.rows((talk.column,)):
        with suppress(ValueError):  # a damaged row is rejected when it is read
            count += not isinstance(row, ValueError) and talk.has_earlier_turns(row)
    return count


def _columns(table: TableRows) -> list[str]:
    detected: dict[str, None] = {}
    problem, files, source = "", table.files, table.source
    talk = files.conversations
    for _, where, row in table.rows((talk.column,) if talk else ()):
        if isinstance(row, ValueError):
            problem = problem or f"{where}: {row}"
        else:
            problem = problem or ("" if row else f"{where}: no fields")
            detected.update(dict.fromkeys(row))
            if not talk and not files.paths[0].lower().endswith((".json", ".jsonl")):  # there each row names its own
                break
    if not detected:
        chosen = "; ".join(f"{name} is {' or '.join(values)}" for name, values in table.given.where.items())
        none = f"it holds none of which {chosen}" if chosen else "it holds none"
        raise SourceError(f"{source.uri}/{files.paths[0]}: no row could be read; {problem or none}")
    return list(detected)


def _answers(table: TableRows, roles: Mapping[str, tuple[str, ...]]) -> _Answers:
    answers, options, kinds = _Answers(), roles.get("options", ()), table.given.kind
    column = roles.get("answer", ("",))[0]
    by_kind = (kinds.column,) if isinstance(kinds, ByValue) else ()
    for _, place, row in table.rows((column, *options, *by_kind)) if column else ():
        if isinstance(row, ValueError) or is_empty(row.get(column)):
            continue
        kind = ""
        if isinstance(kinds, ByValue):
            try:
                kind = value_of(kinds, row)
            except ValueError:  # its row is rejected when it is read
                continue
        if kind == "label" or not isinstance(kinds, ByValue) or "label" not in kinds.values.values():
            answers.add(row[column])
        if options and kind in ("", "choice"):
            try:
                answers.add_index(row[column], without_letters(options_of(row, options)), place)
            except ValueError:
                continue
    return answers


def _splits(table: TableRows, column: str) -> set[str]:
    names: set[str] = set()
    for _, _, row in table.rows((column,)):
        if not isinstance(row, ValueError) and not is_empty(row.get(column)):
            with suppress(ValueError):  # a row whose split is no text is rejected when it is read
                names.add(as_text(row[column], "split"))
    return names


def _first_index(answers: _Answers) -> tuple[int | None, list[str]]:
    counts, total, texts = answers.indices, answers.indices.total(), answers.option_texts
    if texts > _MOSTLY * total:
        warning = f"digits of answers are read as texts of options, as {texts:,} of {total:,} are, not as indices"
        return None, [warning] if answers.in_range > _MOSTLY * total else []
    if counts["zero"] or not total:
        return 0, []
    first, warning = 0, "indices of options are taken to count from 0, though none is 0"
    if counts["count"]:
        first, warning = 1, "indices of options count from 1: none is 0, and some equal the number of options"
    return first, [warning + f"; {texts:,} of {total:,} are also the text of an option, and not read so" * (texts > 0)]


def _kinds(
    flag: str, given: ColumnsFile, roles: Mapping[str, Any], answers: _Answers, place: tuple[str, Sequence[str]]
) -> tuple[Kind, ...]:
    """Return the kinds of a table's rows: as given, else the one that its answers have."""
    if not flag and isinstance(given.kind, ByValue):
        return given.kinds
    if flag or given.kind:
        return tuple(kind for kind in KINDS if kind == (flag or given.kind))
    if "options" in roles or given.letters:
        return ("choice",)
    where, columns = place
    detected: Kind | None = None
    if answers.rows and answers.yes_no == answers.rows:
        detected = "yes-no"
    elif roles["answer"][0].strip().casefold() == "label" and not answers.numbers and len(answers.labels) <= MAX_LABELS:
        detected = "label"
    elif answers.rows and answers.numbers == answers.rows:
        detected = "number"
    elif answers.rows and answers.short == answers.rows:
        detected = "text"
    if detected is None:
        missing = f"answers have up to {answers.longest} words" if answers.rows else "no row has an answer"
        raise SourceError(
            f"{where}: the kind cannot be detected: {missing}, and there are no options; it has the columns "
            f"{described(columns)}; give --kind {', '.join(KIND_FACTS)}"
        )
    return (detected,)


def _scorers(kinds: Sequence[Kind], given: ColumnsFile, where: str) -> dict[str, str]:
    """Return the scorer of each kind that has one; SourceError for one that a kind cannot have."""
    usual = {"box": "iou", "point": "point"}
    scorers: dict[str, str] = {kind: scorer for kind in kinds if (scorer := given.scorer_of(kind) or usual.get(kind))}
    for kind, scorer in scorers.items():
        fitting = {"box": ("iou",), "point": ("point",), "open": (*SCORERS, JUDGE), "generate": ()}.get(kind)
        fitting = fitting if fitting is not None else tuple(name for name in SCORERS if name not in ("iou", "point"))
        if scorer not in fitting or (scorer == "letter" and kind != "choice"):
            raise SourceError(
                f"{where}: scorer {scorer} does not fit kind {kind}; its scorers are {', '.join(fitting) or 'none'}"
            )
    return scorers


def _check_roles(
    kinds: Sequence[Kind],
    scorers: Mapping[str, str],
    roles: Mapping[str, tuple[str, ...]],
    given: ColumnsFile,
    place: tuple[str, Sequence[str]],
) -> tuple[str, ...]:
    """Return the columns that prompts show; SourceError if a kind lacks a column, or a prompt names none."""
    where, columns = place
    for kind in kinds:
        if KIND_FACTS[kind].needs_options and "options" not in roles and not given.letters:
            raise SourceError(
                f"{where}: kind {kind} needs options, columns A, B, ... or options, or `letters: ABCD` if the question "
                f"holds them; it has the columns {described(columns)}"
            )
        check_headline(given.headline, kind, "columns file: headline", scorers)
    if "turns" in roles and {*kinds} - {"text", "number", "yes-no", "label", "open", "generate"}:
        raise SourceError(
            f"{where}: turns have the kinds text, number, yes-no, label, open and generate, not {kinds[0]}"
        )
    if not {"question", "turns"} & roles.keys() and not given.prompt:
        raise SourceError(
            f"{where}: no column of questions (question, prompt, text, query); it has {described(columns)}; name "
            "it in a columns file, or give there the `prompt` that all rows share"
        )
    prompt = given.prompt.values if isinstance(given.prompt, ByValue) else given.prompt
    texts = prompt if isinstance(prompt, dict) else {"": prompt} if prompt else {}
    shown = [name for name in columns if name not in roles.get("answer", ()) or name in roles.get("question", ())]
    for key, text in texts.items():
        named = [kind for kind in kinds if kind == key] or [*kinds]
        shows_options = named == ["choice"] and not given.letters and not given.layout
        needed = [
            *(["question"] if {"question", "turns"} & roles.keys() else []),
            *(["options"] if shows_options else []),
        ]
        check_prompt(text, needed, shown, "columns file: prompt")
    if given.judge_prompt:
        check_prompt(given.judge_prompt, ["reply"], (*columns, *JUDGED), "columns file: judge_prompt")
    return tuple(name for name in given.prompt_names if name in columns and name not in (*PLACEHOLDERS, *JUDGED))
