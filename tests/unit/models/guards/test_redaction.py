"""A key is kept out of a text in whatever form the text quotes it; what is no key stays."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import time
from urllib.parse import quote

import pytest

from models.guards.redaction import (
    WITHHELD,
    Redactor,
    address_secrets,
    secret_field,
    shown_address,
    without_passwords,
)

KEY = 'sk-Planted/9f+a=KEY"7c'
REDACT = Redactor([KEY])
HEADERS = json.dumps({"authorization": f"Bearer {KEY}", "host": "x"})
FORMS = {
    "in JSON": HEADERS,
    "in JSON in JSON": json.dumps({"error": {"message": HEADERS}}),
    "as escapes": "".join(f"\\u{ord(sign):04x}" for sign in KEY),
    "in an address": quote(f"Bearer {KEY}", safe=""),
    "in an address twice": quote(quote(KEY, safe=""), safe=""),
    "every sign in an address": "".join(f"%{ord(sign):02x}" for sign in KEY),
    "in HTML": html.escape(KEY),
    "base64": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 for addresses": base64.urlsafe_b64encode(f"u:{KEY}".encode()).decode().rstrip("="),
    "base64 in lines": "\n".join(part for part in base64.encodebytes(f"{'x' * 80}{KEY}".encode()).decode().split("\n")),
    "base64 of JSON": base64.b64encode(HEADERS.encode()).decode(),
    "hexadecimal": KEY.encode().hex(),
    "upper case": KEY.upper(),
    "lower case": KEY.lower(),
    "a blank after each sixth": " ".join(KEY[start : start + 6] for start in range(0, len(KEY), 6)),
    "in lines": "\n".join(KEY),
    "with dashes": "-".join(KEY),
    "its first half": KEY[: len(KEY) // 2 + 4],
}


@pytest.mark.parametrize("before", ["", "Incorrect key: ", "Authorization=Basic/"])
@pytest.mark.parametrize("form", FORMS)
def test_text_that_quotes_a_key_in_any_form_is_withheld(form: str, before: str) -> None:
    assert REDACT(f"{before}{FORMS[form]} was refused") == WITHHELD
    assert REDACT.is_quoted_in(f"{before}{FORMS[form]} was refused")
    assert REDACT.is_quoted_in(f"{'A word. ' * 3000}{before}{FORMS[form]} was refused")


def test_key_as_it_is_becomes_stars_and_the_rest_of_the_text_stays() -> None:
    assert REDACT(f"Incorrect key: {KEY}. See the console.") == "Incorrect key: ***. See the console."
    assert Redactor(["EMPTY"])("EMPTY is no key") == "*** is no key"


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-Plant***7c",
        "The reply is empty. Rate limit reached for requests per minute (429).",
        base64.b64encode(b"a picture of a key, Planted in the ground").decode(),
        "%7B%22a%22%3A1%7D &lt;b&gt; \\u00e9",
        "",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert REDACT(text) == text
    assert not REDACT.is_quoted_in(text)
    assert Redactor([])(text) == text
    assert not Redactor(["ollama"]).is_quoted_in("I run in ollama")


@pytest.mark.parametrize("sign", ["A", "%", "\\", "&", "QUFB ", "deadbeef"])
def test_search_of_a_long_text_takes_no_time(sign: str) -> None:
    start = time.process_time()
    REDACT.is_quoted_in(sign * (100_000 // len(sign)))
    assert time.process_time() - start < 5


def test_records_hold_no_key() -> None:
    assert REDACT.in_record({"a": [f"x {KEY}", 1, None], KEY: {"b": True}}) == {
        "a": ["x ***", 1, None],
        "***": {"b": True},
    }


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://h.openai.azure.com/openai/deployments/d?api-version=2024-10-21", None),
        ("https://h/compatible-mode/v1beta/openai", None),
        ("http://u:pass@h:8000/v1", "http://***@h:8000/v1"),
        ("http://h/t/tok-planted-91/v1", "http://h/t/sha256-d6dc2962/v1"),
        ("http://h/k/Zq7Xw2/v1", f"http://h/k/sha256-{hashlib.sha256(b'Zq7Xw2').hexdigest()[:8]}/v1"),
        ("http://h/Mistral-7/gpt-4/2024/v1", None),
        ("http://h/v1?x=tok-planted-91", "http://h/v1?x=sha256-d6dc2962"),
    ],
)
def test_address_is_shown_without_what_may_be_a_key(address: str, shown: str | None) -> None:
    assert shown_address(address) == (shown or address)
    assert ("tok-planted-91" in address_secrets(address)) == ("planted" in address)


def test_passwords_of_addresses_are_hidden_wherever_they_stand() -> None:
    text = "ray://u:S@host:10001 and s3://key:S@bucket/x, mail a@b.org, http://h/@x"
    assert without_passwords(text) == "ray://***@host:10001 and s3://***@bucket/x, mail a@b.org, http://h/@x"


def test_fields_named_as_keys_are_found() -> None:
    assert secret_field({"metadata": {"api_key": "x"}}) == "metadata.api_key"
    assert secret_field({"a": [{"Authorization": "Bearer x"}]}) == "a.0.Authorization"
    harmless = {"min_tokens": 3, "stop_token_ids": [1], "prompt_cache_key": "x", "tokenizer": "y", "api_key": ""}
    assert secret_field(harmless) == ""
