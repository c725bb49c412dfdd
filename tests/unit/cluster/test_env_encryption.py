"""Encrypted environment values: only the cluster's token decrypts them, and no message contains them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from ray._private.authentication_test_utils import reset_auth_token_state

from cluster.env_encryption import decrypt_env, encrypt_env
from cluster.errors import EncryptionError

# Long names and values: base64 of random bytes contains any three letters now and then.
VALUES = {"MODEL_KEY": "sk-planted-of-a-model", "AWS_SECRET_ACCESS_KEY": "planted-of-a-store", "WORDS": "è 漢 \n '\""}
TOKEN = "7" * 64


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[Callable[[str | None], None]]:
    """Set or unset the token of this process."""

    def become(value: str | None) -> None:
        patch.setenv("HOME", str(tmp_path))
        patch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
        for name, setting in (("RAY_AUTH_MODE", "token"), ("RAY_AUTH_TOKEN", value)):
            patch.setenv(name, setting) if value and setting else patch.delenv(name, raising=False)
        reset_auth_token_state()

    with monkeypatch.context() as patch:
        yield become
    reset_auth_token_state()


def test_only_the_same_token_decrypts_and_no_value_shows(token: Callable[[str | None], None]) -> None:
    token(TOKEN)
    text, other = encrypt_env(VALUES), encrypt_env(VALUES)
    assert decrypt_env(text) == decrypt_env(other) == VALUES
    assert text != other
    assert text.isascii()
    assert text.isprintable()
    assert not [word for word in (*VALUES, *VALUES.values(), TOKEN) if word in text]
    token(TOKEN)
    text = encrypt_env(VALUES)
    token("8" * 64)
    with pytest.raises(EncryptionError, match="another token"):
        decrypt_env(text)
    token(None)
    with pytest.raises(EncryptionError, match="knows no token"):
        decrypt_env(text)
    token(None)
    with pytest.raises(
        EncryptionError, match=r"--env AWS_SECRET_ACCESS_KEY, MODEL_KEY, WORDS: .*RAY_AUTH_TOKEN_PATH"
    ) as caught:
        encrypt_env(VALUES)
    assert VALUES["MODEL_KEY"] not in str(caught.value)


@pytest.mark.parametrize("index", [0, 10, 40, 100, -4])
def test_altered_ciphertext_is_refused(index: int, token: Callable[[str | None], None]) -> None:
    token(TOKEN)
    letters = list(encrypt_env(VALUES))
    letters[index] = "A" if letters[index] != "A" else "B"
    with pytest.raises(EncryptionError, match="damaged") as caught:
        decrypt_env("".join(letters))
    assert not [value for value in VALUES.values() if value in str(caught.value)]


@pytest.mark.parametrize("text", ["x", "x.y", ".", "AAAA.é", "=.="])
def test_unencrypted_text_is_refused(text: str, token: Callable[[str | None], None]) -> None:
    token(TOKEN)
    with pytest.raises(EncryptionError, match="damaged"):
        decrypt_env(text)
