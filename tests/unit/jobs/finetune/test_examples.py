"""Training examples as tokens: the prompt of a run, the answer, and a loss on the answer alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from jobs.finetune.checkpoints import VARIANTS, ExampleRow, FinetuneSpec
from jobs.finetune.example_store import ExampleSet
from jobs.finetune.examples import IGNORED, ExampleEncoder, TrainingExample, batches
from jobs.finetune.options import MemorySettings, TrainingSettings
from jobs.finetune.run import prepare_examples
from jobs.finetune.source_rows import drawn_template, evil_rows
from models.engines.transformers import prompts
from models.engines.transformers.prompts import PromptMaker
from models.errors import TrainingDataError
from models.messages import Call, Generation, user
from models.spec import ModelSpec
from pipelines.benchmarks.records import Rejection
from pipelines.benchmarks.vflute.prompts import PAPER_TEMPLATES, WHITE, template_name
from pipelines.errors import SourceError
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support.calls import MEDIA, PICTURE
from tests.support.vflute_source import rows, write_parquet
from tests.unit.jobs.finetune.conftest import EXAMPLES
from tests.unit.jobs.finetune.sources import ROWS, Listener, write_evil


@pytest.mark.parametrize("architecture", ["qwen2_5_vl", "llava"])
def test_prompt_has_the_tokens_of_a_run_and_answer_follows(load, architecture: str) -> None:
    checkpoint, spec = load(architecture)
    encoded = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES, MEDIA)
    for example, result in zip(EXAMPLES, encoded, strict=True):
        call = Call(call_id="x", turns=(user(example.picture, example.instruction),), generation=Generation())
        (prompt,) = PromptMaker(checkpoint, spec).make([call], MEDIA)
        answer = result.prompt.ids[len(prompt.ids) :]
        assert result.prompt.ids[: len(prompt.ids)].tolist() == prompt.ids.tolist()
        assert checkpoint.tokenizer.decode(answer[:-1]) == example.answer
        assert answer[-1] == checkpoint.tokenizer.eos_token_id


def test_workers_of_a_training_do_not_take_the_first_ones_examples(load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks of one model share what the first one preprocesses; workers have examples of their own."""
    checkpoint, spec = load("llava")

    class OfTheFirstRank:
        has_pixels = False

        def share(self, _process: object) -> dict[str, torch.Tensor]:
            pytest.fail("waits for the first worker, which encodes other examples")

    monkeypatch.setattr(prompts, "join_pixels", OfTheFirstRank)
    assert len(ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES, MEDIA)) == len(EXAMPLES)


def test_labels_mask_the_prompt(load) -> None:
    checkpoint, spec = load("qwen2_5_vl")
    (encoded,) = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES[:1], MEDIA)
    labels = encoded.labels
    assert set(labels[: -encoded.answer_tokens]) == {IGNORED}
    assert labels[-encoded.answer_tokens :].tolist() == encoded.prompt.ids[-encoded.answer_tokens :].tolist()


def test_batch_pads_on_the_left_without_loss(load) -> None:
    checkpoint, spec = load("llava")
    encoded = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES, MEDIA)
    (batch,) = batches(encoded, 3, checkpoint.pad_id)
    assert batch.inputs["input_ids"].shape == batch.labels.shape == batch.inputs["attention_mask"].shape
    assert bool((batch.labels[batch.inputs["attention_mask"] == 0] == IGNORED).all())
    assert int((batch.labels != IGNORED).sum()) == sum(example.answer_tokens for example in encoded)
    assert torch.equal(batch.inputs["input_ids"][batch.labels != IGNORED], batch.labels[batch.labels != IGNORED])


def test_long_answers_are_cut_and_what_cannot_be_encoded_is_named(load) -> None:
    checkpoint, spec = load("llava")
    (whole,) = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES[:1], MEDIA)
    limit = len(whole.prompt.ids) - 2
    (cut,) = ExampleEncoder(checkpoint, spec, limit).encode(EXAMPLES[:1], MEDIA)
    assert cut.prompt.ids.tolist() == whole.prompt.ids[:limit].tolist()
    assert cut.answer_tokens == whole.answer_tokens - 2
    with pytest.raises(TrainingDataError, match=r"^a: its prompt has \d+ tokens.*--max-length 8"):
        ExampleEncoder(checkpoint, spec, 8).encode(EXAMPLES[:1], MEDIA)
    broken = TrainingExample(example_id="row-7", picture=PICTURE, instruction="What is <image>?", answer="x")
    with pytest.raises(TrainingDataError, match=r"^row-7 cannot be encoded: .*placeholder"):
        ExampleEncoder(checkpoint, spec, 2048).encode([broken], MEDIA)


