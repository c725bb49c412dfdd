"""MATE's metrics, from rows with known values."""

import re

import pytest

from jobs.generate.generate import generate
from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.source import read_mate
from pipelines.benchmarks.records import Sample
from pipelines.ingest.source_folder import Folder
from tests.support.interval_oracle import share_ends
from tests.support.mate_rows import find, gold, reduced, sample_of
from tests.support.mate_source import row

NAMED = ("name", "Object_1")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Sample]:
    """A generated data set of 32 scenes, without media."""
    out = tmp_path_factory.mktemp("mate") / "set"
    generate(out, (9, 10), 32, 5)
    result = []
    for item in read_mate(Folder(str(out))):
        assert not type(item).__name__.startswith("Rej"), item
        if hasattr(item, "sample_id"):
            result.append(
                Sample(sample_id=item.sample_id, category=item.category, cluster=item.sample_id, data=item.data)
            )
    return result


class TestWhole:
    def test_no_json_is_out_of_scene(self, samples: list[Sample]) -> None:
        metrics = reduced(samples, lambda *_: "no idea")
        assert {metric.value for metric in metrics if metric.metric in ("exact_match", "format_ok")} == {0.0}
        assert {metric.value for metric in metrics if metric.metric == "ose"} == {1.0}
        assert find(metrics, "crossmodal", "share", "overlap=-", "2-shot").value == 1

    def test_counts_add_up_and_every_cell_has_its_rows(self, samples: list[Sample]) -> None:
        right = [metric for metric in reduced(samples, gold) if metric.metric == "exact_match"]
        sizes = {(metric.task, metric.setting): metric.n for metric in right if not metric.category}
        settings = ("0-shot", "1-shot", "2-shot")
        assert sizes == {
            **{(task, s): 16 for task in ("img2txt", "txt2img") for s in (*settings, "2-shot-cot")},
            **{("crossmodal", s): 32 for s in (*settings, "2-shot-cot")},
            **{(task, s): 16 for task in ("img2img", "txt2txt") for s in settings},
            **{("unimodal", s): 32 for s in settings},
        }
        parts = {
            ("crossmodal", r"[^@]* objects"): 32,
            ("crossmodal", r"(links=|3D)[^@]*"): 32,
            ("crossmodal", r".*@.*"): 32,
            ("img2txt", r"Name|Coords|Rotation|Size"): 16,
            ("txt2txt", r"pointer=(?!.*target).*"): 16,
        }
        for setting in settings:
            for (task, pattern), rows in parts.items():
                cells = [metric for metric in right if (metric.task, metric.setting) == (task, setting)]
                assert sum(metric.n for metric in cells if re.fullmatch(pattern, metric.category)) == rows, pattern


def _pictured(sample: Sample) -> Sample:
    from dataclasses import replace

    from pipelines.benchmarks.records import MediaRef

    ref = MediaRef(role="picture", kind="image", sha256="0", extension=".png", bytes=1, width=1, height=1)
    return replace(sample, media=(ref,))


