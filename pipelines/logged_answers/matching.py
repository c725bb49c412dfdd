"""Match logged answers to requests of ingested benchmarks: by id where the question agrees, else by the question."""

import csv
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, Self, TypeAlias

from models.messages import Text
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import REPEAT, Rejection, Sample, is_person
from pipelines.benchmarks.table.kinds import CIRCULAR, rotated, without_letters
from pipelines.errors import DatasetError
from pipelines.ingest.dataset import Dataset
from pipelines.logged_answers.readers import Logged, LoggedAnswer
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import selected_groups
from pipelines.plan.stored_plan import PlanRow
from pipelines.schemas import without_surrogates
from pipelines.storage.store import Store

_FILE: Final = files("pipelines.logged_answers") / "readers.csv"
READERS: Final = {row["rule"]: row["reader"] for row in csv.DictReader(_FILE.read_text("utf-8").splitlines())}
"""How a reader takes an answer, by tool and name. What is not here is the user's own task."""
_FAMILIES: Final = (
    ("lm-eval:", "compares what the task's filter takes from the reply"),
    ("", "the task's own reader"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVerdict:
    """What a reader took from an output, and its verdict."""

    correct: float | None
    answer: str | None = None
    rule: str = ""


def difference(ours: ReadVerdict, logged: ReadVerdict) -> str | None:
    """Return how another tool's verdict differs from ours, as a rule; None where they agree, or one has none."""
    if ours.correct is None or logged.correct is None or ours.correct == logged.correct:
        return None
    if 0.0 < logged.correct < 1.0:
        return "its verdict is partial"
    if logged.correct > ours.correct:
        if ours.answer is None:
            return f"it takes an answer where we read none ({ours.rule})"
        return "it reads another answer" if _differs(ours, logged) else "it accepts what we count as another answer"
    if not logged.answer:
        return f"it reads no answer where we do ({ours.rule})"
    return "it reads another answer" if _differs(ours, logged) else "it refuses what we count as the same answer"


def _differs(ours: ReadVerdict, logged: ReadVerdict) -> bool:
    """Return whether two readings differ, regardless of case."""
    return (ours.answer or "").casefold().strip() != (logged.answer or "").casefold().strip()


def reader(rule: str) -> str:
    """Return how the reader of a rule takes an answer."""
    if rule in READERS:
        return READERS[rule]
    return next(text for prefix, text in _FAMILIES if rule.startswith(prefix))


_MAX_READ: Final = 2_000  # characters of what their reader took
_MAX_LINES: Final = 200  # of a prompt, in which the question is looked for
_MEDIUM: Final = re.compile(r"<(?:image|video)[^<>]{0,80}>")  # the place of a picture or clip in a prompt
_LEAD: Final = re.compile(r"\A(?:question|q) ")  # before a question in its line
_BY_ID, _BY_TEXT, _BY_POSITION = 0, 1, 2
Groups: TypeAlias = dict[tuple[str, str], list[tuple[int, dict[str, Any]]]]
"""Rows of a predictions file with their numbers, by benchmark and model."""


@dataclass(frozen=True, slots=True)
class _Match:
    """A request that an answer fits."""

    rank: int  # how it was matched; the least wins
    benchmark: str
    row: PlanRow


@dataclass(slots=True)
class _Logs:
    """Answers by what they may be matched by."""

    answers: list[LoggedAnswer]
    by_id: dict[str, list[int]] = field(default_factory=dict)
    by_position: dict[str, list[int]] = field(default_factory=dict)
    by_text: dict[str, list[int]] = field(default_factory=dict)
    matches: dict[int, list[_Match]] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)  # why a question that was recognised does not fit

    @classmethod
    def of(cls, answers: list[LoggedAnswer]) -> Self:
        logs = cls(answers)
        for number, answer in enumerate(answers):
            for name in answer.ids:
                logs.by_id.setdefault(name, []).append(number)
            if answer.position:
                logs.by_position.setdefault(answer.position, []).append(number)
            lines = answer.prompt.splitlines()[:_MAX_LINES]
            keys = {words(text) for text in (answer.question, answer.prompt, *lines)}
            for key in {*keys, *(_LEAD.sub("", key) for key in keys)} - {""}:
                logs.by_text.setdefault(key, []).append(number)
        return logs

    def candidates(self, sample: Sample, texts: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield the answers that may be to a sample, each once with how it is matched."""
        seen: set[int] = set()
        by_texts = [number for text in texts for number in self.by_text.get(text, ())]
        by_position = self.by_position.get(sample.sample_id, ())
        for rank, numbers in (
            (_BY_ID, self.by_id.get(sample.sample_id, ())),
            (_BY_TEXT, by_texts),
            (_BY_POSITION, by_position),
        ):
            for number in numbers:
                if number not in seen:
                    seen.add(number)
                    yield rank, number


def words(text: str) -> str:
    """Return a text for comparison: letters and digits in lower case, one space between words."""
    normal = unicodedata.normalize("NFKC", _MEDIUM.sub(" ", text)).casefold()
    return " ".join("".join(sign if sign.isalnum() else " " for sign in normal).split())


def match_logs(spec: RunSpec, logged: Sequence[Logged]) -> tuple[list[Rejection], Groups]:
    """Return the answers as rows of a predictions file, by benchmark and model, and those that cannot be used."""
    rejections = [record for record in logged if isinstance(record, Rejection)]
    logs = _Logs.of([record for record in logged if isinstance(record, LoggedAnswer)])
    names = [name for name in spec.benchmarks if _match_benchmark(spec, name, logs)]
    groups: Groups = {}
    for number, answer in enumerate(logs.answers):
        matches = logs.matches.get(number, [])
        least = min((match.rank for match in matches), default=0)
        best = [match for match in matches if match.rank == least]
        problem = _name_problem(answer) or _problem(best, logs.problems.get(number, ""), names)
        if problem:
            item = " ".join(filter(None, (answer.line, *answer.ids[:1])))
            rejections.append(Rejection(file=answer.file, item=item, reason=problem))
        else:
            row = _row(answer, best[0])
            groups.setdefault((row["benchmark"], row["model"]), []).append((number + 1, row))
    return rejections, groups


def _name_problem(answer: LoggedAnswer) -> str:
    if not answer.model:
        return "the log names no model"
    if is_person(answer.model) or answer.model.encode("utf-8", "replace").decode() != answer.model:
        return "its model has a name that no model may have"
    return ""


def _problem(best: Sequence[_Match], problem: str, names: Sequence[str]) -> str:
    if not best:
        return problem or f"matches no question of {', '.join(names) or 'any ingested benchmark'}, by id or by text"
    others = sorted({match.benchmark for match in best})
    if len(others) > 1:
        return f"fits questions of {' and '.join(others)}; --benchmarks decides"
    if len(best) > 1:
        fits = sorted({f"{match.row.task}/{match.row.setting}" for match in best})
        return f"fits {len(best)} requests of {others[0]} ({', '.join(fits[:4])}); --tasks and --settings decide"
    return ""


def _row(answer: LoggedAnswer, match: _Match) -> dict[str, Any]:
    row = match.row
    return {
        "benchmark": match.benchmark,
        "model": answer.model,
        "task": row.task,
        "setting": row.setting,
        "sample_id": row.sample_id,
        "variant": row.variant,
        "output": answer.output,
        "status": "excluded" if answer.excluded else None,
        "error": answer.excluded,
        "file": answer.file,
        "prompt": answer.prompt,
        "their_correct": answer.their_correct,
        "their_answer": None if answer.their_answer is None else without_surrogates(answer.their_answer[:_MAX_READ]),
        "their_rule": without_surrogates(answer.their_rule[:_MAX_READ]),
    }


def _match_benchmark(spec: RunSpec, name: str, logs: _Logs) -> bool:
    """Add the matches in one benchmark; return whether it is ingested."""
    try:
        dataset = Dataset.open(Store(spec.data), name)
    except DatasetError:
        return False
    groups = tuple(selected_groups(benchmark(name), spec.tasks, spec.settings))
    prompts = PromptPlan(
        benchmark_name=name,
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        task_settings=groups,
        seed=spec.seed,
    )
    in_prompts: bool | None = None  # whether the question stands in every prompt, so that it is enough
    for sample in dataset.samples():
        question = words(_text(sample.data.get("question")))
        first_line = words(_text(sample.data.get("question")).strip().partition("\n")[0])
        rows = [] if in_prompts else [*prompts.rows(sample)]
        texts = [words(prompt_text(row)) for row in rows]
        if in_prompts is None:
            in_prompts = bool(question) and all(f" {question} " in f" {text} " for text in texts)
        candidates = [*logs.candidates(sample, [question, first_line, *texts])]
        if candidates and not rows:
            rows = [*prompts.rows(sample)]
        for rank, number in candidates:
            _add(logs, number, rank, _Sample(name, sample, question if in_prompts else "", rows))
    return True


@dataclass(frozen=True, slots=True)
class _Sample:
    """A sample with its requests."""

    benchmark: str
    sample: Sample
    question: str  # its words; '' where not every request asks it
    rows: Sequence[PlanRow]

    @property
    def options(self) -> list[str]:
        """The words of its options."""
        options = self.sample.data.get("options")
        return _words_of(list(map(str, options))) if isinstance(options, list) else []


def _words_of(options: Sequence[str]) -> list[str]:
    """Return the words of options; letters of their own are none."""
    return [words(option) for option in without_letters(options)]


def _add(logs: _Logs, number: int, rank: int, sample: _Sample) -> None:
    """Add the requests of a sample that an answer fits, or why it fits none."""
    answer = logs.answers[number]
    group = (answer.group or {}).items()
    rows = [row for row in sample.rows if all(getattr(row, name) == value for name, value in group)]
    problem = _difference(answer, sample, is_named=rank == _BY_ID)
    if problem is None and not rows:
        is_repeat = REPEAT in dict(group).get("variant", "")
        problem = "a repeated answer; the first counts" if is_repeat else "is of a task or setting that is not selected"
    elif problem is None and not (rows := _in_order(rows, answer, sample)):
        problem = "its options stand in another order than ours, so that a letter means another one"
    if problem is not None:
        logs.problems[number] = logs.problems.get(number) or problem
        return
    prompt = words(answer.prompt)
    same_prompt = [row for row in rows if prompt and words(prompt_text(row)) == prompt]
    matches = logs.matches.setdefault(number, [])
    matches += [_Match(rank, sample.benchmark, row) for row in same_prompt or rows]


def _difference(answer: LoggedAnswer, sample: _Sample, *, is_named: bool) -> str | None:
    """Return in what an answer's question differs from a sample's, '' where it is simply another; None for the same."""
    question, prompt = words(answer.question), words(answer.prompt)
    if not question and not prompt and not is_named:
        return "has no question, and its number alone names none"
    if sample.question and (question or prompt) and f" {sample.question} " not in f" {question}  {prompt} ":
        return "has the id of a question with other words" if is_named else ""
    ours, logged = sample.options, _words_of(answer.options)
    if ours and logged and sorted(ours) != sorted(logged):
        return "its options are others than ours"
    if not logged and prompt and not all(f" {option} " in f" {prompt} " for option in ours if option):
        return "its options are others than ours"
    return None


def _in_order(rows: list[PlanRow], answer: LoggedAnswer, sample: _Sample) -> list[PlanRow]:
    """Return the requests in which the options stand as in the log; all where it does not say how they stood."""
    ours, logged = sample.options, _words_of(answer.options)
    if not ours or not logged:
        return rows
    turns = [turn for turn in range(len(ours)) if rotated(ours, turn) == logged]
    return [row for row in rows if (int(row.variant or 0) if row.setting == CIRCULAR else 0) in turns]


def prompt_text(row: PlanRow) -> str:
    """Return the text of a request's last step."""
    steps = row.steps
    parts = [part for turn in steps[-1].turns for part in turn.parts] if steps else []
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
