"""From suspect labels to a form: `items` and `annotate`, one after the other."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from jobs.cli.main import run
from pipelines.ingest.known import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.storage.store import Store

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
