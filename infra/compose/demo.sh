#!/bin/sh
# The sample sweep against a cluster and a store: ingest, then a job. Needs the variables of docker-compose.yml.
set -eu
head=${VLMSWEEP_HEAD:-http://head:8265}
bucket=${VLMSWEEP_BUCKET:-vlmsweep}

python - "$bucket" <<'PYTHON'
import sys
import boto3

client = boto3.client("s3")
if sys.argv[1] not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
    client.create_bucket(Bucket=sys.argv[1])
PYTHON
sample=$(python -c 'from importlib.resources import files; print(files("jobs.demo") / "data" / "maia")')
vlmsweep ingest maia "$sample" --data "s3://$bucket/data"
vlmsweep submit --models random --benchmarks maia --data "s3://$bucket/data" --out "s3://$bucket/demo" \
    --address "$head" --code image
