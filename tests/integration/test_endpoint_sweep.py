"""A whole sweep against scripted endpoints: the requests sent, and the metrics of answers of known quality."""

from __future__ import annotations

import base64
import io
import json
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.benchmarks.maia.letters import draw_ts_letter
from tests.integration.conftest import Cli
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import EndpointRequest, always
from tests.support.maia_source import FRAMES_32_OF_40, index_of, question, questions, write_source

VIDEOS, CATEGORIES, QUESTIONS, PAIRS = 2, 4, 16, 128


def right(request: EndpointRequest) -> str:
    """Answer correctly: true statements of the data set contain `mostra`; open answers repeat a reference."""
    pairs = dict(re.findall(r"^([AB])\) (.*)$", request.text, re.MULTILINE))
    if pairs:
        return next(letter for letter, text in pairs.items() if "mostra" in text)
    match = re.search(r"nel video (\d) \((\w+)\)", request.text)
    assert match, request.text
    return question(int(match[1]), match[2])["answer"][3]


def judge(request: EndpointRequest) -> str:
    """Accept answers that repeat a reference; give an unreadable first reply to half of the questions."""
    candidate = re.search(r"<risposta>\n(.*)\n</risposta>", request.text, re.DOTALL)
    references = re.findall(r"^\d\. (.*)$", request.text, re.MULTILINE)
    assert candidate
    assert len(references) == 8
    if request.body["seed"] == 42 and "_A" in references[0]:
        return "forse"
    return json.dumps({"correct": candidate[1] in references})


@pytest.fixture(scope="module")
def swept(inline_cli: Cli, tmp_path_factory: pytest.TempPathFactory):
    """Three models and a judge over a whole small data set."""
    source, data = write_source(tmp_path_factory.mktemp("maia"), VIDEOS, CATEGORIES), tmp_path_factory.mktemp("data")
    inline_cli("ingest", "maia", str(source), "--data", str(data))
    out = tmp_path_factory.mktemp("out")
    with (
        ScriptedEndpoint(right) as perfect,
        ScriptedEndpoint(always("A")) as stubborn,
        ScriptedEndpoint(judge) as judging,
    ):
        models = out / "models.yaml"
        entries = {"perfect": perfect, "stubborn": stubborn, "judging": judging}
        models.write_text(
            "\n".join(
                f"{name}: {{engine: openai, model: {name}-1, base_url: '{item.base_url}', api_key_env: KEY_OF_{name}}}"
                for name, item in entries.items()
            )
        )
        flags = ("--models", "perfect,stubborn,random", "--models-file", str(models), "--judge", "judging")
        common_flags = ("--benchmarks", "maia", "--data", str(data), "--out", str(out / "run"))
        env = {f"KEY_OF_{name}": f"sk-planted-secret-of-{name}" for name in entries}
        result = inline_cli("run", *flags, *common_flags, env=env)
        again = inline_cli("run", *flags, *common_flags, env=env)
        yield out / "run", {name: list(item.requests) for name, item in entries.items()}, result, again


@lru_cache(maxsize=256)
def shown(uri: str) -> np.ndarray:
    head, _, data = uri.partition(",")
    assert re.fullmatch(r"data:image/(jpeg|png);base64", head)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


def frames_of(request: EndpointRequest) -> list[np.ndarray]:
    return [shown(uri) for uri in request.pictures]


def setting_of(frames: list[np.ndarray]) -> str:
    if len(frames) == 1:
        return "1-frame"
    return "black-video" if max(int(frame.max()) for frame in frames) == 0 else "32-frames"


def test_settings_send_their_frames_and_every_pair_once(swept) -> None:
    _, observed, _, _ = swept
    counts: Counter[str] = Counter()
    for request in observed["perfect"]:
        frames = frames_of(request)
        setting = setting_of(frames)
        counts[setting] += 1
        if setting == "black-video":
            assert len(frames) == 32
        else:
            assert [index_of(frame) for frame in frames] == ([0] if setting == "1-frame" else FRAMES_32_OF_40)
    assert counts == dict.fromkeys(("black-video", "1-frame", "32-frames"), PAIRS + QUESTIONS)
    texts = Counter(requests.text for requests in observed["perfect"])
    assert set(texts.values()) == {3}
    assert len(texts) == PAIRS + QUESTIONS


def test_prompts_contain_the_drawn_statements_or_the_italian_question(swept) -> None:
    _, observed, _, _ = swept
    texts = {request.text for request in observed["perfect"]}
    for video in questions(VIDEOS, CATEGORIES):
        for entry in video["question_categories_A"] + video["question_categories_B"]:
            (open_,) = [text for text in texts if entry["question"] in text]
            assert "italiano" in open_
            for i, (true, false) in enumerate(zip(entry["true_statement"], entry["false_statement"], strict=True)):
                first = draw_ts_letter(42, video["video"], entry["category"], i) == "A"
                a, b = (true, false) if first else (false, true)
                (pair,) = [text for text in texts if f"A) {a}\nB) {b}\n" in text]
                assert "affermazion" in pair
                assert entry["question"] not in pair


