"""The options of `serve`."""

from dataclasses import dataclass

from jobs.shared.options import Address, Json, ModelsFiles, Verbose
from pipelines.flags import argument, flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of `serve`."""

    model: str = argument("The model to serve: a name, a hub id or a folder.", kind="models")
    host: str = flag(
        "Address to listen at; any but loopback is reachable from outside.", "Cluster", default="127.0.0.1"
    )
    port: int = flag("TCP port; 0 takes a free one.", "Cluster", low=0, high=65535, default=8000)
    models_file: ModelsFiles = None
    key_env: str | None = flag("Variable that holds the key clients must send.", "Models")
    no_key: bool = flag("Disable authentication.", "Models", default=False)
    idle_s: float = flag("Idle seconds until GPUs are released.", "Limits", low=1.0, default=300.0)
    max_pictures: int = flag("Pictures of a request.", "Limits", low=0, default=64)
    max_total_pixels: int = flag("Pixels of all pictures of a request together.", "Limits", low=1, default=128_000_000)
    max_messages: int = flag("Messages of a request, with their parts.", "Limits", low=1, default=1000)
    max_body_mib: int = flag("MiB of a request.", "Limits", low=1, default=64)
    timeout_s: float = flag("Request timeout in seconds.", "Limits", low=1.0, default=600.0)
    address: Address = None
    verbose: Verbose = False
    json: Json = False
