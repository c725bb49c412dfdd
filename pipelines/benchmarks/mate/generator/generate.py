"""Generate a MATE-style data set: unpublished, any number of objects, the same bytes for the same seed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from statistics import fmean

from PIL import Image

from pipelines.benchmarks.mate.generator.parameters import Objects, Options, Plan, counts_of, stream
from pipelines.benchmarks.mate.generator.picture import draw_picture
from pipelines.benchmarks.mate.generator.processes import Processes
from pipelines.benchmarks.mate.generator.questions import KINDS, Balance, QuestionItem, ask, choose_shots, pools_of
from pipelines.benchmarks.mate.generator.rows import BLANK_IMAGE, Example, file_names, render_rows
from pipelines.benchmarks.mate.generator.scenes import Layout, make_layout
from pipelines.benchmarks.mate.generator.strata import Search
from pipelines.benchmarks.mate.linking import linking
from pipelines.benchmarks.mate.scene import TASKS
from pipelines.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How evenly questions fall on cells of (object count, target, pointer)."""

    mean: float  # questions per cell
    lowest: int  # in the emptiest cell
    highest: int  # in the fullest


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedSummary:
    """The contents of a generated data set."""

    out: Path  # its folder
    scenes: int  # scenes, and pictures of them; the white picture is extra
    rows: dict[str, int]  # file name without ending -> rows
    tasks: dict[str, int]  # task -> scenes that ask it
    cells: dict[str, Spread]  # task -> how even its questions are
    links: dict[str, int]  # `1` `2` `3`, or `3dc` for coordinates alone -> cross-modal questions that they link


def generate(
    out: Path,
    objects: Objects,
    examples: int,
    seed: int,
    workers: int = 1,
    *,
    options: Options | None = None,
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
    rows = _write(out, plan, processes.map(partial(_make, plan, images), examples))
    blank = Image.new("RGB", (plan.options.width, plan.options.height), (255, 255, 255))
    if any(item.question.task == "txt2txt" for example in examples for _, item in example.questions):
        blank.save(images / BLANK_IMAGE, format="PNG")
    return rows


def ask_all(plan: Plan, layouts: Iterable[Layout]) -> tuple[Balance, list[Example]]:
    """Ask about scenes in the order of their index, so that every cell fills alike.

    Returns the counts of questions, and the scenes with theirs; appearances may have changed to serve a stratum.
    """
    balance = Balance(plan.options.tasks)
    return balance, [_ask(plan, layout, balance) for layout in layouts]


def _ask(plan: Plan, layout: Layout, balance: Balance) -> Example:
    options, count = plan.options, layout.count
    rng = stream(plan.seed, count, layout.turn, "questions")
    questions = []
    for kind, family in KINDS.items():
        task = balance.next_task(count, family)
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
        shots = choose_shots(
            rng,
            scene,
            question,
            pools_of(scene, layout.object_set),
            count=max(options.shots),
            may_show_target=options.shots_may_show_target,
        )
        questions.append((kind, QuestionItem(question, shots)))
    return Example(layout, tuple(questions))


def _make(plan: Plan, images: Path, example: Example) -> dict[str, str]:
    picture = draw_picture(example.layout.solids, example.layout.camera)
    picture.save(images / f"{example.example_id}.png", format="PNG")
    return render_rows(plan, example)


def _write(out: Path, plan: Plan, examples: Iterable[dict[str, str]]) -> dict[str, int]:
    """Write the rows to temporary names and rename them at the end: an existing file is complete."""
    names = {name: out / f".vlmsweep-{token_hex(16)}.tmp" for name in file_names(plan.options)}
    rows = Counter(dict.fromkeys(names, 0))
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(path.open("x", encoding="utf-8", newline="\n")) for name, path in names.items()
        }
        for lines in examples:
            for name, line in lines.items():
                files[name].write(line + "\n")
                rows[name] += 1
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
        if task in KINDS["mm"]:
            links[str(k) if k else "3dc"] += count
    cells = {}
    for task in plan.options.tasks:
        pointers, targets = TASKS[task]
        used = [
            balance.used_pairs[count, task, (target, pointer)]
            for count in plan.counts
            for target in targets
            for pointer in pointers
            if target != pointer
        ]
        cells[task] = Spread(mean=fmean(used), lowest=min(used), highest=max(used))
    return GeneratedSummary(out=out, scenes=plan.examples, rows=rows, tasks=dict(tasks), cells=cells, links=dict(links))
