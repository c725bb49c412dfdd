"""A table benchmark made from its definition: prompts, answers and the judge, for every kind."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Final

from models.messages import Generation, Media, Step, StepOutput, Turn, blank, user
from pipelines.benchmarks.base import BenchmarkDefinition, Judge, PromptInput, SourceItem, lazy
from pipelines.benchmarks.known_tables import Kind, TableDefinition
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.readers.harnesses import YES_NO
from pipelines.benchmarks.records import (
    JudgeRequest,
    MediaRef,
    Prompt,
    Row,
    Sample,
    Source,
)
from pipelines.benchmarks.scorers import JUDGE
from pipelines.benchmarks.table.answers import expected_place, judged_score, read_answer
from pipelines.benchmarks.table.kinds import (
    CIRCULAR,
    CORPUS_METRICS,
    KIND_FACTS,
    NO_IMAGE,
    OFFICIAL,
    SCORER_MEASURES,
    SUBTITLES,
    SUBTITLES_TEXT,
    gold_letter,
    headline,
    judge_version,
    prompt_texts,
    prompt_version,
    rotated,
    row_kind,
    settings,
    turn_sample,
)
from pipelines.benchmarks.table.templates import filled
from pipelines.errors import SourceError

WHITE: Final = blank("FFFFFF", 336, 336)
JUDGE_TOKENS: Final = 256  # of a judge that the definition tells what to say
ACCEPTED: Final = 0.5  # of a judge's scale, from which an answer counts as accepted
FRAMES: Final = 32  # of a clip; the model's own limit may be lower
_NO_MEDIA: Final = "no_media"
_NO_SUBTITLES: Final = "no_subtitles"
_LOGIC = re.compile(r"\s*<(AND|OR)>\s*")  # between the parts of an answer, which a judge reads apart
_MARK = re.compile(r"<(?:image|video) ?(\d{1,3})>", re.IGNORECASE)


class _Table:
    """Source and prompts of one table benchmark, and the right answers and options of its rows."""

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition

    def source(self, source: Source, _column_map: Mapping[str, str], /) -> Iterator[SourceItem]:
        """Refuse: the file of a table is read with its own definition, by `ingest table`."""
        name = self._definition.name
        raise SourceError(f"{name} is a table benchmark: use `vlmsweep ingest table {source.uri} --as {name}`")

    def prompts(self, query: PromptInput, /) -> Iterator[Prompt]:
        """Yield the request of a row, one for each rotation of the options where they turn; none of another kind.

        Media come first, but those that have a mark such as `<image 2>` in the text, which are at its place.
        """
        sample, data = query.sample, query.sample.data
        kind = row_kind(self._definition, sample)
        if kind != query.task:
            return
        own_version = prompt_version(self._definition, kind, data.get("prompt", ""))
        version = query.texts.version(own_version)
        if query.setting == NO_IMAGE and not sample.media:
            yield Prompt(version=version, excluded=_NO_MEDIA)
            return
        if query.setting == SUBTITLES and not data.get("subtitles"):
            yield Prompt(version=version, excluded=_NO_SUBTITLES)
            return
        template = query.texts.template(own_version)
        options: Sequence[str] = data.get("options", ())
        tokens = self._definition.max_new_tokens or KIND_FACTS[kind].max_new_tokens
        if data.get("turns"):
            yield from self._conversation(query, template, version, kind)
            return
        for turn in range(len(options)) if query.setting == CIRCULAR else range(1):
            text = self._text(query, template, rotated(options, turn))
            parts = [WHITE, text] if query.setting == NO_IMAGE else self._parts(sample, text)
            is_placed = "".join(part for part in parts if isinstance(part, str)) != text
            step = Step(
                turns=(user(*parts),),
                generation=Generation(max_new_tokens=tokens),
                choices=self._choices(kind, len(options)),
            )
            variant = str(turn) if query.setting == CIRCULAR else ""
            yield Prompt(variant=variant, version=_placed(version) if is_placed else version, steps=(step,))

    def _conversation(self, query: PromptInput, template: str, version: str, kind: Kind) -> Iterator[Prompt]:
        """Yield a request for each turn, in which the model's own replies to those before it are steps."""
        tokens = self._definition.max_new_tokens or KIND_FACTS[kind].max_new_tokens
        history: tuple[Turn, ...] = ()
        steps: tuple[Step, ...] = ()
        for number in range(len(query.sample.data["turns"])):
            sample = turn_sample(query.sample, str(number))
            text = self._text(replace(query, sample=sample), template, ())
            media = [] if number else [WHITE] if query.setting == NO_IMAGE else self._parts(sample, "")
            turns = (*history, user(*media, text))
            step = Step(turns=turns, generation=Generation(max_new_tokens=tokens), choices=self._choices(kind, 0))
            steps = (*steps, step)
            history = (*turns, Turn("assistant", (StepOutput(number),)))
            yield Prompt(variant=str(number), version=version, steps=steps)

    def _text(self, query: PromptInput, template: str, options: Sequence[str]) -> str:
        data = query.sample.data
        question: str = data.get("question", "")
        hint, subtitles = data.get("hint", ""), data.get("subtitles", "")
        has_letters = bool(self._definition.letters)
        lines = "" if has_letters else "\n".join(map("{}. {}".format, ascii_uppercase, options))
        is_shown = query.setting == SUBTITLES
        if is_shown and "{subtitles" not in template:
            template = f"{SUBTITLES_TEXT}\n{template}"
        values = {
            **data.get("fields", {}),
            "question": question,
            "Question": question[:1].upper() + question[1:],
            "options": lines,
            "hint": f"{hint}\n" if hint else "",
            "labels": ", ".join(self._definition.labels),
            "subtitles": subtitles if is_shown else "",
        }
        return filled(template, values.get)

    def _parts(self, sample: Sample, text: str) -> list[Media | str]:
        """Return the media and the pieces of a text, each medium at its first mark, else before the text."""
        media = {ref.role: self._medium(sample, ref) for ref in sample.media}
        pieces, placed = [""], list[Media]()
        position = 0
        for mark in _MARK.finditer(text):
            medium = media.pop(f"media/{int(mark[1]) - 1}", None)
            if medium is not None:
                pieces.append(text[position : mark.start()])
                placed.append(medium)
                position = mark.end()
        parts: list[Media | str] = [*media.values()]
        for piece, medium in zip(pieces[1:], placed, strict=True):
            parts += [piece, medium] if piece else [medium]
        return [*parts, text[position:]] if text[position:] else parts

    def _medium(self, sample: Sample, ref: MediaRef) -> Media:
        if ref.kind != "video":
            return Media(ref.kind, ref.sha256)
        definition, span = self._definition, sample.data.get("span")
        rate, last = ref.fps or 1.0, max(ref.frames - 1, 0)
        ends = [min(round(second * rate), last) for second in span] if span and ref.fps else [0, last]
        frames = definition.frames or round((ends[1] - ends[0] + 1) / rate * definition.fps) or FRAMES
        source = f"{ref.sha256}~span-{ends[0]}-{ends[1]}" if span and ref.fps else ref.sha256
        return Media(ref.kind, source, frames)

    def _choices(self, kind: Kind, options: int) -> tuple[str, ...]:
        if kind == "yes-no":
            return YES_NO
        return tuple(ascii_uppercase[:options]) or (self._definition.labels if kind == "label" else ())

    def expected(self, row: Row) -> Sequence[str]:
        """Return the right answers of a row: of a choice the letter under which it stood."""
        data, kind = turn_sample(row.sample, row.variant).data, row_kind(self._definition, row.sample)
        if kind in ("box", "point"):
            return (expected_place(self._definition, row),)
        if kind != "choice":
            return tuple(data["answers"])
        return (gold_letter(data, row.variant),)

    def options(self, row: Row) -> Mapping[str, str]:
        """Return the options of a row by letter, as they stood, or yes and no."""
        if row_kind(self._definition, row.sample) == "yes-no":
            return dict(zip(YES_NO, YES_NO, strict=True))
        texts = rotated(row.sample.data.get("options", ()), int(row.variant or 0))
        return dict(zip(ascii_uppercase, texts, strict=False))

    def ask_judge(self, row: Row, texts: PromptTexts) -> JudgeRequest | bool | None:
        """Return the question whether a reply gives one of the right answers; an empty reply gives none."""
        if row.status != "ok":
            return None
        if not (row.output or "").strip():
            return False
        data, own = turn_sample(row.sample, row.variant).data, self._definition.judge_prompt
        answers = _LOGIC.sub(r" <\1> ", "; ".join(data["answers"])).strip()
        values = {
            **data.get("fields", {}),
            "question": data.get("question", ""),
            "answers": answers,
            "answer": answers,
            "reply": row.output or "",
        }
        text = filled(texts.template(judge_version(self._definition)), values.get)
        scale = self._definition.judge_scale
        choices = ("yes", "no") if not scale or scale == ("yes-no",) else scale if len(scale) > 1 else ("0", "1")
        step = Step(
            turns=(user(text),), generation=Generation(max_new_tokens=JUDGE_TOKENS if own else 16), choices=choices
        )
        return JudgeRequest(step=step)

    def read_verdict(self, text: str) -> bool | None:
        """Read whether a judge accepts an answer: on a scale of numbers from the middle on."""
        scored = judged_score(self._definition, text)
        return None if scored is None else scored >= ACCEPTED


