"""One row of MATE: parse and check it as distributed, hold it in a sample, and find it there.

The development version and the public one are read alike: a field may have the name of either, and text that holds
JSON or a Python literal is decoded.
"""

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pipelines.benchmarks.mate.answers import Gold, decode, read_gold
from pipelines.benchmarks.mate.prompts import build_prompt, count_solved_examples, row_shots
from pipelines.benchmarks.mate.scene import (
    CROSSMODAL,
    TASKS,
    Question,
    Scene,
    canonical_task,
    check_gold,
    linking_attributes,
    parse_scene,
    pointer_value_in,
    shot_shows_target,
    unique_values,
)
from pipelines.benchmarks.records import Sample

SETTINGS: Final = ("0-shot", "1-shot", "2-shot", "2-shot-cot")
"""A setting's index is its number of solved examples, but for the last, which shows two."""
COT: Final = "2-shot-cot"


@dataclass(frozen=True, slots=True, kw_only=True)
class MateRow:
    """One valid row."""

    sample_id: str
    scene: Scene
    question: Question
    setting: str
    gold: Gold
    text: str | None  # the whole prompt, byte for byte; None where it is built
    shots: tuple[tuple[str, Gold], ...] | None  # pointers of the solved examples; None where they are not known
    targets: tuple[str, ...] = ()  # what built examples ask for; empty for examples that stand in `text`
    image: str = ""  # name of the picture's file; '' where the picture is in the row
    generated: bool = False
    odd: tuple[str, ...] = ()  # oddities that do not reject the row

    @property
    def key(self) -> tuple[str, str]:
        """Task and setting: with the sample's id, the name of the row."""
        return self.question.task, self.setting

    def as_data(self) -> dict[str, Any]:
        """Return the row as a sample's `data` holds it."""
        target = self.question.object_index(self.scene)
        shows = None if self.shots is None else shot_shows_target(self.scene, target, self.shots)
        return {
            "task": self.question.task,
            "setting": self.setting,
            "pointer": [self.question.pointer_attribute, self.question.pointer_value],
            "target": self.question.target_attribute,
            "gold": self.gold,
            "text": self.text,
            "shots": None if self.shots is None else [list(shot) for shot in self.shots],
            "shot_targets": list(self.targets),
            "shot_shows_target": shows,
        }


def find_row(sample: Sample, task: str, setting: str) -> Mapping[str, Any] | None:
    """Return the sample's row of a task and setting; None where the data have none."""
    rows: list[Mapping[str, Any]] = sample.data["rows"]
    return next((row for row in rows if (row["task"], row["setting"]) == (task, setting)), None)


def question_of(row: Mapping[str, Any]) -> Question:
    """Return the question of a row in a sample's `data`."""
    attribute, value = row["pointer"]
    return Question(task=row["task"], pointer_attribute=attribute, pointer_value=value, target_attribute=row["target"])


def shots_of(row: Mapping[str, Any]) -> tuple[Question, ...]:
    """Return the solved examples of a row in a sample's `data` whose prompt is built."""
    return tuple(
        Question(task=row["task"], pointer_attribute=attribute, pointer_value=value, target_attribute=target)
        for (attribute, value), target in zip(row["shots"], row["shot_targets"], strict=True)
    )


def is_generated_sample(sample: Sample) -> bool:
    """Return whether a scene is generated."""
    return bool(sample.data.get("generated"))


_IDS = ("example_id", "id")
_GOLDS = ("gold_reference", "answer")


def row_id(raw: object) -> str:
    """Return the row's id; raise ValueError where it has none."""
    value = _first(raw, _IDS) if isinstance(raw, Mapping) else None
    if not isinstance(value, str) or not value.strip():
        raise ValueError("no example_id or id to name the scene")
    return value


