"""Tables and figures of a table benchmark: its metrics by setting, and accuracy by category and subset."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pandas as pd

from pipelines.benchmarks.figures import Bars, Figure, Series
from pipelines.benchmarks.human import SAME_ITEMS
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.layout import BOTH, Rows, TableDef
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results, with_interval
from pipelines.benchmarks.table.kinds import CIRCULAR, DEFAULT, headline, settings
from pipelines.benchmarks.table.metrics import reduce_scores
from pipelines.benchmarks.tables import Table

_NOTE: Final = "Percent. In brackets the 95% interval; n is the number of answers."
_MAX_GROUPS: Final = 40  # columns of a table; what has more is in metrics.json and in the tables' CSV alone
_NAMES: Final[Mapping[str, str]] = load_facts(__package__, "kinds.yaml")["names"]
_NEUTRAL: Final = ("yes_share", "unreadable")


class TableReporter:
    """Reports the metrics of one table benchmark."""

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample], /) -> list[Metric]:
        """Return all metrics of one model."""
        return reduce_scores(scores, samples, self._definition)

    def tables(self, results: Results, /) -> Sequence[Table]:
        """Lay out a table of each setting, and of the headline by category, by subset and by letter."""
        names = dict.fromkeys(key.setting for key in results.ours if key.setting) or [DEFAULT]
        tables = [table for setting in names for table in self._setting_tables(results, setting)]
        return [table for table in tables if table.rows]

    def _keys(self, setting: str) -> Iterator[tuple[str, Key]]:
        """Yield the tasks that have a setting, and what their names in ids and titles begin with."""
        kinds = self._definition.kinds
        for kind in kinds:
            if setting in settings(self._definition, kind):
                yield f"_{kind}" if kind != kinds[0] else "", Key(task=kind, setting=setting)

    def figures(self, results: Results, /) -> Sequence[Figure]:
        """Lay out bars of the headline by category, or of the whole where there are no categories."""
        key = Key(self._headline, self._definition.kind, DEFAULT)
        names = self._groups(results, "category", self._headline, key)
        keys = {name: key._replace(category=name) for name in names} if 1 < len(names) <= _MAX_GROUPS else {"All": key}
        models = results.models_with(keys.values())
        series = [Series.of(model, [results.find(key.of(model)) for key in keys.values()]) for model in models]
        if not series:
            return []
        return [
            Bars(
                id=f"{results.benchmark}_bars",
                title=f"{self._title}: {_name(self._headline).lower()}",
                categories=tuple(keys),
                series=tuple(series),
                x_label="Category" if len(keys) > 1 else "",
                y_label=_name(self._headline),
            )
        ]

    @property
    def _headline(self) -> str:
        return headline(self._definition)

    @property
    def _title(self) -> str:
        return self._definition.title or self._definition.name

    def _setting_tables(self, results: Results, setting: str) -> Iterator[Table]:
        for part, kind in self._keys(setting):
            yield from self._task_tables(results, kind, part)

    def _task_tables(self, results: Results, kind: Key, task_part: str) -> Iterator[Table]:
        setting, several = kind.setting, len(self._definition.kinds) > 1
        ending = task_part + ("" if setting == DEFAULT else f"_{setting}")
        where = (f", {kind.task}" if several else "") + ("" if setting == DEFAULT else f", {setting}")
        ours = [key for key in results.ours if (key.task, key.setting) == (kind.task, setting)]
        measured = {key.metric for key in ours if not (key.subset or key.category)}
        metrics = [name for name in (*_NAMES, *self._definition.groups) if name in measured]
        yield TableDef(
            id=f"{results.benchmark}_results{ending}",
            title=f"{self._title}{where}",
            columns=[(_name(name), kind._replace(metric=name)) for name in metrics],
            rows=[Rows("Published", sources=BOTH[:1]), Rows("This sweep")] if results.published else [Rows()],
            show=with_interval,
            style="percent1",
            better=tuple("" if name in _NEUTRAL else "higher" for name in metrics),
            notes=(_NOTE, *([self._definition.note] if self._definition.note else [])),
        ).lay_out(results)
        main = "circular_accuracy" if setting == CIRCULAR else self._headline
        groupings = [("category", main, ""), ("subset", main, ""), ("category", "letter_share", "")]
        for column, metric, subset in [*groupings, *(("category", main, name) for name in self._definition.by)]:
            names = self._groups(results, column, metric, kind, subset)
            if not names or len(names) > _MAX_GROUPS:
                continue
            part = re.sub(r"\W+", "_", subset) or ("letters" if metric == "letter_share" else column)
            yield TableDef(
                id=f"{results.benchmark}_{part}{ending}",
                title=f"{self._title}{where}: {_name(metric).lower()} by {part.removesuffix('s')}",
                columns=[(name, kind._replace(**{"metric": metric, "subset": subset, column: name})) for name in names],
                rows=[Rows()],
                show=with_interval,
                style="percent1",
                better="" if metric == "letter_share" else "higher",
                notes=(_NOTE,),
            ).lay_out(results)

    @staticmethod
    def _groups(results: Results, column: str, metric: str, at: Key, subset: str = "") -> list[str]:
        keys = (key for key in results.ours if (key.metric, key.task, key.setting) == (metric, at.task, at.setting))
        whole = "subset" if column == "category" else "category"
        return sorted({getattr(key, column) for key in keys if getattr(key, whole) == subset} - {"", SAME_ITEMS})


def _name(metric: str) -> str:
    return _NAMES.get(metric, metric.replace("_", " ").capitalize())
