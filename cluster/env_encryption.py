"""Values sealed for one cluster: whoever has its token can open them, and nobody else.

Ray writes a job's variables into arguments of its processes, its logs and its API's answers. What stands there is the
sealed text; the token never does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken

from cluster.errors import EncryptionError

SALT_BYTES = 16
_MEND = (
    "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH (or RAY_AUTH_TOKEN) to one token where Ray is started and where "
    "the job is submitted, or leave --env out and set the variables where Ray is started"
)


def encrypt_env(values: Mapping[str, str]) -> str:
    """Values as printable text that only this cluster's token opens; another text each time.

    Args:
        values: by name; at least one.

    Raises:
        SealError: there is no token here.
    """
    token = _token()
    if token is None:
        raise EncryptionError(
            f"--env {', '.join(sorted(values))}: values go sealed under the cluster's token, and none is known here; "
            f"unsealed, Ray would show them in its logs and in arguments of processes. {_MEND}"
        )
    salt = secrets.token_bytes(SALT_BYTES)
    sealed = Fernet(_key(token, salt)).encrypt(json.dumps(dict(values)).encode())
    return f"{base64.urlsafe_b64encode(salt).decode()}.{sealed.decode()}"


def decrypt_env(text: str) -> dict[str, str]:
    """The values that `encrypt_env` was given.

    Raises:
        SealError: no token is known here, it is another one, or the text was changed.
    """
    token = _token()
    if token is None:
        raise EncryptionError(f"the job's variables are sealed and this process knows no token to open them; {_MEND}")
    salt, _, sealed = text.partition(".")
    try:
        content = Fernet(_key(token, base64.urlsafe_b64decode(salt))).decrypt(sealed)
    except (InvalidToken, ValueError) as error:
        raise EncryptionError(
            f"the job's variables were sealed under another token, or damaged on the way; {_MEND}"
        ) from error
    return {str(name): str(value) for name, value in json.loads(content).items()}


def _key(token: str, salt: bytes) -> bytes:
    """A key that costs tens of milliseconds a guess (RFC 7914), as a token that people chose may be a poor one."""
    return base64.urlsafe_b64encode(hashlib.scrypt(token.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32))


def _token() -> str | None:
    """The cluster's token, found as Ray itself finds it; None where Ray runs without."""
    from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]  # native
    from ray.exceptions import AuthenticationError

    loader = AuthenticationTokenLoader.instance()
    try:
        return str(loader.get_raw_token()) or None if loader.has_token() else None
    except AuthenticationError:
        return None
