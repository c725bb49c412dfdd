"""`vlmsweep serve`: a model as an OpenAI-compatible endpoint."""

from jobs.serve.options import ServeOptions
from jobs.shared.commands import listed


@listed("Set up", "serve qwen2.5-vl-7b --no-key")
def serve(options: ServeOptions) -> int:
    """Serve a model as an OpenAI-compatible endpoint until interrupted: a judge, a captioner, or for any other tool."""
    from jobs.serve.run import serve_until_stopped
    from jobs.shared.model_checks import checked_model

    name, spec = checked_model(options.model, options.models_file or [])
    return serve_until_stopped(name, spec, options)
