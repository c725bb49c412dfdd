"""People of files whose answers are scored like a model's: compared with models measure by measure, and shown."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pandas as pd

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import HumanBaseline, HumanInputs, Reduce
from pipelines.benchmarks.people.comparison import paired_metrics, people_table, shared_rows
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table


class FileBaseline(HumanBaseline):
    """Comparison and table that need no more than the names of measures."""

    title: ClassVar[str]
    measures: ClassVar[Mapping[Key, str]] = {}  # measure -> the column of scores that it is the mean of
    compared_settings: ClassVar[Sequence[str]] = ()  # of models; empty: all
    people_columns: ClassVar[Mapping[str, Key]]  # heads and measures of the table of people's own values
    people_settings: ClassVar[Sequence[str]]  # settings that people may have answered

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compute each measure in each setting on the rows that people answered, with the paired gap."""
        scores, metrics = inputs.scores, list[Metric]()
        for setting in self.compared_settings or map(str, dict.fromkeys(scores["setting"])):
            setting_scores = scores[scores["setting"] == setting]
            for key, value in self.measures.items():
                rows = shared_rows(setting_scores, inputs.people, value, task=key.task)
                metrics += self.compare(rows, key.of("", setting))
        return metrics

    def compare(self, rows: pd.DataFrame, key: Key) -> list[Metric]:
        """Return the metrics of one measure from `shared_rows`."""
        return paired_metrics(rows, key)

    def pooled(
        self, scores: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample], reduce: Reduce, /
    ) -> list[Metric]:
        """Return the metrics of all people together: each one's answers are rows of their own, of the same clusters."""
        frames: list[pd.DataFrame] = []
        renamed: dict[str, Sample] = {}
        for person, frame in scores.items():
            names = [f"{person}/{name}" for name in frame["sample_id"]]
            frames.append(frame.assign(sample_id=names))
            for name, sample in zip(names, map(samples.__getitem__, frame["sample_id"]), strict=True):
                renamed[name] = replace(sample, sample_id=name, cluster=sample.cluster or sample.sample_id)
        return reduce(pd.concat(frames, ignore_index=True), renamed)

    def display(
        self, _files: Mapping[str, str], _scores: Mapping[str, Mapping[str, float]], results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Build the table of people's own values."""
        return people_table(self.name, self.title, results, self.people_columns, self.people_settings), ()