def _placed(version: str) -> str:
    """Return the version of a prompt whose media are in its text; `+custom` stays at the end."""
    name, plus, ending = version.partition("+")
    return f"{name}-placed{plus}{ending}"


def _permuted(sample: Sample, order: Sequence[int]) -> Sample:
    data = sample.data
    options = [data["options"][number] for number in order]
    return replace(sample, data={**data, "options": options, "gold": order.index(int(data["gold"]))})


def table_definition(definition: TableDefinition) -> BenchmarkDefinition:
    """Return the benchmark that a definition describes."""
    facts, parts = KIND_FACTS[definition.kind], _Table(definition)
    main, scored = headline(definition), any(kind in definition.scorers for kind in definition.kinds)
    judged = ("judged_accuracy", *((OFFICIAL,) if definition.scorers.get("open") == JUDGE else ()))
    judge = Judge(ask=parts.ask_judge, read=parts.read_verdict, tasks=("open",), metrics=judged)
    optional = (NO_IMAGE, CIRCULAR, SUBTITLES)
    official = (OFFICIAL, *((f"{OFFICIAL}_macro",) if definition.macro_over else ())) if scored else ()
    every = dict.fromkeys((*official, facts.headline, *facts.secondary))
    paired_measures = lazy(__package__, "metrics.paired_measures")
    reporter, people = lazy(__package__, "reporter.TableReporter"), lazy(__package__, "people.human_baseline")
    return BenchmarkDefinition(
        name=definition.name,
        version="2",
        title=definition.title or definition.name,
        citation=definition.citation or "a table of one's own",
        tasks={kind: settings(definition, kind) for kind in definition.kinds},
        headline=main,
        corpus_metrics=(*CORPUS_METRICS, *definition.groups),
        measure=SCORER_MEASURES.get(definition.scorers.get(definition.kind, ""), facts.measure),
        secondary_metrics=tuple(name for name in (*every, *definition.groups) if name != main),
        lower_is_better=("unreadable",),
        chance={"accuracy": "chance", OFFICIAL: "chance"},
        explicit_settings=tuple(name for name in settings(definition) if name in optional),
        prompt_texts=prompt_texts(definition),
        descriptive_values=("said_yes", "is_yes", "official_yes"),
        published_values=definition.published,
        source=parts.source,
        prompts=parts.prompts,
        read=lambda row: read_answer(definition, row),
        judge=judge if "open" in definition.kinds else None,
        expected=parts.expected,
        options=parts.options,
        permuted=_permuted if definition.kinds == ("choice",) and CIRCULAR in settings(definition) else None,
        people=lambda: people(definition),
        metrics=lambda scores, samples: reporter(definition).reduce(scores, samples),
        measures=lambda scores, samples: paired_measures(scores, samples, definition),
        tables=lambda results: reporter(definition).tables(results),
        figures=lambda results: reporter(definition).figures(results),
    )
