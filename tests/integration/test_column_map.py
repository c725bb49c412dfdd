"""`--column-map` on the command line, from a folder and from an object store, for UNPIE, which needs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.ingest.dataset import Dataset
from pipelines.storage.store import Store
from tests.integration.conftest import S3, Cli
from tests.support.unpie_source import picture, row, write_jsonl

MAP = """\
sentence: text.en
phrase: text.pun
translation[0]: meanings[0]
translation[1]: meanings[1]
exp_image: drawing
disamb_image[0]: photos[0]
disamb_image[1]: photos[1]
category: kind
sample_id: key
"""


def renamed(kind: str, index: int) -> dict[str, Any]:
    """Return a pun with other column names."""
    item = row("homographic", index)
    return {
        "key": f"{kind}-{index}",
        "kind": kind,
        "text": {"en": item["pun_sentence"], "pun": item["pun_phrase"]},
        "meanings": [item["translation1"], item["translation2"]],
        "drawing": "a.png",
        "photos": ["b.png", "c.png"],
    }


@pytest.mark.parametrize("storage", ["folder", "s3"])
def test_column_map_reads_a_source_with_other_names(
    cli: Cli, tmp_path: Path, storage: str, request: pytest.FixtureRequest
) -> None:
    source = tmp_path / "source"
    write_jsonl(source / "puns.jsonl", [renamed(kind, n) for n in range(2) for kind in ("Homo", "Hetero")])
    for name in "abc":
        (source / f"{name}.png").write_bytes(picture(name))
    (tmp_path / "map.yaml").write_text(MAP)
    uri, env = str(source), {}
    if storage == "s3":
        s3: S3 = request.getfixturevalue("s3")
        for path in source.iterdir():
            s3.client().put_object(Bucket="bench", Key=f"puns/{path.name}", Body=path.read_bytes())
        uri, env = "s3://bench/puns", s3.env
    flags = ("ingest", "unpie", uri, "--data", str(tmp_path / "data"), "--json")
    payload = json.loads(cli(*flags, "--column-map", str(tmp_path / "map.yaml"), env=env).stdout)
    assert (payload["samples"], payload["rejected"], payload["media"]) == (4, 0, 3)
    results = {sample.sample_id: sample for sample in Dataset.open(Store(str(tmp_path / "data")), "unpie").samples()}
    assert sorted(results) == ["Hetero-0", "Hetero-1", "Homo-0", "Homo-1"]
    assert results["Homo-1"].data["translation"][1] == row("homographic", 1)["translation2"]
    assert {ref.role for ref in results["Homo-1"].media} == {"explanation", "disambiguator/0", "disambiguator/1"}
    if storage == "folder":
        (tmp_path / "map.yaml").write_text(MAP.replace("text.en", "txt.en"))
        wrong = cli(*flags, "--column-map", str(tmp_path / "map.yaml"), code=2).stderr
        assert "'text.en'" in wrong
        assert "columns found" in wrong
