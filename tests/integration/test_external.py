"""Imported predictions on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.conftest import Cli
from tests.support.log_fuzzing import GOLDEN
from tests.support.maia_source import questions


def answers(model: str, *, skip: int = 0) -> list[dict]:
    """Return answers to one setting: `A` to every pair, a reference to every open question."""
    rows = []
    for video in questions(2):
        for entry in video["question_categories_A"] + video["question_categories_B"]:
            name = f"{video['video']}/{entry['category']}"
            base = {"benchmark": "maia", "model": model, "setting": "1-frame", "sample_id": name}
            rows += [{**base, "task": "vsv", "variant": str(i), "output": "A"} for i in range(8)]
            rows.append({**base, "task": "oevqa", "variant": "", "output": entry["answer"][0], "bertscore_f1": 0.75})
    return rows[skip:]


def metrics(out: Path, model: str) -> dict[str, dict]:
    rows = json.loads((out / "report" / "metrics.json").read_text())
    return {row["metric"]: row for row in rows if row["model"] == model and row["category"] == ""}


def report_files(out: Path) -> dict[str, bytes]:
    """Return the report's files but for its pages, which hold warnings of the command that made them."""
    files = (path for path in (out / "report").rglob("*") if path.suffix in (".json", ".csv", ".tex", ".svg"))
    return {str(path): path.read_bytes() for path in files}


def test_predictions_file_is_scored_and_reported(inline_cli: Cli, maia_data: str, tmp_path: Path) -> None:
    rows = answers("whole") + answers("partial", skip=3)
    rows[5]["output"] = None
    pairs = [row for row in answers("words") if row["task"] == "vsv"]
    bare = [{**row, "setting": "unimodal", "output": '{"logprobs": [-1.5, -2.5]}'} for row in pairs]
    lines = [json.dumps(row) for row in rows]
    lines.insert(2, "{not json")
    lines.append(json.dumps({**rows[0], "output": "B"}))
    lines.append(json.dumps({**rows[0], "sample_id": "video9/Sentiment_A"}))
    lines.append(json.dumps({k: v for k, v in rows[0].items() if k != "output"}))
    lines += ["[" * 200_000, f'{{"model": {"9" * 6_000}}}', json.dumps({**rows[0], "model": "half \ud800"})]
    lines += [json.dumps(row) for row in bare]
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    flags = ("--data", maia_data, "--out", str(out), "--fail-on-error", "0.5", "--judge", "random")
    result = inline_cli("score", "--predictions", str(file), *flags)
    rejected = [json.loads(line) for line in (out / "rejected.jsonl").read_text().splitlines()]
    assert len(rejected) == 7
    assert {row["file"] for row in rejected} == {"answers.jsonl"}
    assert "7 rows" in result.stderr
    whole = metrics(out, "whole")
    assert whole["statement_accuracy"]["n"] == 384
    assert whole["statement_accuracy"]["n_failed"] == 1
    assert whole["pool_accuracy"]["value"] is not None
    assert whole["bertscore"]["value"] == 0.75
    assert whole["rouge"]["value"] == 1.0
    assert whole["oevqa_accuracy"]["value"] is not None
    partial = metrics(out, "partial")
    assert partial["statement_accuracy"]["n"] == 381
    assert partial["pool_accuracy"]["value"] is None
    assert (metrics(out, "words")["statement_accuracy"]["value"], len(bare)) == (1.0, 384)
    assert (out / "report" / "index.html").is_file()
    before = report_files(out)
    shutil.rmtree(out / "report")
    inline_cli("report", str(out), "--fail-on-error", "0.5")
    assert report_files(out) == before


def test_predictions_file_may_be_parquet_and_unknown_names_are_refused(
    inline_cli: Cli, maia_data: str, tmp_path: Path
) -> None:
    flags = ("--data", maia_data, "--out", str(tmp_path / "out"))
    wrong = tmp_path / "wrong.parquet"
    pq.write_table(pa.Table.from_pylist([{**answers("m")[0], "setting": "2-frames"}]), wrong)
    assert "32-frames" in inline_cli("score", "--predictions", str(wrong), *flags, code=2).stderr
    lacking = tmp_path / "lacking.parquet"
    pq.write_table(pa.table({"model": ["m"]}), lacking)
    assert "no column" in inline_cli("score", "--predictions", str(lacking), *flags, code=2).stderr
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(wrong.read_bytes()[:100])
    assert "cut.parquet" in inline_cli("score", "--predictions", str(cut), *flags, code=2).stderr
    assert "none.jsonl" in inline_cli("score", "--predictions", str(tmp_path / "none.jsonl"), *flags, code=2).stderr
    (tmp_path / "empty.jsonl").write_text("")
    assert "no row" in inline_cli("score", "--predictions", str(tmp_path / "empty.jsonl"), *flags, code=2).stderr


@pytest.mark.full
def test_predictions_files_add_up_and_replace_their_own_settings(
    inline_cli: Cli, maia_data: str, tmp_path: Path
) -> None:
    def score(name: str, rows: list[dict]) -> dict[str, dict]:
        file = tmp_path / f"{name}.jsonl"
        file.write_text("\n".join(json.dumps(row) for row in rows))
        result = inline_cli(
            "score", "--predictions", str(file), "--data", maia_data, "--out", str(tmp_path / "out"), "--json"
        )
        assert all(count["missing"] == 0 for count in json.loads(result.stdout)["counts"])
        return metrics(tmp_path / "out", "m")

    rows = answers("m")
    score("pairs", [row for row in rows if row["task"] == "vsv"])
    both = score("open", [{**row, "variant": None} for row in rows if row["task"] == "oevqa"])
    assert both["pool_accuracy"]["value"] is not None
    assert both["rouge"]["value"] == 1.0
    worse = score("again", [{**row, "variant": float(row["variant"])} for row in rows if row["task"] == "vsv"][1:])
    assert worse["statement_accuracy"]["n"] == 383
    assert worse["pool_accuracy"]["value"] is None
    assert worse["rouge"]["value"] == 1.0
    status = json.loads(inline_cli("status", str(tmp_path / "out"), "--json").stdout)
    counts = {(cell["task"], cell["requests"], cell["done"], cell["pending"]) for cell in status["cells"]}
    assert counts == {("vsv", 383, 383, 0), ("oevqa", 48, 48, 0)}


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
