"""The models file: name -> spec. Foreign input, so every key is checked and an unknown one is an error."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from models.entry_fields import (
    CatalogFacts,
    EndpointSettings,
    GenerationSpec,
    Identity,
    Limits,
    LocalSettings,
    ReasoningMarkers,
    Replicas,
    identity_fields,
)
from models.messages import DEFAULT_SEED

REASONING_TOKENS = 1024  # of a reasoning model whose entry states no number


class ModelSpec(CatalogFacts, LocalSettings, EndpointSettings):
    """One entry of a models file: engine, weights and limits of a model. Old spellings of keys stay valid.

    An entry is of the class of its engine, which knows what the engine does. Settings of other engines have no effect.
    """

    runs_locally: ClassVar[bool] = False  # weights are loaded and answers computed on machines of the cluster
    is_endpoint: ClassVar[bool] = False  # calls go to an HTTP endpoint
    batch_builder: ClassVar[str] = ""  # `module:class` of its provider's batch endpoint; '' where there is none
    is_random: ClassVar[bool] = False  # answers are guesses: the chance baseline
    needs_no_isolation: ClassVar[bool] = False  # it can neither end nor stall its process: on one machine, the driver
    is_streamed: ClassVar[bool] = False  # its engine answers several units at once: see `wanted_calls`
    body_fields: ClassVar[frozenset[str]] = frozenset()  # fields of a request that the engine sets, beside OpenAI's
    package: ClassVar[str] = ""  # an optional package, without which the engine does not run
    builder: ClassVar[str] = ""  # `module:function` that makes the engine of an entry
    ranks_builder: ClassVar[str] = ""  # the same where a replica has a process for each rank; '' where it has one
    can_offload: ClassVar[bool] = False  # layers that do not fit can be kept in CPU memory or on disk

    engine: Annotated[
        Literal["auto", "transformers", "vllm", "openai", "anthropic", "gemini", "random"], Identity(always=True)
    ]
    engine_reason: str = ""  # why `auto` became this engine; set by `models.engine_choice`
    model: Annotated[str, Identity("weights", always=True)] = ""
    """Hub id, local directory, `s3://` folder, or the name at the endpoint."""
    revision: Annotated[str | None, Identity("weights", is_computed=True)] = None
    requested_revision: str | None = None  # what `revision` was before a run resolved it to this commit; set by runs
    replicas: Replicas = Replicas()
    generation: GenerationSpec = GenerationSpec()
    limits: Annotated[Limits, Identity("media", always=True)] = Limits()
    reasoning_tokens: int | None = Field(default=None, ge=0)
    """Tokens that a model may think with, in addition to those of its answer; 1,024 where only `reasoning` is set."""
    reasoning: Annotated[ReasoningMarkers | None, Identity("decoding", is_computed=True)] = None
    """What marks its thoughts; None: it does not reason."""
    system: Annotated[str | None, Identity("prompts", always=True)] = None  # a system prompt; none by default
    seed: Annotated[int, Identity("weights", is_computed=True)] = DEFAULT_SEED
    answer: Annotated[str | None, Identity("weights", key="faults", is_computed=True)] = None
    """What the `random` engine always answers, instead of guesses."""

    if not TYPE_CHECKING:  # its signature would hide the fields

        def __new__(cls, **values: Any) -> Self:
            """Return an empty entry of the engine's class."""
            return super().__new__(entry_class(cls, values))

    @model_validator(mode="wrap")
    @classmethod
    def _build_for_engine(cls, values: Any, handler: ModelWrapValidatorHandler[ModelSpec]) -> ModelSpec:
        entry = entry_class(cls, values)
        return handler(values) if entry is cls else entry.model_validate(values)

    @model_validator(mode="after")
    def _complete(self) -> ModelSpec:
        if not self.is_random and not self.model:
            raise ValueError(f"engine {self.engine} needs `model`: a hub id, a directory, or the name at the endpoint")
        if self.is_endpoint and not self.base_url:
            raise ValueError(f"engine {self.engine} needs `base_url`, such as https://api.openai.com/v1")
        if self.cost_limit and not self.price:
            raise ValueError("cost_limit needs `price`, such as {input_per_million: 2.5, output_per_million: 10.0}")
        if self.offload and not self.can_offload:
            raise ValueError("offload: only engine transformers keeps layers in CPU memory or on disk")
        if self.offload and (self.tensor_parallel > 1 or self.adapter):
            raise ValueError("offload: requires tensor_parallel 1 and no adapter")
        if self.replicas_per_gpu > 1 and (self.tensor_parallel > 1 or self.offload):
            raise ValueError("replicas_per_gpu: only replicas that hold their whole model on one GPU share it")
        if self.adapter_revision and not self.adapter:
            raise ValueError("adapter_revision needs `adapter`, an id of the hub")
        if self.replicas.min > self.replicas.max:
            raise ValueError("replicas.min is larger than replicas.max")
        return self

    @model_validator(mode="after")
    def _request_options(self) -> ModelSpec:
        options = {name: mark for name, mark in identity_fields(type(self)) if mark.is_sent and getattr(self, name)}
        if options and not self.is_endpoint:
            raise ValueError(f"{', '.join(options)}: only engines of endpoints send requests")
        untaken = [name for name, mark in options.items() if self.engine in mark.untaken_by]
        if untaken:
            raise ValueError(f"{', '.join(untaken)}: engine {self.engine} has no such option")
        if taken := sorted(self.body_fields & self.extra_body.keys()):
            raise ValueError(f"extra_body must not hold {', '.join(taken)}: engine {self.engine} sets that")
        if self.batch and not self.has_batches:
            raise ValueError("batch: only engines of endpoints send batches")
        return self

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @property
    def has_batches(self) -> bool:
        """Whether its endpoint may answer requests in batches."""
        return bool(self.batch_builder)

    @property
    def thinking_tokens(self) -> int | None:
        """Tokens that the model may think with, in addition to those of an answer; None if it does not reason."""
        if self.reasoning is None and self.reasoning_tokens is None:
            return None
        return REASONING_TOKENS if self.reasoning_tokens is None else self.reasoning_tokens

    @property
    def can_use_gpu(self) -> bool:
        """Whether a replica computes on GPUs where there are some."""
        return self.runs_locally and self.device != "cpu"

    @property
    def replica_gpus(self) -> float:
        """GPUs of one replica where the cluster has GPUs; 0 for an endpoint, the baseline and `device: cpu`."""
        if not self.can_use_gpu or self.replicas_per_gpu == 1:
            return self.tensor_parallel if self.can_use_gpu else 0
        return 10_000 // self.replicas_per_gpu / 10_000  # Ray counts in these steps, and rounds up

    @property
    def gpu_fraction(self) -> float:
        """Part of a GPU's memory that a replica may use: all, or of its share what CUDA's contexts leave."""
        return 0.92 / self.replicas_per_gpu if self.replicas_per_gpu > 1 else 1.0

    @property
    def max_gpus(self) -> int:
        """GPUs of all replicas where the cluster has GPUs."""
        return self.tensor_parallel * -(-self.replicas.max // self.replicas_per_gpu) if self.can_use_gpu else 0

    def needs_gpu(self, *, has_gpus: bool) -> bool:
        """Return whether a replica must be placed on GPUs, in a cluster that has some or none."""
        return self.can_use_gpu and (has_gpus or self.device == "cuda")

    def with_engine(self, engine: str, **changes: Any) -> ModelSpec:
        """Return the entry on another engine, with other changes."""
        return ModelSpec.model_validate({**self.model_dump(exclude_unset=True), "engine": engine, **changes})


class AutoEntry(ModelSpec):
    """An entry whose engine is chosen by what is installed (`models.engine_choice`)."""

    engine: Literal["auto"]
    runs_locally = True
    can_offload = True


class TransformersEntry(ModelSpec):
    """An entry that transformers runs, in one process or in a process for each rank."""

    engine: Literal["transformers"]
    runs_locally = True
    can_offload = True
    builder = "models.engines.transformers.engine:TransformersEngine"
    ranks_builder = "models.engines.tensor_parallel.engine:open_tensor_parallel"


class VLLMEntry(ModelSpec):
    """An entry that vLLM runs."""

    engine: Literal["vllm"]
    runs_locally = is_streamed = True
    package = "vllm"
    builder = "models.engines.vllm.engine:VLLMEngine"


class OpenAIEntry(ModelSpec):
    """An entry behind an OpenAI-compatible endpoint."""

    engine: Literal["openai"]
    is_endpoint = needs_no_isolation = is_streamed = True
    builder = "models.engines.openai.engine:OpenAIEngine"
    batch_builder = "models.engines.openai.batch_api:OpenAIBatchApi"


class AnthropicEntry(ModelSpec):
    """An entry behind the Anthropic Messages API."""

    engine: Literal["anthropic"]
    base_url: str | None = "https://api.anthropic.com"
    is_endpoint = needs_no_isolation = is_streamed = True
    body_fields = frozenset({"system", "thinking", "output_config"})
    builder = "models.engines.anthropic.engine:AnthropicEngine"
    batch_builder = "models.engines.anthropic.batch_api:AnthropicBatchApi"


class GeminiEntry(ModelSpec):
    """An entry behind the Gemini API."""

    engine: Literal["gemini"]
    base_url: str | None = "https://generativelanguage.googleapis.com/v1beta"
    is_endpoint = needs_no_isolation = is_streamed = True
    body_fields = frozenset({"contents", "systemInstruction", "generationConfig"})
    builder = "models.engines.gemini.engine:GeminiEngine"
    batch_builder = "models.engines.gemini.batch_api:GeminiBatchApi"


class RandomEntry(ModelSpec):
    """The chance baseline."""

    engine: Literal["random"]
    is_random = needs_no_isolation = True
    builder = "models.engines.random_baseline:RandomEngine"


_CLASSES: Mapping[object, type[ModelSpec]] = {
    "auto": AutoEntry,
    "transformers": TransformersEntry,
    "vllm": VLLMEntry,
    "openai": OpenAIEntry,
    "anthropic": AnthropicEntry,
    "gemini": GeminiEntry,
    "random": RandomEntry,
}


def entry_class(cls: type[ModelSpec], values: Any) -> type[ModelSpec]:
    """Return the class of the entry that these values make: for `ModelSpec` that of their engine."""
    if cls is not ModelSpec or not isinstance(values, dict) or not isinstance(values.get("engine"), str):
        return cls
    return _CLASSES.get(values["engine"]) or _registered_classes().get(values["engine"], cls)


@cache
def _registered_classes() -> Mapping[str, type[ModelSpec]]:
    """Return the classes of entries that other packages register in the entry-point group `vlmsweep.engines`."""
    return {point.name: point.load() for point in entry_points(group="vlmsweep.engines")}
