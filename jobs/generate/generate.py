"""Generate a MATE-style data set: unpublished, any number of objects, the same bytes for the same seed."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from secrets import token_hex

from PIL import Image

from jobs.generate.objects import Layout, make_layout
from jobs.generate.parameters import GENERATOR_VERSION, Objects, Options, Plan, counts_of, stream
from jobs.generate.picture import draw_picture
from jobs.generate.processes import Processes
from jobs.generate.questions import Balance, QuestionItem, Search, ask, pools_of, with_shots
from models.guards.regular_files import check_replaceable
from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.prompts import Wording, build_prompt, scene_text
from pipelines.benchmarks.mate.rows import COT, SETTINGS
from pipelines.benchmarks.mate.scene import FILE_KINDS, TEXTUAL, VISUAL, linking, linking_attributes
from pipelines.errors import UsageError
from pipelines.storage.local_store import open_locked
from pipelines.storage.lock import exclusive
from pipelines.storage.store import Store

BLANK_IMAGE = "0" * 32 + ".png"  # the white picture that every `txt2txt` row shares


@dataclass(frozen=True, slots=True)
class Example:
    """One scene with its questions."""

    layout: Layout
    questions: tuple[tuple[str, QuestionItem], ...]  # `mm` with the cross-modal question, `um` with the unimodal one
    name: str = ""  # of the scene in all files; '': a digest of its data
    wording: Wording = "own"  # of the prompts
    settings: frozenset[tuple[str, str]] | None = None  # kinds and settings of its rows; None: all of the plan

    @property
    def example_id(self) -> str:
        """The name of the scene in all files."""
        return self.name or example_id(self.layout)

    def has(self, kind: str, setting: str) -> bool:
        """Return whether it has a row of this kind and setting."""
        return self.settings is None or (kind, setting) in self.settings


def file_names(options: Options) -> list[str]:
    """Return the names of the JSONL files of a data set, without their ending."""
    names = [f"{kind}_{shots}shot" for kind in _kinds(options) for shots in options.shots]
    return names + (["mm_2shot_cot"] if options.cot and "mm" in _kinds(options) else [])


def example_id(layout: Layout) -> str:
    """Return the name of a scene in all files: a digest of its data."""
    text = json.dumps(_scene_json(layout), ensure_ascii=False)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def render_rows(plan: Plan, example: Example) -> dict[str, str]:
    """Return one line of JSON, without line feed, by file name without ending, of one scene."""
    lines = {}
    for kind, item in example.questions:
        for shots in plan.options.shots:
            if example.has(kind, SETTINGS[shots]):
                lines[f"{kind}_{shots}shot"] = _row(plan, example, item, shots, cot=False)
        if kind == "mm" and plan.options.cot and example.has(kind, COT):
            lines["mm_2shot_cot"] = _row(plan, example, item, 2, cot=True)
    return lines


def _kinds(options: Options) -> list[str]:
    return [kind for kind, tasks in FILE_KINDS.items() if set(tasks) & set(options.tasks)]


def _row(plan: Plan, example: Example, item: QuestionItem, shots: int, *, cot: bool) -> str:
    layout, question = example.layout, item.question
    scene = layout.scene
    examples = item.shots[:shots]
    object_index, gold, name = question.object_index(scene), question.gold(scene), example.example_id
    pools = pools_of(scene, layout.object_set)
    row = {
        "example_id": name,
        "task": question.task,
        "input_str": build_prompt(scene, question, examples, cot=cot, wording=example.wording),
        "gold_reference": gold_json(gold),
        "image": BLANK_IMAGE if question.task == "txt2txt" else f"{name}.png",
        "scene": _scene_json(layout),
        "scene_format": "json",
        "object_count": layout.count,
        "pointer_attribute": {question.pointer_attribute: question.pointer_value},
        "target_attribute": {question.target_attribute: gold},
        "few_shot_attributes": [[shot.pointer_attribute, shot.pointer_value] for shot in examples],
        "key_attributes": {"img": {key: pools[key] for key in VISUAL}, "data": {key: pools[key] for key in TEXTUAL}},
        "linking_attributes": linking_attributes(scene, object_index, question.hidden),
        "generator": {"version": GENERATOR_VERSION, "seed": plan.seed, "parameters": plan.parameters},
    }
    for hidden in question.hidden:
        text = scene_text(scene, question.hidden)
        assert not any(str(item.value(hidden)) in text for item in scene.objects), f"{hidden} shows in the text"
    return json.dumps(row, ensure_ascii=False)


def _scene_json(layout: Layout) -> dict[str, object]:
    """Return the scene with the keys of the published data; of the renderer's settings only the size is real."""
    return {
        "camera_location": list(layout.camera.location),
        "image_filename": f"generated_{layout.count:03d}_{layout.turn:06d}.png",
        "objects": [item.as_json() for item in layout.scene.objects],
        "metadata": {
            "width": layout.camera.width,
            "height": layout.camera.height,
            "resolution_percentage": 100,
            "blur_glossy": 0.0,
            "render_num_samples": 0,
            "render_tile_size": 0,
            "Lamp_Key": 0.0,
            "Lamp_Back": 0.0,
            "Lamp_Fill": 0.0,
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedSummary:
    """The contents of a generated data set."""

    out: Path  # its folder
    scenes: int  # scenes, and pictures of them; the white picture is extra
    rows: dict[str, int]  # file name without ending -> rows
    tasks: dict[str, int]  # task -> scenes that ask it
    links: dict[str, int]  # `1` `2` `3`, or `3dc` for coordinates alone -> cross-modal questions that they link


def generate(
    out: Path, objects: Objects, examples: int, seed: int, workers: int = 1, *, options: Options | None = None
) -> GeneratedSummary:
    """Write a data set in the layout of the published development version: JSONL files and `img/`.

    Args:
        out: its folder; made where it is missing, refused where it holds another data set.
        objects: numbers of objects, taken in turn: (lowest, highest), both included, or a range.
        examples: scenes in all, each with a cross-modal and a unimodal question.
        seed: of all random draws.
        workers: processes; they do not change the data.
        options: everything else; the defaults where None.

    Raises:
        UsageError: something that cannot be made, named in the message; nothing was written then.
        OSError: the folder cannot be written to.
    """
    plan = Plan(counts=counts_of(objects), examples=examples, seed=seed, options=options or Options())
    plan.check()
    check_place(out, workers)
    with Processes(min(workers, examples)) as processes:
        layouts = processes.map(partial(make_layout, plan), range(examples))
        balance, requests = ask_all(plan, layouts)
        rows = store_examples(out, plan, requests, processes)
    return _summary(out, plan, balance, rows)


def check_place(out: Path, workers: int) -> None:
    """Raise UsageError for no workers, and for a place that is a file."""
    if workers < 1:
        raise UsageError(f"workers: 1 or more (got {workers})")
    if out.exists() and not out.is_dir():
        raise UsageError(f"out: {out} is a file, give a folder")


def store_examples(out: Path, plan: Plan, examples: Sequence[Example], processes: Processes) -> dict[str, int]:
    """Write scenes, their pictures and questions; return the rows by file. UsageError if another data set is there."""
    _refuse_mixture(out, plan, examples)
    images = out / "img"
    images.mkdir(parents=True, exist_ok=True)
    with exclusive(Store(str(out)), "--out", below=False):
        rows = _write(out, plan, processes.map(partial(_make, plan, images), examples))
        blank = Image.new("RGB", (plan.options.width, plan.options.height), (255, 255, 255))
        if any(item.question.task == "txt2txt" for example in examples for _, item in example.questions):
            _save(blank, images / BLANK_IMAGE)
    return rows


def ask_all(plan: Plan, layouts: Iterable[Layout]) -> tuple[Balance, list[Example]]:
    """Ask about scenes in the order of their index, so that every group fills alike.

    Returns the counts of questions, and the scenes with theirs; appearances may have changed to serve a stratum.
    """
    balance = Balance(plan.options.tasks)
    return balance, [_ask(plan, layout, balance) for layout in layouts]


def _ask(plan: Plan, layout: Layout, balance: Balance) -> Example:
    options, count = plan.options, layout.count
    rng = stream(plan.seed, count, layout.turn, "questions")
    questions = []
    for kind, family in FILE_KINDS.items():
        task = balance.next_task(count, family, plan.first_task(count, layout.turn))
        if task is None:
            continue
        if kind == "mm" and options.stratify is not None:
            layout, question = Search(rng=rng, layout=layout, task=task, balance=balance, options=options).run()
        else:
            pools = pools_of(layout.scene, layout.object_set)
            pair = balance.next_pairs(count, task, pools)[0]
            question = ask(rng, task, pair, pools[pair[1]])
        scene = layout.scene
        balance.record(count, question, linking(scene, question.object_index(scene), question.hidden).k)
        questions.append((kind, with_shots(rng, layout, question, options)))
    return Example(layout, tuple(questions))


def _make(plan: Plan, images: Path, example: Example) -> dict[str, str]:
    picture = draw_picture(example.layout.solids, example.layout.camera)
    _save(picture, images / f"{example.example_id}.png")
    return render_rows(plan, example)


def _save(picture: Image.Image, path: Path) -> None:
    check_replaceable(path, in_place=True)
    picture.save(path, format="PNG")


def _write(out: Path, plan: Plan, examples: Iterable[dict[str, str]]) -> dict[str, int]:
    """Write the rows to temporary names and rename them at the end: an existing file is complete."""
    names = {name: out / f".vlmsweep-{token_hex(16)}.tmp" for name in file_names(plan.options)}
    rows = Counter(dict.fromkeys(names, 0))
    with ExitStack() as stack:
        files = {}
        for name, path in names.items():
            check_replaceable(out / f"{name}.jsonl")
            stack.callback(path.unlink, missing_ok=True)
            files[name] = stack.enter_context(TextIOWrapper(open_locked(path), encoding="utf-8", newline="\n"))
        for lines in examples:
            for name, line in lines.items():
                files[name].write(line + "\n")
                rows[name] += 1
        for file in files.values():
            file.flush()
        for name, path in names.items():
            path.replace(out / f"{name}.jsonl")
    return dict(rows)


def _refuse_mixture(out: Path, plan: Plan, examples: Sequence[Example]) -> None:
    ours = {f"{example.example_id}.png" for example in examples} | {BLANK_IMAGE}
    ours |= {f"{name}.jsonl" for name in file_names(plan.options)}
    existing = [*out.glob("*.jsonl"), *(out / "img").glob("*.png")]
    foreign = sorted(str(path.relative_to(out)) for path in existing if path.name not in ours)
    if foreign:
        raise UsageError(
            f"out: {out} holds another data set ({len(foreign)} files, such as {foreign[0]}); give an empty folder"
        )


def _summary(out: Path, plan: Plan, balance: Balance, rows: dict[str, int]) -> GeneratedSummary:
    tasks: Counter[str] = Counter(dict.fromkeys(plan.options.tasks, 0))
    links: Counter[str] = Counter({"1": 0, "2": 0, "3": 0, "3dc": 0})
    for (_, task), count in balance.used_tasks.items():
        tasks[task] += count
    for (_, task, k), count in balance.used_strata.items():
        if task in FILE_KINDS["mm"]:
            links[str(k) if k else "3dc"] += count
    return GeneratedSummary(out=out, scenes=plan.examples, rows=rows, tasks=dict(tasks), links=dict(links))
