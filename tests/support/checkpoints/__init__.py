"""Random checkpoints of the supported architectures."""

from tests.support.checkpoints.builder import ARCHITECTURES, RECENT_ARCHITECTURES, build_tiny

__all__ = ["ARCHITECTURES", "RECENT_ARCHITECTURES", "build_tiny"]
