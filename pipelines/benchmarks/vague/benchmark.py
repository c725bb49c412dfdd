"""VAGUE: what a speaker really wants, given the picture; chosen among four readings, and told in the model's own words.

Paper: Nam et al., "VAGUE: Visual Contexts Clarify Ambiguous Expressions", ICCV 2025, arXiv 2411.14137. Data:
huggingface.co/datasets/HazelNam/vague-bench, version 2.0.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from models.messages import Generation
from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import HumanBaseline
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import (
    MediaFile,
    Metric,
    Notice,
    Prompt,
    RawSample,
    Reading,
    Rejection,
    Row,
    Sample,
    SimilarityAsk,
)
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.tables import Table
from pipelines.benchmarks.vague.answers import FreeformReading, read_choice, read_freeform, without_opener
from pipelines.benchmarks.vague.person_tags import BARE_BELOW, drawn, tagged_boxes
from pipelines.benchmarks.vague.prompts import LETTERS, PROMPT_TEXTS, gold_letter, prompt_of, shown
from pipelines.benchmarks.vague.source import SUBSETS, File, Item, files_of
from pipelines.errors import SourceError

if TYPE_CHECKING:
    import pandas as pd

SETTINGS: Final = ("lm", "sm", "vlm", "sm-cot", "vlm-cot")
HUMAN: Final = "human-400"
"""The items that a human answered. Which they are is not published: a user may have the list."""
APPROXIMATE: Final = "human-400-approx"
"""Stands in for it: as many items with the best mean rating."""
_HUMAN_ITEMS: Final = 400
_HUMAN_FILE: Final = "human400_ids.txt"
_LOOKED_AT: Final = 100
"""Pictures of each subset that are looked at for tags, spread over the whole."""
_NAMED: Final = 5
_LETTER_SHARE: Final = (0.2, 0.3)


class Vague(Benchmark):
    """See the module's docstring."""

    name = "vague"
    version = "1"
    title = "VAGUE"
    source = "arXiv 2411.14137; huggingface.co/datasets/HazelNam/vague-bench, version 2.0"
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {"mcq": SETTINGS, "freeform": SETTINGS}
    headline = "accuracy"
    beside_headline = ("delta_vs_lm", "cot_delta", "bleu1", "bert_f1")
    prompt_texts: ClassVar[Mapping[str, str]] = PROMPT_TEXTS
    default_scorers: ClassVar[Mapping[str, str]] = {"bertscore": "roberta-large:17"}

    def read(
        self, source: Source, *, column_map: Mapping[str, str] | None = None
    ) -> Iterator[RawSample | Rejection | Notice]:
        """Read `data/*.parquet`, or `vcr_1144_final.json` and `ego4d_533_final.json` with their picture folders."""
        del column_map
        files = files_of(source)
        first: dict[str, Item] = {}
        for item in (item for file in files for item in file.items):
            first.setdefault(item.name, item)
        items = list(first.values())
        human, notices = _human(source, items)
        bare = {subset: note for subset in SUBSETS if (note := _bare(files, items, subset))}
        for file in files:
            yield from file.rejections
            for item, picture in file.pictures(file.items):
                data = {**item.data, "human": human.get(item.name, "")}
                yield _sample(file, item, picture, data, draw=item.subset in bare)
        yield from notices
        yield from map(Notice, bare.values())
        yield from _oddities(items)

    def prompts(
        self,
        sample: Sample,
        task: str,
        setting: str,
        *,
        texts: PromptTexts,
        seed: int,
        captions: Mapping[str, str] | None = None,
    ) -> Iterator[Prompt]:
        """One request; with `sm` it describes the picture first, in a call that all of its cells share."""
        del seed, captions
        yield prompt_of(sample, task, setting, texts, self.generation(task, setting))

    def generation(self, task: str, setting: str) -> Generation:
        """Greedy, 1,024 new tokens for every call."""
        del task, setting
        return Generation(max_new_tokens=1024)

    def read_answer(self, row: Row) -> Reading:
        """The letter and whether it is the correct reading's, or the sentence and its overlap with that reading."""
        if row.status != "ok":
            return Reading(answer=None, rule=row.status)
        caption_empty = row.setting.startswith("sm") and bool(row.steps) and not row.steps[0].strip()
        flags = ("caption_empty",) if caption_empty else ()
        return _choice(row, flags) if row.task == "mcq" else _freeform(row, flags)

    def similarity(self, row: Row) -> Sequence[SimilarityAsk]:
        """BERTScore of a free answer against the correct reading, raw and rescaled; an empty one scores 0."""
        if row.task != "freeform" or row.status != "ok":
            return ()
        return (
            SimilarityAsk(
                column="bertscore_f1",
                scorer="bertscore",
                candidate=_said(row).text,
                references=(row.sample.data["readings"]["correct"],),
                rescaled="bertscore_f1_rescaled",
            ),
        )

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """See `vague_metrics`."""
        from pipelines.benchmarks.vague.metrics import reduce_vague

        return reduce_vague(scores, samples)

    def tables(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
        """Tables 1, 2, 3, H3, H4 and B1 of the paper, and ours."""
        from pipelines.benchmarks.vague.tables import vague_tables

        return vague_tables(metrics, published)

    def figures(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Figure]:
        """Figures 4 and B1."""
        from pipelines.benchmarks.vague.figures import vague_figures

        return vague_figures(metrics, published)

    def people(self) -> HumanBaseline:
        """See `vague_people`."""
        from pipelines.benchmarks.vague.human import PEOPLE

        return PEOPLE


def _sample(
    file: File, item: Item, picture: MediaFile, data: Mapping[str, object], *, draw: bool
) -> RawSample | Rejection:
    """An item with its picture, tags drawn onto it where the pictures of its subset are bare."""
    if draw or picture.content == b"":
        try:
            content = file.bytes_of(picture)
        except SourceError as error:
            return Rejection(file=file.path, item=item.name, reason=str(error))
        if content is None:
            where = picture.path if picture.content is None else "the row"
            return Rejection(file=file.path, item=item.name, reason=f"no picture: {where} holds none")
        picture = replace(picture, content=drawn(content, item.boxes, item.size, file.source.pixels))
    return RawSample(
        sample_id=item.name,
        file=file.path,
        subset=item.subset,
        media=(picture,),
        data={**data, "tags": "drawn" if draw else "distributed"},
    )


def _human(source: Source, items: Sequence[Item]) -> tuple[dict[str, str], list[Notice]]:
    """Item -> the human subset that it is of: the user's list, else the best rated, equals by hash of the name."""
    if not source.exists(_HUMAN_FILE):
        ranked = sorted(items, key=lambda i: (-i.rating, hashlib.sha256(i.name.encode()).hexdigest()))
        return dict.fromkeys([item.name for item in ranked[:_HUMAN_ITEMS]], APPROXIMATE), []
    try:
        lines = source.read_bytes(_HUMAN_FILE).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{source.uri}/{_HUMAN_FILE}: not UTF-8 ({error}); one image_name a line is wanted"
        ) from error
    listed = dict.fromkeys((line.strip() for line in lines if line.strip()), HUMAN)
    notices = []
    if unknown := sorted(listed.keys() - {item.name for item in items}):
        notices.append(Notice(f"{_HUMAN_FILE}: {_names(unknown)} not among the usable items"))
    if len(listed) != _HUMAN_ITEMS:
        notices.append(Notice(f"{_HUMAN_FILE}: {len(listed):,} items, where a human answered {_HUMAN_ITEMS}"))
    return listed, notices


