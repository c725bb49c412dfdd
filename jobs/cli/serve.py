"""`vlmsweep serve`: a model as an OpenAI-compatible endpoint."""

from jobs.flags import ServeFlags
from jobs.options import takes


@takes(ServeFlags)
def serve(flags: ServeFlags) -> int:
    """Serve a model as an OpenAI-compatible endpoint until interrupted: a judge, a captioner, or for any other tool."""
    from jobs.model_checks import checked_model
    from jobs.serve.run import serve_until_stopped

    name, spec = checked_model(flags.model, flags.models_file or [])
    return serve_until_stopped(name, spec, flags)
