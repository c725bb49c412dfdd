"""Build MATE prompts, for rows that come without one and for generated data, in our own words or in the paper's.

`wordings.yaml` has the words. What the paper's figures do not show follows their pattern; each block is a line. A
change of any text of our own requires a new `PROMPT_VERSION`.
"""

import json
import random
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from pipelines.benchmarks.mate.answers import Gold, gold_json
from pipelines.benchmarks.mate.scene import COLORS, CROSSMODAL, SHAPES, TASKS, Question, Scene, linking, pointer_pool
from pipelines.benchmarks.prompt_templates import load_yaml

PROMPT_VERSION: Final = "1"
Wording: TypeAlias = Literal["paper", "own"]
WORDINGS: Final[Mapping[Wording, Mapping[str, Any]]] = load_yaml(__package__, "wordings.yaml")

_COORDS: Final = "3d_coords"
_NAMES: Final = {_COORDS: "3D coordinates"}
_OPTIONS: Final = {"color": COLORS, "shape": SHAPES}


def build_prompt(
    scene: Scene, question: Question, shots: Sequence[Question] = (), *, cot: bool = False, wording: Wording = "own"
) -> str:
    """Return the text of one request, with solved `shots` on the same scene, shown in this order.

    The attribute that the question hides is absent from the scene's text; `cot` asks for, and shows, the steps between.

    Raises:
        ValueError: a pointer is not unique in `scene`, or steps are requested of a unimodal task.
    """
    words, task = WORDINGS[wording], question.task
    if cot and task not in CROSSMODAL:
        raise ValueError(f"prompts with steps exist for {', '.join(CROSSMODAL)}, not for {task}")
    target, options = question.target_attribute, _OPTIONS.get(question.target_attribute, ())
    fields = {"target": _NAMES.get(target, target), "key": target, "format": answer_format(target)}
    # The paper's figures have the article in questions and not in the instruction.
    pointer = pointer_phrase(words["pointer"] | words.get("task_pointer", {}), question)
    context = words["context"]["crossmodal" if task in CROSSMODAL else task]
    lines = [context, words["task_cot" if cot else "task"][task].format(pointer=pointer, **fields)]
    if end := words["end_cot" if cot else "end"].get("options" if options else "free"):
        first, last = ", ".join(options[:-1]), "".join(options[-1:])
        lines.append(end.format(options=", ".join(options), first=first, last=last, **fields))
    if task in CROSSMODAL:
        lines += ["", words["axes"]]
    if task != "img2img":
        lines += ["", words["scene"], "", scene_text(scene, question.hidden)]
    lines.append("")
    if shots:
        solved = [_solved(words, scene, question, shot, cot=cot) for shot in shots]
        lines += [words["examples"], *solved, words["turn"]]
    return "\n".join([*lines, _question_text(words, question)])


def scene_text(scene: Scene, hidden: Collection[str] = ()) -> str:
    """Return the scene as one line of JSON, camera and objects only, without the `hidden` attributes."""
    objects = [item.as_json(hidden) for item in scene.objects]
    return json.dumps({"camera_location": list(scene.camera_location), "objects": objects}, ensure_ascii=False)


def answer_format(target: str) -> str:
    """Return the answer object with a placeholder for its value."""
    return '{"answer": ' + ("[X, Y, Z]" if target == _COORDS else f'"{target.upper()}"') + "}"


def pointer_phrase(phrases: Mapping[str, str], question: Question) -> str:
    """Return words for the one object with the question's value, numbers in full."""
    attribute, value = question.pointer_attribute, question.pointer_value
    return phrases[attribute].format(value=value if attribute in (*_OPTIONS, "name") else json.dumps(value))


def _verb(question: Question) -> str:
    return "are" if question.target_attribute == _COORDS else "is"


def _question_text(words: Mapping[str, Any], question: Question) -> str:
    target = _NAMES.get(question.target_attribute, question.target_attribute)
    return f"What {_verb(question)} the {target} of {pointer_phrase(words['pointer'], question)}?"


