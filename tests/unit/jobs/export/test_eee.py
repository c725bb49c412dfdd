"""Records of Every Eval Ever, checked by its own schema, of version 0.3.0 of the package every-eval-ever (MIT)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from jobs.cli.main import run
from pipelines.plan.stored_plan import PlanRow
from pipelines.storage.backend import portable_name
from tests.support.viewer_output import Answer, metric, write_metrics, write_output
from tests.unit.jobs.export.conftest import SECRET

SCHEMAS = Path(__file__).parent / "eee_schema"
HOSTILE = "../</script>\u2028 CON"


def validator(name: str) -> Draft7Validator:
    return Draft7Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text()))


def exported(out: str, folder: Path, *flags: str) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return aggregate and samples by model, each checked."""
    assert run(["export", "eee", out, str(folder), *flags]) == 0
    records = {}
    for path in sorted(folder.rglob("*.json")):
        aggregate = json.loads(path.read_bytes())
        assert [error.message for error in validator("eval").iter_errors(aggregate)] == []
        samples = path.with_name(f"{path.stem}_samples.jsonl")
        lines = [json.loads(line) for line in samples.read_bytes().splitlines()] if samples.exists() else []
        check = validator("instance_level_eval")
        assert [error.message for line in lines for error in check.iter_errors(line)] == []
        records[aggregate["model_info"]["name"]] = aggregate, lines
    return records


def test_records_are_valid_and_refer_to_each_other(out: str, folder: Path) -> None:
    aggregate, lines = exported(out, folder, "--organization", "Example")["m/1"]
    detailed = aggregate["detailed_evaluation_results"]
    content = (folder / detailed["file_path"]).read_bytes()
    assert (detailed["checksum"], detailed["total_rows"]) == (hashlib.sha256(content).hexdigest(), len(lines))
    assert detailed["additional_details"]["requests_without_score"] == str(48 + 48 * 8 - len(lines))
    assert {(line["evaluation_id"], line["model_id"]) for line in lines} == {
        (aggregate["evaluation_id"], aggregate["model_info"]["id"])
    }
    assert len({line["evaluation_name"] + line["sample_id"] for line in lines}) == len(lines)
    assert aggregate["source_metadata"]["source_organization_name"] == "Example"


def test_scores_are_the_runs_and_a_missing_number_is_absent(out: str, folder: Path) -> None:
    records = exported(out, folder)
    aggregate, lines = records["m/1"]
    results = {result["evaluation_name"]: result for result in aggregate["evaluation_results"]}
    assert {*results} == {"maia vsv black-video", "maia vsv black-video Planning"}
    score = results["maia vsv black-video"]["score_details"]
    assert (score["score"], score["uncertainty"]["num_samples"]) == (0.625, 8)
    assert score["uncertainty"]["confidence_interval"] == {"lower": 0.25, "upper": 0.75, "confidence_level": 0.95}
    assert {line["evaluation"]["score"] for line in lines} == {0.0, 1.0}
    assert all(line["evaluation"]["is_correct"] == (line["evaluation"]["score"] == 1) for line in lines)
    assert records["new"][1] == []
    assert "detailed_evaluation_results" not in records["new"][0]


def test_nothing_private_is_written(out: str, folder: Path, maia_data: str) -> None:
    exported(out, folder)
    text = "".join(path.read_text() for path in folder.rglob("*.json*"))
    assert [private for private in (SECRET, out, maia_data) if private in text] == []


def test_hostile_names_and_answers_stay_data(maia_data: str, tmp_path: Path, folder: Path) -> None:
    def answer(_model: str, row: PlanRow) -> Answer:
        return {"output": f"{HOSTILE} {row.sample_id}"}

    uri = write_output(str(tmp_path / "results"), maia_data, ["../../escaped", "CON"], answer)
    write_metrics(uri, [metric("CON", "black-video", 0.5)])
    records = exported(uri, folder)
    assert {*records} == {"../../escaped", "CON"}
    assert all(path.relative_to(folder).parts[0] == "data" for path in folder.rglob("*.json"))
    assert not (tmp_path / "escaped").exists()
    assert records["CON"][1][0]["output"]["raw"][0].startswith("../</script>\u2028 CON")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("..", "_"),
        ("CON.x", "_CON.x"),
        ("data", "_data"),
        ("a/b:c", "a_b_c"),
        ("é", "%C3%A9"),
        ("ü", "%C3%BC"),
        ("x" * 120, "x" * 120),
        ("x" * 121, f"{'x' * 111}-{hashlib.sha256(b'x' * 121).hexdigest()[:8]}"),
    ],
)
def test_names_are_portable(text: str, name: str) -> None:
    assert portable_name(text) == name
