"""Random checkpoints of the supported architectures."""

from tests.support.checkpoints.builder import ARCHITECTURES, build_tiny

__all__ = ["ARCHITECTURES", "build_tiny"]
