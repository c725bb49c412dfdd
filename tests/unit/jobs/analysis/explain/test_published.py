"""A run against a paper's number: what its own rows could explain, in the command and in the report."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from jobs.cli.main import run
from pipelines.storage.store import Store

REPLIES = ["A", "B", "(C)", "I choose the option of b 3 thing", "A or B", None]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An output of imported answers, 36 rows, whose paper prints 0.9."""
    folder = tmp_path_factory.mktemp("published")
    with (folder / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "A", "B", "C", "answer"))
        rows.writerows((n, f"Which is {n}?", f"a {n} thing", f"b {n} thing", f"c {n} thing", "B") for n in range(36))
    (folder / "published.csv").write_text("model,metric,value\nM,accuracy,0.9\n")
    (folder / "columns.yaml").write_text("published: published.csv\n")
    data = str(folder / "data")
    source = [str(folder / "questions.csv"), "--as", "printed", "--columns", str(folder / "columns.yaml")]
    assert run(["ingest", "table", *source, "--data", data]) == 0
    result = {"benchmark": "printed", "model": "M", "task": "choice", "setting": "default"}
    answers = [{**result, "sample_id": str(n), "output": REPLIES[n % 6]} for n in range(36)]
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    run(["score", "--predictions", str(folder / "answers.jsonl"), "--data", data, "--out", str(folder / "out")])
    return str(folder / "out")


def test_report_shows_what_own_rows_could_explain(out: str) -> None:
    (result,) = json.loads(Store(out).get("report/reproduction.json"))
    assert result["verdict"] == "different"
    failed, unread, *others = result["own_rows"]
    assert failed == "6 failed requests: 0.1944 if all were wrong, 0.3611 if all were right"
    assert unread.startswith("11 unreadable answers: 0.6000")
    assert [text.partition(" does")[0] for text in others] == ["read as lmms-eval"]
    page = Store(out).get("report/benchmark-printed.html").decode()
    assert "6 failed requests: 0.1944 if all were wrong" in page


@pytest.mark.parametrize("sides", [["{out}:M", "published"], ["{out}", "published:M"], ["{out}", "--published"]])
def test_stages_against_a_published_number(out: str, sides: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [side.format(out=out) for side in sides]
    assert run(["compare", *arguments, "--explain", "--json"]) == 0
    stages: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert {row["stage"]: row["n_rows"] for row in stages if row["n_rows"]} == {
        "errors": 6,
        "reading": 11,
        "answers": 36,
    }
    assert sum(row["share"] for row in stages) == stages[0]["difference"] == pytest.approx(0.9 - 7 / 30)
    assert run(["compare", *arguments, "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("errors: 6 failed requests") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{out}", "published:N"], "unknown published row 'N'"),
        (["{out}", "published", "--metric", "acuracy"], "did you mean 'accuracy'"),
        (["{out}/none", "published"], "neither the --out of a run"),
    ],
)
def test_bad_input(out: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *(text.format(out=out) for text in arguments), "--explain"]) == 2
    assert message in capsys.readouterr().err


def test_a_large_entry_is_left_to_the_command(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.analysis.explain import published
    from pipelines.plan.run_manifest import load_existing_run
    from pipelines.report.reproduction import load_reproduction

    monkeypatch.setattr(published, "MAX_BYTES", 1)
    store = Store(out)
    (result,) = published.with_own_rows(store, load_existing_run(store), load_reproduction(store))
    assert result.own_rows == ("not read again, as they are many: `vlmsweep compare OUT:M published --explain` does",)
