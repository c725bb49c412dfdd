"""MATE: one object, pointed at in a picture or in a text, and asked for in the other.

Paper: Alonso et al., "Vision-Language Models Struggle to Align Entities across Modalities", ACL 2025, arXiv 2503.03854.
Data: github.com/hitz-zentroa/MATE; huggingface.co/datasets/HiTZ/MATE.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from models.messages import Generation, Media, Step, blank, user
from pipelines.benchmarks.base import BenchmarkDefinition, Ensemble, PromptInput, lazy
from pipelines.benchmarks.mate.answers import gold_json, judge
from pipelines.benchmarks.mate.authors_files import READER, is_run
from pipelines.benchmarks.mate.error_analysis import Overlap, in_scene, overlap
from pipelines.benchmarks.mate.prompts import PROMPT_VERSION, Wording, build_prompt
from pipelines.benchmarks.mate.rows import COT, SETTINGS, find_row, question_of, shots_of
from pipelines.benchmarks.mate.scene import COLORS, CROSSMODAL, SHAPES, TASKS, UNIMODAL, linking, parse_scene
from pipelines.benchmarks.mate.source import PICTURE, WHITE, read_mate
from pipelines.benchmarks.records import Prompt, Publication, Reading, Row, Sample
from pipelines.errors import DatasetError

WHITE_PICTURE = blank("FFFFFF", 480, 320)  # stands for the data's own white picture where that is absent
BLACK_PICTURE = blank("000000", 480, 320)  # in its place in the set of prompts `black`, as the paper tried

_AS_DISTRIBUTED = "mate-input-v1"
_BUILT = f"mate-built-v{PROMPT_VERSION}"
_PAPER = "mate-built-paper"
_BLACK = {version: f"{version}-black" for version in (_AS_DISTRIBUTED, _BUILT)}
_OPTIONS = {"color": COLORS, "shape": SHAPES}


def _prompts(query: PromptInput) -> Iterator[Prompt]:
    """Yield the row's own prompt, or a built one; nothing where the data have no such row."""
    sample, texts = query.sample, query.texts
    row = find_row(sample, query.task, query.setting)
    if row is None:
        return
    if row["text"] is not None:
        version, prompt_text = _AS_DISTRIBUTED, texts.fill(_AS_DISTRIBUTED, input_str=row["text"])
    else:
        scene = parse_scene(sample.data["scene"])
        wording: Wording = "paper" if texts.version(_BUILT).removesuffix("+custom") == _PAPER else "own"
        prompt = build_prompt(scene, question_of(row), shots_of(row), cot=query.setting == COT, wording=wording)
        version, prompt_text = _BUILT, texts.fill(_BUILT, prompt=prompt)
    in_force, picture = texts.version(version), _picture(sample, query.task)
    if in_force == _BLACK[version]:
        # Only the picture of `txt2txt` is another; all else is the request of the default.
        in_force, picture = (in_force, BLACK_PICTURE) if query.task == "txt2txt" else (version, picture)
    step = Step(
        turns=(user(picture, prompt_text),),
        generation=Generation(max_new_tokens=500 if query.setting == COT else 80),
        choices=_choices(sample, row["target"]),
    )
    yield Prompt(version=in_force, steps=(step,))


def _read_answer(row: Row) -> Reading:
    """Read the answer strictly and leniently, whether it is in the scene, and which object it means instead."""
    data_row = find_row(row.sample, row.task, row.setting)
    if data_row is None:
        raise DatasetError(f"{row.sample.sample_id} has no row of {row.task}, {row.setting}; ingest again")
    scene, question = parse_scene(row.sample.data["scene"]), question_of(data_row)
    verdict = judge(row.output or "", data_row["gold"])
    values = {
        "correct": float(verdict.exact_match),
        "format_ok": float(verdict.format_ok),
        "lenient": float(verdict.exact_match_lenient),
        "in_scene": float(in_scene(verdict.answer, scene, question.target_attribute)),
    }
    if row.task in CROSSMODAL and not linking(scene, question.object_index(scene), question.hidden).k:
        values |= _overlap_values(overlap(scene, question, verdict.answer))
    return Reading(
        answer=verdict.answer.text if verdict.answer else None,
        rule="json" if verdict.format_ok else "no json",
        flags=("truncated",) if row.finish_reason == "length" else (),
        values=values,
    )


def _expected(row: Row) -> Sequence[str]:
    """Return the gold answer as a solved example shows it."""
    data_row = find_row(row.sample, row.task, row.setting)
    return () if data_row is None else (gold_json(data_row["gold"]),)


def _picture(sample: Sample, task: str) -> Media:
    ref = sample.ref(WHITE if task == "txt2txt" else PICTURE)
    if ref is not None:
        return Media("image", ref.sha256)
    if task != "txt2txt":
        raise DatasetError(f"{sample.sample_id}: no picture; ingest again")
    return WHITE_PICTURE


def _choices(sample: Sample, target: str) -> tuple[str, ...]:
    values: list[Any] = list(_OPTIONS.get(target, [item[target] for item in sample.data["scene"]["objects"]]))
    return tuple(gold_json(value) for value in values)


def _overlap_values(result: Overlap) -> dict[str, float]:
    values = {"overlap": -1.0 if result.label == "-" else float(result.label)}
    if result.closer is not None:
        closer = result.closer
        values["closer"], values["closer_depth"] = float(closer.distance), float(closer.depth)
        values["closer_horizontal"], values["closer_alone"] = float(closer.horizontal), float(closer.alone)
    return values


BENCHMARK: Final = BenchmarkDefinition(
    name="mate",
    version="1",
    title="MATE",
    citation="arXiv 2503.03854; huggingface.co/datasets/HiTZ/MATE",
    tasks={task: SETTINGS if task in CROSSMODAL else SETTINGS[:3] for task in TASKS},
    derived_tasks={"crossmodal": CROSSMODAL, "unimodal": UNIMODAL},
    headline="exact_match",
    headline_at=("crossmodal", "2-shot"),
    measure="Share of questions about a scene of objects whose answer equals the expected one, read strictly. Higher is"
    " better.",
    secondary_metrics=("ose",),
    lower_is_better=("ose",),
    descriptive_values=("overlap", "closer", "closer_alone", "closer_depth", "closer_horizontal"),
    publication=Publication(
        settings={"": "2-shot"},  # people and chance
        requests=dict.fromkeys(TASKS, 2750),
        foreign_items={"generated": "generated scenes"},
        paper_prompts=(_AS_DISTRIBUTED,),
        averaged={"random, mean of 10 runs": "Random"},
    ),
    prompt_texts={
        _AS_DISTRIBUTED: "{input_str}",
        _BUILT: "{prompt}",
        _PAPER: "{prompt}",
        _BLACK[_AS_DISTRIBUTED]: "{input_str}",
        _BLACK[_BUILT]: "{prompt}",
    },
    prompt_sets={"paper": {_BUILT: _PAPER}, "black": _BLACK},
    source=lambda source, _column_map: read_mate(source),
    prompts=_prompts,
    read=_read_answer,
    ensemble=Ensemble(metrics=lazy(__package__, "people.mean_of_runs"), is_member=is_run, replaces_members=True),
    expected=_expected,
    predictions_reader=READER,
    people=lazy(__package__, "people.MateHumanBaseline"),
    metrics=lazy(__package__, "metrics.reduce_scores"),
    measures=lazy(__package__, "metrics.paired_measures"),
    tables=lazy(__package__, "tables.make_tables"),
    figures=lazy(__package__, "figures.make_figures"),
    item_lists=lazy(__package__, "error_analysis.item_lists"),
)
