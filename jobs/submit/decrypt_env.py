"""Decrypt a job's variables in the driver and, through Ray's setup hook, in each worker."""

from models.environment import encrypted_env, set_variables

HOOK = "jobs.submit.decrypt_env.decrypt_worker_env"
"""Name of `decrypt_worker_env` for Ray's `worker_process_setup_hook`."""


def decrypt_worker_env() -> None:
    """Set the variables that `vlmsweep submit --env` sent, if any; EncryptionError if they cannot be decrypted here."""
    text = encrypted_env()
    if text is None:
        return
    from cluster.env_encryption import decrypt_env

    set_variables(decrypt_env(text))
