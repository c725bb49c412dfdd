"""All requests of a sample in memory, from a plan and a model's builder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from models.messages import Request
from pipelines.benchmarks.records import Sample
from pipelines.plan.requests import RequestBuilder


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request with the columns of its prediction."""

    columns: dict[str, Any]
    request: Request
    excluded: str
    group: str

    @property
    def request_id(self) -> str:
        return self.request.request_id


def build_requests(
    builder: RequestBuilder, sample: Sample, captions: Mapping[str, str] | None = None
) -> Iterator[PlannedRequest]:
    """Yield the requests of one sample in the order of the plan."""
    for row in builder.plan_rows(sample, captions):
        columns = builder.columns(row)
        yield PlannedRequest(columns, builder.request(row, columns["request_id"]), row.excluded, row.media_group)
