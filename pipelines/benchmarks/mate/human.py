"""MATE beside people: five people on 384 cross-modal 2-shot examples, which are not named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pipelines.benchmarks.human import HumanBaseline, HumanLevel

if TYPE_CHECKING:
    import pandas as pd

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

    def levels(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[HumanLevel]:
        """Accuracy of both directions and their means; beside generated scenes no published model stands."""
        generated = bool((metrics["value"][metrics["metric"] == "generated"] > 0).any())
        found = []
        for task, table in _TASKS.items():
            own = published[(published["table"] == table) & (published["model"] == "Human")]
            own = own[(own["task"] == task) & (own["metric"] == "exact_match") & (own["category"] == "")]
            crossmodal = table == "Table 1"
            words = f"{table}: {_PEOPLE if crossmodal else _UNTOLD}; intervals of ours resample scenes"
            found.append(
                HumanLevel(
                    task=task,
                    metric="exact_match",
                    settings=("0-shot", "1-shot", "2-shot", "2-shot-cot"),
                    value=float(own["value"].iloc[0]) if len(own) else None,
                    n=_ASKED if task == "crossmodal" else None,
                    chance_metric="chance",
                    items="approximate",
                    drawn=("2-shot",) if task in ("crossmodal", "unimodal") else (),
                    tables=() if generated else (table,),
                    source=f"{words}; {_GENERATED}" if generated else words,
                )
            )
        return found


PEOPLE: Final = MatePeople()
