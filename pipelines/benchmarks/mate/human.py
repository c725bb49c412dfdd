"""MATE's human accuracy as published: five people on 384 cross-modal 2-shot examples, which are not named."""

from __future__ import annotations

from typing import Final

from pipelines.benchmarks.human import HumanBaseline, HumanLevel
from pipelines.benchmarks.results import Key, Results

_TASKS: Final = {
    "crossmodal": "Table 1",
    "img2txt": "Table 1",
    "txt2img": "Table 1",
    "unimodal": "Table 3",
    "img2img": "Table 3",
    "txt2txt": "Table 3",
}
_PUBLISHED_ITEMS: Final = 384
_CROSSMODAL_SOURCE: Final = "five people, 2-shot, 384 cross-modal examples that are not named"
_UNIMODAL_SOURCE: Final = "five people, 2-shot; on how many unimodal examples is not said"
_GENERATED: Final = "ours are generated scenes and theirs are not"


class MateHumanBaseline(HumanBaseline):
    """Human accuracy as published; no files are taken."""

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return accuracy by task and mean of tasks; generated scenes are compared with no published model."""
        generated = any(key.metric == "generated" and number.value for key, number in results.ours.items())
        levels = []
        for task, table in _TASKS.items():
            human = results.value(Key("exact_match", task, model="Human"), "published", table=table)
            people = _CROSSMODAL_SOURCE if table == "Table 1" else _UNIMODAL_SOURCE
            source = f"{table}: {people}; intervals of ours resample scenes"
            levels.append(
                HumanLevel(
                    task=task,
                    metric="exact_match",
                    settings=("0-shot", "1-shot", "2-shot", "2-shot-cot"),
                    value=human,
                    n=_PUBLISHED_ITEMS if task == "crossmodal" else None,
                    chance_metric="chance",
                    items="approximate",
                    drawn=("2-shot",) if task in ("crossmodal", "unimodal") else (),
                    tables=() if generated else (table,),
                    source=f"{source}; {_GENERATED}" if generated else source,
                )
            )
        return levels


HUMAN_BASELINE: Final = MateHumanBaseline()
