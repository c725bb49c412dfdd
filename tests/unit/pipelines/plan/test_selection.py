import pytest

from pipelines.benchmarks import benchmark
from pipelines.errors import UnknownNameError, UsageError
from pipelines.plan.run_spec import ScorerSpec, allows_failures
from pipelines.plan.selection import Limit, TaskSetting, check_names, selected_groups


@pytest.mark.parametrize(
    ("text", "total", "span"),
    [
        ("8", 100, range(8)),
        ("8", 5, range(5)),
        ("0.1", 50, range(5)),
        ("0.001", 50, range(1)),
        ("1.0", 50, range(50)),
        ("11-20", 100, range(10, 20)),
        ("11-20", 15, range(10, 15)),
        ("5-5", 100, range(4, 5)),
    ],
)
def test_limit(text: str, total: int, span: range) -> None:
    assert list(Limit.parse(text).span(total)) == list(span)


@pytest.mark.parametrize("text", ["0", "-3", "x", "1.5", "0.0", "5-2", "0-3", "1-2-3", ""])
def test_invalid_limit_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(UsageError, match="a count"):
        Limit.parse(text)


@pytest.mark.parametrize(
    ("text", "failed", "total", "allowed"),
    [
        ("true", 0, 10, True),
        ("true", 1, 10, False),
        ("false", 10, 10, True),
        ("0.2", 2, 10, True),
        ("0.2", 3, 10, False),
        ("3", 3, 10, True),
        ("3", 4, 10, False),
        ("1", 1, 10, True),
        ("0", 1, 10, False),
        ("1.0", 10, 10, True),
    ],
)
def test_failure_budget(text: str, failed: int, total: int, allowed: bool) -> None:
    assert allows_failures(text, failed, total) is allowed


@pytest.mark.parametrize("text", ["maybe", "-1", "1.5", ""])
def test_invalid_failure_budget_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-on-error"):
        allows_failures(text, 0, 1)


def test_scorer_flags() -> None:
    assert ScorerSpec.parse("bertscore=/a/b:3") == ScorerSpec("bertscore", "/a/b", 3)
    assert ScorerSpec.parse("bertscore=org/name") == ScorerSpec("bertscore", "org/name", None)
    assert ScorerSpec.parse("bleurt=org/name") == ScorerSpec("bleurt", "org/name")
    assert ScorerSpec.parse("bleurt=org/name@v1/beta") == ScorerSpec("bleurt", "org/name", revision="v1/beta")
    assert ScorerSpec.parse("bertscore=name@v1:3") == ScorerSpec("bertscore", "name", 3, revision="v1")
    assert ScorerSpec.parse("bertscore=/a/b@2:3") == ScorerSpec("bertscore", "/a/b@2", 3)
    for text in ("bertscore", "rouge=x", "bleurt=x:3", "="):
        with pytest.raises(UsageError, match="--scorer"):
            ScorerSpec.parse(text)


def test_task_settings_follow_the_flags() -> None:
    maia = benchmark("maia")
    three = ["black-video", "1-frame", "32-frames"]
    assert selected_groups(maia, [], []) == [
        TaskSetting(task, setting) for task in ("vsv", "oevqa") for setting in three
    ]
    assert selected_groups(maia, ["vsv"], ["1-frame"]) == [TaskSetting("vsv", "1-frame")]
    assert selected_groups(maia, ["aggregate"], ["1-frame"]) == [
        TaskSetting("vsv", "1-frame"),
        TaskSetting("oevqa", "1-frame"),
    ]
    assert selected_groups(maia, ["mcq"], []) == []


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean '32-frames'"):
        check_names("setting", ["32frames"], ["1-frame", "32-frames"])
