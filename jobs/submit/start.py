"""How a submitted job begins on the head: with the Python that Ray itself runs on, which need not be on the PATH."""

from __future__ import annotations

from typing import Final

START: Final = """\
# Ray's agent on a node tells its workers' Python in its own command line; it is this process's ancestor.
pid=$$
while [ "${pid:-0}" -gt 1 ]; do
    words=$(tr '\\000' '\\n' <"/proc/$pid/cmdline" 2>/dev/null)
    python=$(printf '%s\\n' "$words" | sed -n 's/^--python_worker_command=\\([^ ]*\\).*/\\1/p')
    [ -n "$python" ] && break
    pid=$(sed 's/.*) [A-Za-z] \\([0-9]*\\) .*/\\1/' "/proc/$pid/stat" 2>/dev/null)
done
[ -x "$python" ] || python=python
exec "$python" -m jobs.sweep "$@"
"""
"""For `sh`, with the flags of `run` behind it."""
