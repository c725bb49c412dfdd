"""Environment variables encrypted with a cluster's token, because Ray shows a job's variables in logs and replies."""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken

from cluster.errors import EncryptionError
from cluster.ray_private import cluster_token

SALT_BYTES = 16
_REMEDY = (
    "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH (or RAY_AUTH_TOKEN) to one token where Ray is started and where "
    "the job is submitted, or omit --env and set the variables where Ray is started"
)


def encrypt_env(values: Mapping[str, str]) -> str:
    """Encrypt values by name with this cluster's token; EncryptionError without a token."""
    token = cluster_token()
    if token is None:
        raise EncryptionError(
            f"--env {', '.join(sorted(values))}: values are encrypted with the cluster's token, and none is known "
            f"here; unencrypted, Ray would show them in its logs and in process arguments. {_REMEDY}"
        )
    salt = secrets.token_bytes(SALT_BYTES)
    encrypted = Fernet(_key(token, salt)).encrypt(json.dumps(dict(values)).encode())
    return f"{base64.urlsafe_b64encode(salt).decode()}.{encrypted.decode()}"


def decrypt_env(text: str) -> dict[str, str]:
    """Decrypt what `encrypt_env` returned; EncryptionError for a missing or other token, or a changed text."""
    token = cluster_token()
    if token is None:
        raise EncryptionError(
            f"the job's variables are encrypted and this process knows no token to decrypt them; {_REMEDY}"
        )
    salt, _, encrypted = text.partition(".")
    try:
        content = Fernet(_key(token, base64.urlsafe_b64decode(salt))).decrypt(encrypted)
    except (InvalidToken, ValueError) as error:
        raise EncryptionError(
            f"the job's variables were encrypted with another token, or damaged on the way; {_REMEDY}"
        ) from error
    return {str(name): str(value) for name, value in json.loads(content).items()}


def _key(token: str, salt: bytes) -> bytes:
    """Derive a key that costs tens of milliseconds per guess (RFC 7914): a token chosen by people may be weak."""
    return base64.urlsafe_b64encode(hashlib.scrypt(token.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32))
