"""Annotation forms: drawn from an output, filled in and saved in a browser, and read back by `--human`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.ingest.dataset import Dataset
from pipelines.storage.store import Store
from tests.integration.conftest import Cli
from tests.support.browser import CHROMIUM, browser
from tests.support.small_data import ingest_all

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")

BENCHMARKS = ("maia", "mate", "unpie", "vague", "vflute")
HOSTILE = """</p></section><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"> "' &amp; \u202e"""
FILL = """
(() => {
  const pick = (box) => {
    const inputs = [...box.querySelectorAll("input")];
    const input = inputs[WHICH < 0 ? inputs.length - 1 : 0];
    if (input.type === "text") { input.value = "red"; input.dispatchEvent(new Event("input", { bubbles: true })); }
    else input.click();
  };
  for (const item of document.querySelectorAll(".item")) {
    for (const box of item.querySelectorAll(".question")) if (!box.hidden) pick(box);
    const best = item.querySelector(".preference");
    if (best) pick(best);
  }
  return document.getElementById("progress").textContent;
})()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(ingest_all(tmp_path_factory.mktemp("small")))


def answers(data: str) -> Iterator[dict[str, str]]:
    """Yield hostile answers of two models to one setting of each benchmark."""
    cells = {
        "maia": [("oevqa", "32-frames", "")],
        "unpie": [("reconstruction", "vlm", "de/0"), ("disambiguation", "vlm", "fr/1")],
        "vague": [("mcq", "vlm", "")],
        "vflute": [("entailment", "zero-shot", "")],
    }
    for name in BENCHMARKS:
        for sample in Dataset.open(Store(data), name).samples():
            answered = cells.get(name) or [
                (row["task"], row["setting"], "") for row in sample.data["rows"] if row["setting"] == "2-shot"
            ]
            for task, setting, variant in answered:
                for model in ("m1", "m2"):
                    yield {
                        "benchmark": name,
                        "model": model,
                        "task": task,
                        "setting": setting,
                        "sample_id": sample.sample_id,
                        "variant": variant,
                        "output": f"{HOSTILE} {model}\nLABEL: entailment",
                    }


def table(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "report" / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_forms_are_filled_in_saved_and_read_back(inline_cli: Cli, data: str, tmp_path: Path) -> None:
    file, out, forms = tmp_path / "answers.jsonl", tmp_path / "out", tmp_path / "forms"
    file.write_text("\n".join(map(json.dumps, answers(data))))
    flags = ("--predictions", str(file), "--data", data, "--out", str(out), "--judge", "random")
    inline_cli("score", *flags)
    for name in BENCHMARKS:
        inline_cli(
            "annotate", str(out), "--benchmark", name, "--n", "4", "--people", "ann,bob", "--to", str(forms / name)
        )
    with browser(tmp_path) as page:
        for name in BENCHMARKS:
            for person, which in (("ann", 0), ("bob", -1)):
                page.open(forms / name / f"{name}-{person}.html")
                assert page.evaluate("document.getElementById('progress').textContent") == "0 of 4 done"
                assert page.evaluate(FILL.replace("WHICH", str(which))) == "4 of 4 done"
                page.click_and_download("#save", f"{name}-{person}.json").rename(forms / name / f"{name}-{person}.json")
                assert page.evaluate("window.hacked ?? 0") == 0
                assert page.evaluate("document.querySelectorAll('script').length") == 1
                if name in ("maia", "unpie", "vflute"):
                    shown = page.evaluate("document.querySelector('.part .text').textContent")
                    assert shown.startswith("</p></section><script>window.hacked = 1</script><img src=x")
        page.open(forms / "vague" / "vague-ann.html")  # answers are remembered, or the person starts again
        assert page.evaluate("document.getElementById('progress').textContent") in ("4 of 4 done", "0 of 4 done")
    saved = json.loads((forms / "vflute" / "vflute-bob.json").read_text())
    assert {(row["adequate"], row["error_type"], row["preferred"]) for row in saved["rows"]} == {
        ("0", "verbosity", "0")
    }
    assert len(saved["rows"]) == 8
    assert {row["system"] for row in saved["rows"]} == {"m1/zero-shot", "m2/zero-shot"}
    inline_cli("score", *flags, *(part for name in BENCHMARKS for part in ("--human", f"{name}={forms / name}")))
    people = [row["Person, setting"] for row in table(out, "vague_people")]
    assert people == ["ann, vlm", "bob, vlm", "all together, vlm"]
    (choices,) = table(out, "vague_people_agreement")
    assert (choices["People"], choices["Items"], choices["Same answer"]) == ("2", "4", "0.0")
    assert [row["Same answer"] for row in table(out, "mate_people_agreement")] == ["1.0"] * len(
        table(out, "mate_people_agreement")
    )
    assert {row["Answers"] for row in table(out, "unpie_people_agreement")} <= {
        "Labels, disambiguation",
        "Labels, reconstruction",
    }
    (ratings,) = (row for row in table(out, "maia_judge_agreement") if row["Raters"] == "Own ratings")
    assert ratings["Rated"] == "4 samples"
    adequate, preferred = table(out, "vflute_table6_own")
    # Ann finds all adequate and Bob none, so that they agree on nothing; on the best they differ too.
    assert [row["m1/zero-shot"] for row in (adequate, preferred)] == ["", ""]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--benchmark", "vage"), "did you mean 'vague'"),
        (("--benchmark", "vague", "--by", "subset,rating,color"), "unknown stratum of --by 'color'"),
        (("--benchmark", "vague", "--models", "m3"), "unknown model 'm3'"),
        (("--benchmark", "vague", "--people", "a b"), "distinct codes"),
        (("--benchmark", "vague", "--people", "0"), "give 1 to 50"),
        (("--benchmark", "vflute", "--settings", "5-shot"), "nothing to annotate"),
        (("--benchmark", "mate"), "holds no answers of models to mate"),
    ],
)
def test_unusable_flags_are_refused(
    inline_cli: Cli, data: str, tmp_path_factory: pytest.TempPathFactory, flags: tuple[str, ...], message: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "refused"
    if not root.exists():
        root.mkdir()
        rows = [row for row in answers(data) if row["benchmark"] in ("vague", "vflute")]
        (root / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
        inline_cli("score", "--predictions", str(root / "answers.jsonl"), "--data", data, "--out", str(root / "out"))
    refused = inline_cli("annotate", str(root / "out"), *flags, "--n", "4", "--to", str(root / "forms"), code=2)
    assert message in refused.stderr
    assert not (root / "forms").exists()


def test_output_that_is_none_is_refused(inline_cli: Cli, tmp_path: Path) -> None:
    refused = inline_cli(
        "annotate", str(tmp_path), "--benchmark", "vague", "--n", "4", "--to", str(tmp_path / "f"), code=2
    )
    assert "no run.json; is this the --out of a run?" in refused.stderr
