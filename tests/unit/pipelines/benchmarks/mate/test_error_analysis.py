"""MATE's analysis of wrong answers, on a scene with known ones."""

import math

import pytest

from pipelines.benchmarks.records import Metric
from tests.support.mate_rows import find, reduced, sample_of
from tests.support.mate_source import RAW, row

NAMED = ("name", "Object_1")


class TestCoordinatesOnly:
    """The twelve answers of the page about scene B with a seventh object."""

    @pytest.fixture(scope="class")
    @classmethod
    def metrics(cls) -> list[Metric]:
        extra = {
            **RAW["B"]["objects"][3],
            "name": "Object_6",
            "size": 0.35,
            "material": "rubber",
            "3d_coords": [-3, 2, 0.35],
            "rotation": 70.5,
        }
        scene = {**RAW["B"], "objects": [*RAW["B"]["objects"], extra]}
        names = [(f'{{"answer": "Object_{i}"}}', "name") for i in (0, 1, 5, 3, 2, 4, 6)]
        replies = [
            *names,
            ("no idea", "name"),
            ('{"answer": "Object_7"}', "name"),
            ('{"answer": 0.701}', "size"),
            ('{"answer": "20.5"}', "rotation"),
            ('{"answer": 0.351}', "size"),
        ]
        question_samples = [
            sample_of(f"{i:02d}", row(target=target, few_shot_attributes=None), scene=scene)
            for i, (_, target) in enumerate(replies)
        ]
        return reduced(question_samples, lambda sample, _: replies[int(sample.sample_id)][0])

    def test_accuracy_and_errors_out_of_scene(self, metrics: list[Metric]) -> None:
        right = find(metrics, "img2txt")
        assert (right.value, right.n) == (1 / 12, 12)
        ose = find(metrics, "crossmodal", "ose")
        assert (ose.value, ose.n) == (2 / 11, 11)
        assert find(metrics, "crossmodal", category="3D coords only").value == 1 / 12

    def test_shares_by_overlap(self, metrics: list[Metric]) -> None:
        shares = {label: find(metrics, "crossmodal", "share", f"overlap={label}") for label in "43210-"}
        assert {label: share.value for label, share in shares.items()} == {
            label: count / 12 for label, count in {"4": 1, "3": 1, "2": 3, "1": 3, "0": 1, "-": 3}.items()
        }
        assert math.fsum(share.value or 0 for share in shares.values()) == pytest.approx(1)
        assert find(metrics, "crossmodal", "in_scene_without_object").value == 1

    def test_closeness_of_wrong_answers_is_measured_by_overlap(self, metrics: list[Metric]) -> None:
        def closer(metric: str, label: str) -> tuple[float, int]:
            result = find(metrics, "crossmodal", metric, f"overlap={label}")
            return round((result.value or 0) * result.n), result.n

        assert [closer("closer_than_average", label) for label in "3210"] == [(1, 1), (1, 3), (2, 3), (1, 1)]
        assert [closer("closer_in_depth", label) for label in "3210"] == [(1, 1), (3, 3), (3, 3), (1, 1)]
        assert [closer("closer_horizontally", label) for label in "3210"] == [(1, 1), (1, 3), (2, 3), (1, 1)]
        whole = find(metrics, "crossmodal", "pct_closer_than_average", "3D coords only")
        assert (whole.value, whole.n) == (4 / 7, 7)
        match = find(metrics, "crossmodal", "pct_correct_given_noncoord_match", "3D coords only")
        assert (match.value, match.n) == (1 / 2, 2)
        assert find(metrics, "crossmodal", "pct_noncoord_mismatch", "3D coords only").value == 7 / 12
