"""Every architecture through the whole pipeline, on small random checkpoints: the matrix.

`python -m tests.support.families` runs `vlmsweep run` once for each trial (plan, Ray Data, parts, scores, metrics) on
one Ray head, and writes `families.json` and `families.md`. Weights are random, so answers are nonsense; what is looked
at is that every request comes back, that beginnings are shared, and that metrics are made.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from models.catalog_loader import load_models
from models.spec import TransformersEntry, VLLMEntry
from tests.support.checkpoints import ARCHITECTURES, RECENT_ARCHITECTURES, build_tiny
from tests.support.family_media import BEGIN, END
from tests.support.ray_head import RayHead, ray_head
from tests.support.small_data import ingest_all

__all__ = ["NOT_IN_CATALOG", "TRIALS", "Trial", "covered", "elsewhere"]

MODEL = "tiny"
MOST_USED = ("qwen3_vl", "internvl", "gemma4", "glm4v", "lfm3_vl")

NOT_IN_CATALOG = {
    "hunyuan_vl": "transformers names one checkpoint, `tencent/HunyuanOCR` (1 billion parameters), which is trained to "
    "read documents; these benchmarks ask about photographs, scenes and clips.",
    "kimi_k25": "`moonshotai/Kimi-K2.6` has a trillion parameters in packed 4-bit integers, which are read with the "
    "package compressed-tensors, no dependency here; about 640 GB leave no room on eight GPUs of 80 GB.",
    "minimax_m3_vl": "`MiniMaxAI/MiniMax-M3` has 428 billion parameters: 854 GB as bfloat16, more than eight GPUs of "
    "80 GB hold.",
    "perception_lm": "the vision tower of `facebook/Perception-LM-1B` and its larger forms is built by the package "
    "timm, no dependency here.",
}
"""Families of today that the installed transformers has and no entry names, with the reason."""

WITHOUT_RANKS = ("qwen3_vl", "lfm3_vl", "molmo2", "mllama", "blip-2", "instructblip_t5")
"""Architectures that transformers cannot divide among ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One architecture in one part of one benchmark, or in all of several."""

    architecture: str
    benchmark: str
    """Or several, separated by commas."""
    tasks: str = ""
    """'' for all, as in `settings`."""
    settings: str = ""
    limit: int = 4
    form: str = ""
    """Asked in this form by a checkpoint without a chat template."""
    role: str = "model"
    """`model`, `captioner`, or `judge`; beside a captioner or a judge the `random` engine answers."""
    has_helpers: bool = False
    """The `random` engine captions and judges for the model."""


_CLIPS = {"benchmark": "maia", "tasks": "vsv,oevqa", "settings": "1-frame,32-frames"}
_SHOTS = {"benchmark": "mate", "tasks": "img2txt,txt2img", "settings": "0-shot,1-shot"}
_CHOICES = {"benchmark": "vague", "tasks": "mcq", "settings": "vlm,vlm-cot"}
_PUNS = {"benchmark": "unpie", "tasks": "grounding,disambiguation", "settings": "vlm"}
_CLAIMS = {"benchmark": "vflute", "tasks": "entailment", "settings": "zero-shot"}
_STATEMENTS = {"benchmark": "maia", "tasks": "vsv", "settings": "unimodal"}
_EVERYTHING: Any = {"benchmark": "maia,mate,unpie,vague,vflute", "limit": 2, "has_helpers": True}
_WORDS = {"benchmark": "unpie", "tasks": "grounding,reconstruction", "settings": "lm"}

TRIALS: tuple[Trial, ...] = (
    Trial(architecture="qwen2_5_vl", **_CLIPS),
    Trial(architecture="qwen2_vl", **_SHOTS),
    Trial(architecture="internvl", **_CLIPS),
    Trial(architecture="llava", **_PUNS),
    Trial(architecture="llava_next", **_CHOICES),
    Trial(architecture="llava_next_video", **_CLIPS),
    Trial(architecture="llava_onevision", **_CLIPS),
    Trial(architecture="idefics2", **_SHOTS),
    Trial(architecture="mllama", **_SHOTS),
    Trial(architecture="instructblip", **_CLAIMS),
    Trial(architecture="instructblip_t5", **_CLAIMS),
    Trial(architecture="blip-2", benchmark="unpie", tasks="grounding", settings="sm", role="captioner"),
    Trial(architecture="blip-2", **_CLAIMS),
    Trial(architecture="llama", **_WORDS),
    Trial(architecture="llama", form="vicuna", **_WORDS),
    Trial(architecture="llama", benchmark="maia", tasks="oevqa", settings="1-frame", role="judge"),
    Trial(architecture="llama", **_STATEMENTS),
    Trial(architecture="gemma", **_STATEMENTS),
    Trial(architecture="qwen2", **_STATEMENTS),
    Trial(architecture="ovis2", **_CHOICES),
    Trial(architecture="ovis2", **_CLIPS),
    Trial(architecture="qwen3_vl", **_CLIPS),
    Trial(architecture="idefics3", **_CHOICES),
    Trial(architecture="smolvlm", **_CLIPS),
    Trial(architecture="gemma3", **_CLIPS),
    Trial(architecture="phi4_multimodal", **_SHOTS),
    Trial(architecture="mistral", **_WORDS),
    Trial(architecture="gemma3_text", **_WORDS),
    *(Trial(architecture=architecture, **_CLIPS) for architecture in RECENT_ARCHITECTURES),
    *(Trial(architecture=architecture, **_EVERYTHING) for architecture in MOST_USED),
)
"""Benchmarks as the papers that use the family ask them; families that no paper uses, wherever they fit; and the
families of most entries of today in all tasks and settings of all benchmarks."""


def covered(architecture: str) -> list[str]:
    """Return the entries of the catalog that run here by this architecture."""
    return [
        name
        for name, spec in load_models().items()
        if isinstance(spec, TransformersEntry) and not spec.unsupported and spec.architecture == architecture
    ]


def only_vllm() -> list[str]:
    """Return the entries that run on vLLM alone."""
    return [name for name, spec in load_models().items() if isinstance(spec, VLLMEntry) and not spec.unsupported]


def untried() -> list[str]:
    """Return the entries that transformers runs by an architecture that no trial has."""
    return [
        name
        for name, spec in load_models().items()
        if isinstance(spec, TransformersEntry) and not spec.unsupported and spec.architecture not in ARCHITECTURES
    ]


def elsewhere() -> dict[str, str]:
    """Return the entries that no engine here runs as listed, with the reason."""
    return {name: " ".join(spec.unsupported.reason.split()) for name, spec in load_models().items() if spec.unsupported}


def attempt(trial: Trial, data: Path, checkpoint: Path, room: Path, head: RayHead) -> dict[str, Any]:
    """Run one trial and say what came of it."""
    models, out = room / "models.yaml", room / "out"
    room.mkdir()
    entry = {
        "engine": "transformers",
        "model": str(checkpoint),
        "device": "cpu",
        "dtype": "float32",
        "generation": {"max_new_tokens": 6},
        "limits": {"max_pixels": 112 * 112, "max_frames": 8},
    }
    if trial.form:
        entry["chat_format"] = trial.form
        checkpoint = _without_template(checkpoint)
        entry["model"] = str(checkpoint)
    models.write_text(json.dumps({MODEL: entry}))
    requests = MODEL if trial.role == "model" else "random"
    roles = () if trial.role == "model" else (f"--{trial.role}", MODEL)
    roles += ("--captioner", "random", "--judge", "random") if trial.has_helpers else ()
    cells = [flag for name in ("tasks", "settings") if (value := getattr(trial, name)) for flag in (f"--{name}", value)]
    command = [
        *(sys.executable, "-m", "jobs.cli", "run", "--models", requests, *roles, "--models-file", str(models)),
        *("--benchmarks", trial.benchmark, *cells),
        *("--limit", str(trial.limit), "--data", str(data), "--out", str(out), "--json"),
        *("--address", f"127.0.0.1:{head.gcs}"),
    ]
    started = time.monotonic()
    done = subprocess.run(command, env=head.env, capture_output=True, text=True, timeout=600, check=False)
    return {
        "architecture": trial.architecture,
        "entries": covered(trial.architecture),
        "role": trial.role,
        "benchmark": trial.benchmark,
        "tasks": trial.tasks or "all",
        "settings": trial.settings or "all",
        "exit": done.returncode,
        **_left(out, MODEL),
        "seconds": round(time.monotonic() - started, 1),
        "said": [] if done.returncode == 0 else done.stderr.splitlines()[-8:],
    }


def _without_template(checkpoint: Path) -> Path:
    created = checkpoint.with_name(f"{checkpoint.name}-bare")
    if not created.is_dir():
        shutil.copytree(checkpoint, created)
        (created / "chat_template.jinja").unlink()
    return created


def _left(out: Path, model: str) -> dict[str, Any]:
    """Read the model's answers, in whatever role, and the metrics."""
    parts = sorted(
        path for path in out.rglob("*.parquet") if f"model={model}" in str(path) and "scores" not in str(path)
    )
    tables = [pq.ParquetFile(path).read() for path in parts]
    rows = [row for table in tables for row in table.to_pylist()]
    states = Counter(row["status"] for row in rows)
    read = sum(row["input_tokens"] or 0 for row in rows)
    cached = sum(row["cached_tokens"] or 0 for row in rows)
    path = out / "report" / "metrics.json"
    metrics = json.loads(path.read_text()) if path.is_file() else []
    failures = Counter(f"{row['error_type']}: {row['error']}" for row in rows if row["status"] == "error")
    return {
        "ok": states["ok"],
        "error": states["error"],
        "excluded": states["excluded"],
        "repeated": len(rows) - len({row["request_id"] for row in rows}),
        "answers": len({row["output"] for row in rows}),
        "tokens_a_request": round(read / max(1, len(rows))),
        "cached": round(cached / read, 3) if read else 0.0,
        "metrics": sum(row["value"] is not None for row in metrics),
        "failures": dict(failures.most_common(3)),
    }


