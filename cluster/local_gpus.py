"""GPUs and memory of this machine, without loading torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU."""

    name: str
    total: int
    """Bytes."""
    free: int
    """Bytes, at this moment."""


def cards_here() -> list[Card]:
    """The GPUs that nvidia-smi lists; empty where there is none, or no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)  # noqa: S603  fixed words
    except (OSError, subprocess.SubprocessError):
        return []
    cards = []
    for line in told.stdout.splitlines():
        name, *sizes = (field.strip() for field in line.rsplit(",", 2))
        if len(sizes) == 2 and all(size.isdigit() for size in sizes):
            total, free = (int(size) << 20 for size in sizes)
            cards.append(Card(name, total, free))
    return cards


def memory_here() -> tuple[int, int]:
    """Bytes of main memory: all, and what can be had now."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
