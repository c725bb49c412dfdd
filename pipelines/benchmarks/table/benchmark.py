"""A table benchmark made from its definition: prompts, answers and the judge, for every kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Final

from models.messages import Generation, Media, Step, blank, user
from pipelines.benchmarks.base import BenchmarkDefinition, Judge, PromptInput, SourceItem, lazy
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.readers.harnesses import YES_NO
from pipelines.benchmarks.records import (
    JudgeRequest,
    Prompt,
    Row,
    Sample,
    Source,
)
from pipelines.benchmarks.table.answers import read_answer, read_verdict
from pipelines.benchmarks.table.kinds import (
    CIRCULAR,
    CORPUS_METRICS,
    JUDGE_PROMPT,
    KIND_FACTS,
    NO_IMAGE,
    gold_letter,
    prompt_texts,
    prompt_version,
    rotated,
    settings,
)
from pipelines.errors import SourceError

WHITE: Final = blank("FFFFFF", 336, 336)
FRAMES: Final = 32  # of a clip; the model's own limit may be lower
_NO_MEDIA: Final = "no_media"


class _Table:
    """Source and prompts of one table benchmark, and the right answers and options of its rows."""

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition
        self._version = prompt_version(definition)
        tokens = definition.max_new_tokens or KIND_FACTS[definition.kind].max_new_tokens
        self._generation = Generation(max_new_tokens=tokens)

    def source(self, source: Source, _column_map: Mapping[str, str], /) -> Iterator[SourceItem]:
        """Refuse: the file of a table is read with its own definition, by `ingest table`."""
        name = self._definition.name
        raise SourceError(f"{name} is a table benchmark: use `vlmsweep ingest table {source.uri} --as {name}`")

    def prompts(self, query: PromptInput, /) -> Iterator[Prompt]:
        """Yield the request of a row, the media first; one for each rotation of the options where they turn."""
        sample, version = query.sample, query.texts.version(self._version)
        if query.setting == NO_IMAGE and not sample.media:
            yield Prompt(version=version, excluded=_NO_MEDIA)
            return
        media = [WHITE] if query.setting == NO_IMAGE else [_medium(sample, place) for place in range(len(sample.media))]
        options: Sequence[str] = sample.data.get("options", ())
        turns = range(len(options)) if query.setting == CIRCULAR else range(1)
        for turn in turns:
            text = self._text(sample, rotated(options, turn), query.texts)
            step = Step(turns=(user(*media, text),), generation=self._generation, choices=self._choices(len(options)))
            yield Prompt(variant=str(turn) if query.setting == CIRCULAR else "", version=version, steps=(step,))

    def _text(self, sample: Sample, options: Sequence[str], texts: PromptTexts) -> str:
        hint = sample.data.get("hint", "")
        return texts.fill(
            self._version,
            question=sample.data.get("question", ""),
            options="\n".join(f"{letter}. {text}" for letter, text in zip(ascii_uppercase, options, strict=False)),
            hint=f"{hint}\n" if hint else "",
            labels=", ".join(self._definition.labels),
        )

    def _choices(self, options: int) -> tuple[str, ...]:
        if self._definition.kind == "yes-no":
            return YES_NO
        return tuple(ascii_uppercase[:options]) or self._definition.labels

    def expected(self, row: Row) -> Sequence[str]:
        """Return the right answers of a row: of a choice the letter under which it stood."""
        data = row.sample.data
        if self._definition.kind != "choice":
            return tuple(data["answers"])
        return (gold_letter(data, row.variant),)

    def options(self, row: Row) -> Mapping[str, str]:
        """Return the options of a row by letter, as they stood, or yes and no."""
        if self._definition.kind == "yes-no":
            return dict(zip(YES_NO, YES_NO, strict=True))
        texts = rotated(row.sample.data.get("options", ()), int(row.variant or 0))
        return dict(zip(ascii_uppercase, texts, strict=False))


def _ask_judge(row: Row, texts: PromptTexts) -> JudgeRequest | bool | None:
    """Return the question whether a reply gives one of the right answers; an empty reply gives none."""
    if row.status != "ok":
        return None
    if not (row.output or "").strip():
        return False
    answers = "; ".join(row.sample.data["answers"])
    question, reply = row.sample.data.get("question", ""), row.output or ""
    text = texts.fill(JUDGE_PROMPT, question=question, answers=answers, reply=reply)
    step = Step(turns=(user(text),), generation=Generation(max_new_tokens=16), choices=("yes", "no"))
    return JudgeRequest(step=step)


def _permuted(sample: Sample, order: Sequence[int]) -> Sample:
    data = sample.data
    options = [data["options"][number] for number in order]
    return replace(sample, data={**data, "options": options, "gold": order.index(int(data["gold"]))})


def _medium(sample: Sample, place: int) -> Media:
    ref = sample.media[place]
    return Media(ref.kind, ref.sha256, FRAMES if ref.kind == "video" else 0)


def table_definition(definition: TableDefinition) -> BenchmarkDefinition:
    """Return the benchmark that a definition describes."""
    facts, parts = KIND_FACTS[definition.kind], _Table(definition)
    headline = definition.headline or facts.headline
    judge = Judge(ask=_ask_judge, read=read_verdict, tasks=(definition.kind,), metrics=("judged_accuracy",))
    reporter, people = lazy(__package__, "reporter.TableReporter"), lazy(__package__, "people.human_baseline")
    return BenchmarkDefinition(
        name=definition.name,
        version="2",
        title=definition.title or definition.name,
        citation=definition.citation or "a table of one's own",
        tasks={definition.kind: settings(definition)},
        headline=headline,
        corpus_metrics=CORPUS_METRICS,
        measure=facts.measure,
        secondary_metrics=tuple(name for name in (facts.headline, *facts.secondary) if name != headline),
        lower_is_better=("unreadable",),
        chance={"accuracy": "chance"},
        explicit_settings=tuple(name for name in settings(definition) if name in (NO_IMAGE, CIRCULAR)),
        prompt_texts=prompt_texts(definition),
        descriptive_values=("said_yes", "is_yes"),
        published_values=definition.published,
        source=parts.source,
        prompts=parts.prompts,
        read=lambda row: read_answer(definition, row),
        judge=judge if definition.kind == "open" else None,
        expected=parts.expected,
        options=parts.options,
        permuted=_permuted if definition.kind == "choice" else None,
        people=lambda: people(definition),
        metrics=lambda scores, samples: reporter(definition).reduce(scores, samples),
        measures=lazy(__package__, "metrics.paired_measures"),
        tables=lambda results: reporter(definition).tables(results),
        figures=lambda results: reporter(definition).figures(results),
    )
