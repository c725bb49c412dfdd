"""The items behind the tables: which items each list holds, worked out by hand, and their files."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pandas as pd

from pipelines.benchmarks.item_lists import ItemList, ListedItem
from pipelines.benchmarks.maia.metrics import item_lists as maia_lists
from pipelines.benchmarks.mate.error_analysis import item_lists as mate_lists
from pipelines.benchmarks.vague.metrics import item_lists as vague_lists
from pipelines.benchmarks.vflute.metrics import item_lists as vflute_lists
from pipelines.report.model import ModelItems
from pipelines.report.pages.items import SHOWN, item_files, shown_requests
from tests.support import maia_rows, mate_scenes, vague_rows, vflute_rows
from tests.support.maia_rows import Question
from tests.support.vflute_rows import Scored


def ids(lists: list[ItemList]) -> dict[str, list[str]]:
    return {items.id: [item.sample_id for item in items.items] for items in lists}


def with_requests(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(request_id=[f"r{number}" for number in range(len(frame))])


def test_maia_lists_where_both_tasks_differ_and_wrong_answers() -> None:
    right, wrong = "TTTTTTTT", "TTTTTTTF"
    questions = [
        Question(pairs=right, judged="accepted", video="v1"),
        Question(pairs=right, judged="rejected", video="v2"),
        Question(pairs=wrong, judged="accepted", video="v3"),
        Question(pairs=wrong, judged="rejected", video="v4"),
        Question(pairs=right, judged="error", video="v5"),
        Question(pairs=right, judged="absent", video="v6"),
        Question(pairs=wrong, judged="rejected", video="v7", category="Out-of-Scope", name="OutofScope_A"),
        Question(pairs=right, judged="accepted", video="v8", category="Uncertainty", name="Incertezza_A"),
        Question(pairs=right, judged="invalid", video="v9", category="Uncertainty", name="Incertezza_A"),
    ]
    samples = {
        name: replace(sample, data={**sample.data, "question": "Dove?"})
        for name, sample in maia_rows.samples(questions).items()
    }
    lists = maia_lists(with_requests(maia_rows.frame(questions)), samples)
    assert ids(lists) == {
        "maia_pool_only": ["v2/CausaleEsplicita_A", "v5/CausaleEsplicita_A", "v9/Incertezza_A"],
        "maia_judge_only": ["v3/CausaleEsplicita_A"],
        "maia_out_of_scope": ["v7/OutofScope_A"],
        "maia_uncertainty": ["v9/Incertezza_A"],
    }
    (item,) = lists[1].items
    assert (item.question, item.detail, item.answer) == ("Dove?", "7 of 8 statements right", questions[0].answer)
    assert item.expected.startswith("la pizza è nel forno; una pizza")


def test_mate_lists_wrong_answers_out_of_the_scene() -> None:
    samples = {sample.sample_id: sample for sample in mate_scenes.samples(30)}
    answers = [("red", 1.0, 1.0), ("blue", 0.0, 1.0), ("pink", 0.0, 0.0), (None, 0.0, 0.0)]
    rows = [
        {name: sample.data["rows"][0][name] for name in ("task", "setting")}
        | {"sample_id": sample.sample_id, "variant": "", "category": "3 objects", "status": "ok", "answer": answer}
        | {"rule": "json" if answer else "no json", "correct": correct, "in_scene": in_scene}
        for sample, (answer, correct, in_scene) in zip(samples.values(), answers, strict=False)
    ]
    crossmodal = [row["sample_id"] for row in rows if row["task"] in ("img2txt", "txt2img")]
    (items,) = mate_lists(with_requests(pd.DataFrame(rows)), samples)
    assert [item.sample_id for item in items.items] == crossmodal[2:]
    assert [(item.answer, item.detail) for item in items.items] == [
        ("pink", "no object has this value"),
        ("", "no JSON with an answer"),
    ]


def test_vague_lists_items_by_error_type() -> None:
    items = vague_rows.items(5)  # in each ordering, the letters of correct, FS, SU and NE
    kinds = dict(zip([item.sample_id for item in items], (0, 1, 2, 3, None), strict=True))

    def say(item, _task, _setting):  # type: ignore[no-untyped-def]
        kind = kinds[item.sample_id]
        return "I do not know." if kind is None else item.data["ordering"][kind]

    frame = with_requests(vague_rows.frame(items, say, cells=[("mcq", "vlm")]))
    lists = vague_lists(frame, {item.sample_id: item for item in items})
    assert ids(lists) == {
        "vague_fs": ["VCR-00001"],
        "vague_su": ["VCR-00002"],
        "vague_ne": ["VCR-00003"],
        "vague_invalid": ["VCR-00004"],
    }
    assert lists[0].items[0].answer == "The speaker wants person1 to feed the parrot."
    assert lists[3].items[0].detail == "invalid:refusal"


def test_vflute_lists_right_labels_with_poor_explanations() -> None:
    samples = vflute_rows.samples([Scored()] * 4)
    values = [(1.0, 0.53), (1.0, 0.5301), (0.0, 0.2), (1.0, -0.1)]
    labels = {"task": "entailment", "setting": "zero-shot", "variant": "", "category": "", "status": "ok"}
    frame = pd.DataFrame(values, columns=["correct", "es"]).assign(sample_id=[*samples], answer="entailment", **labels)
    (items,) = vflute_lists(with_requests(frame), samples)
    names = list(samples)
    assert [(item.sample_id, item.detail) for item in items.items] == [
        (names[0], "explanation score 0.530"),
        (names[3], "explanation score -0.100"),
    ]
    assert vflute_lists(with_requests(frame.drop(columns="es")), samples) == []


def test_files_hold_all_items_and_the_page_the_first_of_each_setting() -> None:
    hostile = "</p><script>alert(1)</script>=1+1"
    texts = {
        "category": "",
        "task": "mcq",
        "variant": "",
        "question": hostile,
        "expected": "=HYPERLINK(1)",
        "answer": "",
    }
    items = [
        ListedItem(request_id=f"{setting}{number}", sample_id=f"s{number}", setting=setting, **texts)
        for setting, count in (("lm", SHOWN + 1), ("vlm", 1))
        for number in range(count)
    ]
    lists = ItemList(id="vague_fs", title="Title", about="About", items=items)
    assert shown_requests([lists]) == {item.request_id for item in items} - {f"lm{SHOWN}"}
    files = item_files([ModelItems(benchmark="maia", model="m", items=lists, outputs={"lm0": hostile})], [])
    assert set(files) == {"report/items.html", "report/items/vague_fs.csv"}
    rows = list(csv.DictReader(io.StringIO(files["report/items/vague_fs.csv"].decode())))
    assert len(rows) == SHOWN + 2
    assert rows[0]["expected"] == "'=HYPERLINK(1)"
    page = files["report/items.html"].decode()
    assert page.count("<details") == SHOWN + 1
    assert f"m: lm {SHOWN + 1}, vlm 1" in page
    assert page.count("<script") == 1  # the one that sorts tables
    assert item_files([], []) == {}
