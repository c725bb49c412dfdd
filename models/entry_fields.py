"""Fields of a models file's entries: facts, settings of local models and of endpoints, and the records in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PositiveFloat,
    PositiveInt,
    field_validator,
)

from models.guards.redaction import PLAIN_QUERY, secret_field
from models.messages import Answer

OptionalParameter: TypeAlias = Literal["temperature", "seed", "top_p", "logprobs", "reasoning_effort"]
"""Parameters that an endpoint may refuse and that are then left out."""

_REQUEST_FIELDS = frozenset(
    ("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "stream", "n")
)
_MOST_CONCURRENCY = 256
_SECRET = re.compile(r"key|token|secret|passw|auth|signature|^(sig|code|pwd)$", re.IGNORECASE)  # fields of addresses
_PromptCache: TypeAlias = Annotated[
    Literal["auto", "off"], BeforeValidator(lambda word: "off" if word is False else word)
]


@dataclass(frozen=True, slots=True)
class Identity:
    """Marks a field as a part of a request's identity, because it changes answers."""

    changes: Literal["weights", "prompts", "media", "decoding"] | None = None
    """What `compare --explain` calls a difference of the field; None if it calls it nothing."""
    key: str = ""  # in the identity, if other than the field's name
    always: bool = False  # in the identity at an empty value too
    is_computed: bool = False  # its value in the identity is not the field's: `models.fingerprint` computes it
    is_sent: bool = False  # an option that is sent with each request: only endpoints have it
    untaken_by: tuple[str, ...] = ()  # engines of endpoints without such an option


_OPTION = Identity("decoding", is_sent=True)
_READING = Identity("media", is_sent=True, untaken_by=("anthropic",))


class StrictModel(BaseModel):
    """A record of a models file: every key is checked."""

    # Values stay out of messages: someone will write a key where its variable's name belongs.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)


def identity_fields(record: type[BaseModel]) -> Iterator[tuple[str, Identity]]:
    """Yield the fields of a record that are a part of a request's identity."""
    for name, field in record.model_fields.items():
        yield from ((name, mark) for mark in field.metadata if isinstance(mark, Identity))


class Shape(StrictModel):
    """Dimensions of the language model, named as in config.json; `models.gpu_memory` computes with them."""

    layers: PositiveInt
    hidden: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    intermediate: PositiveInt
    vocab: PositiveInt


class PublishedName(StrictModel):
    """A name under which a paper prints this model's numbers."""

    benchmark: str
    name: str
    settings: tuple[str, ...] = ()  # as published, where rows of this name in others are of another model


class Unsupported(StrictModel):
    """The reason why no engine here runs a model as it is listed, and the software that does."""

    reason: str
    runs_with: str


class CatalogFacts(StrictModel):
    """What is known of a model; none of it changes an answer."""

    papers: tuple[str, ...] = ()
    published_as: tuple[PublishedName, ...] = ()  # names in the published tables, for comparison
    architecture: str | None = None  # `model_type` of config.json, looked up in the installed transformers
    parameters_b: PositiveFloat | None = None  # billions of parameters, for estimates of memory
    shape: Shape | None = None  # for estimates of memory; a local folder's config.json overrides it
    unsupported: Unsupported | None = None
    """Set where the entry cannot run as it stands: it is listed, and refused with this reason."""
    license: str | None = None  # of the weights; None where it was not looked up
    source: str | None = None  # where size, context, license and price were looked up
    checked: date | None = None  # when that was
    withdrawn: bool = False  # no longer offered by its maker: kept for its published numbers, left out by selectors
    variant_of: str | None = None  # the entry of the same model that selectors choose
    notes: str | None = None


class Replicas(StrictModel):
    """Bounds on concurrent engines of one model."""

    min: int = Field(default=0, ge=0)
    max: PositiveInt = 1


class GenerationSpec(StrictModel):
    """Settings that replace a benchmark's for this model; None keeps the benchmark's."""

    max_new_tokens: PositiveInt | None = None
    temperature: float | None = Field(default=None, ge=0.0)
    num_beams: PositiveInt | None = None
    seed: int | None = None


class Limits(StrictModel):
    """Limits on a model's input."""

    max_pixels: PositiveInt | None = None  # pixels of one picture or frame; larger ones are shrunk, aspect ratio kept
    max_frames: PositiveInt | None = None  # frames of one clip; longer clips are sampled uniformly
    max_model_len: PositiveInt | None = None  # tokens of prompt and answer together
    max_image_bytes: PositiveInt | None = None  # bytes of one encoded picture at an endpoint; larger ones are shrunk


