"""The scripted endpoint that other tests rely on."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import always, by_rules


def post(base_url: str, prompt: str, **settings: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}], **settings}
    request = urllib.request.Request(
        f"{base_url}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        answer: dict[str, Any] = json.load(reply)
    return answer


def reply_text(reply: dict[str, Any]) -> str | None:
    text: str | None = reply["choices"][0]["message"]["content"]
    return text


def test_endpoint_runs_as_a_process_and_records_requests(tmp_path: Path) -> None:
    record = tmp_path / "asked.jsonl"
    rules = [{"when": "two", "say": "B"}, {"say": "A"}]
    command = [sys.executable, "-m", "tests.support.endpoint", "--record", str(record), "--script", json.dumps(rules)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        assert [reply_text(post(base_url, prompt)) for prompt in ("one", "two")] == ["A", "B"]
        process.terminate()
    bodies = [json.loads(line) for line in record.read_text().splitlines()]
    assert [body["messages"][0]["content"] for body in bodies] == ["one", "two"]


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        ({"say": "A"}, ["A", "A"]),
        ({"lookup": {"cat": "yes"}, "otherwise": "no"}, ["yes", "no"]),
        ({"verdict": {"cat": True}}, ['{"correct": true}', '{"correct": false}']),
        ({"verdict": {"cat": True}, "form": "yes_no"}, ["Yes", "No"]),
        ({"empty": True}, [None, None]),
    ],
)
def test_rules(rule: dict[str, Any], texts: list[str | None]) -> None:
    with ScriptedEndpoint(by_rules([rule])) as endpoint:
        assert [reply_text(post(endpoint.base_url, prompt)) for prompt in ("a cat", "a dog")] == texts


def test_random_rule_depends_on_the_prompts_hash() -> None:
    prompts = [f"question {index}" for index in range(20)]
    with ScriptedEndpoint(by_rules([{"random": ["A", "B"]}])) as endpoint:
        first = [reply_text(post(endpoint.base_url, prompt)) for prompt in prompts]
        assert [reply_text(post(endpoint.base_url, prompt)) for prompt in prompts] == first
    assert set(first) == {"A", "B"}


def test_rule_times_may_count_per_prompt() -> None:
    rules: list[dict[str, Any]] = [{"status": 429, "retry_after": "1", "times": 1, "each": True}, {"say": "A"}]
    with ScriptedEndpoint(by_rules(rules)) as endpoint:
        for prompt in ("one", "two"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(endpoint.base_url, prompt)
            assert (caught.value.code, caught.value.headers["Retry-After"]) == (429, "1")
            caught.value.close()
            assert reply_text(post(endpoint.base_url, prompt)) == "A"


def test_unmatched_prompt_is_reported() -> None:
    with ScriptedEndpoint(by_rules([{"when": "x", "say": "A"}])) as endpoint:
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(endpoint.base_url, "y")
        assert json.load(caught.value)["error"]["message"] == "no rule fits this prompt"
        caught.value.close()


def test_misspelt_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="sya"):
        by_rules([{"sya": "A"}])


def test_token_limit_cuts_the_reply() -> None:
    with ScriptedEndpoint(always("one two three")) as endpoint:
        reply = post(endpoint.base_url, "?", max_tokens=2)
    assert (reply_text(reply), reply["choices"][0]["finish_reason"]) == ("one two", "length")
    assert reply["usage"]["completion_tokens"] == 2


def test_endpoint_lists_its_models() -> None:
    with (
        ScriptedEndpoint(always("A")) as endpoint,
        urllib.request.urlopen(f"{endpoint.base_url}/models", timeout=30) as reply,
    ):
        assert json.load(reply)["data"][0]["id"] == "scripted"