def spec_of(tmp_path: Path, variant: str, **changes: Any) -> FinetuneSpec:
    spec = FinetuneSpec(
        variant=VARIANTS[variant], model_name="tiny", model=ModelSpec(engine="transformers", model="tiny"),
        settings=TrainingSettings(epochs=1), memory=MemorySettings(), data=str(tmp_path / "vflute"),
        evil=str(tmp_path / "evil"), out=str(tmp_path / "out"),
    )  # fmt: skip
    return replace(spec, **changes)


def prepare(spec: FinetuneSpec) -> Any:
    return prepare_examples(spec, Store(spec.out), Listener())


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    write_parquet(tmp_path / "vflute", "train", [rows(7, "train"), rows(5, "train")])
    write_parquet(tmp_path / "vflute", "validation", [rows(6, "validation")])
    write_evil(tmp_path / "evil")
    return tmp_path


@pytest.mark.parametrize(("variant", "train"), [("vf", 12), ("vf-no-image", 12), ("evil", 3), ("evil+vf", 15)])
def test_variants_have_their_rows_and_are_validated_on_vflute(sources: Path, variant: str, train: int) -> None:
    spec = spec_of(sources, variant)
    if variant == "vf":
        spec = replace(spec, evil=None)
    counts = prepare(spec)
    assert (counts.train, counts.validation, counts.skipped) == (train, 6, ())
    examples, frames = ExampleSet(Store(spec.out), "train").get(range(train))
    assert ExampleSet(Store(spec.out), "train").get([]) == ([], {})
    is_white = {example.picture == WHITE for example in examples}
    assert is_white == {variant == "vf-no-image"}
    assert {frames[example.picture].pixels.shape for example in examples} <= {(1, 3, 4, 3), (1, 336, 336, 3)}


def test_example_has_a_drawn_instruction_of_the_paper_and_the_answer_of_the_authors(sources: Path) -> None:
    spec = spec_of(sources, "vf")
    prepare(spec)
    ((example,), _) = ExampleSet(Store(spec.out), "train").get([3])
    row = rows(7, "train")[3]
    assert example.example_id == row["id"]
    assert example.instruction == drawn_template(row["id"]).replace("REPLACE_CLAIM", f'"{row["claim"]}"')
    assert example.answer == f"{row['explanation']}\nLABEL: {row['label']}"
    drawn = {drawn_template(f"muse-train-{number}") for number in range(500)}
    assert {template_name(text) for text in drawn} == {template_name(text) for text in PAPER_TEMPLATES.values()}


def test_evil_row_with_a_field_that_is_too_long_costs_no_other(tmp_path: Path) -> None:
    long = ("9", "11.jpg#9r1e", "11.jpg", "x" * 140_000, "entailment", "So.")
    rows = [*evil_rows(Folder(str(write_evil(tmp_path / "evil", [ROWS[0], long, *ROWS[1:]]))))]
    (rejection,) = [row for row in rows if isinstance(row, Rejection)]
    assert (rejection.item, "hypothesis has 140,000 characters" in rejection.reason) == ("line 3", True)
    assert len(rows) == 1 + sum(row[4] != "neutral" for row in ROWS)