class ReasoningMarkers(StrictModel):
    """The markers that a model writes around its reasoning."""

    start: str = Field(default="<think>", min_length=1)
    end: str = Field(default="</think>", min_length=1)
    opened: bool = False  # its chat template writes the start into the prompt


class Price(StrictModel):
    """Dollars for a million tokens."""

    input_per_million: float = Field(ge=0.0)
    output_per_million: float = Field(ge=0.0)
    cached_input_per_million: float | None = Field(default=None, ge=0.0)  # read from a provider's cache; None: in full
    cache_write_per_million: float | None = Field(default=None, ge=0.0)  # written into it; None: as other input
    as_of: date | None = None  # the day on which the list price was looked up

    def dollars(
        self, input_tokens: float, output_tokens: float, cached_tokens: float = 0, cache_write_tokens: float = 0
    ) -> float:
        """Return the cost of these tokens; `input_tokens` include those read from a cache and written into it."""
        full = self.input_per_million
        cached = full if self.cached_input_per_million is None else self.cached_input_per_million
        written = full if self.cache_write_per_million is None else self.cache_write_per_million
        prompt = (input_tokens - cached_tokens - cache_write_tokens) * full
        cache = cached_tokens * cached + cache_write_tokens * written
        return (prompt + cache + output_tokens * self.output_per_million) / 1e6

    def of(self, answer: Answer) -> float:
        """Return the cost of an answer."""
        return self.dollars(answer.input_tokens, answer.output_tokens, answer.cached_tokens, answer.cache_write_tokens)

    def scaled(self, factor: float) -> Self:
        """Return this price times a factor."""
        prices = {name: value for name, value in self if name.endswith("_per_million") and value is not None}
        return self.model_copy(update={name: value * factor for name, value in prices.items()})


class LocalSettings(StrictModel):
    """Settings of a model whose weights are loaded on machines of the cluster."""

    dtype: Annotated[Literal["auto", "bfloat16", "float16", "float32"], Identity(always=True)] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    tensor_parallel: PositiveInt = 1
    replicas_per_gpu: int = Field(default=1, ge=1, le=16)  # for a small model; each replica has its share of the memory
    offload: bool = False  # layers that do not fit are kept in CPU memory or on disk: equal answers, slowly
    share_prefix: bool = True  # compute the prefix that calls share once; answers are the same without
    prepare_ahead: bool = True  # on GPUs, preprocess the next pictures and clips while the model answers
    pictures_per_prefill: int | None = Field(default=None, ge=1, le=64)
    """Pictures prefilled in one pass; None is 16 on GPUs and 1 on CPUs. With more than 1, last bits may differ."""
    cuda_graphs: bool = True  # on GPUs, record decoding steps and repeat them; without, last bits may differ
    batch_size: PositiveInt | None = None  # calls computed at once; None lets the engine choose
    adapter: Annotated[str | None, Identity("weights", always=True)] = None  # LoRA: a folder or hub id
    adapter_revision: Annotated[str | None, Identity("weights", is_computed=True)] = None
    """Branch, tag or commit of an adapter at the hub."""
    requested_adapter_revision: str | None = None  # what `adapter_revision` was before a run resolved it; set by runs
    checksums: dict[str, str] = Field(default_factory=dict)  # files of the folder -> sha256, compared before loading
    remote_code: bool = False  # published with code that its engine runs: refused unless trusted
    trust_remote_code: Annotated[bool, Identity(always=True)] = False
    """Run code that comes with the weights; set by `--trust-remote-code` too."""
    stall_timeout_s: PositiveFloat = 1800.0
    """Seconds that a local model may take to its next answer, plus 2 for each token it may generate; then its process
    is restarted, and a request that was alone in it fails with `timeout`."""
    chat_format: Annotated[Literal["plain", "vicuna"] | None, Identity("prompts", key="form")] = None
    """How turns are written for a tokenizer without a chat template; overrides an existing template."""


