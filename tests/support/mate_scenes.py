"""MATE samples by the thousand: random scenes whose questions fall evenly on all pairs of attributes, no pictures."""

from __future__ import annotations

import random
from itertools import cycle
from typing import Any

from pipelines.benchmarks.mate.rows import COT, SETTINGS
from pipelines.benchmarks.mate.scene import COLORS, CROSSMODAL, MATERIALS, SHAPES, TASKS, parse_scene, unique_values
from pipelines.benchmarks.records import MediaRef, Sample

_REF = MediaRef(role="picture", kind="image", sha256="ab" * 32, extension=".png", bytes=9, width=6, height=4)
_PAIRS = [
    (task, pointer, target)
    for task, (pointers, targets) in TASKS.items()
    for pointer in pointers
    for target in targets
    if pointer != target
]


def scene(rng: random.Random, count: int) -> dict[str, Any]:
    """Return a scene of so many objects in the data's format."""
    objects = []
    for number in range(count):
        large = rng.random() < 0.5
        size = rng.choice([0.7, 0.701] if large else [0.35, 0.351])
        objects.append(
            {
                "name": f"Object_{number}",
                "shape": rng.choice(SHAPES),
                "size": size,
                "material": rng.choice(MATERIALS),
                "3d_coords": [rng.uniform(-4, 4), rng.uniform(-4, 4), 0.7 if large else 0.35],
                "rotation": rng.uniform(0, 360),
                "color": rng.choice(COLORS),
            }
        )
    return {"camera_location": [9.9, 0.0, 5.3], "objects": objects}


def samples(count: int, seed: int = 7) -> list[Sample]:
    """Return scenes of 3 to 10 objects in turn, one question each, in every setting of its task."""
    rng = random.Random(seed)
    results: list[Sample] = []
    for number, (task, pointer, target) in zip(range(count), cycle(_PAIRS), strict=False):
        while True:
            raw = scene(rng, 3 + number // len(_PAIRS) % 8)
            parsed = parse_scene(raw)
            if values := unique_values(parsed, pointer):
                break
        results.append(_sample(number, raw, task, (pointer, rng.choice(values)), target))
    return results


def _sample(number: int, raw: dict[str, Any], task: str, pointer: tuple[str, Any], target: str) -> Sample:
    pointed = next(item for item in raw["objects"] if str(item[pointer[0]]) == str(pointer[1]))
    rows = [
        {
            "task": task,
            "setting": setting,
            "pointer": list(pointer),
            "target": target,
            "gold": pointed[target],
            "text": f"question {number} in {setting}" if number % 2 else None,  # else the prompt is built
            "shots": [],
            "shot_targets": [],
            "shot_shows_target": None,
        }
        for setting in SETTINGS
        if setting != COT or task in CROSSMODAL
    ]
    return Sample(
        sample_id=f"{number:032x}",
        category=f"{len(raw['objects'])} objects",
        cluster=f"{number:064x}",
        media=(_REF,),
        data={"scene": raw, "generated": False, "rows": rows},
    )
