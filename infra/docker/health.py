"""Check that this container's Ray is alive: the head's dashboard or the worker's metrics port answers."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

URLS = ("http://127.0.0.1:8265/api/gcs_healthz", "http://127.0.0.1:8080/metrics")


def alive(urls: tuple[str, ...] = URLS) -> bool:
    """Return whether one of the addresses answers with success."""
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=4) as answer:  # noqa: S310  fixed http addresses
                if answer.status == 200:
                    return True
        except OSError:
            continue
    return False


if __name__ == "__main__":
    sys.exit(0 if alive(tuple(sys.argv[1:]) or URLS) else 1)
