from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from models.catalog_loader import load_models
from models.engines import build_engine, load_engine, wrap_engine
from models.engines.openai.engine import OpenAIEngine
from models.engines.random_baseline import RandomEngine
from models.errors import EngineUnreachableError, MissingSecretError
from models.messages import Call, CallReply, Frames, Media
from models.spec import ModelSpec
from tests.support.calls import call
from tests.support.units import ScriptedEngine


def test_engine_of_the_spec_is_built() -> None:
    assert isinstance(load_engine("random", ModelSpec(engine="random")), RandomEngine)
    spec = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:1/v1")
    engine = load_engine("m", spec)
    assert isinstance(engine, OpenAIEngine)
    engine.close()


@pytest.mark.parametrize(("has_own_timeout", "is_watched"), [(False, True), (True, False)])
def test_engine_that_notices_no_stall_is_watched(has_own_timeout: bool, is_watched: bool) -> None:
    class Engine(ScriptedEngine):
        def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
            assert any(thread.name == "engine-watchdog" for thread in threading.enumerate()) is is_watched
            yield from super().generate(calls, media)

    raw = Engine()
    raw.has_own_timeout = has_own_timeout
    engine = wrap_engine(raw, ModelSpec(engine="random"), on_stall=print)
    assert len(list(engine.generate([call("a/0", "?")], {}))) == 1
    engine.close()


@pytest.mark.parametrize("missing", ["vllm", "models.engines.vllm.engine"])
def test_missing_vllm_is_reported_with_the_remedy(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(EngineUnreachableError, match=r"'big'.*pip install 'vlmsweep\[vllm\]'"):
        build_engine("big", ModelSpec(engine="vllm", model="org/big"))


def test_other_missing_package_is_not_reported_as_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "models.engines.openai.engine")
    monkeypatch.setitem(sys.modules, "models.engines.openai.completion", None)
    with pytest.raises(ModuleNotFoundError, match=r"openai\.completion"):
        build_engine("m", ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:1/v1"))


def test_endpoint_of_the_catalog_without_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingSecretError, match=r"gpt-4o-2024-11-20.*export OPENAI_API_KEY"):
        build_engine("gpt-4o", load_models()["gpt-4o"])
