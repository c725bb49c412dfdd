"""Time that passes only in `sleep`."""

from __future__ import annotations

import asyncio

__all__ = ["FakeTime"]


class FakeTime:
    """A clock and the sleep that moves it; `slept` holds every wait."""

    def __init__(self, start: float = 1000.0) -> None:
        self.time = start
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)
