"""The models file: name -> spec. Foreign input, so every key is checked and an unknown one is an error."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from models.fingerprint import folder_fingerprint


class _Strict(BaseModel):
    # Values stay out of messages: someone will write a key where its variable's name belongs.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Replicas(_Strict):
    """How many engines of this model may run side by side."""

    min: int = Field(default=0, ge=0)
    max: PositiveInt = 1


class GenerationSpec(_Strict):
    """Settings that replace a benchmark's own for this model; what is left out stays the benchmark's."""

    max_new_tokens: PositiveInt | None = None
    temperature: float | None = Field(default=None, ge=0.0)
    num_beams: PositiveInt | None = None
    seed: int | None = None


class Limits(_Strict):
    """What the model may be given."""

    max_pixels: PositiveInt | None = None
    """Pixels of one picture or frame; larger ones are shrunk, aspect ratio kept."""
    max_frames: PositiveInt | None = None
    """Frames of one clip; more are thinned out uniformly."""
    max_model_len: PositiveInt | None = None
    """Tokens of prompt and answer together."""
    max_image_bytes: PositiveInt | None = None
    """Bytes of one encoded picture that an endpoint takes; larger ones are shrunk, aspect ratio kept."""


class Shape(_Strict):
    """The language half's numbers, as config.json names them, for the arithmetic of `models.gpu_memory`."""

    layers: PositiveInt
    hidden: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    intermediate: PositiveInt
    vocab: PositiveInt


class Published(_Strict):
    """A name under which a paper prints this model's numbers."""

    benchmark: str
    name: str


class Elsewhere(_Strict):
    """Why no engine here runs a model as it is listed, and what would."""

    why: str
    runs_with: str


class Price(_Strict):
    """Dollars for a million tokens."""

    input_per_million: float = Field(ge=0.0)
    output_per_million: float = Field(ge=0.0)

    def dollars(self, input_tokens: float, output_tokens: float) -> float:
        """What so many tokens cost; cached ones are reckoned in full, so that a limit errs to the safe side."""
        return (input_tokens * self.input_per_million + output_tokens * self.output_per_million) / 1e6


class Faults(_Strict):
    """The script of the `random` engine: how it misbehaves. For tests, drills and simulations."""

    answer: str | None = None
    """Say this always, word for word, instead of guessing."""
    fail_share: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of calls, drawn by their ids, that fail."""
    fail_ids: tuple[str, ...] = ()
    """Requests that fail always, by request id: a call's id up to its last `/`."""
    die_after: int | None = Field(default=None, ge=0)
    """The process ends hard when one more call is asked of it than this."""
    die_on: str | None = None
    """The process ends hard on a prompt that holds this text."""
    hang_on: str | None = None
    """A prompt that holds this text is never answered."""
    stall_s: float = Field(default=0.0, ge=0.0)
    """Seconds spent on each group of calls."""
    call_s: float = Field(default=0.0, ge=0.0)
    """Seconds spent on each call."""
    reverse: bool = False
    """Answer each group of calls in reverse order."""
    journal: str | None = None
    """A local file to which each call's id is appended before it is answered: tells what was done twice."""
    drop_every: int | None = Field(default=None, ge=1)
    """Breach the contract: leave every n-th call of the engine's life unanswered."""


