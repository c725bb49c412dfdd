"""An output with right, unread, failed and unscored answers to MAIA's questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.plan.stored_plan import PlanRow
from tests.support.viewer_output import Answer, metric, part, write_metrics, write_output

SECRET = "sk-1234567890"
"""Stands in the message of an error, which must not be published."""


def answer(_model: str, row: PlanRow) -> Answer:
    """Fail on one kind of question, and leave the answer to another unread."""
    if row.sample_id.endswith("Sentiment_A"):
        return {"output": None, "status": "error", "error_type": "http_401", "error": f"key {SECRET} was refused"}
    if row.sample_id.endswith("Sentiment_B"):
        return {"output": "mumble", "answer": None, "right": False}
    return {"output": f"{row.sample_id} answered", "right": len(row.variant) > 0}


@pytest.fixture(scope="session")
def out(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two models, of which `new` is not scored yet."""
    uri = write_output(str(tmp_path_factory.mktemp("export") / "results"), maia_data, ["m/1", "new"], answer)
    part(uri, "scores", "new").unlink()
    rows = [metric("m/1", "black-video", 0.625), metric("m/1", "black-video", 0.5, "Planning")]
    write_metrics(uri, [*rows, metric("m/1", "1-frame", None)])
    return uri


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "exported"