def read_row(raw: object, *, setting: str | None, tasks: Sequence[str] = tuple(TASKS)) -> MateRow:
    """Read one row; raise ValueError with the reason where it cannot be used.

    `setting` and `tasks` are what its file holds. With `setting` None the number of examples in its text decides, and
    a bare question is a 0-shot row, of which `derived_rows` makes the others.
    """
    name = row_id(raw)
    fields = cast("Mapping[str, Any]", raw)
    task = _task(fields, tasks)
    scene = parse_scene(_required(fields, "scene"))
    text, bare = _text(fields, task)
    question = _question(fields, task, scene, text or bare)
    gold = read_gold(_required(fields, *_GOLDS))
    check_gold(scene, question, gold)
    if setting is None:
        count = 0 if text is None else count_solved_examples(text)
        if count > 2:
            raise ValueError(f"the prompt shows {count} solved examples; there are settings for 0, 1 and 2")
        setting = SETTINGS[count]
    shots = _shots(fields, setting)
    row = MateRow(
        sample_id=name,
        scene=scene,
        question=question,
        setting=setting,
        gold=gold,
        text=text,
        shots=shots if shots is not None or SETTINGS.index(setting) else (),
        image=_image(fields),
        generated=bool(fields.get("generator")),
        odd=tuple(_oddities(fields, scene, question)),
    )
    row = row if text is not None else _check_buildable(row, fields)
    _check_unicode(row)
    return row


def derived_rows(row: MateRow) -> list[MateRow]:
    """Yield the same bare question with solved examples drawn from its scene, and with steps, as far as possible."""
    rows = []
    for setting in SETTINGS[1:]:
        if setting == COT and row.question.task not in CROSSMODAL:
            continue
        with suppress(ValueError):
            rows.append(_with_drawn_shots(replace(row, setting=setting, odd=())))
    return rows


def _with_drawn_shots(row: MateRow) -> MateRow:
    """Return the row with examples drawn from its scene; ValueError where that has too few values."""
    picks = row_shots(row.scene, row.question, min(SETTINGS.index(row.setting), 2), row.sample_id)
    shots = tuple((shot.pointer_attribute, shot.pointer_value) for shot in picks)
    return replace(row, shots=shots, targets=tuple(shot.target_attribute for shot in picks))


def _first(raw: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((raw[name] for name in names if raw.get(name) is not None), None)


def _required(raw: Mapping[str, Any], *names: str) -> Any:
    value = _first(raw, names)
    if value is None:
        raise ValueError(f"no {' or '.join(names)}")
    return value


def _task(raw: Mapping[str, Any], tasks: Sequence[str]) -> str:
    task = canonical_task(str(_required(raw, "task")))
    if task not in tasks:
        raise ValueError(f"task {task} does not belong in a file of {' and '.join(tasks)}")
    return task


def _text(raw: Mapping[str, Any], task: str) -> tuple[str | None, str]:
    """Return the whole prompt, or None and the bare question."""
    prompt = raw.get("input_str")
    if isinstance(prompt, str) and prompt.strip():
        return prompt, ""
    question = raw.get("question")
    if prompt not in (None, "") or not isinstance(question, str | None):
        raise ValueError("input_str or question is not text")
    if question is None or not question.strip():
        return None, ""
    # A prompt of img2img contains no scene: the answer's form marks it as a whole prompt.
    shows_scene = '"objects"' in question or "3d_coords" in question
    is_prompt = shows_scene or (task == "img2img" and '"answer"' in question)
    return (question, "") if is_prompt else (None, question)


def _question(raw: Mapping[str, Any], task: str, scene: Scene, text: str) -> Question:
    pointers, targets = TASKS[task]
    pointer, value = _attribute(_required(raw, "pointer_attribute"), "pointer_attribute", pointers)
    target, _ = _attribute(_required(raw, "target_attribute"), "target_attribute", targets)
    if pointer == target:
        raise ValueError(f"pointer and target are both {pointer}")
    if value is None:
        value = pointer_value_in(scene, pointer, text)
    question = Question(task=task, pointer_attribute=pointer, pointer_value=value, target_attribute=target)
    question.object_index(scene)
    return question


def _attribute(raw: object, field: str, allowed: Sequence[str]) -> tuple[str, Gold | None]:
    """Return name and value; None where the name stands alone."""
    decoded = decode(raw) if isinstance(raw, str) else raw
    if isinstance(decoded, Mapping):
        if len(decoded) != 1:
            raise ValueError(f"{field} has {len(decoded)} keys, not one")
        ((name, value),) = decoded.items()
    else:
        name, value = decoded, None
    if name not in allowed:
        raise ValueError(f"{field} is {name!r:.80}; there are {', '.join(allowed)}")
    return str(name), cast("Gold | None", value)


def _shots(raw: Mapping[str, Any], setting: str) -> tuple[tuple[str, Gold], ...] | None:
    listed = raw.get("few_shot_attributes")
    listed = decode(listed) if isinstance(listed, str) else listed
    if listed is None:
        return None
    if not isinstance(listed, Sequence) or not all(_is_pair(item) for item in listed):
        raise ValueError("few_shot_attributes is no list of [attribute, value]")
    expected = min(SETTINGS.index(setting), 2)
    if len(listed) != expected:
        raise ValueError(f"{len(listed)} solved examples in a row of {setting}")
    return tuple((str(attribute), value) for attribute, value in listed)


def _is_pair(item: object) -> bool:
    return (
        isinstance(item, list | tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], str | int | float | list)
    )


