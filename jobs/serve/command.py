"""`vlmsweep serve`: a model as an OpenAI-compatible endpoint."""

from jobs.shared.commands import listed
from jobs.shared.flags import ServeFlags
from jobs.shared.options import takes


@listed("Set up", "serve qwen2.5-vl-7b --no-key")
@takes(ServeFlags)
def serve(flags: ServeFlags) -> int:
    """Serve a model as an OpenAI-compatible endpoint until interrupted: a judge, a captioner, or for any other tool."""
    from jobs.serve.run import serve_until_stopped
    from jobs.shared.model_checks import checked_model

    name, spec = checked_model(flags.model, flags.models_file or [])
    return serve_until_stopped(name, spec, flags)
