"""Run a command in a time zone, a language and an order of sets that are drawn: `... SEED COMMAND`, '' draws a seed."""

from __future__ import annotations

import os
import random
import subprocess
import sys

TIME_ZONES = ("UTC", "America/St_Johns", "Asia/Kathmandu", "Europe/Rome", "Pacific/Kiritimati", "Pacific/Pago_Pago")
"""Half hours, quarters, summer time, and the days before and after."""


def installed_languages() -> list[str]:
    """Return the languages that this system has, without the spellings of the same one."""
    names = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
    return ["C", *sorted({name for name in names if name.lower().endswith((".utf8", ".utf-8"))})]


def draw(seed: int) -> dict[str, str]:
    """Return the variables that belong to a seed on this system."""
    rng = random.Random(seed)
    return {
        "TZ": rng.choice(TIME_ZONES),
        "LC_ALL": rng.choice(installed_languages()),
        "PYTHONHASHSEED": str(rng.randrange(1 << 32)),
    }


def main(seed: str, *command: str) -> None:
    """Print the variables and how to draw them again, then become the command."""
    number = int(seed) if seed else random.SystemRandom().randrange(10_000)
    variables = draw(number)
    print(
        f"tests run with {' '.join(f'{name}={value}' for name, value in variables.items())}: SEED={number}", flush=True
    )
    os.execvpe(command[0], command, {**os.environ, **variables})  # no shell, as intended


if __name__ == "__main__":
    main(*sys.argv[1:])
