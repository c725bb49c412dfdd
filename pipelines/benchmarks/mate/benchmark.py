"""MATE: one object, pointed at in a picture or in a text, and asked for in the other.

Paper: Alonso et al., "Vision-Language Models Struggle to Align Entities across Modalities", ACL 2025, arXiv 2503.03854.
Data: github.com/hitz-zentroa/MATE; huggingface.co/datasets/HiTZ/MATE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from models.messages import Generation, Media, Step, blank, user
from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import HumanBaseline
from pipelines.benchmarks.mate.answers import gold_json, judge
from pipelines.benchmarks.mate.error_analysis import Overlap, in_scene, overlap
from pipelines.benchmarks.mate.linking import linking
from pipelines.benchmarks.mate.prompts import PROMPT_VERSION, build_prompt
from pipelines.benchmarks.mate.rows import COT, CROSSMODAL, SETTINGS, find_row, question_of, shots_of
from pipelines.benchmarks.mate.scene import COLORS, SHAPES, parse_scene
from pipelines.benchmarks.mate.scene_rows import PICTURE, WHITE
from pipelines.benchmarks.mate.source import read_mate
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Metric, Notice, Prompt, RawSample, Reading, Rejection, Row, Sample
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.tables import Table
from pipelines.errors import DatasetError

if TYPE_CHECKING:
    import pandas as pd

WHITE_PICTURE = blank("FFFFFF", 480, 320)
"""Stands for the data's own white picture where that is absent."""

_AS_DISTRIBUTED = "mate-input-v1"
_BUILT = f"mate-built-v{PROMPT_VERSION}"
_OPTIONS = {"color": COLORS, "shape": SHAPES}


class Mate(Benchmark):
    """See the module's docstring."""

    name = "mate"
    version = "1"
    title = "MATE"
    source = "arXiv 2503.03854; huggingface.co/datasets/HiTZ/MATE"
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "img2txt": SETTINGS,
        "txt2img": SETTINGS,
        "img2img": SETTINGS[:3],
        "txt2txt": SETTINGS[:3],
    }
    derived_tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "crossmodal": CROSSMODAL,
        "unimodal": ("img2img", "txt2txt"),
    }
    headline = "exact_match"
    beside_headline = ("ose",)
    descriptive_values = ("overlap", "closer", "closer_alone", "closer_depth", "closer_horizontal")
    prompt_texts: ClassVar[Mapping[str, str]] = {_AS_DISTRIBUTED: "{input_str}", _BUILT: "{prompt}"}

    def read(
        self, source: Source, *, column_map: Mapping[str, str] | None = None
    ) -> Iterator[RawSample | Rejection | Notice]:
        """Read the development folder or the public version's Parquet; see `mate_source`."""
        del column_map
        yield from read_mate(source)

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
        """The row's own text, or one that is built; nothing where the data have no such row."""
        del seed, captions
        row = find_row(sample, task, setting)
        if row is None:
            return
        if row["text"] is not None:
            version, words = _AS_DISTRIBUTED, texts.fill(_AS_DISTRIBUTED, input_str=row["text"])
        else:
            scene = parse_scene(sample.data["scene"])
            prompt = build_prompt(scene, question_of(row), shots_of(row), cot=setting == COT)
            version, words = _BUILT, texts.fill(_BUILT, prompt=prompt)
        step = Step(
            turns=(user(_picture(sample, task), words),),
            generation=self.generation(task, setting),
            choices=_choices(sample, row["target"]),
        )
        yield Prompt(version=texts.version(version), steps=(step,))

    def generation(self, task: str, setting: str) -> Generation:
        """Greedy; 80 new tokens, 500 where steps are asked for."""
        del task
        return Generation(max_new_tokens=500 if setting == COT else 80)

    def read_answer(self, row: Row) -> Reading:
        """Both readings, whether the answer is in the scene, and what was meant instead where coordinates decide."""
        if row.status != "ok":
            return Reading(answer=None, rule=row.status)
        own = find_row(row.sample, row.task, row.setting)
        if own is None:
            raise DatasetError(f"{row.sample.sample_id} has no row of {row.task}, {row.setting}; ingest again")
        scene, question = parse_scene(row.sample.data["scene"]), question_of(own)
        verdict = judge(row.output or "", own["gold"])
        values = {
            "correct": float(verdict.exact_match),
            "format_ok": float(verdict.format_ok),
            "lenient": float(verdict.exact_match_lenient),
            "in_scene": float(in_scene(verdict.answer, scene, question.target_attribute)),
        }
        if row.task in CROSSMODAL and not linking(scene, question.asked(scene), question.hidden).k:
            values |= _instead(overlap(scene, question, verdict.answer))
        return Reading(
            answer=verdict.answer.text if verdict.answer else None,
            rule="json" if verdict.format_ok else "no json",
            flags=("truncated",) if row.finish_reason == "length" else (),
            values=values,
        )

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """See `mate_metrics`."""
        from pipelines.benchmarks.mate.metrics import reduce_mate

        return reduce_mate(scores, samples)

    def tables(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
        """Tables 1 to 5, 8 and 9 of the paper, and ours."""
        from pipelines.benchmarks.mate.tables import mate_tables

        return mate_tables(metrics, published)

    def figures(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Figure]:
        """Figures 2 to 5, and ours."""
        from pipelines.benchmarks.mate.figures import mate_figures

        return mate_figures(metrics, published)

    def people(self) -> HumanBaseline:
        """See `mate_people`."""
        from pipelines.benchmarks.mate.human import PEOPLE

        return PEOPLE


def _picture(sample: Sample, task: str) -> Media:
    ref = sample.ref(WHITE if task == "txt2txt" else PICTURE)
    if ref is not None:
        return Media("image", ref.sha256)
    if task != "txt2txt":
        raise DatasetError(f"{sample.sample_id}: no picture; ingest again")
    return WHITE_PICTURE


def _choices(sample: Sample, target: str) -> tuple[str, ...]:
    """The options of a visual target, else what the scene's objects have, repeats kept."""
    values: list[Any] = list(_OPTIONS.get(target, [item[target] for item in sample.data["scene"]["objects"]]))
    return tuple(gold_json(value) for value in values)


def _instead(found: Overlap) -> dict[str, float]:
    values = {"overlap": -1.0 if found.label == "-" else float(found.label)}
    if found.closer is not None:
        closer = found.closer
        values["closer"], values["closer_depth"] = float(closer.distance), float(closer.depth)
        values["closer_horizontal"], values["closer_alone"] = float(closer.horizontal), float(closer.alone)
    return values


BENCHMARK = Mate()
