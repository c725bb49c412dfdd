from __future__ import annotations

from pathlib import Path

from pipelines.plan.prompt_plan import caption_key, load_captions
from pipelines.plan.units import unit_name
from pipelines.schemas import PREDICTIONS, prediction_table
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store


def test_captions_are_cleaned_as_answers_are(tmp_path: Path) -> None:
    key, store = caption_key("eyes", {}), Store(str(tmp_path))
    replies = {
        "a": "Sure! Here is the description:\nA dog runs.<|im_end|>", "b": "<think>A dog, or a cat?</think>A dog runs.",
        "c": "<think>A dog, or", "d": "A dog runs.",
    }  # fmt: skip
    rows = [{"variant": name, "output": text, "status": "ok", "prompt_version": key} for name, text in replies.items()]
    store.put(
        f"{part_folder('captions', 'vague', 'eyes')}/{unit_name(['1'])}.parquet",
        to_parquet(prediction_table(rows), PREDICTIONS),
    )
    expected = {**dict.fromkeys(replies, "A dog runs."), "c": ""}
    assert load_captions(store, "vague", key) == expected
    assert load_captions(store, "vague", "") == {}