def _bare(files: Sequence[File], items: Sequence[Item], subset: str) -> str:
    """What to tell of a subset whose pictures carry no tags; '' where they do, or where nobody is in them."""
    names = [item.name for item in items if item.subset == subset and item.boxes]
    step = max(1, len(names) // _LOOKED_AT)
    chosen = set(names[::step][:_LOOKED_AT])
    tagged = judged = 0
    for file in files:
        for item, picture in file.pictures([item for item in file.items if item.name in chosen]):
            with suppress(SourceError):  # too large; its own row says so
                content = file.bytes_of(picture)
                found = tagged_boxes(content, item.boxes, item.size, file.source.pixels) if content else (0, 0)
                tagged, judged = tagged + found[0], judged + found[1]
    if tagged >= BARE_BELOW * judged:
        return ""
    return (
        f"tags: drawn on the pictures of {subset}: of {judged:,} people looked at, {tagged:,} wear their number as "
        "distributed"
    )


def _oddities(items: Sequence[Item]) -> Iterator[Notice]:
    """What the data should not be like, and no row is at fault for."""
    counts = Counter(item.subset for item in items)
    if counts != SUBSETS:
        found = ", ".join(f"{counts[name]:,} {name}" for name in SUBSETS)
        wanted = ", ".join(f"{size:,} {name}" for name, size in SUBSETS.items())
        yield Notice(f"{found} items; the published set has {wanted}")
    gold = Counter(item.data["ordering"][0] for item in items)
    shares = {letter: gold[letter] / len(items) for letter in LETTERS} if items else {}
    if any(not _LETTER_SHARE[0] <= share <= _LETTER_SHARE[1] for share in shares.values()):
        told = ", ".join(f"{letter} {share:.1%}" for letter, share in shares.items())
        yield Notice(f"gold letters are uneven: {told}; 20% to 30% each are expected")
    equal = [item.name for item in items if len(set(item.data["readings"].values())) < len(LETTERS)]
    if equal:
        yield Notice(f"two readings are equal in {_names(equal)}")


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _choice(row: Row, flags: tuple[str, ...]) -> Reading:
    read = read_choice(row.output or "", shown(row.sample), cot=row.setting.endswith("-cot"))
    if read.invalid_reason:
        flags = (f"invalid:{read.invalid_reason}", *flags)
    return Reading(
        answer=read.letter,
        rule=read.rule or "none",
        flags=flags,
        values={"correct": float(read.letter == gold_letter(row.sample))},
    )


def _said(row: Row) -> FreeformReading:
    return read_freeform(row.output or "", cot=row.setting.endswith("-cot"))


def _freeform(row: Row, flags: tuple[str, ...]) -> Reading:
    from pipelines.metrics.text import bleu1

    read, reference = _said(row), row.sample.data["readings"]["correct"]
    values = {"bleu1": bleu1([read.text], [[reference]])[0]}
    if bare := without_opener(reference):
        values["bleu1_noopener"] = bleu1([without_opener(read.text)], [[bare]])[0]
    for column, name in (("bertscore_f1", "bert_f1_raw"), ("bertscore_f1_rescaled", "bert_f1")):
        if column in row.given:
            values[name] = row.given[column]
    return Reading(answer=read.text, rule="text" if read.text else "empty", flags=(*read.flags, *flags), values=values)


BENCHMARK = Vague()
