"""Read the body of a reply up to a limit: an endpoint may send without end."""

from collections.abc import AsyncIterable, Iterable
from typing import Final

MAX_REPLY: Final = 8 << 20
"""Bytes of a reply, decompressed: an answer with log-probabilities of 32,000 tokens has half as many."""


class TooLongError(Exception):
    """A reply is longer than its limit, and was not read further."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the reply is longer than {limit >> 20} MiB and was not read to its end")


async def read_async(chunks: AsyncIterable[bytes], limit: int = MAX_REPLY) -> bytes:
    """Return a body; TooLongError above the limit."""
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise TooLongError(limit)
    return bytes(content)


def read(chunks: Iterable[bytes], limit: int = MAX_REPLY) -> bytes:
    """Return a body; TooLongError above the limit."""
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise TooLongError(limit)
    return bytes(content)
