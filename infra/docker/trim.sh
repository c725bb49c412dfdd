#!/bin/sh
# Delete from an environment's packages what no sweep reads: their tests, torch's C++ headers and test programs, and the
# descriptions of Google's services but for those that Ray's launcher calls. Argument: the environment's folder.
set -eu
packages=$(echo "$1"/lib/python3*/site-packages)
find "$packages" -type d -name tests -prune -exec rm -r {} +
rm -rf "$packages"/torch/include "$packages"/torch/bin/test_*
find "$packages/googleapiclient/discovery_cache/documents" -name '*.json' \
    ! -name 'compute.v1.json' ! -name 'cloudresourcemanager.v1.json' ! -name 'iam.v1.json' ! -name 'tpu.*.json' -delete
