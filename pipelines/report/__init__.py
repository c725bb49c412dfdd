"""Reports: tables, figures and pages from the numbers of a sweep; model output in them is inert."""

from pipelines.predict.records import CellCount
from pipelines.report.metrics_file import metrics_json
from pipelines.report.model import METRIC_KEYS, BenchmarkSection, ExampleAnswer, ReportData
from pipelines.report.render import render

__all__ = [
    "METRIC_KEYS",
    "BenchmarkSection",
    "CellCount",
    "ExampleAnswer",
    "ReportData",
    "metrics_json",
    "render",
]
