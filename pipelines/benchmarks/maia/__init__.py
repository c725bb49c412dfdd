"""MAIA: how it is read, asked, scored and reported."""

from pipelines.benchmarks.maia.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
