"""The watch over vLLM's engine process, with a client that has the two attributes it looks at."""

from __future__ import annotations

import queue
from types import SimpleNamespace
from typing import Any

import pytest

from models.engines.vllm.core_watch import CoreWatch
from models.errors import EngineDiedError

SOON_S = 60.0


def client() -> Any:
    return SimpleNamespace(resources=SimpleNamespace(engine_dead=False), outputs_queue=queue.Queue())


def llm_of(core: Any) -> Any:
    return SimpleNamespace(llm_engine=SimpleNamespace(engine_core=core))


def test_death_of_the_process_ends_the_wait_for_its_answers() -> None:
    core = client()
    watch = CoreWatch(llm_of(core), interval_s=0.01)
    core.resources.engine_dead = True
    assert isinstance(core.outputs_queue.get(timeout=SOON_S), EngineDiedError)
    watch.close()


def test_closed_watch_says_nothing_about_an_engine_that_is_shut_down() -> None:
    core = client()
    watch = CoreWatch(llm_of(core), interval_s=0.01)
    watch.close()
    core.resources.engine_dead = True
    with pytest.raises(queue.Empty):
        core.outputs_queue.get(timeout=0.1)


@pytest.mark.parametrize("llm", [SimpleNamespace(), llm_of(SimpleNamespace(shutdown=lambda: None))])
def test_engine_in_this_process_is_not_watched(llm: Any) -> None:
    CoreWatch(llm).close()
