"""Logs of another harness on the command line: scored by our rules, with its verdicts beside ours."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.conftest import Cli
from tests.support.log_fuzzing import GOLDEN


def test_log_is_scored_and_its_verdicts_are_compared(inline_cli: Cli, tmp_path: Path) -> None:
    questions = [json.loads(line) for line in (GOLDEN / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [{name: row[name] for name in ("id", "question", "answer")} for row in questions if row["kind"] == "number"]
    source, data, out = tmp_path / "jar.jsonl", str(tmp_path / "data"), tmp_path / "out"
    source.write_text("\n".join(map(json.dumps, rows)))
    inline_cli("ingest", "table", str(source), "--as", "jar", "--kind", "number", "--data", data)
    flags = ("--data", data, "--out", str(out))
    result = inline_cli("score", "--predictions", str(GOLDEN / "lm-eval"), *flags)
    assert "160 rows" in result.stderr
    rejected = [json.loads(line) for line in (out / "rejected.jsonl").read_text().splitlines()]
    assert {row["reason"] for row in rejected} == {"matches no question of jar, by id or by text"}
    parts = pq.read_table(next((out / "predictions").rglob("*.parquet"))).to_pylist()
    planted = {row["id"]: row for row in questions}
    assert {row["sample_id"]: row["output"] for row in parts} == {
        row["id"]: planted[row["id"]]["reply"] for row in rows
    }
    assert {row["their_rule"] for row in parts} == {"lm-eval: flexible-extract, exact_match"}
    metrics = json.loads((out / "report" / "metrics.json").read_text())
    values = {(row["metric"], row["category"]): (row["value"], row["n"]) for row in metrics}
    assert values["accuracy", ""] == (sum(planted[row["id"]]["right"] for row in rows) / 40, 40)
    assert values["verdicts_differ", ""] == values["verdicts_differ", "it reads another answer"] == (2, 40)
    assert sum(row["their_correct"] for row in parts) == 40 * values["accuracy", ""][0] - 2
    table = (out / "report" / "tables" / "jar_other_verdicts.csv").read_text()
    assert "it reads another answer,2,40" in table
    assert "jar: verdicts of other harnesses beside ours" in (out / "report" / "benchmark-jar.html").read_text()
    before = (out / "report" / "metrics.json").read_bytes()
    inline_cli("report", str(out), "--data", data)
    assert (out / "report" / "metrics.json").read_bytes() == before


def test_row_number_of_another_question_hides_no_reason(inline_cli: Cli, tmp_path: Path) -> None:
    """The ids of a table without ids are numbers, as those of a log's rows are."""
    source, data, log = tmp_path / "colours.csv", str(tmp_path / "data"), tmp_path / "samples_colours_1.jsonl"
    source.write_text("question,A,B,answer\nIs snow white?,yes,no,A\nIs grass red?,yes,no,B\n")
    inline_cli("ingest", "table", str(source), "--as", "colours", "--data", data)
    rows = [("Is grass red?", ["never", "always"]), ("Is snow white?", ["yes", "no"])]
    lines = [
        {"doc_id": number, "doc": {"question": question, "options": options}, "arguments": {}, "resps": [["A"]]}
        for number, (question, options) in enumerate(rows, start=2)
    ]
    log.write_text("\n".join(map(json.dumps, lines)))
    inline_cli("score", "--predictions", str(log), "--data", data, "--out", str(tmp_path / "out"))
    rejected = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert [row["reason"] for row in rejected] == ["its options are others than ours"]


@pytest.mark.parametrize("form", ["lm-eval", "inspect", "parquet"])
def test_a_run_that_stopped_comes_back_from_its_export(
    form: str, inline_cli: Cli, vague_data: str, tmp_path: Path
) -> None:
    """What was not asked stays excluded, and both tasks find their requests, whose texts are equal in two settings."""
    out, export, again = (tmp_path / name for name in ("out", "export", "again"))
    settings = ("--settings", "sm,vlm", "--data", vague_data)
    inline_cli("run", "--models", "random", "--benchmarks", "vague", *settings, "--until", "ci<=0.3", "--out", str(out))
    parts = [pq.read_table(path) for path in (out / "predictions").rglob("*.parquet")]
    assert {"ok", "excluded"} == {*pa.concat_tables(parts)["status"].to_pylist()}
    if form == "parquet":
        export = export.with_suffix(".parquet")
        pq.write_table(pa.concat_tables(parts), export)
    else:
        inline_cli("export", form, str(out), str(export))
    inline_cli("score", "--predictions", str(export), *settings, "--out", str(again))
    assert not (again / "rejected.jsonl").read_text()
    metrics = [json.loads((folder / "report" / "metrics.json").read_text()) for folder in (out, again)]
    for row in [*metrics[0], *metrics[1]]:
        del row["set_ci_low"], row["set_ci_high"]  # only the run knows how it looked at its answers
    assert [row for row in metrics[1] if row["metric"] != "verdicts_differ"] == metrics[0]
