"""MATE: how it is read, asked, scored and reported."""

from pipelines.benchmarks.mate.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
