"""Errors of code that runs in Ray Data's workers, carried to the driver by type."""

from typing import Any, Self

from ray.exceptions import UserCodeException


class WorkerError(UserCodeException):  # type: ignore[misc]  # Ray has no types
    """Carries an error of the product; Ray Data alone keeps the text only, and extends it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), (self.error,)
