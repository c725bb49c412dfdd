"""MATE beside people: five people on 384 cross-modal 2-shot examples, which are not named."""

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
_ASKED: Final = 384
_PEOPLE: Final = "five people, 2-shot, 384 cross-modal examples that are not named"
_UNTOLD: Final = "five people, 2-shot; on how many unimodal examples is not said"
_GENERATED: Final = "ours are generated scenes and theirs are not"


class MatePeople(HumanBaseline):
    """See the module's docstring."""

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Accuracy of both directions and their means; beside generated scenes no published model stands."""
        generated = any(key.metric == "generated" and number.value for key, number in results.ours.items())
        found = []
        for task, table in _TASKS.items():
            human = results.value(Key("exact_match", task, model="Human"), "published", table=table)
            crossmodal = table == "Table 1"
            words = f"{table}: {_PEOPLE if crossmodal else _UNTOLD}; intervals of ours resample scenes"
            found.append(
                HumanLevel(
                    task=task,
                    metric="exact_match",
                    settings=("0-shot", "1-shot", "2-shot", "2-shot-cot"),
                    value=human,
                    n=_ASKED if task == "crossmodal" else None,
                    chance_metric="chance",
                    items="approximate",
                    drawn=("2-shot",) if task in ("crossmodal", "unimodal") else (),
                    tables=() if generated else (table,),
                    source=f"{words}; {_GENERATED}" if generated else words,
                )
            )
        return found


HUMAN_BASELINE: Final = MatePeople()
