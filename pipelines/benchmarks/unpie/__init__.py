"""UNPIE: how it is read, asked, scored and reported."""

from pipelines.benchmarks.unpie.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
