"""UNPIE: can a picture clear up a pun. Puns are to be found, translated by a picture, and written again.

Paper: Chung et al., "Can visual language models resolve textual ambiguity with visual cues? Let visual puns tell you!",
EMNLP 2024, arXiv 2410.01023. Data: jiwan-chung/VisualPun_UNPIE on the hub; its pictures are addresses in part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from models.messages import Generation, Step, user
from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import HumanBaseline
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import (
    JudgeAsk,
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
from pipelines.benchmarks.unpie.answers import (
    TranslationReading,
    equal_by_rule,
    exact_match,
    read_grounding,
    read_judge,
    read_translation,
    verdict,
)
from pipelines.benchmarks.unpie.column_map import MAP_NAMES
from pipelines.benchmarks.unpie.prompts import JUDGE, PROMPT_TEXTS, caption_steps, unpie_prompts
from pipelines.benchmarks.unpie.source import read_unpie

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.metrics.meteor import Synonyms

BY_RULE = "judged_by_rule"
_JUDGED_CHARS = 2000
"""The judge reads no more of an answer."""


class Unpie(Benchmark):
    """See the module's docstring."""

    name = "unpie"
    version = "1"
    title = "UNPIE"
    source = "arXiv 2410.01023; huggingface.co/datasets/jiwan-chung/VisualPun_UNPIE"
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "grounding": ("lm", "sm", "vlm"),
        "disambiguation": ("sm", "vlm"),
        "reconstruction": ("lm", "sm", "vlm"),
    }
    headline = "exact_match"
    beside_headline = ("accuracy", "correct_pct")
    prompt_texts: ClassVar[Mapping[str, str]] = PROMPT_TEXTS
    default_scorers: ClassVar[Mapping[str, str]] = {"bertscore": "bert-base-multilingual-cased:9"}
    content_field = "content_sha"
    column_map_names: ClassVar[tuple[str, ...]] = MAP_NAMES

    def read(
        self, source: Source, *, column_map: Mapping[str, str] | None = None
    ) -> Iterator[RawSample | Rejection | Notice]:
        """Read the two splits; see `unpie_source`."""
        return read_unpie(source, column_map)

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
        """One request for grounding, six for the other tasks: three languages by two meanings."""
        del seed
        generation = self.generation(task, setting)
        return unpie_prompts(sample, (task, setting), texts=texts, generation=generation, captions=captions)

    def caption(self, sample: Sample, setting: str, texts: PromptTexts) -> Sequence[Step]:
        """All pictures of the pun under `sm`, each alone."""
        del texts
        return tuple(caption_steps(sample)) if setting == "sm" else ()

    def generation(self, task: str, setting: str) -> Generation:
        """Greedy, at most 200 new tokens."""
        del task, setting
        return Generation(max_new_tokens=200)

    def read_answer(self, row: Row) -> Reading:
        """The phrase, the translation or the pun that was said, and what it is worth."""
        if row.status != "ok":
            return Reading(answer=None, rule=row.status)
        if row.task == "grounding":
            return _read_grounding(row)
        return _read_disambiguation(row) if row.task == "disambiguation" else _read_reconstruction(row)

    def similarity(self, row: Row) -> Sequence[SimilarityAsk]:
        """BERTScore of a translation against those of both meanings."""
        if row.task != "disambiguation" or row.status != "ok":
            return ()
        text, targets = _said(row).text, _targets(row)
        if not text or not all(targets):
            return ()
        return tuple(
            SimilarityAsk(column=f"bertscore_{i}", scorer="bertscore", candidate=text, references=(target,))
            for i, target in enumerate(targets)
        )

    def judge(self, row: Row, texts: PromptTexts) -> JudgeAsk | bool | None:
        """Whether the pun was written again; nothing said and the very sentence are decided by rule."""
        if row.task != "reconstruction" or row.status != "ok":
            return None
        text, data = _said(row).text, row.sample.data
        if (decided := _decided(text, data["sentence"])) is not None:
            return decided
        words = texts.fill(
            JUDGE,
            original=data["sentence"],
            candidate=text[:_JUDGED_CHARS],
            phrase=data["phrase"],
            meaning1=data["gloss"][0],
            meaning2=data["gloss"][1],
        )
        step = Step(turns=(user(words),), generation=Generation(max_new_tokens=8), choices=("yes", "no"))
        return JudgeAsk(step=step)

    def read_verdict(self, text: str) -> bool | None:
        """See `unpie_reading.read_judge`."""
        return read_judge(text)

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """See `unpie_metrics`."""
        from pipelines.benchmarks.unpie.metrics import reduce_unpie

        return reduce_unpie(scores, samples)

    def tables(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
        """The paper's tables, and ours."""
        from pipelines.benchmarks.unpie.tables import unpie_tables

        return unpie_tables(metrics, published)

    def figures(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Figure]:
        """Ours: the paper's own are illustrations."""
        from pipelines.benchmarks.unpie.figures import unpie_figures

        return unpie_figures(metrics, published)

    def people(self) -> HumanBaseline:
        """See `unpie_people`."""
        from pipelines.benchmarks.unpie.human import PEOPLE

        return PEOPLE


def _said(row: Row) -> TranslationReading:
    """The sentence that an answer gives in the language asked for."""
    lang, meaning = row.variant.split("/")
    if row.task == "reconstruction":
        return read_translation(row.output or "", "en", row.sample.data["translation"][int(meaning)][lang])
    return read_translation(row.output or "", cast("Literal['de', 'fr', 'ko']", lang), row.sample.data["sentence"])


def _targets(row: Row) -> tuple[str, str]:
    first, second = (pair[row.variant[:2]] for pair in row.sample.data["translation"])
    return first, second


def _decided(text: str, original: str) -> bool | None:
    """What needs no judge; None where one is needed."""
    if not text:
        return False
    return True if equal_by_rule(text, original) else None


def _read_grounding(row: Row) -> Reading:
    read, phrase = read_grounding(row.output or ""), row.sample.data["phrase"]
    match = exact_match(row.output or "", phrase)
    return Reading(
        answer=read.text or None,
        rule="phrase" if read.text else "empty",
        flags=(*read.flags, *_truncated(row)),
        values={"correct": float(match.normalised), "strict": float(match.strict)},
    )


def _read_disambiguation(row: Row) -> Reading:
    said = _said(row)
    values: dict[str, float] = {}
    if not said.text:
        values["correct"] = 0.0
    elif {"bertscore_0", "bertscore_1"} <= row.given.keys():
        first, second = row.given["bertscore_0"], row.given["bertscore_1"]
        asked = int(row.variant[-1])
        values = {
            "bertscore_0": first,
            "bertscore_1": second,
            "margin": first - second if asked == 0 else second - first,
            "correct": float(verdict(first, second, asked)),
            "tie": float(not verdict(first, second, 0) and not verdict(first, second, 1)),
        }
        values = {name: value for name, value in values.items() if math.isfinite(value)}
    return _translation(row, said, values)


def _read_reconstruction(row: Row) -> Reading:
    from pipelines.metrics.meteor import english_name, meteor_english
    from pipelines.metrics.text import sentence_bleu

    said, original = _said(row), row.sample.data["sentence"]
    wordnet = _wordnet()
    values = {
        "bleu4_sentence": sentence_bleu([said.text], [[original]])[0],
        english_name(wordnet): meteor_english([said.text], [[original]], wordnet=wordnet)[0],
    }
    flags: tuple[str, ...] = ()
    if row.verdict.state == "ok":
        values["accepted"] = float(bool(row.verdict.accepted))
        flags = (BY_RULE,) if _decided(said.text, original) is not None else ()
    elif row.verdict.state == "invalid":
        values["accepted"] = 0.0
    return _translation(row, said, values, flags)


def _translation(
    row: Row, said: TranslationReading, values: Mapping[str, float], more: tuple[str, ...] = ()
) -> Reading:
    if "human" in row.given:
        values = {**values, "human": row.given["human"]}
    return Reading(
        answer=said.text or None,
        rule="text" if said.text else "empty",
        flags=(*said.flags, *more, *_truncated(row)),
        values=values,
    )


def _truncated(row: Row) -> tuple[str, ...]:
    return ("truncated",) if row.finish_reason == "length" else ()


@lru_cache(maxsize=1)
def _wordnet() -> Synonyms | None:
    """Loading takes seconds, so it is done once a process."""
    from pipelines.metrics.meteor import find_wordnet

    return find_wordnet()


BENCHMARK = Unpie()
