"""A fresh twin of a MATE data set: for each of its scenes a new one about which the same kind of question is asked.

A twin has the id of its scene, so that runs on both pair by row. Equal are the number of objects, task, pointer and
target attribute, the number of attributes that link the object in the question with the most solved examples, and the
wording where it is the paper's or ours. Colors, shapes, positions, values and the answer are drawn anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from jobs.generate.generate import Example, check_place, store_examples
from jobs.generate.objects import Layout, draw_layout
from jobs.generate.parameters import Options, Plan, stream
from jobs.generate.processes import Processes
from jobs.generate.questions import Balance, Pair, Pools, Search, ask, pools_of, with_shots
from pipelines.benchmarks.mate.prompts import WORDINGS, Wording, build_prompt
from pipelines.benchmarks.mate.rows import COT, SETTINGS, question_of, shots_of
from pipelines.benchmarks.mate.scene import FILE_KINDS, Question, linking, parse_scene
from pipelines.benchmarks.records import Sample
from pipelines.errors import UsageError
from pipelines.hashing import stable_id

_ATTEMPTS: Final = 40  # scenes drawn for one that allows all its parameters; then the number of links may differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a twin shares with a scene."""

    example_id: str
    objects: int
    # First part of a file's name -> task, (target, pointer), and attributes that link the object.
    pairs: Mapping[str, tuple[str, Pair, int]]
    settings: frozenset[tuple[str, str]]  # kind and setting of its rows
    wording: Wording = "own"
    is_worded_alike: bool = False  # whether that wording gives its prompts byte for byte
    may_show_target: bool = False

    @classmethod
    def of(cls, sample: Sample) -> Self:
        """Return those of an ingested scene."""
        rows = {(row["task"], row["setting"]): row for row in sample.data["rows"]}
        scene = parse_scene(sample.data["scene"])
        pairs, settings = {}, set()
        for kind, tasks in FILE_KINDS.items():
            kind_rows = [row for (task, _), row in rows.items() if task in tasks]
            settings |= {(kind, row["setting"]) for row in kind_rows}
            if kind_rows:
                question = question_of(max(kind_rows, key=lambda row: (row["setting"] != COT, row["setting"])))
                links = linking(scene, question.object_index(scene), question.hidden).k
                pair = (question.target_attribute, question.pointer_attribute)
                pairs[kind] = (question.task, pair, links)
        wording, is_alike = _wording(sample)
        return cls(
            example_id=sample.sample_id,
            objects=len(scene.objects),
            pairs=pairs,
            settings=frozenset(settings),
            wording=wording,
            is_worded_alike=is_alike,
            may_show_target=any(row["shot_shows_target"] for row in rows.values()),
        )


def _wording(sample: Sample) -> tuple[Wording, bool]:
    """Return whose wording a scene's prompts have, and whether it gives them byte for byte.

    Solved examples that ask for their own pointer, whose target is not known, are not looked at.
    """
    texts = [row for row in sample.data["rows"] if row["text"] is not None]
    if not texts:  # built by us
        return "own", True
    scene = parse_scene(sample.data["scene"])
    comparable = [
        row for row in texts if row["shots"] is not None and row["target"] not in {name for name, _ in row["shots"]}
    ]
    for name in WORDINGS:
        if comparable and all(
            build_prompt(scene, question_of(row), _shots(row), cot=row["setting"] == COT, wording=name) == row["text"]
            for row in comparable
        ):
            return name, True
    return "paper", False


