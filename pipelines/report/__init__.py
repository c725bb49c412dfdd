"""Reports: tables, figures and pages from the numbers of a sweep, safe to open whatever the models said."""

from pipelines.predict.records import CellCount
from pipelines.report.model import METRIC_KEYS, Answer, BenchmarkPart, ReportData
from pipelines.report.published import dataset_facts, published
from pipelines.report.render import metrics_json, render

__all__ = [
    "METRIC_KEYS",
    "Answer",
    "BenchmarkPart",
    "CellCount",
    "ReportData",
    "dataset_facts",
    "metrics_json",
    "published",
    "render",
]