def test_evil_without_neutral_rows_and_each_picture_once(sources: Path) -> None:
    examples = [row for row in evil_rows(Folder(str(sources / "evil"))) if isinstance(row, ExampleRow)]
    assert [example.row_id for example in examples] == [f"evil-{row[1]}" for row in ROWS if row[4] != "neutral"]
    assert [example.content is None for example in examples] == [False, False, True]
    assert '""He says "yes", loudly.""'.replace('""', '"') in examples[2].instruction
    assert examples[0].answer == "Hair is no tree.\nLABEL: contradiction"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("4", "x", "12.jpg", "A claim.", "entailment", "So."), "line 6: no picture 12.jpg in .*flickr30k_images"),
        (("4", "x", "10.jpg", "A claim.", "maybe", "So."), "line 6: gold_label 'maybe' is not entailment"),
        (("4", "x", "10.jpg", "A claim.", "entailment", " "), "line 6: no explanation"),
        (("4", ROWS[0][1], "10.jpg", "A claim.", "entailment", "So."), "evil-10.jpg#1r1c: duplicate id"),
    ],
)
def test_bad_row_of_evil_is_named(tmp_path: Path, row: tuple[str, ...], reason: str) -> None:
    write_evil(tmp_path / "evil", [*ROWS, row])
    spec = spec_of(tmp_path, "evil", data=None)
    with pytest.raises(SourceError, match=f"^esnlive_train.csv: {reason}.*--skip-bad-rows"):
        prepare(spec)
    counts = prepare(replace(spec, skip_bad_rows=True))
    assert (counts.train, len(counts.skipped), counts.validation) == (3, 1, 0)


def test_picture_of_a_duplicate_row_is_there_for_later_rows(tmp_path: Path) -> None:
    duplicate = ("4", ROWS[0][1], "12.jpg", "A claim.", "entailment", "So.")
    later = ("5", "12.jpg#1r1e", "12.jpg", "A claim.", "entailment", "So.")
    write_evil(tmp_path / "evil", [*ROWS, duplicate, later], pictures=(10, 11, 12))
    spec = spec_of(tmp_path, "evil", data=None, skip_bad_rows=True)
    counts = prepare(spec)
    assert (counts.train, len(counts.skipped)) == (4, 1)
    ((example,), frames) = ExampleSet(Store(spec.out), "train").get([3])
    assert example.example_id == "evil-12.jpg#1r1e"
    assert frames[example.picture].pixels.shape[0] == 1


def test_bad_rows_of_vflute_are_named_and_counted(tmp_path: Path) -> None:
    bad = rows(6, "train")
    bad[1]["label"] = "maybe"
    for row in bad[2:6]:
        row["picture"] = b"no picture"
    write_parquet(tmp_path / "vflute", "train", [bad])
    spec = spec_of(tmp_path, "vf")
    with pytest.raises(SourceError, match=r"irfl-train-1: .*label.*memecap-train-2: its picture cannot be decoded.*"
                       "and 2 more rows"):  # fmt: skip
        prepare(spec)
    counts = prepare(replace(spec, skip_bad_rows=True))
    assert (counts.train, len(counts.skipped)) == (1, 5)


def test_no_usable_row_and_missing_files_are_errors(tmp_path: Path) -> None:
    write_evil(tmp_path / "evil", [ROWS[1]])
    with pytest.raises(SourceError, match="no row that can be trained on"):
        prepare(spec_of(tmp_path, "evil", data=None))
    (tmp_path / "vflute").mkdir()
    with pytest.raises(SourceError, match=r"no data/train-\*.parquet"):
        prepare(spec_of(tmp_path, "vf"))
    with pytest.raises(SourceError, match=r"no esnlive_train.csv"):
        prepare(spec_of(tmp_path, "evil", data=None, evil=str(tmp_path / "vflute")))


def test_csv_without_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil/esnlive_train.csv").write_text("pairID,Flickr30kID\n1,2\n")
    with pytest.raises(SourceError, match="no column hypothesis, gold_label, explanation; found pairID, Flickr30kID"):
        prepare(spec_of(tmp_path, "evil", data=None))


def test_complete_copy_is_used_again_though_the_source_is_gone(sources: Path) -> None:
    spec = spec_of(sources, "vf")
    counts = prepare(spec)
    for path in (sources / "vflute/data").iterdir():
        path.unlink()
    assert prepare(spec) == counts


def test_fingerprint_follows_the_rows(sources: Path, tmp_path: Path) -> None:
    first = prepare(spec_of(sources, "vf"))
    assert prepare(spec_of(sources, "vf", out=str(tmp_path / "other"))).fingerprint == first.fingerprint
    table = pq.read_table(sources / "vflute/data/train-00000-of-00002.parquet").to_pylist()
    table[0]["explanation"] = "Another one."
    pq.write_table(pa.Table.from_pylist(table), sources / "vflute/data/train-00000-of-00002.parquet")
    assert prepare(spec_of(sources, "vf", out=str(tmp_path / "third"))).fingerprint != first.fingerprint
