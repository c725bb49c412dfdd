"""VAGUE: how it is read, asked, scored and reported."""

from pipelines.benchmarks.vague.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
