"""Run `vlmsweep view` until it is interrupted."""

import contextlib
import secrets
import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final

from jobs.shared.auth import key_hash
from jobs.shared.output import print_result
from jobs.view.app import create_app
from jobs.view.index import Index
from jobs.view.loading import Loader
from jobs.view.pages import Pages
from models.scratch import remove_abandoned, scratch
from pipelines.errors import UsageError
from pipelines.samples.media import MediaReader
from pipelines.samples.outputs import Output, open_outputs

_HOST: Final = "127.0.0.1"


def view_until_stopped(uris: Sequence[str], data: str, port: int, *, as_json: bool) -> int:
    """Show outputs until Ctrl-C or SIGTERM; return 0, the normal end."""
    from jobs.shared.web import run_app

    key = secrets.token_urlsafe(24)
    try:
        with _listen(port) as listener, viewer(open_outputs(uris, data), key) as app:
            address = f"http://{_HOST}:{listener.getsockname()[1]}/{key}/"
            text = f"{address}  shows {', '.join(uris)}; Ctrl-C stops it"
            print_result(as_json, {"address": address, "outputs": list(uris)}, text)
            run_app(app, listener)
    except KeyboardInterrupt:
        return 0
    return 0


@contextlib.contextmanager
def viewer(outputs: Sequence[Output], key: str) -> Iterator[Any]:
    """Yield the application, while a thread reads the outputs into an index in a temporary folder."""
    remove_abandoned()
    with scratch() as folder, contextlib.ExitStack() as stack:
        index, media = Index(folder), MediaReader(folder)
        stack.callback(index.close)
        stack.callback(media.close)
        loader = stack.enter_context(Loader(outputs, index))
        yield create_app(Pages(outputs, index, loader, media), key_hash(key))


def _listen(port: int) -> socket.socket:
    """Return a socket that listens at the port of this machine alone; UsageError where it is taken."""
    from jobs.shared.web import listen

    try:
        return listen(_HOST, port)
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror or error}; give another, or 0 for a free one") from error
