"""A job's variables, opened where they are used: by the driver, and by Ray at the start of each of its workers."""

from __future__ import annotations

from models.environment import encrypted_env, set_variables

HOOK = "jobs.submit.decrypt_env.decrypt_worker_env"
"""Name of `decrypt_worker_env` for Ray's `worker_process_setup_hook`."""


def decrypt_worker_env() -> None:
    """Put the variables that `vlmsweep submit --env` sent into this process, if any were.

    Raises:
        SealError: they cannot be opened here.
    """
    text = encrypted_env()
    if text is None:
        return
    from cluster.env_encryption import decrypt_env

    set_variables(decrypt_env(text))
