"""What `engine: auto` and the catalog choose beside the real vLLM."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from models.availability import unavailable_reason
from models.catalog_loader import load_models, trust_remote_code
from models.engine_choice import choose_engine, vllm_classes
from models.spec import ModelSpec, VLLMEntry
from tests.support.checkpoints import ARCHITECTURES

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed here: `make test-vllm`"),
]

LACKING = {
    *("blip-2", "instructblip", "llava_next_video", "llava_onevision", "smolvlm"),
    *("ernie4_5_vl_moe", "molmo2", "muse_glimmer"),
    *("gemma3", "gemma4", "gemma4_unified"),  # on CPUs
}
ABSENT = {"idefics2", "instructblip_t5", "lfm3_vl", "mllama", "ovis2", "phi4_multimodal"}
"""Architectures of the tests that vllm 0.32 has no code for."""


def test_vllm_is_chosen_for_what_its_registry_runs() -> None:
    chosen = {
        name: choose_engine(ModelSpec(engine="auto", model="org/model", device="cpu", architecture=name))
        for name in ARCHITECTURES
    }
    assert {name for name, spec in chosen.items() if spec.engine == "transformers"} == {*ABSENT, *LACKING}
    for name in sorted(set(chosen) - LACKING):
        spec = chosen[name]
        reason = (
            "vllm is installed and has code for"
            if isinstance(spec, VLLMEntry)
            else "the installed vllm has no code for"
        )
        assert spec.engine_reason == f"{reason} {name}"


def test_entries_of_the_catalog_that_only_vllm_runs_can_run() -> None:
    coded = [name for name, spec in load_models().items() if spec.engine == "vllm" and spec.remote_code]
    entries = {name: spec for name, spec in trust_remote_code(load_models(), coded).items() if name in coded}
    assert set(entries) == {
        *("internvl2.5-26b-mpo", "internvl2-8b", "phi-3.5-vision", "ovis2-16b", "molmo-7b-d", "molmo-7b-o"),
        "phi-4-multimodal",
    }
    assert {unavailable_reason(spec) for spec in entries.values()} == {""}
    classes = {"InternVLChatModel", "Phi3VForCausalLM", "Ovis", "MolmoForCausalLM", "Phi4MMForCausalLM"}
    assert classes <= vllm_classes()