def healthy(row: Mapping[str, Any]) -> bool:
    """Return whether a trial finished with every row answered once and metrics written."""
    return row["exit"] == 0 and row["ok"] > 0 and row["metrics"] > 0 and not (row["error"] or row["repeated"])


_HEADS = (
    "architecture", "catalog entries", "role", "benchmark", "tasks", "settings", "rows ok", "errors",
    "tokens per request", "shared", "metrics", "seconds",
)  # fmt: skip


def earlier_lines(text: str, tried: Collection[str]) -> list[str]:
    """Return the matrix's lines of an earlier page about architectures that were not tried now."""
    table = text[text.find("| " + " | ".join(_HEADS)) :].partition("\n\n")[0].splitlines()[2:]
    return [line for line in table if _architecture(line) not in tried]


def written(rows: Sequence[Mapping[str, Any]], earlier: Sequence[str] = ()) -> str:
    """Return the matrix in Markdown, after the lines of an earlier one."""
    lines = ["| " + " | ".join(_HEADS) + " |", "|---" * len(_HEADS) + "|", *earlier]
    for row in rows:
        names = ", ".join(row["entries"]) or "none"
        cells = (
            row["architecture"], names, row["role"], row["benchmark"], row["tasks"], row["settings"], row["ok"],
            row["error"], row["tokens_a_request"], f"{row['cached']:.0%}", row["metrics"], f"{row['seconds']:.0f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page(rows: Sequence[Mapping[str, Any]], earlier_page: str = "") -> str:
    """Return the whole page: the matrix with the lines of an earlier one, its media table, and the models outside."""
    earlier = earlier_lines(earlier_page, {row["architecture"] for row in rows})
    media = earlier_page.partition(BEGIN)[2].partition(END)[0]
    missing = "".join(f"- `{name}`: {why}\n" for name, why in elsewhere().items())
    no_entry = "".join(f"- {family}: {reason}\n" for family, reason in NOT_IN_CATALOG.items())
    return (
        "# Every architecture through the whole pipeline\n\n"
        "Generated by `python -m tests.support.families`: small random checkpoints (about two million parameters,\n"
        "float32, CPU), `vlmsweep run` on a few samples of one benchmark each. The families of most entries of today\n"
        "also ran on two samples of all five benchmarks, in all tasks and settings, with `random` as captioner and\n"
        "judge. Shared tokens were computed once for several questions. Seconds were measured on a busy machine and\n"
        "include the start of the command.\n\n"
        f"{written(rows, earlier)}\n"
        f"{_without_line(rows, earlier)}"
        "## Kinds of media\n"
        "Generated by `python -m tests.support.family_media`: tokens of the longest of five prompts about small\n"
        "pictures. Every answer equals that of the model to the same prompt alone, in float32. Where prefixes are not\n"
        "shared, calls run in padded batches, and the last column says why; models of one picture or of text alone\n"
        "refuse the rest.\n\n"
        f"{BEGIN}{media}{END}\n\n"
        "## Several GPUs a replica\n"
        "With `tensor_parallel` above 1 each GPU holds a part of every layer, and prefixes are shared as on one.\n"
        "Gemma 4 with inputs for each layer (E2B, E4B) keeps its embeddings whole on each GPU, and cannot be divided\n"
        "among more GPUs than it has key heads. transformers has no plan for\n"
        f"{', '.join(WITHOUT_RANKS)}: one process spreads their layers over the GPUs of a\n"
        "replica, a run says so, and prefixes are computed again with every question; with `tensor_parallel: 1`,\n"
        "where one GPU holds the model, they are shared.\n\n"
        "## On vLLM alone\n"
        f"{', '.join(only_vllm())}:\n"
        "transformers has no code for their published form. They run where vLLM is installed, with the code that\n"
        "their publishers keep beside the weights; elsewhere a run says so before it starts. They were not tried:\n"
        "their weights cannot be had without a network. `docs/vllm.md` has what was tried.\n\n"
        f"{_not_tried()}"
        "## Not in the table\n"
        "Models behind endpoints (`api.yaml`) and `random` have no weights. No engine here runs the published form of\n"
        f"these entries; `vlmsweep list models` shows what would:\n\n{missing}\n"
        "## Not in the catalog\n"
        "Families of today that the installed transformers has; an entry of your own may name their checkpoints.\n"
        f"Looked up on 2026-11-23:\n\n{no_entry}"
    )


def _without_line(rows: Sequence[Mapping[str, Any]], earlier: Sequence[str]) -> str:
    """Return a sentence about the architectures that the matrix lacks."""
    listed = {row["architecture"] for row in rows} | {_architecture(line) for line in earlier}
    missing = ", ".join(name for name in ARCHITECTURES if name not in listed)
    return f"Not run through the whole pipeline yet: {missing}; the engine alone was, below.\n\n" if missing else ""


def _architecture(line: str) -> str:
    return line.split(" | ", maxsplit=1)[0].removeprefix("| ")


def _not_tried() -> str:
    names = ", ".join(untried())
    reason = "the installed transformers has their architectures, and no small checkpoint of these was made yet."
    return f"## Not tried\n{names}:\n{reason}\n\n" if names else ""


def run_trials(trials: Sequence[Trial], room: Path) -> Iterator[dict[str, Any]]:
    """Run all trials on one Ray head, one after the other."""
    data = ingest_all(room / "sources")
    with ray_head("--num-cpus=2") as head:
        for number, trial in enumerate(trials):
            checkpoint = room / trial.architecture
            if not checkpoint.is_dir():
                build_tiny(checkpoint, trial.architecture)
            yield attempt(trial, data, checkpoint, room / str(number), head)


def main() -> int:
    """Run, print as it goes, write the results; 1 when a trial failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architectures", default=",".join(ARCHITECTURES), help="comma-separated")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    parser.add_argument("--earlier", type=Path, help="an earlier page, whose lines about other architectures are kept")
    args = parser.parse_args()
    expected = args.architectures.split(",")
    args.out.mkdir(parents=True, exist_ok=True)
    earlier = args.earlier.read_text(encoding="utf-8") if args.earlier else ""
    rows = []
    with tempfile.TemporaryDirectory() as room:
        for row in run_trials([trial for trial in TRIALS if trial.architecture in expected], Path(room)):
            rows.append(row)
            print(json.dumps(row), flush=True)
            (args.out / "families.json").write_text(json.dumps(rows, indent=1) + "\n")
            (args.out / "families.md").write_text(page(rows, earlier))
    print(written(rows))
    return int(not all(healthy(row) for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
