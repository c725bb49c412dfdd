"""Outputs that are being written, damaged, of a former version, or whose data are gone."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.cli.main import main
from jobs.view.detail import load_detail
from jobs.view.index import Index
from jobs.view.listing import Filter, Samples
from jobs.view.loading import Loader
from pipelines.samples.outputs import open_outputs
from pipelines.samples.prompts import SampleReader
from tests.support.viewer_output import part


def test_damaged_part_is_named_and_the_rest_is_shown(copied: str, opened: Any) -> None:
    file = part(copied, "predictions", "poor")
    file.write_bytes(file.read_bytes()[:-20])
    page = opened(copied).get("samples").text
    assert "1 thing cannot be read; the rest is shown" in page
    assert "model=poor/37a680133bd09342f934afb8.parquet" in page
    assert "good says" in page
    assert "poor says" not in page


def test_answers_without_scores_are_not_graded(copied: str, opened: Any) -> None:
    part(copied, "scores", "poor").unlink()
    page = opened(copied).get("samples?model=poor&outcome=none").text
    assert "not graded" in page
    assert "poor says" in page


def test_part_of_a_former_version_lacks_columns(copied: str, opened: Any) -> None:
    for kind, columns in (("predictions", ["decoding", "steps", "latency_s", "given"]), ("scores", ["flags", "rule"])):
        file = part(copied, kind, "good")
        pq.write_table(pq.read_table(file).drop_columns(columns), file)
    client = opened(copied)
    page = client.get("samples?model=good").text
    assert "cannot be read" not in page
    address = html.unescape(re.search(r'class="open" href="/secret/([^"]+)"', page)[1])
    assert "good says" in client.get(address).text


@pytest.mark.parametrize("content", ["", "{", "[]", '{"entries": [1]}'])
def test_damaged_run_and_metrics_are_named(copied: str, opened: Any, content: str) -> None:
    for name in ("run.json", "report/metrics.json"):
        Path(copied, name).write_text(content)
    client = opened(copied)
    for path in ("", "samples", "benchmark?name=maia"):
        response = client.get(path)
        assert response.status_code == 200
        assert "run.json" in response.text
    address = html.unescape(re.search(r'class="open" href="/secret/([^"]+)"', client.get("samples").text)[1])
    assert "good says" in client.get(address).text


def test_data_that_are_gone_are_named(copied: str, opened: Any, tmp_path: Path) -> None:
    client = opened(copied, data=str(tmp_path / "nowhere"))
    address = html.unescape(re.search(r'class="open" href="/secret/([^"]+)"', client.get("samples").text)[1])
    page = client.get(address).text
    assert "good says" in page
    assert "--data names another place" in page
    assert "the prompt cannot be shown" in page


def test_missing_clip_is_no_page_of_another_kind(copied: str, opened: Any, maia_data: str, tmp_path: Path) -> None:
    data = shutil.copytree(maia_data, tmp_path / "data")
    client = opened(copied, data=str(data))
    address = html.unescape(re.search(r'class="open" href="/secret/([^"]+)"', client.get("samples?task=oevqa").text)[1])
    page = html.unescape(client.get(address).text)
    shutil.rmtree(data / "maia" / "media")
    for medium in (
        re.search(r'src="/secret/(media[^"]+)"', page)[1],
        re.search(r'src="/secret/(frame[^"]+)"', page)[1],
    ):
        assert client.get(medium).status_code == 404


def test_output_that_vanishes_is_still_answered(copied: str, opened: Any) -> None:
    client = opened(copied)
    address = html.unescape(re.search(r'class="open" href="/secret/([^"]+)"', client.get("samples").text)[1])
    shutil.rmtree(copied)
    assert "its part is gone" in client.get(address).text
    assert client.get("").status_code == client.get("samples").status_code == 200


def test_store_that_goes_away_is_named_and_what_was_read_is_shown(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any) -> Any:
        raise ConnectionRefusedError("nobody listens")

    (output,) = open_outputs([out])
    with TemporaryDirectory() as folder:
        index = Index(Path(folder))
        loader = Loader([output], index)
        loader.load()
        for name in ("get", "walk", "exists"):
            monkeypatch.setattr(output.store.backend, name, refuse)
        loader.load()
        samples = Samples(index, [output])
        listing = samples.page(Filter(), 1)
        assert listing.total > 100
        detail = load_detail(samples.item(listing.items[0].identity()), [output], SampleReader(), index)
        assert all("nobody listens" in answer.problem for answer in detail.answers)
        assert any("nobody listens" in problem for problem in output.problems)
        index.close()


def test_new_replaced_and_deleted_parts_are_noticed(copied: str) -> None:
    with TemporaryDirectory() as folder:
        index = Index(Path(folder))
        loader = Loader(open_outputs([copied]), index)

        def answers() -> dict[str, int]:
            loader.load()
            counts = index.rows("SELECT model, count(*) AS n FROM answers GROUP BY model")
            return {row["model"]: row["n"] for row in counts}

        first = answers()
        assert first["good"] == first["poor"] > 100
        assert answers() == first
        file = part(copied, "predictions", "poor")
        pq.write_table(pq.read_table(file).slice(0, 10), file)
        assert answers() == {"good": first["good"], "poor": 10}
        file.unlink()
        assert answers() == {"good": first["good"]}
        assert index.rows("SELECT count(*) AS n FROM items") == [{"n": first["good"]}]
        shutil.copy(part(copied, "predictions", "good"), file)  # a part of any name
        assert answers() == {"good": 2 * first["good"]}
        index.close()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["no-such-folder"], 2, "no-such-folder: no such folder"),
        (["."], 2, "no output of vlmsweep"),
        ([], 2, "Missing argument"),
        ([".", "--port", "70000"], 2, "--port"),
        (["http://x/y"], 2, "only local paths and s3:// are supported"),
        (["s3:/x/y"], 2, "only local paths and s3:// are supported"),
    ],
)
def test_unusable_command_lines_end_with_one_sentence(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["view", *arguments])
    assert end.value.code == code
    error = capfd.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_taken_port_is_named(out: str, capfd: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as end:
        main(["view", out, "--port", str(taken.getsockname()[1])])
    assert end.value.code == 2
    assert "give another, or 0 for a free one" in capfd.readouterr().err
