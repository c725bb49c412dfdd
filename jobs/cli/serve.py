"""`vlmsweep serve`: a model as an OpenAI-compatible endpoint."""

from jobs.serve.options import ServeOptions


def serve(options: ServeOptions) -> int:
    """Serve a model as an OpenAI-compatible endpoint until interrupted: a judge, a captioner, or for any other tool."""
    from jobs.model_checks import checked_model
    from jobs.serve.run import serve_until_stopped

    name, spec = checked_model(options.model, options.models_file or [])
    return serve_until_stopped(name, spec, options)