class EndpointSettings(StrictModel):
    """Settings of a model behind an HTTP endpoint."""

    base_url: Annotated[str | None, Identity(is_computed=True)] = None
    """Parent of `/chat/completions`; stored without a trailing slash."""
    api_key_env: str | None = None  # name of the variable that holds the key; the key is never written anywhere
    requests_per_minute: PositiveFloat | None = None  # evenly spaced, retries included; replicas do not coordinate
    concurrency: PositiveInt = 16  # calls in flight at an endpoint; where it is not given, the number at the start
    max_concurrency: PositiveInt | None = None
    """Calls in flight up to which an endpoint is tried, as long as more of them bring more answers. Without it 256, or
    `concurrency` where that is given."""
    timeout_s: PositiveFloat = 120.0  # seconds for one attempt at an endpoint, from first byte sent to last one read
    retries: int = Field(default=5, ge=0)  # at an endpoint: 408, 409, 429, 5xx, timeouts, broken connections
    omit_parameters: Annotated[tuple[OptionalParameter, ...], Identity("decoding")] = ()
    """Rejected by the endpoint: not sent."""
    top_p: Annotated[float | None, Field(gt=0.0, le=1.0), _OPTION] = None
    reasoning_effort: Annotated[Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None, _OPTION] = None
    detail: Annotated[Literal["auto", "low", "high"] | None, _READING] = None
    """Resolution at which the server reads pictures."""
    logprobs: Annotated[bool, Identity(is_sent=True, untaken_by=("anthropic",))] = False
    """The mean over an answer's tokens goes into the column `mean_logprob`."""
    extra_body: Annotated[dict[str, JsonValue], _OPTION] = Field(default_factory=dict)
    """Fields of the request that only some servers know, such as vLLM's `chat_template_kwargs`. They are recorded in
    `run.json`: no secrets."""
    price: Price | None = None
    tokens_per_picture: PositiveFloat | None = None  # that the provider bills, for estimates of what requests cost
    prompt_cache: _PromptCache = "auto"
    """With `auto` one of the requests about a picture or clip is sent first, and the others follow its reply, so that a
    provider keeps what they share; `prompt_cache_key` and `cache_control` are sent where it documents them."""
    batch: bool = False  # send requests through the provider's batch endpoint; set by `--batch` too
    batch_price_factor: float = Field(default=0.5, ge=0.0, le=1.0)  # of `price`, in batches
    batch_max_requests: PositiveInt = 50_000  # of one batch; this and the next are limits of the provider
    batch_max_bytes: PositiveInt = 200_000_000  # of one batch's file
    batch_max_in_flight: PositiveInt = 10  # batches at the provider at one time
    batch_window: str = "24h"  # within which the provider is to finish a batch
    batch_poll_s: PositiveFloat = 60.0  # longest pause between two looks at the batches in flight
    cost_limit: PositiveFloat | None = None  # dollars of one engine, by `price`; then calls fail with `cost_limit`

    @field_validator("base_url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        address = urlsplit(value)
        is_text = value.isprintable() and " " not in value
        if address.scheme not in ("http", "https") or not address.hostname or not is_text or address.port == 0:
            raise ValueError("base_url must be an http or https address, such as https://api.openai.com/v1")
        if "@" in address.netloc:
            raise ValueError("base_url must not hold a user or password; name a variable in api_key_env")
        for name, text in parse_qsl(address.query):  # `run.json` and reports have the address
            if _SECRET.search(name) or not PLAIN_QUERY.fullmatch(text):
                raise ValueError(
                    "base_url must not hold a key in its query, only short values such as a version; name a variable "
                    "in api_key_env"
                )
        return value.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _variable_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("api_key_env must be the name of a variable, such as OPENAI_API_KEY, never the key")
        return value

    @field_validator("extra_body")
    @classmethod
    def _only_further_fields(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        sent = {name for name, identity in identity_fields(cls) if identity.is_sent}
        taken = sorted((_REQUEST_FIELDS | sent) & value.keys())
        if taken:
            raise ValueError(f"extra_body must not hold {', '.join(taken)}: the engine or another key sets that")
        if path := secret_field(value):
            raise ValueError(f"extra_body must not hold a key ({path[:80]}): name a variable in api_key_env")
        return value

    @property
    def most_concurrency(self) -> int:
        """The most calls in flight."""
        given = self.concurrency if "concurrency" in self.model_fields_set else _MOST_CONCURRENCY
        return max(self.concurrency, self.max_concurrency or given)

    @property
    def connect_timeout_s(self) -> float:
        """Seconds within which a connection must be open: fewer than an attempt has."""
        return min(10.0, self.timeout_s / 2)

    @property
    def reads_cache(self) -> bool:
        """Whether requests are sent so that a provider can keep what they share, and it has a price for that."""
        has_price = self.price is not None and self.price.cached_input_per_million is not None
        return has_price and self.prompt_cache == "auto" and not self.batch

    @property
    def billed_price(self) -> Price | None:
        """The price of a token as requests are sent: in batches, `batch_price_factor` of the list price."""
        return self.price.scaled(self.batch_price_factor) if self.price and self.batch else self.price
