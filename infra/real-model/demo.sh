#!/bin/sh
# A real model of 135 million weights answers and judges the sample data of all five benchmarks, in text alone.
# Usage: demo.sh MODEL.gguf OUT
set -eu
model=$(realpath "$1")
out=$2
here=$(dirname "$0")

mkdir -p "$out"
cat >"$out/models.yaml" <<YAML
smollm2:
  engine: transformers
  model: $model
  dtype: float32
  device: cpu
  generation: {max_new_tokens: 96, num_beams: 1}
smollm2-judge:
  engine: transformers
  model: $model
  dtype: float32
  device: cpu
  generation: {max_new_tokens: 16}
YAML
test -d "$out/scenes" || vlmsweep generate mate --objects 3-5 --examples 60 --seed 42 --out "$out/scenes"
sample=$(python -c 'from importlib.resources import files; print(files("jobs") / "demo" / "data")')
for benchmark in vague vflute maia unpie; do
    test -e "$out/data/$benchmark/manifest.json" || vlmsweep ingest "$benchmark" "$sample/$benchmark" --data "$out/data"
done
test -e "$out/data/mate/manifest.json" || vlmsweep ingest mate "$out/scenes" --data "$out/data"
vlmsweep run --config "$here/run.yaml" --models-file "$out/models.yaml" --data "$out/data" --out "$out/results"
