"""The options of `serve`."""

from dataclasses import dataclass
from typing import Annotated

from jobs.shared.options import Address, Json, ModelsFiles, Verbose
from pipelines.flags import Argument, Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of `serve`."""

    model: Annotated[str, Argument("The model to serve: a name, a hub id or a folder.", kind="models")]
    host: Annotated[str, Flag("Address to listen at; any but loopback is reachable from outside.", "Cluster")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Flag("TCP port; 0 takes a free one.", "Cluster", low=0, high=65535)] = 8000
    models_file: ModelsFiles = None
    key_env: Annotated[str | None, Flag("Variable that holds the key clients must send.", "Models")] = None
    no_key: Annotated[bool, Flag("Disable authentication.", "Models")] = False
    idle_s: Annotated[float, Flag("Idle seconds until GPUs are released.", "Limits", low=1.0)] = 300.0
    max_pictures: Annotated[int, Flag("Pictures of a request.", "Limits", low=0)] = 64
    max_total_pixels: Annotated[int, Flag("Pixels of all pictures of a request together.", "Limits", low=1)] = (
        128_000_000
    )
    max_messages: Annotated[int, Flag("Messages of a request, with their parts.", "Limits", low=1)] = 1000
    max_body_mib: Annotated[int, Flag("MiB of a request.", "Limits", low=1)] = 64
    timeout_s: Annotated[float, Flag("Seconds after which a request without an answer ends.", "Limits", low=1.0)] = (
        600.0
    )
    address: Address = None
    verbose: Verbose = False
    json: Json = False
