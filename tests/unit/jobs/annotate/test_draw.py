"""The stratified draw of annotation forms, and what a page may hold."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jobs.annotate.command import annotate
from jobs.annotate.create import draw, draw_id, form_page
from jobs.cli.main import run
from models.messages import Media
from pipelines.benchmarks.human import YES_NO, AnnotationForm, AnnotationItem, AnnotationPart, Question
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset, load_tables
from pipelines.ingest.table import ingest_table
from pipelines.media.decoder import Decoder
from pipelines.samples.media import MediaReader
from pipelines.storage.store import Store
from tests.support.browser import CHROMIUM, browser
from tests.support.clip_corpus import CLIPS, write


def item(name: str, **strata: str) -> AnnotationItem:
    part = AnnotationPart(
        fields={"id": name}, texts=(("Answer", name),), questions=(Question(column="ok", label="?", options=YES_NO),)
    )
    return AnnotationItem(item_id=name, strata=strata, parts=(part,))


ITEMS = [
    item(f"{kind}{number}", kind=kind) for kind, count in (("a", 10), ("b", 3), ("c", 1)) for number in range(count)
]


def counts(drawn: list[AnnotationItem]) -> dict[str, int]:
    return dict(Counter(item.strata["kind"] for item in drawn))


def test_strata_take_turns_until_they_are_used_up() -> None:
    assert counts(draw(ITEMS, 3, ["kind"], 42)) == {"a": 1, "b": 1, "c": 1}
    assert counts(draw(ITEMS, 7, ["kind"], 42)) == {"a": 3, "b": 3, "c": 1}
    assert counts(draw(ITEMS, 99, ["kind"], 42)) == {"a": 10, "b": 3, "c": 1}
    assert draw([], 5, ["kind"], 42) == []


def test_draw_depends_on_seed_and_ids_alone() -> None:
    names = [item.item_id for item in draw(ITEMS, 6, ["kind"], 1)]
    assert [item.item_id for item in draw(ITEMS[::-1], 6, ["kind"], 1)] == names
    assert [item.item_id for item in draw(ITEMS, 9, ["kind"], 1)][:6] == names
    assert [item.item_id for item in draw(ITEMS, 6, ["kind"], 2)] != names
    assert draw_id(ITEMS) == draw_id(ITEMS[::-1])
    assert draw_id(ITEMS) != draw_id(ITEMS[1:])


def test_page_escapes_texts_and_allows_its_own_script_alone() -> None:
    hostile = """</section><script>alert(1)</script>" onload='x'"""
    form = AnnotationForm(
        kind="labels", annotator="annotator", title=hostile, instructions=(hostile,), items=(), default_strata=()
    )
    page = form_page("x", form, [item(hostile)], "ann", {})
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page.replace("&lt;", "")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert re.fullmatch(
        r"default-src &#39;none&#39;; img-src data:; style-src &#39;sha256-\S+&#39;; script-src &#39;sha256-\S+&#39;; "
        r"base-uri &#39;none&#39;; form-action &#39;none&#39;",
        policy,
    )


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_answers_to_a_part_of_an_item_are_remembered(tmp_path: Path) -> None:
    question = Question(column="adequate", label="Adequate?", options=YES_NO)
    items = [
        AnnotationItem(
            item_id=name,
            strata={},
            parts=[AnnotationPart(fields={"id": f"{name}{part}"}, questions=[question]) for part in "12"],
        )
        for name in "ab"
    ]
    form = AnnotationForm(
        kind="k", annotator="annotator", title="t", instructions=(), items=(), default_strata=(), preferred="best"
    )
    file = tmp_path / "form.html"
    file.write_text(form_page("x", form, items, "ann", {}), encoding="utf-8")
    with browser(tmp_path / "browser") as page:

        def remembered_after(selector: str, progress: str, checked: int) -> None:
            page.open(file)
            page.evaluate(f"document.querySelector({selector!r}).click()")
            deadline, state = time.monotonic() + 20, ("", 0)
            while state != (progress, checked):  # a busy browser passes what a page stored to the next one later
                assert time.monotonic() < deadline, state
                page.open_address("about:blank")
                page.open(file)
                state = (
                    page.evaluate("document.getElementById('progress').textContent"),
                    page.evaluate("document.querySelectorAll('#item1 input:checked').length"),
                )

        remembered_after("#item1 [name='q1-0-0'][value='1']", "0 of 2 done", 1)
        remembered_after("#item1 [name='q1-1-0'][value='0']", "0 of 2 done", 2)
        remembered_after("#item1 .preference [value='none']", "1 of 2 done", 3)