class ModelSpec(_Strict):
    """One model: who runs it, which weights, and its limits."""

    engine: Literal["transformers", "vllm", "openai", "random"]
    model: str = ""
    """Hub id, local directory, `s3://` folder, or the name at the endpoint."""
    revision: str | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    tensor_parallel: PositiveInt = 1
    replicas: Replicas = Replicas()
    share_prefix: bool = True
    """Compute the beginning that calls have in common once; false for plain batches. Answers are the same."""
    batch_size: PositiveInt | None = None
    """Calls computed at once; the engine's own choice when left out."""
    adapter: str | None = None
    checksums: dict[str, str] = Field(default_factory=dict)
    """Files of the model's folder and their sha256, compared before they are loaded."""
    trust_remote_code: bool = False
    generation: GenerationSpec = GenerationSpec()
    limits: Limits = Limits()
    base_url: str | None = None
    """Where `/chat/completions` is found, such as `https://api.openai.com/v1`; kept without a slash at the end."""
    api_key_env: str | None = None
    """Name of the variable that holds the key; the key itself is never written anywhere."""
    requests_per_minute: PositiveFloat | None = None
    """Spread evenly over the minute, retries included. One engine's own: replicas share nothing."""
    concurrency: PositiveInt = 16
    """Calls in flight at an endpoint."""
    timeout_s: PositiveFloat = 120.0
    """Seconds for one try at an endpoint, from the first byte sent to the last one read."""
    patience_s: PositiveFloat = 1800.0
    """Seconds that a model computed here may take to its next answer, and 2 more for each token that one may have; then
    its process is begun anew, and a request that was alone in it fails with `timeout`."""
    retries: int = Field(default=5, ge=0)
    """Tries after the first at an endpoint, for what may pass: 408, 409, 429, 5xx, timeouts, broken connections."""
    omit_parameters: tuple[Literal["temperature", "seed"], ...] = ()
    """What an endpoint refuses to be told: it is left out, and the endpoint's own default rules."""
    form: Literal["plain", "vicuna"] | None = None
    """How turns are written for a model whose tokenizer has no chat template; it goes before one that is there."""
    system: str | None = None
    """A system prompt; none unless asked for."""
    price: Price | None = None
    cost_limit: PositiveFloat | None = None
    """Dollars that one engine may spend, by `price`; then calls fail with `cost_limit`, to be asked by a later run."""
    faults: Faults = Faults()
    seed: int = 42
    papers: tuple[str, ...] = ()
    published_as: tuple[Published, ...] = ()
    """Names in the published tables, so that own numbers join on theirs."""
    architecture: str | None = None
    """`model_type` of config.json: what the installed transformers is asked for."""
    parameters_b: PositiveFloat | None = None
    """Billions of parameters, for estimates of memory."""
    shape: Shape | None = None
    """For estimates of memory; a local folder's own config.json goes before it."""
    elsewhere: Elsewhere | None = None
    """Given where the entry cannot run as it stands: it is listed, and refused with these words."""
    notes: str | None = None

    @field_validator("base_url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        address = urlsplit(value)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError("base_url must be an http or https address, such as https://api.openai.com/v1")
        if "@" in address.netloc:
            raise ValueError("base_url must not hold a user or password; name a variable in api_key_env")
        return value.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _variable_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("api_key_env must be the name of a variable, such as OPENAI_API_KEY, never the key")
        return value

    @model_validator(mode="after")
    def _complete(self) -> ModelSpec:
        if self.engine != "random" and not self.model:
            raise ValueError(f"engine {self.engine} needs `model`: a hub id, a directory, or the name at the endpoint")
        if self.engine == "openai" and not self.base_url:
            raise ValueError("engine openai needs `base_url`, such as https://api.openai.com/v1")
        if self.cost_limit and not self.price:
            raise ValueError("cost_limit needs `price`, such as {input_per_million: 2.5, output_per_million: 10.0}")
        if self.replicas.min > self.replicas.max:
            raise ValueError("replicas.min is larger than replicas.max")
        return self

    def resolved_revision(self) -> str:
        """The revision that names these weights: as given, a local folder's content hash, or `main`.

        An `s3://` folder is named by its checksums where the spec has them; else only `revision` tells one content
        from another.
        """
        if self.revision:
            return self.revision
        if self.engine in ("openai", "random"):
            return ""
        folder = Path(self.model).expanduser()
        if self.checksums and not folder.is_dir():
            return "checked-" + hashlib.sha256(json.dumps(sorted(self.checksums.items())).encode()).hexdigest()[:16]
        return folder_fingerprint(folder) if folder.is_dir() else "main"

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @property
    def unpinned(self) -> bool:
        """Whether these weights may be others tomorrow: a hub id without a commit."""
        if self.engine not in ("transformers", "vllm") or self.model.startswith(("/", ".", "~", "s3://")):
            return False
        return self.revision in (None, "main") and not Path(self.model).is_dir()

    def answer_fingerprint(self) -> dict[str, Any]:
        """All that changes an answer and nothing that only changes speed, place or price."""
        kept = {"engine", "model", "dtype", "adapter", "trust_remote_code", "limits", "system"}
        shown: dict[str, Any] = self.model_dump(mode="json", include=kept)
        shown["revision"] = self.resolved_revision()
        if self.limits.max_image_bytes is None:
            del shown["limits"]["max_image_bytes"]  # ids made before this limit existed stay as they are
        if self.form:
            shown["form"] = self.form
        if self.omit_parameters:
            shown["omit_parameters"] = sorted(self.omit_parameters)
        if self.engine == "random":
            shown["seed"] = self.seed
            shown["faults"] = {"answer": self.faults.answer}
        if shown["revision"] and Path(self.model).expanduser().is_dir():
            shown["model"] = Path(self.model).name
        if self.adapter and Path(self.adapter).expanduser().is_dir():
            # Retrained in place it is another model; moved elsewhere it is the same.
            shown["adapter"] = folder_fingerprint(Path(self.adapter).expanduser())
        return shown
