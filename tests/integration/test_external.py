"""Imported predictions on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.conftest import Cli
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
