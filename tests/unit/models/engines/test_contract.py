from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.engines import build_engine
from models.engines.base import Engine
from models.entry_fields import Limits
from models.spec import ModelSpec
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import EndpointRequest, Status, always
from tests.support.scripted_engine import scripted
from tests.unit.models.engines.contract import BAD, EngineContract
from tests.unit.models.engines.endpoints.rig import ENGINES, PATHS


class TestRandom(EngineContract):
    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        engine = build_engine("random", ModelSpec(engine="random"))
        yield engine
        engine.close()

    @pytest.fixture
    def failing(self) -> Iterator[Engine]:
        engine = build_engine("random", scripted(fail_ids=("bad",)))
        yield engine
        engine.close()


class TestRandomInReverse(TestRandom):
    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        engine = build_engine("random", scripted(reverse=True))
        yield engine
        engine.close()


@pytest.mark.parametrize("name", ENGINES)
class TestEndpoints(EngineContract):
    @pytest.fixture
    def engine(self, name: str) -> Iterator[Engine]:
        with ScriptedEndpoint(always("one two three four five six seven")) as endpoint:
            engine = build_engine("scripted", endpoint_spec(name, endpoint))
            yield engine
            engine.close()

    @pytest.fixture
    def failing(self, name: str) -> Iterator[Engine]:
        def script(request: EndpointRequest) -> Status | str:
            return Status(status=400, message="I will not") if BAD in request.text else "A"

        with ScriptedEndpoint(script) as endpoint:
            engine = build_engine("scripted", endpoint_spec(name, endpoint))
            yield engine
            engine.close()


def endpoint_spec(name: str, endpoint: ScriptedEndpoint) -> ModelSpec:
    return ModelSpec.model_validate({"engine": name, "model": "scripted", "base_url": endpoint.address + PATHS[name]})


def _missing() -> list[str]:
    modules = ("jobs.demo.checkpoint", "models.engines.transformers.engine")
    return [name for name in modules if importlib.util.find_spec(name) is None]


def tiny_spec(checkpoint: Path, limits: Limits | None = None) -> ModelSpec:
    return ModelSpec(
        engine="transformers", model=str(checkpoint), dtype="float32", device="cpu", limits=limits or Limits()
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.checkpoints import build_tiny

    return build_tiny(tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.fixture(scope="module")
def tiny(checkpoint: Path) -> Iterator[Engine]:
    engine = build_engine("tiny", tiny_spec(checkpoint))
    yield engine
    engine.close()


@pytest.mark.skipif(bool(_missing()), reason=f"not there yet: {', '.join(_missing())}")
class TestTransformers(EngineContract):
    @pytest.fixture
    def engine(self, tiny: Engine) -> Engine:
        return tiny

    @pytest.fixture
    def own_engine(self, checkpoint: Path) -> Engine:
        return build_engine("tiny", tiny_spec(checkpoint))

    @pytest.fixture
    def failing(self, checkpoint: Path) -> Iterator[Engine]:
        # Long enough for the short prompts and their answers, too short for the bad one.
        engine = build_engine("tiny", tiny_spec(checkpoint, Limits(max_model_len=200)))
        yield engine
        engine.close()


def vllm_spec(checkpoint: Path, limits: Limits | None = None) -> ModelSpec:
    return ModelSpec(engine="vllm", model=str(checkpoint), dtype="bfloat16", limits=limits or Limits())


@pytest.mark.gpu
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed")
class TestVLLM(EngineContract):
    @pytest.fixture
    def engine(self, checkpoint: Path) -> Iterator[Engine]:
        engine = build_engine("tiny", vllm_spec(checkpoint))
        yield engine
        engine.close()

    @pytest.fixture
    def failing(self, checkpoint: Path) -> Iterator[Engine]:
        engine = build_engine("tiny", vllm_spec(checkpoint, Limits(max_model_len=200)))
        yield engine
        engine.close()
