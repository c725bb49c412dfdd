#!/bin/sh
# The nightly as a job of a Ray cluster, from its working directory; arguments go on to it. Who follows the job sees its
# log alone, so that ends with the exit code and the summary between two lines that .github/workflows/nightly.yml finds.
python -m jobs.cli nightly --config infra/nightly.yaml --summary nightly.md "$@"
code=$?
echo "=== nightly ended with $code"
[ ! -e nightly.md ] || cat nightly.md
echo "=== end of the summary"
exit "$code"
