"""A hostile endpoint and the outcomes of its calls."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections import Counter
from typing import Any

from models.engines.openai.engine import OpenAIEngine
from models.messages import Answer
from models.spec import ModelSpec
from tests.support.calls import MEDIA, call
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import Action, Drop, EndpointRequest, Half, Hang, Raw, Say, Status

__all__ = ["FaultScript", "figures"]

PAUSE_S = 0.3
REFUSED = {5: "filter", 6: "refusal"}


class FaultScript:
    """Storms of 429 by number of request; single faults for 1% of the tries, drawn by prompt and try; two refusals."""

    def __init__(self, storms: tuple[range, ...], share: float = 0.01) -> None:
        self._storms, self._share = storms, share
        self._tries: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.billed = 0
        self.refused: list[float] = []
        """When a 429 was sent, monotonic seconds."""

    def __call__(self, request: EndpointRequest) -> Action:
        with self._lock:
            self._tries[request.text] += 1
            number = self._tries[request.text]
        if any(request.number in storm for storm in self._storms):
            with self._lock:
                self.refused.append(request.at)
            return Status(status=429, headers={"Retry-After": str(PAUSE_S)})
        index = int(request.text.split()[-1])
        if REFUSED.get(index) == "filter":
            return Status(status=400, code="content_filter", message="the prompt was filtered")
        if index == 7:
            return Status(status=400, message="this question is not understood")
        drawn = int.from_bytes(hashlib.sha256(f"{request.text}|{number}".encode()).digest()[:8], "big") / 2**64
        if drawn < self._share:
            faults = (Status(status=500), Status(status=503), Drop(), Half(), Raw(b'{"choices": ['), Hang(6.0))
            return faults[int(drawn / self._share * len(faults))]
        with self._lock:
            self.billed += 1
        if REFUSED.get(index) == "refusal":
            return Say(text="I cannot help with that.", finish_reason="content_filter")
        return Say(text=f"answer {index}", delay_s=0.5 if drawn > 0.995 else 0.02)


def _calm(times: list[float], refused: list[float]) -> float:
    """Return tries a second in the longest stretch without a 429; client and endpoint share one process here."""
    edges = [times[0], *sorted(refused), times[-1]]
    start, end = max(itertools.pairwise(edges), key=lambda pair: pair[1] - pair[0])
    return sum(start < at <= end for at in times) / (end - start)


def figures(count: int, per_minute: float, *, storms: tuple[range, ...]) -> dict[str, Any]:
    """Send `count` requests at a rate; return counts of outcomes and attempts, and the throughput."""
    script = FaultScript(storms)
    with ScriptedEndpoint(script) as endpoint:
        spec = ModelSpec(
            engine="openai",
            model="stormy",
            base_url=endpoint.base_url,
            requests_per_minute=per_minute,
            concurrency=32,
            timeout_s=4.0,
            price={"input_per_million": 1.0, "output_per_million": 2.0},
        )
        engine = OpenAIEngine(spec)
        started, cpu = time.monotonic(), time.process_time()
        replies = list(engine.generate([call(f"{i}/0", f"question {i}") for i in range(count)], MEDIA))
        seconds, cpu = time.monotonic() - started, time.process_time() - cpu
        engine.close()
    kinds = Counter("ok" if isinstance(reply.outcome, Answer) else reply.outcome.type for reply in replies)
    # The last twentieth waits for its own retries and is no measure of the pace.
    times = sorted(request.at for request in endpoint.requests)
    bulk = times[: len(times) * 19 // 20]
    calm = _calm(bulk, script.refused)
    return {
        "rows": len(replies),
        "distinct": len({reply.call_id for reply in replies}),
        "kinds": dict(kinds),
        "filtered": sum(isinstance(r.outcome, Answer) and r.outcome.finish_reason == "content_filter" for r in replies),
        "wrong": sum(
            isinstance(r.outcome, Answer)
            and r.outcome.finish_reason == "stop"
            and r.outcome.text != f"answer {r.call_id.split('/')[0]}"
            for r in replies
        ),
        "tries": len(endpoint.requests),
        "billed": script.billed,
        "seconds": round(seconds, 1),
        "share_between_storms": round(calm / (per_minute / 60), 3),
        "processor_ms_a_try": round(1000 * cpu / len(times), 2),
        "dollars": round(engine.spent, 6),
    }
