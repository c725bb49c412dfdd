"""VAGUE: infer what a speaker wants, given the picture; as a choice among four readings, and in free form.

Paper: Nam et al., "VAGUE: Visual Contexts Clarify Ambiguous Expressions", ICCV 2025, arXiv 2411.14137. Data:
huggingface.co/datasets/HazelNam/vague-bench, version 2.0.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from models.messages import Generation, Step
from pipelines.benchmarks.base import BenchmarkDefinition, Captions, lazy
from pipelines.benchmarks.base import SourceItem as SourceRow
from pipelines.benchmarks.records import (
    MediaFile,
    Publication,
    RawSample,
    Reading,
    Rejection,
    Row,
    Sample,
    SimilarityRequest,
    Source,
    SourceWarning,
)
from pipelines.benchmarks.text_cleaning import FlaggedText
from pipelines.benchmarks.vague.answers import parse_choice, parse_freeform, without_opener
from pipelines.benchmarks.vague.facts import CAPTIONED, HUMAN_APPROXIMATE, HUMAN_ITEMS, HUMAN_LISTED, SETTINGS, SUBSETS
from pipelines.benchmarks.vague.person_tags import MIN_TAGGED_SHARE, count_tagged_boxes, draw_tags
from pipelines.benchmarks.vague.prompts import (
    CAPTION,
    LETTERS,
    PROMPT_TEXTS,
    build_prompt,
    caption_step,
    gold_letter,
    readings_by_letter,
)
from pipelines.benchmarks.vague.source import SourceFile, SourceItem, read_files
from pipelines.benchmarks.validation import first_names
from pipelines.errors import SourceError
from pipelines.metrics.text import bleu1

_HUMAN_FILE: Final = "human400_ids.txt"
_TAG_CHECKS: Final = 100  # pictures of each subset that are checked for tags
_LETTER_SHARE: Final = (0.2, 0.3)


_GENERATION: Final = Generation(max_new_tokens=1024)  # greedy, for every call


def _read_vague(source: Source, _column_map: Mapping[str, str]) -> Iterator[SourceRow]:
    """Read `data/*.parquet`, or `vcr_1144_final.json` and `ego4d_533_final.json` with their picture folders."""
    files = read_files(source)
    by_name: dict[str, SourceItem] = {}
    for item in (item for file in files for item in file.items):
        by_name.setdefault(item.name, item)
    items = list(by_name.values())
    human, warnings = _human_subsets(source, items)
    untagged = {subset: note for subset in SUBSETS if (note := _untagged_note(files, items, subset))}
    for file in files:
        yield from file.rejections
        for item, picture in file.pictures(file.items):
            data = {**item.data, "human": human.get(item.name, "")}
            yield _sample(file, item, picture, data, draw=item.subset in untagged)
    yield from warnings
    yield from map(SourceWarning, untagged.values())
    yield from _irregularities(items)


def _captions(sample: Sample, setting: str) -> Sequence[Step]:
    return (caption_step(sample, PROMPT_TEXTS[CAPTION], _GENERATION),) if setting == CAPTIONED else ()


def _read_answer(row: Row) -> Reading:
    """Parse the chosen letter, or the free-form sentence with its overlap with the correct reading."""
    reading = _read_choice(row) if row.task == "mcq" else _read_freeform(row)
    caption_empty = row.setting.startswith("sm") and bool(row.steps) and not row.steps[0].strip()
    return replace(reading, flags=(*reading.flags, "caption_empty")) if caption_empty else reading


def _permuted(sample: Sample, order: Sequence[int]) -> Sample:
    places = [order.index(LETTERS.index(letter)) for letter in sample.data["ordering"]]
    return replace(sample, data={**sample.data, "ordering": [LETTERS[place] for place in places]})


def _similarity(row: Row) -> Sequence[SimilarityRequest]:
    """Request BERTScore of a free-form answer against the correct reading, raw and rescaled."""
    if row.task != "freeform" or row.status != "ok":
        return ()
    names = {"column": "bertscore_f1", "scorer": "bertscore", "rescaled": "bertscore_f1_rescaled"}
    references = (row.sample.data["readings"]["correct"],)
    return (SimilarityRequest(**names, candidate=_parse_freeform_row(row).text, references=references),)


def _sample(
    file: SourceFile, item: SourceItem, picture: MediaFile, data: Mapping[str, object], *, draw: bool
) -> RawSample | Rejection:
    """Combine an item with its picture; draw tags onto it where the pictures of its subset have none."""
    if draw or picture.content == b"":
        try:
            content = file.bytes_of(picture)
        except SourceError as error:
            return Rejection(file=file.path, item=item.name, reason=str(error))
        if content is None:
            location = picture.path if picture.content is None else "the row"
            return Rejection(file=file.path, item=item.name, reason=f"no picture: {location} holds none")
        picture = replace(picture, content=draw_tags(content, item.boxes, item.size, file.source.pixels))
    return RawSample(
        sample_id=item.name,
        file=file.path,
        subset=item.subset,
        media=(picture,),
        data={**data, "tags": "drawn" if draw else "distributed"},
    )


def _human_subsets(source: Source, items: Sequence[SourceItem]) -> tuple[dict[str, str], list[SourceWarning]]:
    """Map item names to their human subset: the user's list, else the best rated, ties broken by hash of the name."""
    if not source.exists(_HUMAN_FILE):
        ranked = sorted(items, key=lambda i: (-i.rating, hashlib.sha256(i.name.encode()).hexdigest()))
        return dict.fromkeys([item.name for item in ranked[:HUMAN_ITEMS]], HUMAN_APPROXIMATE), []
    try:
        lines = source.read_bytes(_HUMAN_FILE).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise SourceError(f"{source.uri}/{_HUMAN_FILE}: not UTF-8 ({error}); expected one image_name a line") from error
    listed = dict.fromkeys((line.strip() for line in lines if line.strip()), HUMAN_LISTED)
    warnings = []
    if unknown := sorted(listed.keys() - {item.name for item in items}):
        warnings.append(SourceWarning(f"{_HUMAN_FILE}: {first_names(unknown)} not among the usable items"))
    if len(listed) != HUMAN_ITEMS:
        warnings.append(SourceWarning(f"{_HUMAN_FILE}: {len(listed):,} items, where a human answered {HUMAN_ITEMS}"))
    return listed, warnings


