"""V-FLUTE: how it is read, asked, scored and reported."""

from pipelines.benchmarks.vflute.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
