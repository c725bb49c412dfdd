"""The requests and replies of one API, and which parameters its server refuses."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from re import Pattern
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from models.engines.endpoints.failures import refused_parameter
from models.engines.endpoints.first_requests import Prefix
from models.engines.endpoints.replies import ReportedFailure
from models.messages import Answer, Call, Failure, Media, decoding_name
from models.spec import ModelSpec

log = logging.getLogger(__name__)

Pictures: TypeAlias = Mapping[Media, Sequence[str]]
"""Data URIs of each medium of a call, a clip's in the order of its frames."""


class Dialect(ABC):
    """What an entry's requests are in one API, by themselves or in batches.

    An optional parameter that a refusal names is left out from then on.
    """

    tail: Pattern[str]
    """What `base_url` may end in beside the API's address: what is appended to it, and people copy into it."""
    root = ""
    """What precedes each path of the API."""
    request_path: str
    """To which requests are posted."""
    follows_redirects = False
    """A client takes keys in headers of their own names along to other hosts."""
    key_header: str
    """Name of the header that holds the key."""
    key_prefix = ""
    """What comes before the key there."""
    version_headers: Mapping[str, str] = {}
    """Further headers of each request."""

    optional_parameters: Sequence[str] = ()
    """Left out where the endpoint refuses them."""

    caches_prefixes = False
    """Whether the provider is known to keep prefixes."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.omitted: list[str] = []
        """Parameters that were refused so far."""

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of each request."""
        return {**self.version_headers, **({self.key_header: f"{self.key_prefix}{key}"} if key else {})}

    def address(self, path: str, **query: str) -> str:
        """Return the address of a path of the API; the query of `base_url` stays."""
        address = urlsplit(str(self.spec.base_url))
        fields = [*parse_qsl(address.query, keep_blank_values=True), *query.items()]
        whole_path = f"{self.tail.sub('', address.path)}{self.root}{path}"
        return urlunsplit((address.scheme, address.netloc, whole_path, urlencode(fields), ""))

    @staticmethod
    @abstractmethod
    def read_reply(content: bytes) -> Answer | ReportedFailure:
        """Return what the body of a reply says, as a `ReplyReader`."""

    @abstractmethod
    def body(
        self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None = None
    ) -> dict[str, Any]:
        """Return a request without the `omitted` parameters; `prefix` is what other calls begin with too."""

    def learn(self, failure: Failure, omitted: Collection[str]) -> bool:
        """Learn from the failure of a request that was sent without `omitted`; return whether to send it again."""
        refused = self.refused(failure, omitted)
        if refused is None or refused in omitted:
            return False
        if refused not in self.omitted:
            self.omitted.append(refused)
            log.warning("%s rejects %s; later requests omit it: %s", self.spec.model, refused, failure.message)
        return True

    def refused(self, failure: Failure, omitted: Collection[str]) -> str | None:
        """Return the parameter that a refusal names; None where it is about something else."""
        del omitted
        return refused_parameter(failure, self.optional_parameters)

    def decoding(self, call: Call, omitted: Collection[str]) -> str:
        """Return how the answer to a call sent without the `omitted` parameters was decoded."""
        is_sent = "temperature" not in {*omitted, *self.spec.omit_parameters}
        return decoding_name(call.generation, beams=False) if is_sent else "sampled"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the endpoint refused and is no longer sent."""
        return tuple(f"{self.spec.model}: the endpoint refuses {name}, which is not sent" for name in self.omitted)
