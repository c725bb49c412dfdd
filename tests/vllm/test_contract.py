"""The contract of engines, on the real vLLM."""

from __future__ import annotations

import pytest

from models.engines.base import Engine
from models.entry_fields import Limits
from tests.unit.models.engines.contract import EngineContract
from tests.vllm.conftest import OpenEngine

pytestmark = pytest.mark.vllm


class TestVLLM(EngineContract):
    @pytest.fixture
    def engine(self, open_vllm_here: OpenEngine) -> Engine:
        return open_vllm_here("qwen2_5_vl", is_shared=True)

    @pytest.fixture
    def own_engine(self, open_vllm_here: OpenEngine) -> Engine:
        return open_vllm_here("qwen2_5_vl")

    @pytest.fixture
    def failing(self, open_vllm_here: OpenEngine) -> Engine:
        # Long enough for the short prompts and their answers, too short for the bad one.
        return open_vllm_here("qwen2_5_vl", limits=Limits(max_model_len=200), is_shared=True)
