"""Tables and figures of a table benchmark: its metrics by setting, and accuracy by category and subset."""

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
from pipelines.benchmarks.table.kinds import CIRCULAR, DEFAULT, KIND_FACTS
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
        return reduce_scores(scores, samples, len(self._definition.labels))

    def tables(self, results: Results, /) -> Sequence[Table]:
        """Lay out a table of each setting, and of the headline by category, by subset and by letter."""
        settings = dict.fromkeys(key.setting for key in results.ours if key.setting) or [DEFAULT]
        tables = [table for setting in settings for table in self._setting_tables(results, setting)]
        return [table for table in tables if table.rows]

    def figures(self, results: Results, /) -> Sequence[Figure]:
        """Lay out bars of the headline by category, or of the whole where there are no categories."""
        key = Key(self._headline, self._definition.kind, DEFAULT)
        names = self._groups(results, "category", self._headline)
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
        return self._definition.headline or KIND_FACTS[self._definition.kind].headline

    @property
    def _title(self) -> str:
        return self._definition.title or self._definition.name

    def _setting_tables(self, results: Results, setting: str) -> Iterator[Table]:
        ending = "" if setting == DEFAULT else f"_{setting}"
        where = "" if setting == DEFAULT else f", {setting}"
        kind = Key(task=self._definition.kind, setting=setting)
        measured = {key.metric for key in results.ours if key.setting == setting and not (key.subset or key.category)}
        metrics = [name for name in _NAMES if name in measured]
        yield TableDef(
            id=f"{results.benchmark}_results{ending}",
            title=f"{self._title}{where}",
            columns=[(_name(name), kind._replace(metric=name)) for name in metrics],
            rows=[Rows("Published", sources=BOTH[:1]), Rows("This sweep")] if results.published else [Rows()],
            show=with_interval,
            style="percent1",
            better=tuple("" if name in _NEUTRAL else "higher" for name in metrics),
            notes=(_NOTE,),
        ).lay_out(results)
        headline = "circular_accuracy" if setting == CIRCULAR else self._headline
        for column, metric in (("category", headline), ("subset", headline), ("category", "letter_share")):
            names = self._groups(results, column, metric)
            if not names or len(names) > _MAX_GROUPS:
                continue
            part = "letters" if metric == "letter_share" else column
            yield TableDef(
                id=f"{results.benchmark}_{part}{ending}",
                title=f"{self._title}{where}: {_name(metric).lower()} by {part.removesuffix('s')}",
                columns=[(name, kind._replace(metric=metric, **{column: name})) for name in names],
                rows=[Rows()],
                show=with_interval,
                style="percent1",
                better="" if metric == "letter_share" else "higher",
                notes=(_NOTE,),
            ).lay_out(results)

    @staticmethod
    def _groups(results: Results, column: str, metric: str) -> list[str]:
        return sorted({str(getattr(key, column)) for key in results.ours if key.metric == metric} - {"", SAME_ITEMS})


def _name(metric: str) -> str:
    return _NAMES.get(metric, metric.replace("_", " ").capitalize())
