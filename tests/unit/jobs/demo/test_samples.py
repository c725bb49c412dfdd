"""The demo's sample data, in the forms as distributed."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from PIL import ImageChops

from jobs.demo.main import BENCHMARKS, write_sample
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import RawSample, Rejection, SourceWarning
from pipelines.benchmarks.vflute.facts import SUBSETS
from pipelines.ingest.source_folder import Folder
from tests.support.paths import ROOT
from tests.tools.demo_data import picture
from tests.tools.demo_data.build import main
from tests.tools.demo_data.picture import draw, encoded, people_in, things
from tests.tools.demo_data.unpie_sample import read_puns
from tests.tools.demo_data.vague_sample import vague_rows
from tests.tools.demo_data.vflute_sample import read_texts

DEMO = Path(picture.__file__).parent
DRAWN = ("vague", "vflute", "unpie")
COMMITTED = ROOT / "jobs" / "demo" / "data"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("samples")
    return {name: write_sample(name, folder) for name in BENCHMARKS}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def read(written: dict[str, Path], name: str) -> list[RawSample | Rejection | SourceWarning]:
    return list(benchmark(name).source(Folder(str(written[name])), {}))


def pictures() -> Iterator[list[str]]:
    yield from (lines for _, lines in vague_rows())
    yield from read_texts()["pictures"].values()
    for puns in read_puns().values():
        for pun in puns:
            yield pun["both"]
            yield from (sense["picture"] for sense in pun["senses"])


@pytest.mark.parametrize(("name", "count"), [("vague", 16), ("vflute", 21), ("maia", 72), ("mate", 24), ("unpie", 16)])
def test_ingest_accepts_every_item(written: dict[str, Path], name: str, count: int) -> None:
    items = read(written, name)
    assert [item for item in items if isinstance(item, Rejection)] == []
    samples = [item for item in items if isinstance(item, RawSample)]
    assert len({sample.sample_id for sample in samples}) == len(samples) == count
    assert all(sample.media for sample in samples)


@pytest.mark.parametrize("name", DRAWN)
def test_committed_sample_is_what_the_builder_writes(name: str, tmp_path: Path) -> None:
    main([name, "--out", str(tmp_path)])
    assert contents(tmp_path / name) == contents(COMMITTED / name)


def test_mate_sample_replaces_the_remains_of_a_killed_run(written: dict[str, Path], tmp_path: Path) -> None:
    complete = contents(written["mate"])
    for path, content in list(complete.items())[::2]:
        (tmp_path / "mate" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mate" / path).write_bytes(content[:7])
    assert contents(write_sample("mate", tmp_path)) == complete


def test_vague_pictures_are_numbered_and_answer_letters_balanced(written: dict[str, Path]) -> None:
    items = read(written, "vague")
    notices = [item.message for item in items if isinstance(item, SourceWarning)]
    assert len(notices) == 1, "the only remark is on the number of items"
    assert notices[0].startswith("10 VCR, 6 Ego4D items")
    samples = [item for item in items if isinstance(item, RawSample)]
    assert Counter(sample.data["ordering"][0] for sample in samples) == dict.fromkeys("ABCD", 4)


def test_vague_addressees_are_in_their_pictures() -> None:
    for row, lines in vague_rows():
        addressee = row["indirect"].split(",")[0]
        assert row["direct"].startswith(addressee)
        assert row["solution"].startswith(f"({addressee}, ")
        assert int(addressee.removeprefix("person")) <= len(people_in(lines)) == len(row["meta"]["person_bbox"])
        readings = [text for name, text in row["mcq"].items() if name != "ordering"]
        assert len(set(readings)) == 4
        assert all(text.startswith(f"The speaker wants {addressee} to ") for text in readings)
        assert max(len(text.split()) for text in readings) <= 15


def test_vflute_has_every_subset_with_labels_as_published(written: dict[str, Path]) -> None:
    samples = [item for item in read(written, "vflute") if isinstance(item, RawSample)]
    assert {sample.subset for sample in samples} == {subset.name for subset in SUBSETS}
    labels = Counter((sample.data["source"], sample.data["label"]) for sample in samples)
    assert labels["nycartoons", "contradiction"] == 0
    for source in ("vismet", "muse", "memecap"):
        assert labels[source, "entailment"] == labels[source, "contradiction"] == 2
    assert {len(sample.data["shots"]) for sample in samples} == {10}


def test_vflute_explanations_and_claims_are_unique(written: dict[str, Path]) -> None:
    texts = read_texts()
    rows = [*texts["test"], *texts["train"]]
    assert len({row["why"] for row in rows}) == len(rows)
    assert {row["claim"] for row in texts["test"]} & {row["claim"] for row in texts["train"]} == set()
    assert {row["picture"] for row in rows} == set(texts["pictures"]), "every picture has a row"
    file = json.loads((written["vflute"] / "vflute-v2-test.json").read_bytes())
    assert all(row["prompt"].count("REPLACE_CLAIM") == 1 for row in file)
    assert all(f'"{row["claim"]}"' in row["conversations"][0]["value"] for row in file)


def test_mate_tasks_are_balanced(written: dict[str, Path]) -> None:
    assert [item for item in read(written, "mate") if isinstance(item, SourceWarning)] == []


def test_unpie_has_all_pictures_and_distinct_translations(written: dict[str, Path]) -> None:
    items = read(written, "unpie")
    notices = [item.message for item in items if isinstance(item, SourceWarning)]
    assert len([text for text in notices if "8 of 8" in text and "16 of 16" in text]) == 2
    assert len([text for text in notices if "8 rows, 500 are published" in text]) == 2
    assert len(notices) == 4, "no degenerate pair, no phrase that is not in its sentence, no picture twice"


def test_unpie_heterographic_puns_have_two_spellings_and_homographic_ones_one() -> None:
    puns = read_puns()
    assert all("other" not in pun for pun in puns["homographic"])
    assert all(pun["other"] not in pun["pun"].split() for pun in puns["heterographic"])
    assert all(pun["pun"].count(pun["phrase"]) == 1 for kind in puns.values() for pun in kind)


def test_pictures_are_unique() -> None:
    drawn = [encoded(draw(lines)) for lines in pictures()]
    assert len(drawn) == 16 + 27 + 48
    assert len(set(drawn)) == len(drawn)


def test_props_are_declared_once_and_used() -> None:
    used = {line.split()[0] for lines in pictures() for line in lines} - {"words"}
    assert set(things()) == used
    files = sorted(DEMO.glob("props_*.yaml"))
    assert sum(len(yaml.safe_load(path.read_text(encoding="utf-8"))) for path in files) == len(things())


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("unicorn 10 20", "no thing 'unicorn'"),
        ("dog 10", "give x and y"),
        ("dog 10 20 1 2 3", "give x and y"),
        ("dog ten 20", "could not convert"),
        ("words 10 20", "words 10 20"),
        ("words 10 20 12 octarine HELLO", "octarine"),
    ],
)
def test_draw_names_the_malformed_line(line: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        draw(["room", line])


def test_draw_places_props_at_their_coordinates() -> None:
    left, top, right, bottom = ImageChops.difference(draw(["paper"]), draw(["paper", "ball 100 200 1"])).getbbox() or ()
    assert 85 <= left < right <= 115
    assert 174 <= top < bottom <= 203