def _image(raw: Mapping[str, Any]) -> str:
    name = raw.get("image")
    if name is None or not isinstance(name, str):
        return ""
    if not name or "/" in name or "\\" in name or name.startswith("."):
        raise ValueError(f"image is no plain file name: {name!r:.80}")
    return name


def _check_buildable(row: MateRow, raw: Mapping[str, Any]) -> MateRow:
    """Check that the prompt of a row can be built, so that no request of a sweep fails on it."""
    if str(raw.get("scene_format") or "json").lower() != "json":  # the paper's appendix spells formats in capitals
        raise ValueError(f"no input_str, and prompts are built with scenes in JSON, not {raw['scene_format']!r:.40}")
    if row.shots is None:
        row = _with_drawn_shots(row)
    else:
        row = replace(row, targets=tuple(_shot_target(row, *shot) for shot in row.shots))
    build_prompt(row.scene, row.question, shots_of(row.as_data()), cot=row.setting == COT)
    return row


def _shot_target(row: MateRow, attribute: str, value: Gold) -> str:
    pointers, targets = TASKS[row.question.task]
    if attribute not in pointers:
        raise ValueError(f"a solved example points with {attribute!r:.40}; there are {', '.join(pointers)}")
    if attribute != row.question.target_attribute:
        return row.question.target_attribute
    choices = [target for target in targets if target != attribute]
    return random.Random(f"{row.sample_id}/{attribute}/{value}").choice(choices)  # noqa: S311 - guards nothing


def _oddities(raw: Mapping[str, Any], scene: Scene, question: Question) -> list[str]:
    oddities = []
    count = raw.get("object_count")
    if count is not None and count != len(scene.objects):
        oddities.append("object_count differs from the number of the scene's objects; the scene's number is used")
    if not unique_values(scene, question.target_attribute):
        oddities.append("no value of the target attribute is unique in the scene")
    if question.task in CROSSMODAL and (listed := raw.get("linking_attributes")) is not None:
        stored = _combinations(decode(listed) if isinstance(listed, str) else listed)
        computed = _combinations(linking_attributes(scene, question.object_index(scene), question.hidden))
        if stored != computed:
            oddities.append("linking_attributes differ from those computed from the scene; the computed ones are used")
    return oddities


def _combinations(listed: object) -> set[frozenset[tuple[str, str]]] | None:
    if not isinstance(listed, Sequence) or not all(isinstance(item, Mapping) for item in listed):
        return None
    return {frozenset((str(key), str(value)) for key, value in item.items()) for item in listed}


def _check_unicode(row: MateRow) -> None:
    try:
        json.dumps(
            [row.sample_id, row.as_data(), [item.as_json() for item in row.scene.objects]], ensure_ascii=False
        ).encode()
    except UnicodeEncodeError as error:
        raise ValueError("the row contains a lone surrogate, which is invalid Unicode") from error