def _solved(words: Mapping[str, Any], scene: Scene, question: Question, shot: Question, *, cot: bool) -> str:
    """Return a solved example; with steps also how to find its object on the other side."""
    sentence, gold = _question_text(words, shot), shot.gold(scene)
    if not cot:
        return f"{sentence} {gold_json(gold)}"
    item = scene.objects[shot.object_index(scene)]

    def spelled(keys: Sequence[str]) -> str:
        *parts, last = (words["attribute"][key].format(value=_number(item.value(key))) for key in keys)
        return f"{', '.join(parts)}{words['last']}{last}" if parts else last

    fields = {}
    for name, keys in _solution_keys(scene, question, shot).items():
        fields[name] = spelled(keys) if keys else ""
        fields[f"{name}_json"] = json.dumps({key: item.value(key) for key in keys}, ensure_ascii=False)
    pointer = pointer_phrase(words["pointer"], shot)
    return str(words["solution"][shot.task]).format(
        question=sentence,
        pointer=pointer,
        pointer_first=pointer[0].upper() + pointer[1:],
        also=words["also"][shot.task].format(**fields) if fields["rest"] else "",
        target=_NAMES.get(shot.target_attribute, shot.target_attribute),
        verb=_verb(shot),
        value=_number(gold),
        gold=gold_json(gold),
        **fields,
    )


def _solution_keys(scene: Scene, question: Question, shot: Question) -> dict[str, Sequence[str]]:
    """Return the attributes by which a solved example finds its object: `all`, those that `link` it, and the `rest`."""
    # An example may point with another attribute than the question: what the question hides is not in the JSON for it.
    hidden = {*question.hidden, *shot.hidden}
    omitted = {*hidden, shot.pointer_attribute} | ({shot.target_attribute} if shot.task == "txt2img" else set())
    keys = [key for key in ("color", "shape", "material", "size", _COORDS) if key not in omitted]
    link = linking(scene, shot.object_index(scene), hidden)
    link_keys = link.sets[0] if link.sets else (_COORDS,)
    return {"all": keys, "link": link_keys, "rest": [key for key in keys if key not in link_keys]}


def _number(value: Gold) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# ----------------------------------------------------------------------------------------------------- solved examples


def draw_shots(
    rng: random.Random, question: Question, pool: Sequence[tuple[str, Gold]], count: int
) -> tuple[Question, ...]:
    """Draw `count` solved examples with different pointers in the same scene; ValueError where the pool is too small.

    Examples have the question's target attribute, except in a unimodal task where the drawn pointer is that attribute.
    The question's own pointer is never drawn. `pool` holds (attribute, value) pairs that single out an object.
    """
    question_pointer = question.pointer_attribute, str(question.pointer_value)
    free = [(attribute, value) for attribute, value in pool if (attribute, str(value)) != question_pointer]
    if len(free) < count:
        raise ValueError(f"the scene has {len(free)} further pointer values, {count} examples need as many")
    return tuple(_shot(rng, question, attribute, value) for attribute, value in rng.sample(free, count))


def row_shots(scene: Scene, question: Question, count: int, row_id: str) -> tuple[Question, ...]:
    """Return solved examples for a row without any: a function of the row, fewer being a prefix of more.

    Raises:
        ValueError: the scene has too few values to point with.
    """
    key = f"{row_id}/{question.task}/{question.pointer_attribute}/{question.pointer_value}/{question.target_attribute}"
    rng = random.Random(key)  # noqa: S311 - picks examples, guards nothing
    pool = pointer_pool(scene, TASKS[question.task][0])
    possible = len(pool) - 1
    return draw_shots(rng, question, pool, max(count, min(2, possible)))[:count]


def _shot(rng: random.Random, question: Question, attribute: str, value: Gold) -> Question:
    target = question.target_attribute
    if attribute == target:
        target = rng.choice([name for name in TASKS[question.task][1] if name != attribute])
    return Question(task=question.task, pointer_attribute=attribute, pointer_value=value, target_attribute=target)


_SOLVED = re.compile(r'[{][ ]*+"answer":\s*+([^}]*+)[}]')
_PLACEHOLDERS = frozenset({'"NAME"', '"COLOR"', '"SHAPE"', '"ROTATION"', '"SIZE"', "[X,Y,Z]"})


def count_solved_examples(text: str) -> int:
    """Return how many answers a prompt shows, except for placeholders: the setting of a row that does not name it."""
    values = ("".join(match[1].split()) for match in _SOLVED.finditer(text))
    return sum(bool(value) and value not in _PLACEHOLDERS for value in values)