def _untagged_note(files: Sequence[SourceFile], items: Sequence[SourceItem], subset: str) -> str:
    """Describe the missing tags of a subset's pictures; '' where they carry tags or show nobody."""
    names = [item.name for item in items if item.subset == subset and item.boxes]
    step = max(1, len(names) // _TAG_CHECKS)
    sampled = set(names[::step][:_TAG_CHECKS])
    tagged = checked = 0
    for file in files:
        for item, picture in file.pictures([item for item in file.items if item.name in sampled]):
            with suppress(SourceError):  # too large: the row itself is rejected
                content = file.bytes_of(picture)
                counts = count_tagged_boxes(content, item.boxes, item.size, file.source.pixels) if content else (0, 0)
                tagged, checked = tagged + counts[0], checked + counts[1]
    if tagged >= MIN_TAGGED_SHARE * checked:
        return ""
    return (
        f"tags: drawn on the pictures of {subset}: of {checked:,} people checked, {tagged:,} carry their number as "
        "distributed"
    )


def _irregularities(items: Sequence[SourceItem]) -> Iterator[SourceWarning]:
    """Yield warnings of irregularities for which no single row is at fault."""
    counts = Counter(item.subset for item in items)
    if counts != SUBSETS:
        actual = ", ".join(f"{counts[name]:,} {name}" for name in SUBSETS)
        expected = ", ".join(f"{size:,} {name}" for name, size in SUBSETS.items())
        yield SourceWarning(f"{actual} items; the published set has {expected}")
    gold = Counter(item.data["ordering"][0] for item in items)
    shares = {letter: gold[letter] / len(items) for letter in LETTERS} if items else {}
    if any(not _LETTER_SHARE[0] <= share <= _LETTER_SHARE[1] for share in shares.values()):
        percentages = ", ".join(f"{letter} {share:.1%}" for letter, share in shares.items())
        yield SourceWarning(f"gold letters are uneven: {percentages}; 20% to 30% each are expected")
    equal = [item.name for item in items if len(set(item.data["readings"].values())) < len(LETTERS)]
    if equal:
        yield SourceWarning(f"two readings are equal in {first_names(equal)}")


def _read_choice(row: Row) -> Reading:
    choice = parse_choice(row.output or "", readings_by_letter(row.sample), cot=row.setting.endswith("-cot"))
    flags = (f"invalid:{choice.invalid_reason}",) if choice.invalid_reason else ()
    values = {"correct": float(choice.letter == gold_letter(row.sample))}
    return Reading(answer=choice.letter, rule=choice.rule or "none", flags=flags, values=values)


def _parse_freeform_row(row: Row) -> FlaggedText:
    return parse_freeform(row.output or "", cot=row.setting.endswith("-cot"))


def _read_freeform(row: Row) -> Reading:
    answer, reference = _parse_freeform_row(row), row.sample.data["readings"]["correct"]
    values = {"bleu1": bleu1([answer.text], [[reference]])[0]}
    if stripped := without_opener(reference):
        values["bleu1_noopener"] = bleu1([without_opener(answer.text)], [[stripped]])[0]
    for column, name in (("bertscore_f1", "bert_f1_raw"), ("bertscore_f1_rescaled", "bert_f1")):
        if column in row.given:
            values[name] = row.given[column]
    return Reading(answer=answer.text, rule="text" if answer.text else "empty", flags=answer.flags, values=values)


BENCHMARK: Final = BenchmarkDefinition(
    name="vague",
    version="1",
    title="VAGUE",
    citation="arXiv 2411.14137; huggingface.co/datasets/HazelNam/vague-bench, version 2.0",
    tasks={"mcq": (*SETTINGS, CAPTIONED), "freeform": SETTINGS},
    explicit_settings=(CAPTIONED,),
    headline_at=("mcq", "vlm"),
    measure="Share of ambiguous utterances for which a model chooses the meaning that the picture gives them, out of"
    " four. Higher is better.",
    secondary_metrics=("delta_vs_lm", "cot_delta", "caption_delta", "bleu1", "bert_f1"),
    default_scorers={"bertscore": "roberta-large:17"},
    chance={"accuracy": 0.25},  # of four readings
    publication=Publication(
        requests={"mcq": 1677, "freeform": 1677},
        paper_prompts=(),  # all words are ours
        unnamed_scorers=("bert_f1", "bleu1"),
    ),
    prompt_texts=PROMPT_TEXTS,
    source=_read_vague,
    prompts=lambda query: [build_prompt(query, _GENERATION)],
    read=_read_answer,
    captions=Captions(steps=_captions, settings=(CAPTIONED,)),
    similarity=_similarity,
    expected=lambda row: (gold_letter(row.sample) if row.task == "mcq" else row.sample.data["readings"]["correct"],),
    options=lambda row: readings_by_letter(row.sample) if row.task == "mcq" else {},
    permuted=_permuted,
    people=lazy(__package__, "people.VagueHumanBaseline"),
    metrics=lazy(__package__, "metrics.reduce_scores"),
    measures=lazy(__package__, "metrics.paired_measures"),
    tables=lazy(__package__, "tables.make_tables"),
    figures=lazy(__package__, "tables.make_figures"),
    item_lists=lazy(__package__, "metrics.item_lists"),
)