def _shots(row: Mapping[str, Any]) -> tuple[Question, ...]:
    return shots_of({**row, "shot_targets": [row["target"]] * len(row["shots"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterpartPlan(Plan):
    """The parameters of a twin, as every row records them."""

    twin_of: str  # fingerprint of the data

    @property
    def parameters(self) -> dict[str, object]:
        """Return the plan as every row records it."""
        return {**Plan.parameters.fget(self), "twin_of": self.twin_of}  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterpartSummary:
    """The contents of a twin."""

    out: Path
    scenes: int
    rows: dict[str, int]  # file name without ending -> rows
    equal_links: int  # scenes whose cross-modal question has the same number of linking attributes
    equal_wording: int  # scenes whose prompts have the same words


def generate_counterpart(
    out: Path, samples: Iterable[Sample], fingerprint: str, seed: int, workers: int = 1
) -> CounterpartSummary:
    """Write a twin of ingested scenes, as `generate.generate` writes a data set; its errors."""
    parameters = [Parameters.of(sample) for sample in samples]
    shots = {SETTINGS.index(setting) for each in parameters for _, setting in each.settings if setting != COT}
    has_steps = any(setting == COT for each in parameters for _, setting in each.settings)
    plan = CounterpartPlan(
        counts=tuple(sorted({each.objects for each in parameters})),
        examples=len(parameters),
        seed=seed,
        options=Options(
            shots=tuple(sorted(shots | ({2} if has_steps else set()))),
            cot=has_steps,
            shots_may_show_target=any(each.may_show_target for each in parameters),
        ),
        twin_of=fingerprint,
    )
    plan.check()
    check_place(out, workers)
    with Processes(min(workers, len(parameters))) as processes:
        examples = list(processes.map(partial(draw_counterpart, plan), parameters))
        rows = store_examples(out, plan, examples, processes)
    return CounterpartSummary(
        out=out,
        scenes=len(parameters),
        rows=rows,
        equal_links=sum(map(_has_equal_links, parameters, examples)),
        equal_wording=sum(each.is_worded_alike for each in parameters),
    )


def draw_counterpart(plan: Plan, parameters: Parameters) -> Example:
    """Draw one scene with its questions; UsageError where no scene allows a pair of attributes."""
    first = int(stable_id({"twin": parameters.example_id})[:9], 16) * _ATTEMPTS
    fallback: Example | None = None
    for turn in range(first, first + _ATTEMPTS):
        example = _drawn(plan, parameters, draw_layout(plan, parameters.objects, turn))
        if example and _has_equal_links(parameters, example):
            return example
        fallback = fallback or example
    if fallback is None:
        raise UsageError(
            f"{parameters.example_id}: none of {_ATTEMPTS} scenes of {parameters.objects} objects allows its questions"
        )
    return fallback


def _drawn(plan: Plan, parameters: Parameters, layout: Layout) -> Example | None:
    """Return the questions about a scene, whose appearances may change for them; None where it does not allow one."""
    rng = stream(plan.seed, layout.count, layout.turn, "questions")
    questions = []
    for kind, (task, pair, links) in parameters.pairs.items():
        pools = pools_of(layout.scene, layout.object_set)
        if not all(pools[attribute] for attribute in pair):
            return None
        if kind == "mm":
            balance = _OnePair((task,), pair=pair, links=links)
            result = Search(rng=rng, layout=layout, task=task, balance=balance, options=plan.options).first()
            layout, question = result or (layout, ask(rng, task, pair, pools[pair[1]]))
        else:
            question = ask(rng, task, pair, pools[pair[1]])
        questions.append((kind, with_shots(rng, layout, question, plan.options)))
    return Example(
        layout, tuple(questions), name=parameters.example_id, wording=parameters.wording, settings=parameters.settings
    )


@dataclass(slots=True)
class _OnePair(Balance):
    """Asks for one pair of attributes and one number of links."""

    pair: Pair = ("", "")
    links: int = 0

    def next_pairs(self, count: int, task: str, pools: Pools) -> list[Pair]:
        del count, task
        return [self.pair] if all(pools[attribute] for attribute in self.pair) else []

    def next_strata(self, count: int, task: str) -> list[int]:
        del count, task
        return [self.links]


def _has_equal_links(parameters: Parameters, example: Example) -> bool:
    questions, scene = dict(example.questions), example.layout.scene
    if "mm" not in questions:
        return True
    question = questions["mm"].question
    return linking(scene, question.object_index(scene), question.hidden).k == parameters.pairs["mm"][2]


def shared_parameters(a: Mapping[str, Sample], b: Mapping[str, Sample]) -> dict[str, tuple[int, int]]:
    """Return in how many scenes of both each parameter is equal, and in how many it could be; by what it is."""
    pairs = [(Parameters.of(sample), Parameters.of(b[name])) for name, sample in a.items() if name in b]
    questions = [(x.pairs[kind], y.pairs[kind], kind) for x, y in pairs for kind in x.pairs if kind in y.pairs]
    crossmodal = [(x, y) for x, y, kind in questions if kind == "mm"]
    return {
        "number of objects": (sum(x.objects == y.objects for x, y in pairs), len(pairs)),
        "task": (sum(x[0] == y[0] for x, y, _ in questions), len(questions)),
        "target and pointer attribute": (sum(x[1] == y[1] for x, y, _ in questions), len(questions)),
        "attributes that link the object": (sum(x[2] == y[2] for x, y in crossmodal), len(crossmodal)),
        "wording": (sum(x.wording == y.wording and x.is_worded_alike for x, y in pairs), len(pairs)),
    }
