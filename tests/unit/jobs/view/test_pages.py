from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from models.messages import prompt_sha256
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Row
from pipelines.ingest.dataset import Dataset, load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_spec import RunSpec
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep
from tests.support.viewer_output import make_target, metric, part, write_metrics
from tests.unit.jobs.view.conftest import open_all


def rows_of(out: str) -> list[dict[str, Any]]:
    """Return every answer with its score."""
    rows = []
    for model in ("good", "poor"):
        scores = {row["request_id"]: row for row in pq.read_table(part(out, "scores", model)).to_pylist()}
        for row in pq.read_table(part(out, "predictions", model)).to_pylist():
            score = scores[row["request_id"]]
            values = dict(score["values"])
            rows.append({**row, "category": score["category"], "read": score["answer"], "values": values})
    return rows


def is_right(row: dict[str, Any]) -> bool:
    return (
        row["status"] == "ok"
        and row["read"] is not None
        and row["values"].get("accepted", 0) + row["values"].get("correct", 0) == 1.0
    )


def item_of(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("sample_id", "task", "setting", "variant"))


FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "task=vsv": lambda row: row["task"] == "vsv",
    "setting=32-frames&model=poor&outcome=right": lambda row: (
        row["setting"] == "32-frames" and row["model"] == "poor" and is_right(row)
    ),
    "outcome=error": lambda row: row["status"] == "error",
    "outcome=unread": lambda row: row["status"] == "ok" and row["read"] is None,
    "judge=rejected": lambda row: row["values"].get("accepted") == 0.0,
    "category=Sentiment_A": lambda row: row["category"] == "Sentiment_A",
    "q=MUMBLE": lambda row: row["output"] == "mumble",
    "q=sentiment_a": lambda row: "Sentiment_A" in row["sample_id"],
    "model=none-such": lambda _row: False,
    "outcome=no-such": lambda _row: True,
}


def count_of(page: str) -> int:
    """Return the number of items that a list states."""
    return int(re.search(r'role="status">([\d,]+) item', page)[1].replace(",", ""))


def test_categories_of_the_first_setting_are_shown_and_others_named(client: TestClient, copied: str) -> None:
    page = "benchmark?name=maia&metric=pool_accuracy"  # in none of whose settings MAIA's headline stands
    assert "vsv, black-video</p>" in client.get(page).text.replace("\n", "")
    write_metrics(copied, [metric("good", setting, 0.5) for setting in ("black-video", "32-frames")])
    with ExitStack() as stack:
        assert re.search(r"vsv, [-\w]+; also\s*<a", open_all(stack, copied).get(page).text)


@pytest.mark.parametrize("query", FILTERS)
def test_filter_selects_what_the_parts_hold(client: TestClient, out: str, query: str) -> None:
    expected = {item_of(row) for row in rows_of(out) if FILTERS[query](row)}
    assert count_of(client.get(f"samples?{query}").text) == len(expected)
    assert expected or "none" in query


def test_models_disagree_where_some_are_right_and_some_are_wrong(client: TestClient, out: str) -> None:
    rows = [row for row in rows_of(out) if row["status"] == "ok"]
    by_item: dict[tuple[str, ...], set[bool]] = {}
    for row in rows:
        value = next(iter(row["values"].values()))
        by_item.setdefault(item_of(row), set()).add(value == 1.0)
    assert count_of(client.get("samples?disagree=1").text) == sum(len(values) == 2 for values in by_item.values()) > 0


