"""TODO doc."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.config_file import ConfigFile
from jobs.flags import Json, ModelsFiles, RayAddress, Verbose
from jobs.output import prepare


def serve(
    model: Annotated[str, typer.Argument(help="The model to serve, by name.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at; others than loopback are reachable.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")] = 8000,
    models_file: ModelsFiles = None,
    key_env: Annotated[str | None, typer.Option("--key-env", help="Variable that holds the key to ask for.")] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Answer anybody.")] = False,
    idle_s: Annotated[float, typer.Option("--idle-s", min=1.0, help="Idle seconds until GPUs are given back.")] = 300.0,
    address: RayAddress = None,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Serve a model as an OpenAI-compatible endpoint until interrupted: a judge, a captioner, or for any other tool."""
    from jobs.cli.spec_builder import checked_model
    from jobs.serve.run import serve_until_stopped

    flags = locals()
    prepare(verbose=verbose, config=config)
    name, spec = checked_model(model, models_file or [])
    return serve_until_stopped(name, spec, flags)
