"""An output with a report, whose answers and names are hostile, and the site of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.cli.main import run
from pipelines.plan.stored_plan import PlanRow
from pipelines.storage.store import Store
from tests.support.leaderboard_output import metric
from tests.support.viewer_output import HOSTILE, Answer, write_output, write_report

SECRET = "sk-1234567890"
MODEL = "</script><script>window.hacked = 1</script>\u202e"
LONG = "words " * 200_000


def answer(model: str, row: PlanRow) -> Answer:
    """Fail with a secret, write hostile text, right-to-left text, or more than a page shows."""
    if row.sample_id.endswith("Sentiment_A"):
        return {"output": None, "status": "error", "error_type": "http_401", "error": f"key {SECRET} in {Path.home()}"}
    if model == "long":
        return {"output": LONG if row.task == "oevqa" else "\u05e9\u05dc\u05d5\u05dd \u202e evil"}
    return {"output": HOSTILE, "right": len(row.variant) > 0}


@pytest.fixture(scope="session")
def out(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two models on two clips, and a report."""
    uri = write_output(str(tmp_path_factory.mktemp("site") / "results"), maia_data, [MODEL, "long"], answer)
    write_report(uri, MODEL, HOSTILE)
    Store(uri).put("report/metrics.json", json.dumps([metric(MODEL, 0.5)]).encode())
    return uri


@pytest.fixture(scope="session")
def site(out: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, with media."""
    folder = tmp_path_factory.mktemp("to") / "site"
    assert run(["site", out, "--to", str(folder)]) == 0
    return folder