def test_lists_are_sorted_and_their_pages_and_neighbours_follow(client: TestClient) -> None:
    times = [float(text) for text in re.findall(r'class="time">([\d.]+) s', client.get("samples?sort=latency").text)]
    assert max(times) == times[0] > times[-1]
    ids = [re.findall(r'class="open" href="([^"]+)"', client.get(f"samples?task=vsv&page={n}").text) for n in (1, 2)]
    assert len(ids[0]) == 50
    assert not {*ids[0]} & {*ids[1]}
    page = client.get("samples?page=99999999").text
    assert re.search(r"Page (\d+) of \1<", page)
    addresses = re.findall(r'class="open" href="/secret/([^"]+)"', client.get("samples?task=vsv&model=poor").text)
    page = client.get(html.unescape(addresses[1])).text
    before, after = (re.search(rf'rel="{rel}" href="/secret/([^"]+)"', page)[1] for rel in ("prev", "next"))
    assert [before, after] == [addresses[0], addresses[2]]
    assert 'rel="prev"' not in client.get(html.unescape(addresses[0])).text


@pytest.mark.parametrize("query", ["page=-1", "page=x", "page=" + "9" * 400, "page=\u0663", "sort=1;drop", "at=%ff"])
def test_unusable_values_are_ignored(client: TestClient, query: str) -> None:
    assert client.get(f"samples?{query}").status_code == 200


def identity(row: dict[str, Any]) -> str:
    return urlencode({name: row[name] for name in ("benchmark", "sample_id", "task", "setting", "variant")})


def test_item_shows_answers_beside_each_other_with_how_they_were_read(client: TestClient, out: str) -> None:
    row = next(row for row in rows_of(out) if row["model"] == "poor" and row["status"] == "error")
    page = client.get(f"sample?{identity(row)}").text
    assert page.count('<article class="card') == 2
    for text in ("good says", "<b>timeout</b> no reply", "<dt>Rule</dt><dd>single</dd>", "7 input", row["request_id"]):
        assert text in page
    assert "error" in re.findall(r'class="badge (\w+)"', page)


def test_item_shows_the_prompt_that_was_sent_with_its_frames_or_their_colour(client: TestClient, out: str) -> None:
    row = next(row for row in rows_of(out) if row["task"] == "oevqa")
    page = html.unescape(client.get(f"sample?{identity(row)}").text)
    assert "not what was sent" not in page
    frames = re.findall(r'<img loading="lazy" alt="frame \d+" src="/secret/(frame\?[^"]+)"', page)
    assert len(frames) == 32
    assert [client.get(frame).content[:3] for frame in frames[:2]] == [b"\xff\xd8\xff"] * 2
    clip = re.search(r'<video[^>]+ src="/secret/(media\?[^"]+)"', page)[1]
    response = client.get(clip, headers={"range": "bytes=0-9"})
    assert (response.status_code, len(response.content), response.headers["content-type"]) == (206, 10, "video/mp4")
    row = next(row for row in rows_of(out) if row["setting"] == "black-video")
    assert "clip of 32 frames of one colour: #000000" in client.get(f"sample?{identity(row)}").text


def test_overview_shows_value_interval_and_published_rows(client: TestClient) -> None:
    page = client.get("").text
    assert "results" in page
    assert client.get("benchmark?name=maia&metric=pool_accuracy").text.count("62.5") == 1
    metric_page = client.get("benchmark?name=maia&metric=pool_accuracy").text
    assert "25.0–75.0" in metric_page
    assert "Planning" in metric_page
    assert "published row" in metric_page


def test_a_line_of_people_stands_where_a_paper_has_them(opened: Any, copied: str, tmp_path: Path) -> None:
    number = {**metric("good", "0-shot", 0.5), "benchmark": "mate", "task": "img2txt", "metric": "exact_match"}
    write_metrics(copied, [number])
    assert "People <small>as published" in opened(copied).get("").text
    (tmp_path / "questions.csv").write_text("id,question,A,B,answer\n1,Which?,one,two,A\n2,Which now?,one,two,B\n")
    ingest_table(str(tmp_path / "questions.csv"), Store(str(tmp_path)), name="mine")
    load_tables(str(tmp_path), ["mine"])
    out, models = str(tmp_path / "out"), {"a": ModelSpec(engine="random")}
    run_sweep(RunSpec(data=str(tmp_path), out=out, models=models, benchmarks=("mine",)))
    page = opened(out).get("").text
    assert "Models by benchmarks" in page
    assert "as published" not in page


