"""`--cost-limit`: a run ends before it exceeds the limit, and the same command resumes it without paying twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.conftest import Cli
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import always


@pytest.mark.full
def test_cost_limit_ends_the_run_and_a_higher_one_resumes_it(inline_cli: Cli, maia_data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ScriptedEndpoint(always("A")) as endpoint:
        models = tmp_path / "models.yaml"
        price = "{input_per_million: 100.0, output_per_million: 100.0}"
        models.write_text(
            f"paid: {{engine: openai, model: m, base_url: '{endpoint.base_url}', price: {price}}}\n"
            f"unpriced: {{engine: openai, model: m, base_url: '{endpoint.base_url}'}}\n"
        )
        flags = ("--models-file", str(models), "--benchmarks", "maia", "--data", maia_data, "--out", str(out))
        cells = ("--tasks", "vsv", "--settings", "1-frame")
        refused = inline_cli("run", "--models", "unpriced", *flags, *cells, "--cost-limit", "1", code=2)
        assert "set `price` in its entry" in refused.stderr
        stopped = inline_cli("run", "--models", "paid", *flags, *cells, "--cost-limit", "1.5", code=3)
        assert "the cost limit of $1.50 for this run is reached" in stopped.stderr
        first = len(endpoint.requests)
        assert 0 < first < 384
        line = json.loads((out / "run.json").read_text())["spending"][0]
        assert 1.4 < line["models"]["paid"]["dollars"] <= 1.55
        result = inline_cli("run", "--models", "paid", *flags, *cells, "--json")
        texts = Counter(request.text for request in endpoint.requests)
    payload = json.loads(result.stdout)
    assert (payload["requests"], payload["failed"]) == (384, 0)
    assert len(texts) == 384
    assert set(texts.values()) == {1}  # what was paid for was kept
    lines = json.loads((out / "run.json").read_text())["spending"]
    assert [item["limit"] for item in lines] == [1.5, None]
    report = (out / "report" / "index.html").read_text()
    assert "tokens read" in report
