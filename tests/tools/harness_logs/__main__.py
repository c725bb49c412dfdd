"""Write the test data `tests/golden/harness_logs` again, each harness in an environment of its own.

    python -m tests.tools.harness_logs ENVIRONMENTS SCRATCH

ENVIRONMENTS holds virtual environments `inspect`, `lmeval`, `lmms` and `evalscope` with inspect-ai 0.3.285, lm-eval
0.4.13, lmms-eval 0.7.3 (and openpyxl) and evalscope 1.14.0. Nothing is fetched: all data are local.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden" / "harness_logs"
SCRIPTS = Path(__file__).parent
_RUNS = (  # script, environment, folder of the golden data, files of the output
    ("inspect_logs.py", "inspect", "inspect", ("eval/*.eval", "json/*.json")),
    ("lm_eval_logs.py", "lmeval", "lm-eval", ("lab__planted/*.json*",)),
    ("lmms_eval_logs.py", "lmms", "lmms-eval", ("lab__planted/*.json*",)),
    ("evalscope_logs.py", "evalscope", "evalscope", ("reviews/*/*.jsonl", "predictions/*/chartqa*.jsonl")),
    ("vlmevalkit_logs.py", "lmms", "vlmevalkit", ("planted/*/*",)),
)


def _shorten(results: Path) -> None:
    """Leave what importing reads: the rest tells of the machine."""
    raw = json.loads(results.read_text(encoding="utf-8"))
    shown = {name: raw[name] for name in ("results", "model_name", "model_source") if name in raw}
    results.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run each script and keep what it wrote."""
    environments, scratch = Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute()
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
    for script, environment, name, patterns in _RUNS:
        out = scratch / name
        shutil.rmtree(out, ignore_errors=True)
        python = environments / environment / "bin" / "python"
        out.mkdir(parents=True)
        subprocess.run(
            [python, SCRIPTS / script, GOLDEN / "questions.jsonl", out],
            check=True,
            cwd=scratch,
            env={**os.environ, **offline, "HF_HOME": str(scratch / "hub")},
        )
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
        for pattern in patterns:
            for file in sorted(out.glob(pattern)):
                target = GOLDEN / name / file.relative_to(out)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
                if "results" in file.name and file.parent.name == "lab__planted":
                    _shorten(target)


if __name__ == "__main__":
    main()