class TestRates:
    ONE = row(few_shot_attributes=[["color", "x"], ["color", "y"]])
    OTHER = row("B", "txt2img", NAMED, "color", shots=[("name", "Object_1"), ("size", 0.35)])

    def test_the_average_is_the_mean_of_both_tasks(self) -> None:
        question_samples = [sample_of(f"a{i}", self.ONE) for i in range(3)]
        question_samples += [sample_of(name, self.OTHER) for name in "bc"]
        metrics = reduced(
            question_samples,
            lambda sample, cell_row: gold(sample, cell_row) if sample.sample_id in ("a0", "b", "c") else "no",
        )
        average = find(metrics, "crossmodal")
        assert (average.value, average.n) == (pytest.approx(2 / 3), 5)
        assert find(metrics, "crossmodal", category="6 objects").value == 3 / 5
        assert average.ci_low is not None
        assert average.ci_high is not None
        assert average.ci_low < 2 / 3 < average.ci_high

    def test_average_needs_both_tasks(self) -> None:
        average = find(reduced([sample_of("a", self.ONE)], gold), "crossmodal")
        assert (average.value, average.note) == (None, "no answer of txt2img")

    def test_intervals_are_over_scenes(self) -> None:
        question_samples = [
            sample_of(f"{kind}{i}", raw) for kind, raw in (("a", self.ONE), ("b", self.OTHER)) for i in range(8)
        ]
        metrics = reduced(
            question_samples, lambda sample, cell_row: gold(sample, cell_row) if sample.sample_id[1] in "012" else "no"
        )
        result = find(metrics, "img2txt")
        assert (result.value, result.n) == (3 / 8, 8)
        low, high = share_ends([1.0] * 3 + [0.0] * 5, range(8))
        assert (result.ci_low, result.ci_high) == pytest.approx((low, high))
        average = find(metrics, "crossmodal")
        assert average.ci_low is not None
        assert average.ci_high is not None
        assert average.ci_high - average.ci_low < high - low, "two tasks tell more than one"

    def test_none_and_all_right_have_intervals_that_are_no_points(self) -> None:
        question_samples = [sample_of(f"a{i}", self.ONE) for i in range(4)]
        none = find(reduced(question_samples, lambda *_: "no"), "img2txt")
        every = find(reduced(question_samples, gold), "img2txt")
        assert (none.ci_low, none.ci_high) == pytest.approx(share_ends([0.0] * 4, range(4)))
        assert (every.ci_low, every.ci_high) == pytest.approx(share_ends([1.0] * 4, range(4)))

    def test_one_scene_has_no_interval(self) -> None:
        result = find(reduced([sample_of("a", self.ONE)], gold), "img2txt")
        assert (result.value, result.ci_low, result.ci_high) == (1.0, None, None)

    def test_failures_are_no_answers_and_what_was_never_run_does_not_count(self) -> None:
        question_samples = [sample_of(f"a{i}", self.ONE) for i in range(4)]
        replies = {"a0": gold_json("Object_0"), "a1": "no", "a2": None, "a3": "missing"}
        metrics = reduced(question_samples, lambda sample, _: replies[sample.sample_id])
        right = find(metrics, "img2txt")
        assert (right.value, right.n, right.n_failed) == (1 / 2, 2, 1)
        assert find(metrics, "img2txt", "exact_match_failures_wrong").value == 1 / 3
        assert (find(metrics, "img2txt", "errors").value, find(metrics, "img2txt", "no_json_count").value) == (1, 1)

    def test_metrics_are_null_where_all_requests_failed(self) -> None:
        right = find(reduced([sample_of("a", self.ONE)], lambda *_: None), "img2txt")
        assert (right.value, right.n, right.n_failed) == (None, 0, 1)

    def test_examples_about_the_target_object_are_a_category(self) -> None:
        clean = row("B", "txt2img", NAMED, "color", shots=[("name", "Object_2"), ("size", 0.35)])
        solved = row("B", "txt2img", NAMED, "color", shots=[("3d_coords", [-2, 1, 0.7]), ("size", 0.35)])
        metrics = reduced(
            [sample_of("a", clean), sample_of("b", solved)],
            lambda s, cell_row: gold(s, cell_row) if s.sample_id == "b" else "no",
        )
        assert find(metrics, "txt2img", category="shot_shows_target=true").value == 1
        assert find(metrics, "txt2img", category="shot_shows_target=false").value == 0

    def test_linking_types_take_only_a_single_smallest_combination(self) -> None:
        question_samples = [
            sample_of("31", row(few_shot_attributes=None)),
            sample_of("34", row("B", "txt2img", ("name", "Object_2"), "color", few_shot_attributes=None)),
            sample_of("38", row("B", "txt2img", ("name", "Object_4"), "shape", few_shot_attributes=None)),
            sample_of("37", row("B", "txt2img", ("size", 0.35), "color", few_shot_attributes=None)),
        ]
        metrics = [
            metric
            for metric in reduced(question_samples, gold)
            if metric.task == "crossmodal" and metric.metric == "exact_match"
        ]
        counts = {metric.category: metric.n for metric in metrics if "@" not in metric.category}
        assert counts == {
            "": 4,
            "6 objects": 4,
            "3D coords only": 1,
            "Material+Size": 1,
            "Shape+Material+Size": 1,
            "links=2": 2,
            "links=3": 1,
        }

    def test_chance_is_the_closed_form(self) -> None:
        question_samples = [
            sample_of("a", row(few_shot_attributes=None)),
            sample_of("b", row(pointer=("shape", "sphere"), target="size", few_shot_attributes=None)),
            sample_of("c", row("B", "txt2img", NAMED, "color", few_shot_attributes=None)),
            sample_of("d", row("B", "txt2img", ("name", "Object_4"), "shape", few_shot_attributes=None)),
        ]
        metrics = reduced(question_samples, gold)
        assert find(metrics, "img2txt", "chance", "Name").value == 1 / 6
        assert find(metrics, "img2txt", "chance", "Size").value == 2 / 6
        assert find(metrics, "txt2img", "chance").value == pytest.approx(0.1875)
        assert find(metrics, "crossmodal", "chance").value == pytest.approx((0.25 + 0.1875) / 2)

    def test_change_by_steps_is_of_the_mean_over_counts(self) -> None:
        small = row("A", "txt2img", NAMED, "color", few_shot_attributes=None)
        question_samples = [
            Sample(
                sample_id=name,
                category="",
                cluster=name,
                data={**base.data, "rows": [*base.data["rows"], *cot.data["rows"]]},
            )
            for name, raw in (*((name, self.OTHER) for name in "abc"), *((name, small) for name in "de"))
            for base, cot in [(sample_of(name, raw), sample_of(name, raw, setting="2-shot-cot"))]
        ]
        right = {("a", "2-shot"), *((name, "2-shot-cot") for name in "abde")}
        metrics = reduced(
            question_samples,
            lambda s, cell_row: gold(s, cell_row) if (s.sample_id, cell_row["setting"]) in right else "no",
        )
        result = find(metrics, "crossmodal", "cot_delta")
        assert result.value == pytest.approx((1 + 2 / 3) / 2 - (0 + 1 / 3) / 2)
        assert result.ci_low is not None
        assert result.ci_low <= result.value
        assert not [metric for metric in metrics if metric.metric == "cot_delta" and metric.category]