FRAMES = 8


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A clip of which decord shows wrong frames, and an output of a table with it."""
    path = write(next(clip for clip in CLIPS if clip.name == "h264-cut-5.mp4"), tmp_path)
    (tmp_path / "q.csv").write_text(f"id,video,question,answer\nq0,{path.name},Is it?,yes\n")
    data, out = str(tmp_path / "data"), str(tmp_path / "out")
    assert run(["ingest", "table", str(tmp_path / "q.csv"), "--as", "clips", "--data", data]) == 0
    assert run(["run", "--models", "random", "--benchmarks", "clips", "--data", data, "--out", out]) == 0
    return path


def test_forms_and_viewer_show_the_frames_of_a_clip(clip: Path, tmp_path: Path) -> None:
    with Decoder() as decoder:
        right = decoder.decode_file(clip, Media("video", "", FRAMES), None, ["pyav"]).pixels.astype(float)
    forms = tmp_path / "forms"
    assert run(["annotate", str(tmp_path / "out"), "--benchmark", "clips", "--n", "1", "--to", str(forms)]) == 0
    page = next(forms.glob("*.html")).read_text()
    assert f"{FRAMES} frames, evenly spaced" in page
    (content,) = re.findall(r'<img src="data:image/jpeg;base64,([^"]+)" alt="Frames of clip of item 1">', page)
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))).astype(float)
    height, width = right.shape[1:3]
    assert sheet.shape == (height * FRAMES // 2, width * 2, 3)
    dataset = Dataset.open(Store(str(tmp_path / "data")), "clips")
    (sample,) = dataset.samples()
    reader = MediaReader(tmp_path / "cache")
    for number in range(FRAMES):
        top, left = number // 2 * height, number % 2 * width
        assert np.abs(sheet[top : top + height, left : left + width] - right[number]).mean() < 5
        shown = Image.open(io.BytesIO(reader.frame(dataset, sample.media[0], FRAMES, number)))
        assert np.abs(np.asarray(shown).astype(float) - right[number]).mean() < 5
    reader.close()


FLIPPED = "=q7"  # which items.csv writes with an apostrophe before it


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output of twelve models that know most answers to a table of which one label is wrong."""
    ids = [FLIPPED if number == 7 else f"q{number}" for number in range(60)]
    letters = {name: "ABC"[number % 3] for number, name in enumerate(ids)}
    with (tmp_path / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "A", "B", "C", "answer"))
        for name, letter in letters.items():
            rows.writerow((name, f"What is {name}?", "one", "two", "three", "C" if name == FLIPPED else letter))
    data, answers = tmp_path / "data", tmp_path / "answers.jsonl"
    ingest_table(str(tmp_path / "questions.csv"), Store(str(data)), name="mine")
    load_tables(str(data), ["mine"])
    answers.write_text(
        "\n".join(
            json.dumps(
                {"benchmark": "mine", "model": f"m{model}", "task": "choice", "setting": "default", "variant": "",
                 "sample_id": name, "output": letter if (5 * model + place) % 11 else "ABC"["BCA".index(letter)]}
            )
            for model in range(12)
            for place, (name, letter) in enumerate(letters.items())
        )
    )  # fmt: skip
    code = run(["score", "--predictions", str(answers), "--data", str(data), "--out", str(tmp_path / "out")])
    assert code == 0
    return tmp_path / "out"


def test_two_commands_lead_from_suspect_labels_to_a_form(out: Path, tmp_path: Path) -> None:
    items, forms = tmp_path / "items", tmp_path / "forms"
    assert run(["items", str(out), "--to", str(items)]) == 0
    assert "--suspects items.csv" in (items / "items.html").read_text()
    annotate = ["annotate", str(out), "--benchmark", "mine", "--n", "9", "--people", "ann"]
    assert run([*annotate, "--suspects", str(items / "items.csv"), "--to", str(forms)]) == 0
    assert [item["item"] for item in json.loads((forms / "draw.json").read_text())["items"]] == [FLIPPED]
    page = (forms / "mine-ann.html").read_text()
    assert f"What is {FLIPPED}?" in page
    assert "What is q8?" not in page


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("benchmark,sample_id\nmine,q1\n", "has no column suspect; give the items.csv"),
        ("\ufeffbenchmark,sample_id,suspect\nmine,q1,False\n", "and of the 0 suspects of"),
    ],
)
def test_files_without_suspects_are_refused(
    out: Path, tmp_path: Path, text: str, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "items.csv").write_text(text)
    command = ["annotate", str(out), "--benchmark", "mine", "--n", "9", "--to", str(tmp_path / "forms")]
    assert run([*command, "--suspects", str(tmp_path / "items.csv")]) == 2
    assert problem in capfd.readouterr().err
    for path in (tmp_path / "none.csv", "/dev/zero"):
        assert run([*command, "--suspects", str(path)]) == 2
        assert "give the items.csv that `items` wrote" in capfd.readouterr().err


def test_people_are_distinct_codes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--people ann,ann: give a number, or distinct codes"):
        annotate(str(tmp_path), "vague", 1, tmp_path, people="ann,ann")