def test_requests_have_one_user_turn_with_pictures_first_and_greedy_limits(swept) -> None:
    _, observed, _, _ = swept
    for request in observed["perfect"]:
        (message,) = request.body["messages"]
        assert message["role"] == "user"
        kinds = [part["type"] for part in message["content"]]
        assert kinds == sorted(kinds)  # image_url before text
        assert request.body["temperature"] == 0
        limit = request.body.get("max_tokens") or request.body.get("max_completion_tokens")
        assert limit == (16 if "\nA) " in request.text else 128)


def metric(out: Path, model: str, task: str, setting: str, name: str, category: str = "") -> dict:
    rows = json.loads((out / "report" / "metrics.json").read_text())
    (row,) = [
        row
        for row in rows
        if (row["model"], row["task"], row["setting"], row["metric"], row["category"], row["subset"])
        == (model, task, setting, name, category, "")
    ]
    return row


@pytest.mark.parametrize("setting", ["black-video", "1-frame", "32-frames"])
def test_scripted_answers_give_the_expected_metrics(swept, setting: str) -> None:
    out, _, _, _ = swept
    for task, name, n in (
        ("vsv", "statement_accuracy", PAIRS),
        ("vsv", "pool_accuracy", QUESTIONS),
        ("oevqa", "oevqa_accuracy", QUESTIONS),
        ("aggregate", "agg_acc", QUESTIONS),
    ):
        row = metric(out, "perfect", task, setting, name)
        assert (row["value"], row["n"], row["n_failed"], row["unit"]) == (1.0, n, 0, "fraction")
    always_a = [
        [draw_ts_letter(42, video["video"], entry["category"], i) == "A" for i in range(8)]
        for video in questions(VIDEOS, CATEGORIES)
        for entry in video["question_categories_A"] + video["question_categories_B"]
    ]
    value = metric(out, "stubborn", "vsv", setting, "statement_accuracy")["value"]
    assert value == pytest.approx(sum(map(sum, always_a)) / PAIRS)
    assert metric(out, "stubborn", "vsv", setting, "pool_accuracy")["value"] == sum(map(all, always_a)) / QUESTIONS
    assert metric(out, "stubborn", "oevqa", setting, "oevqa_accuracy")["value"] == 0.0
    assert metric(out, "stubborn", "aggregate", setting, "agg_acc")["value"] == 0.0
    guessed = metric(out, "random", "vsv", setting, "statement_accuracy")
    assert abs(guessed["value"] - 0.5) < 4 * 0.5 / PAIRS**0.5
    assert guessed["ci_low"] <= guessed["value"] <= guessed["ci_high"]


def test_judge_receives_each_question_once_and_unreadable_ones_three_times(swept) -> None:
    _, observed, _, _ = swept
    counts = Counter((item.text, item.body["seed"]) for item in observed["judging"])
    assert set(counts.values()) == {1}
    by_question = Counter(item.text for item in observed["judging"])
    assert set(by_question.values()) == {1, 2}
    # `perfect` says the same in three settings, and so does `stubborn`: one verdict for all three.
    same = [text for text in by_question if "<risposta>\nA\n</risposta>" in text or "La risposta 3" in text]
    assert len(same) >= 2 * QUESTIONS


def test_second_run_sends_no_request_and_reports_the_same(swept) -> None:
    _, _, done, again = swept
    assert done.stdout == again.stdout
    assert "predict" not in again.stderr
    assert "judge" not in again.stderr


def test_api_key_appears_in_no_output(swept) -> None:
    out, observed, done, again = swept
    assert {request.headers["authorization"] for request in observed["perfect"]} == {
        "Bearer sk-planted-secret-of-perfect"
    }
    for path in out.rglob("*"):
        if path.is_file():
            assert b"sk-planted-secret" not in path.read_bytes(), path
    for reply in (done.stdout, done.stderr, again.stdout, again.stderr):
        assert "sk-planted-secret" not in reply


def test_run_manifest_describes_the_run(swept) -> None:
    out, _, _, _ = swept
    run = json.loads((out / "run.json").read_text())
    assert set(run["models"]) == {"perfect", "stubborn", "random", "judging"}
    assert run["models"]["perfect"]["api_key_env"] == "KEY_OF_perfect"
    assert run["datasets"]["maia"]["fingerprint"]
    assert run["sweep"]["seed"] == 42
    assert run["versions"]["ray"]
    assert "vsv-it-v1" in run["prompts"]["maia"]
    status = json.loads((out / "status.json").read_text())
    assert len(status["cells"]) == 3 * 6
    for cell in status["cells"]:
        assert cell["done"] == cell["requests"]
        assert cell["pending"] == cell["running"] == cell["failed"] == 0
