"""The data set folder: Parquet files that its card names, and nothing private."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from jobs.cli.main import run
from pipelines.plan.run_manifest import load_run, save_run
from pipelines.storage.store import Store
from tests.support.viewer_output import write_output
from tests.unit.jobs.export.conftest import SECRET


@pytest.fixture
def exported(out: str, folder: Path) -> Path:
    assert run(["export", "hub", out, str(folder)]) == 0
    return folder


def test_card_names_the_files_of_each_configuration(exported: Path) -> None:
    _, head, text = (exported / "README.md").read_text().split("---\n", 2)
    configs = {config["config_name"]: config["data_files"] for config in yaml.safe_load(head)["configs"]}
    assert {*configs} == {"maia", "metrics"}
    for ((files),) in configs.values():
        assert files["split"] == "test"
        tables = [pq.read_table(path) for path in exported.glob(files["path"])]
        assert tables
        assert len({table.schema for table in tables}) == 1
    assert "| m/1 |" in text
    assert "arXiv 2502.16989" in text


def test_names_are_text_on_the_card(maia_data: str, tmp_path: Path, folder: Path) -> None:
    uri = write_output(str(tmp_path / "results"), maia_data, ["<img src=x>|\n# [free](http://x)\x1b[2J", ".."])
    assert run(["export", "hub", uri, str(folder)]) == 0
    lines = (folder / "README.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# Answers of vision-language models"]
    (line,) = [line for line in lines if "free" in line]
    assert line.startswith(r"| &lt;img src=x&gt;\| ↵ \# \[free\](http\://x)�\[2J | ")
    assert {path.parent for path in folder.rglob("*.parquet")} == {folder / "data" / "maia"}
    assert run(["export", "lm-eval", uri, str(tmp_path / "a/b/c"), "--models", ".."]) == 0
    assert len([*(tmp_path / "a/b/c").glob("%2E%2E/results_*.json")]) == 1


@pytest.mark.parametrize(("adapter", "shown"), [({}, "owner/base"), ({"adapter": "/home/me/lora"}, "")])
def test_adapter_hides_base(adapter: dict[str, str], shown: str, maia_data: str, tmp_path: Path, folder: Path) -> None:
    out = Store(write_output(str(tmp_path / "results"), maia_data, ["m"]))
    earlier = load_run(out)
    entry = earlier.entries[0]
    tuned = replace(entry, target=replace(entry.target, fingerprint={"model": "owner/base", **adapter}))
    save_run(out, earlier, replace(earlier, entries=(tuned,)))
    assert run(["export", "hub", out.uri, str(folder)]) == 0
    assert f"| m | {shown} |" in (folder / "README.md").read_text()


def test_rows_hold_messages_answers_and_null_scores(exported: Path) -> None:
    rows = pq.read_table(exported / "data" / "maia" / "m%2F1.parquet").to_pylist()
    assert len(rows) == 48 + 48 * 8
    failed = [row for row in rows if row["status"] == "error"]
    assert {(row["output"], row["score_correct"], row["score_accepted"], row["error_type"]) for row in failed} == {
        (None, None, None, "http_401")
    }
    row = next(row for row in rows if row["task"] == "oevqa")
    (media,) = row["media"]
    assert row["messages"][0]["content"].startswith(f"<video:{Path(media).stem}>")
    assert (row["score_accepted"], row["score_correct"]) == (0.0, None)
    unscored = pq.read_table(exported / "data" / "maia" / "new.parquet")
    assert unscored["score_correct"].null_count == unscored.num_rows == len(rows)


def test_nothing_private_is_written(exported: Path, out: str, maia_data: str) -> None:
    for path in [path for path in exported.rglob("*") if path.is_file()]:
        text = str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_text()
        for private in (SECRET, out, maia_data):
            assert private not in text, path
    assert not (exported / "media").exists()


def test_media_are_copied_on_request(out: str, folder: Path) -> None:
    assert run(["export", "hub", out, str(folder), "--media", "--models", "m/1"]) == 0
    rows = pq.read_table(folder / "data" / "maia" / "m%2F1.parquet").to_pylist()
    assert {path.name for path in (folder / "media").iterdir()} == {name for row in rows for name in row["media"]}
