"""Files that a user or a foreign program put there are opened by the guard alone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPENING = re.compile(r"\.read_bytes\(\)|\.read_text\(|\.open\(\"rb\"")
OURS = {
    "jobs/demo/checkpoint.py": "files of the package",
    "jobs/site/build.py": "files that were staged in a scratch folder",
    "jobs/view/app.py": "a file of the package",
    "jobs/view/index.py": "a file of the package",
    "models/checkpoints/installed_transformers.py": "source text of an installed package",
    "models/engine_choice.py": "source text of an installed package",
    "models/engines/gpu_check.py": "the kernel's",
    "models/engines/transformers/fetch.py": "a download in a folder of this user alone",
    "models/engines/weight_store.py": "weights in a folder of this user alone",
    "models/engines/weights.py": "the kernel's",
    "models/environment.py": "the kernel's",
    "jobs/finetune/trainer.py": "written into a scratch folder just before",
    "models/scratch.py": "owners in scratch folders, and the kernel's",
    "pipelines/benchmarks/metrics_kernel/labels.py": "a file of the package",
    "pipelines/benchmarks/prompt_templates.py": "a file of the package",
    "pipelines/benchmarks/published.py": "a file of the package",
    "pipelines/logged_answers/matching.py": "a file of the package",
    "pipelines/media/clip_folder.py": "decoded clips in a scratch folder",
    "pipelines/media/decode_worker.py": "a file that the decoder has opened",
    "pipelines/media/decoder.py": "a file that was decoded just before",
    "jobs/nightly/budget.py": "files of the package",
    "pipelines/rendering/environment.py": "a file of the package",
    "pipelines/schemas.py": "a file of the package",
    "pipelines/sweep/import_predictions.py": "parts that were staged in a scratch folder",
}
"""Modules that open files themselves, and why no pipe can be in their place."""


def test_only_listed_modules_open_files_without_the_guard() -> None:
    opening = {
        path.relative_to(ROOT).as_posix()
        for package in ("cluster", "jobs", "models", "pipelines")
        for path in (ROOT / package).rglob("*.py")
        if OPENING.search(path.read_text(encoding="utf-8"))
    }
    assert opening == set(OURS)
