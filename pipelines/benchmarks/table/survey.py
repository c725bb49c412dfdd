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
from pipelines.benchmarks.table.columns import described, find_columns
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.conversations import Conversations, conversations_of
from pipelines.benchmarks.table.files import FileRow, TableFile, TableFiles, remarks
from pipelines.benchmarks.table.kinds import KIND_FACTS, check_headline, check_prompt, without_letters
from pipelines.benchmarks.table.left_over import check_left_over
from pipelines.benchmarks.table.media import is_empty
from pipelines.benchmarks.table.rows import (
    RowReader,
    answers_of,
    as_text,
    digits_of,
    equal_options,
    options_of,
    yes_or_no,
)
from pipelines.clean_text import counted
from pipelines.errors import SourceError

MAX_LABELS: Final = 100
_MOSTLY: Final = 0.9  # of digits that are the text of an option: the others are wrong
_NO_PLAIN_NUMBER = re.compile(r"(?![eE][-+]?\d)[^\W\d_]|[/\\_]")
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
    files: TableFiles
    split: str
    media_optional: bool
    warnings: tuple[str, ...] = ()

    def read(
        self, source: Source, _column_map: Mapping[str, str], /
    ) -> Iterator[RawSample | Rejection | SourceWarning]:
        """Yield the rows of the files."""
        yield from map(SourceWarning, self.warnings)
        count = 0
        for path in self.files.paths:
            split, optional = self.split, self.media_optional
            reader = RowReader(
                definition=self.definition, file=path, before=count, split=split, media_optional=optional
            )
            for where, row in TableFile(source, path, self.files.conversations).rows():
                count += 1
                if (item := reader.read(where, row)) is not None:
                    yield item


def survey(source: Source, files: TableFiles, *, name: str, kind: str, split: str, given: ColumnsFile) -> TableSource:
    """Return the source of a table with its definition; SourceError where it has none."""
    where = f"{source.uri}/{files.paths[0]}"
    columns = _columns(source, files)
    warnings = [remark for path in files.paths for remark in remarks(source, path)]
    if talk := conversations_of(columns, given, where):
        if earlier := _with_earlier_turns(source, files, talk):
            warnings.append(f"{counted(earlier, 'row')} of several exchanges: the earlier turns are in the question")
        files = replace(files, conversations=talk)
        columns = [*dict.fromkeys((*columns, *_columns(source, files)))]
        columns.remove(talk.column)
    roles = find_columns([name for name in columns if name not in given.ignore], given.columns, where)
    if "answer" not in roles:
        raise SourceError(
            f"{where}: no column of answers (answer, answers, label, target, gold); it has the columns "
            f"{described(columns)}; name it in a columns file (`answer: COLUMN`, --columns FILE.yaml)"
        )
    check_left_over(_rows(source, files), roles, given, where)
    answers = _answers(source, files, roles)
    chosen = _kind(kind or given.texts.get("kind", ""), roles, answers, where, columns)
    _check_roles(chosen, roles, given, where, columns)
    labels = tuple(sorted(answers.labels.values())) if chosen == "label" else ()
    if len(labels) > MAX_LABELS:
        raise SourceError(f"{where}: more than {MAX_LABELS} different labels; that is no closed set: --kind text")
    texts = {key: given.texts[key] for key in ("title", "citation", "headline", "prompt") if key in given.texts}
    first_index, index_warnings = _first_index(answers) if chosen == "choice" else (0, [])
    warnings += index_warnings
    if chosen == "choice" and answers.equal_options and not given.reject_equal_options:
        columns_of_options = ", ".join(roles["options"])
        raise SourceError(
            f"{where}: {len(answers.equal_options):,} of {answers.rows:,} rows have two equal options in "
            f"{columns_of_options} ({answers.equal_options[0]}); correct the table, or reject these rows in a columns "
            "file (`reject_equal_options: true`, --columns FILE.yaml)"
        )
    if chosen == "label" and answers.respelled:
        pairs = [f"{first!r} and {other!r}" for other, first in answers.respelled.items()]
        warnings.append(f"labels that differ by case, hyphens, quotes or stops alone count as one: {described(pairs)}")
    if not (kind or "kind" in given.texts) and chosen != "choice":
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
        **texts,
    )
    in_rows = split if split and "split" in roles and not files.split else ""
    if split and not in_rows and not files.split:
        raise SourceError(f"--split {split}: {where} has no column split; it has the columns {described(columns)}")
    if in_rows and in_rows not in (names := _splits(source, files, roles["split"][0])):
        raise SourceError(f"--split {split}: {where} has the splits {described(sorted(names))}")
    return TableSource(
        definition=definition, files=files, split=in_rows, media_optional=given.media_optional, warnings=tuple(warnings)
    )


def _rows(source: Source, files: TableFiles, columns: Sequence[str] = ()) -> Iterator[FileRow]:
    for path in files.paths:
        yield from TableFile(source, path, files.conversations).rows(columns)


def _with_earlier_turns(source: Source, files: TableFiles, talk: Conversations) -> int:
    count = 0
    for _, row in _rows(source, files, (talk.column,)):
        with suppress(ValueError):  # a damaged row is rejected when it is read
            count += not isinstance(row, ValueError) and talk.has_earlier_turns(row)
    return count


def _columns(source: Source, files: TableFiles) -> list[str]:
    detected: dict[str, None] = {}
    problem = ""
    talk = files.conversations
    for where, row in _rows(source, files, (talk.column,) if talk else ()):
        if isinstance(row, ValueError):
            problem = problem or f"{where}: {row}"
        else:
            problem = problem or ("" if row else f"{where}: no fields")
            detected.update(dict.fromkeys(row))
            if not talk and not files.paths[0].lower().endswith((".json", ".jsonl")):  # there each row names its own
                break
    if not detected:
        raise SourceError(f"{source.uri}/{files.paths[0]}: no row could be read; {problem or 'it holds none'}")
    return list(detected)


def _answers(source: Source, files: TableFiles, roles: Mapping[str, tuple[str, ...]]) -> _Answers:
    answers, (column,), options = _Answers(), roles["answer"], roles.get("options", ())
    for place, row in _rows(source, files, (column, *options)):
        if isinstance(row, ValueError) or is_empty(row.get(column)):
            continue
        answers.add(row[column])
        if options:
            try:
                answers.add_index(row[column], without_letters(options_of(row, options)), place)
            except ValueError:
                continue
    return answers


def _splits(source: Source, files: TableFiles, column: str) -> set[str]:
    names: set[str] = set()
    for _, row in _rows(source, files, (column,)):
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


def _kind(given: str, roles: Mapping[str, Any], answers: _Answers, where: str, columns: Sequence[str]) -> Kind:
    if given:
        return next(kind for kind in KINDS if kind == given)
    if "options" in roles:
        return "choice"
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
    return detected


def _check_roles(
    kind: Kind, roles: Mapping[str, tuple[str, ...]], given: ColumnsFile, where: str, columns: Sequence[str]
) -> None:
    prompt = given.texts.get("prompt", "")
    if KIND_FACTS[kind].needs_options and "options" not in roles:
        raise SourceError(
            f"{where}: kind {kind} needs options, columns A, B, ... or options; it has the columns {described(columns)}"
        )
    if "question" not in roles and not prompt:
        raise SourceError(
            f"{where}: no column of questions (question, prompt, text, query); it has {described(columns)}; name "
            "it in a columns file, or give there the `prompt` that all rows share"
        )
    check_headline(given.texts.get("headline", ""), kind, "columns file: headline")
    if prompt:
        check_prompt(prompt, kind, tuple(roles), "columns file: prompt")
