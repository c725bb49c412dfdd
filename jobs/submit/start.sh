#!/bin/sh
# Start a submitted job with the Python that Ray runs on, which may not be on the PATH. Arguments: the flags of `run`.
# Ray's agent on a node has its workers' Python in its own command line; the agent is an ancestor of this process.
pid=$$
while [ "${pid:-0}" -gt 1 ]; do
    words=$(tr '\000' '\n' <"/proc/$pid/cmdline" 2>/dev/null)
    python=$(printf '%s\n' "$words" | sed -n 's/^--python_worker_command=\([^ ]*\).*/\1/p')
    [ -n "$python" ] && break
    pid=$(sed 's/.*) [A-Za-z] \([0-9]*\) .*/\1/' "/proc/$pid/stat" 2>/dev/null)
done
[ -x "$python" ] || python=python
exec "$python" -m jobs.sweep "$@"