def test_what_is_not_there_is_named(client: TestClient) -> None:
    response = client.get("benchmark?name=maja")
    assert response.status_code == 404
    assert "maja" in response.text
    response = client.get("diff")
    assert response.status_code == 404
    assert "vlmsweep view OUT OUT" in response.text
    response = client.get("sample?benchmark=maia&sample_id=none")
    assert response.status_code == 404
    assert "The outputs hold no answer to this sample.<" in response.text


def test_words_of_the_judge_are_beside_the_answer(opened: Any, copied: str, maia_data: str) -> None:
    dataset = Dataset.open(Store(maia_data), "maia")
    row = next(row for row in rows_of(copied) if row["model"] == "good" and row["task"] == "oevqa")
    sample = next(sample for sample in dataset.samples() if sample.sample_id == row["sample_id"])
    target = make_target(dataset, "good")
    names = ("request_id", "model", "task", "setting", "variant", "status", "output")
    ask = benchmark("maia").judge.ask(Row(sample=sample, **{name: row[name] for name in names}), target.prompts.texts)
    reply = {"model": "judge-1", "prompt_sha256": prompt_sha256([ask.step]), "output": "<i>sentenced</i>"}
    Store(copied).put(
        "judgements/benchmark=maia/model=judge-1/2d711642b726b04401627ca9.parquet", to_parquet([reply], PREDICTIONS)
    )
    client = opened(copied)
    deadline = time.monotonic() + 60
    while "The words of judge-1" not in (page := client.get(f"sample?{identity(row)}").text):
        assert time.monotonic() < deadline
    assert page.count("The words of judge-1") == 1
    assert "&lt;i&gt;sentenced" in page


def test_comparison_counts_changes(opened: Any, out: str, copied: str) -> None:
    table = pq.read_table(part(copied, "predictions", "good"))
    changed = ["other words", *table["output"].to_pylist()[1:]]
    pq.write_table(
        table.set_column(table.schema.get_field_index("output"), "output", [changed]),
        part(copied, "predictions", "good"),
    )
    client = opened(out, copied)
    page = client.get("diff?change=text").text
    assert "Another answer, same outcome: 1<" in page
    assert "other words" in page
    assert ": 0<" in client.get("diff?change=worse").text


def test_list_shows_what_each_item_asks_and_expects_with_a_thumbnail(client: TestClient, maia_data: str) -> None:
    page = html.unescape(client.get("samples?task=oevqa").text)
    sample = next(iter(Dataset.open(Store(maia_data), "maia").samples()))
    assert f'<bdi class="question">{sample.data["question"]}</bdi>' in page
    assert f"Expected: <bdi>{sample.data['answers'][0]}" in page
    thumbnail = re.search(r'<img class="thumb"[^>]+ src="/secret/(frame\?[^"]+)"', page)[1]
    assert client.get(thumbnail).content[:3] == b"\xff\xd8\xff"
    assert re.search(r'<bdi class="question">A .+ \| B .+</bdi>', client.get("samples?task=vsv").text)


def test_item_has_question_medium_and_expected_answer_before_the_answers(client: TestClient, out: str) -> None:
    row = next(row for row in rows_of(out) if row["task"] == "oevqa" and row["model"] == "good")
    page = client.get(f"sample?{identity(row)}").text
    places = [page.index(text) for text in ("<video", "<h2>Question", "<h2>Expected", "<h2>Answers", "What was sent")]
    assert places == sorted(places)
    assert page.count("<video") == 1
    assert "The judge accepted it." in page
    wrong = next(
        row
        for row in rows_of(out)
        if row["task"] == "vsv" and row["status"] == "ok" and row["read"] and not is_right(row)
    )
    assert "Read as A, which is wrong." in client.get(f"sample?{identity(wrong)}").text
