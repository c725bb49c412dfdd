"""Which commit a revision is: asked of a hub on loopback that answers, refuses, hangs or is gone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

from models.engines.hub import adapter_folder, adapter_id, ask_hub, cached_commit, cached_folder, hub_id, is_commit
from models.errors import EngineUnreachableError
from models.spec import ModelSpec
from tests.support.hub import COMMITS, LocalHub

HEAD, OLD = COMMITS[:2]
MAIN = ("org/name", "main")


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with LocalHub({"org/name": {"main": HEAD, "v1/beta": OLD}, "org/other": {"main": OLD}}) as server:
        yield server


def test_branches_tags_and_commits_are_resolved_each_once(hub: LocalHub) -> None:
    questions = [MAIN, ("org/name", "v1/beta"), ("org/name", OLD), ("org/other", "main"), MAIN]
    answers = ask_hub(questions, endpoint=hub.url)
    assert [(answers[question].state, answers[question].commit) for question in questions] == [
        ("known", HEAD), ("known", OLD), ("known", OLD), ("known", OLD), ("known", HEAD),
    ]  # fmt: skip
    assert len(hub.requests) == 4


@pytest.mark.parametrize(
    ("question", "state", "problem"),
    [
        (("org/name", "mian"), "unknown revision", "the hub has no revision 'mian' of org/name"),
        (("org/nme", "main"), "unknown model", "the hub has no org/nme, or shows it only with a token"),
        (("a/b/c", "main"), "unknown model", "'a/b/c' is neither a local folder nor an id of the hub"),
    ],
)
def test_unknown_names_are_distinguished_and_others_are_still_answered(
    hub: LocalHub, question: tuple[str, str], state: str, problem: str
) -> None:
    answers = ask_hub([question, MAIN], endpoint=hub.url)
    assert answers[question].state == state
    assert problem in answers[question].problem
    assert "\n" not in answers[question].problem
    assert answers[MAIN].commit == HEAD


def test_status_of_one_model_leaves_the_others(hub: LocalHub) -> None:
    hub.status["org/other"] = 429
    answers = ask_hub([("org/other", "main"), MAIN], endpoint=hub.url)
    assert (answers["org/other", "main"].state, answers["org/other", "main"].problem) == ("unreachable", "status 429")
    assert answers[MAIN].commit == HEAD


@pytest.mark.parametrize("page", [b"<html>Log in</html>", b"{}", b'{"id": "org/name", "sha": "main"}'])
def test_answer_of_another_service_is_none(hub: LocalHub, page: bytes) -> None:
    hub.page = page
    assert ask_hub([MAIN], endpoint=hub.url)[MAIN].state == "unreachable"


def test_hub_that_hangs_is_left_at_the_deadline(hub: LocalHub) -> None:
    hub.silent.set()
    answer = ask_hub([MAIN], endpoint=hub.url, deadline_s=0.2)[MAIN]
    assert (answer.state, answer.problem) == ("unreachable", "no answer in time")


def test_refused_connection_ends_all_questions() -> None:
    with socket.socket() as unserved:
        unserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unserved.getsockname()[1]}"
        answers = ask_hub([(f"org/{number}", "main") for number in range(50)], endpoint=url)
    assert {(answer.state, answer.problem) for answer in answers.values()} == {("unreachable", "ConnectError")}
    assert len(answers) == 50


def test_offline_mode_sends_nothing(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    answer = ask_hub([MAIN], endpoint=hub.url)[MAIN]
    assert (answer.state, answer.problem) == ("unreachable", "offline mode")
    assert hub.requests == []


def test_commit_of_the_cache_is_that_of_its_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert cached_commit(*MAIN) == ""
    write_cache(tmp_path, "org/name", OLD)
    assert cached_commit(*MAIN) == OLD
    assert cached_commit("org/name", "v2") == ""


def write_cache(root: Path, model: str, commit: str, *, file: str = "config.json") -> None:
    """Write what the client keeps of a model whose `main` was once fetched."""
    folder = root / f"models--{model.replace('/', '--')}"
    for path, text in (("refs/main", commit), (f"snapshots/{commit}/{file}", "{}")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.mark.parametrize("model", ["./weights", "/weights", "~/w", "my models/x", "a/b/c"])
def test_folder_that_is_absent_is_not_in_the_cache(model: str) -> None:
    assert cached_folder(model, None) is None


def test_ids_of_the_hub_are_distinguished_from_folders_files_and_endpoints(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"")
    local = [str(tmp_path), str(tmp_path / "gone"), "./x", "~/x", "s3://bucket/m", str(file)]
    assert [hub_id(ModelSpec(engine="transformers", model=name)) for name in local] == [""] * len(local)
    assert hub_id(ModelSpec(engine="vllm", model="org/name")) == "org/name"
    assert hub_id(ModelSpec(engine="openai", model="gpt", base_url="http://127.0.0.1:1")) == ""
    assert hub_id(ModelSpec(engine="random")) == ""


def test_adapters_of_the_hub_are_distinguished_from_folders(tmp_path: Path) -> None:
    def adapter_of(name: str | None) -> str:
        return adapter_id(ModelSpec(engine="transformers", model="org/name", adapter=name))

    assert [adapter_of(name) for name in (None, str(tmp_path), "./x", "s3://bucket/a")] == [""] * 4
    assert adapter_of("org/lora") == "org/lora"


def test_adapter_is_fetched_by_commit_and_needs_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "adapter_config.json").write_text("{}")
    (tmp_path / "lora" / "adapter_model.bin").write_bytes(b"a pickle")
    spec = ModelSpec(engine="transformers", model="org/name", adapter="org/lora", adapter_revision=OLD)
    with LocalHub({"org/lora": {"main": HEAD}}, {"org/lora": tmp_path / "lora"}) as hub:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(
            huggingface_hub.constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            hub.url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        with pytest.raises(EngineUnreachableError, match=f"the adapter org/lora at {OLD} .* it needs adapter_config"):
            adapter_folder(spec)
        (tmp_path / "lora" / "adapter_model.safetensors").write_bytes(b"weights")
        fetched = Path(adapter_folder(spec))
        assert (fetched / "adapter_model.safetensors").read_bytes() == b"weights"
        assert fetched.name == OLD
        assert not [path for path in hub.requests if path.endswith(".bin") or "main" in path.split("/")]
        with pytest.raises(EngineUnreachableError, match="the adapter org/lora at gone cannot be fetched"):
            adapter_folder(spec.model_copy(update={"adapter_revision": "gone"}))
    assert Path(adapter_folder(spec)) == fetched  # from the cache, without the hub


@pytest.mark.parametrize(
    ("revision", "expected"), [(OLD, True), (OLD[:12], False), ("main", False), (None, False), (OLD.upper(), False)]
)
def test_only_a_full_hash_is_a_commit(revision: str | None, expected: bool) -> None:
    assert is_commit(revision) is expected
