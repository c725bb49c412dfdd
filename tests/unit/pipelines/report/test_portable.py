import pytest

from pipelines.report.portable import portable, portable_text

OUT = "/home/ann/work/results"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ann/work/results/report/x.csv", "report/x.csv"),
        ("data at /home/ann/work/data, read", "data at ../data, read"),
        ("model '/mnt/models/qwen' is missing", "model '…/qwen' is missing"),
        ("--out=/home/ann/work/results", "--out=."),
        ("--out /home/ann/work", "--out .."),
        ("Qwen/Qwen2.5-VL and https://host/a/b and s3://bucket/a/b",
         "Qwen/Qwen2.5-VL and https://host/a/b and s3://bucket/a/b"),
        ("file:///mnt/models/qwen and /mnt/a:/mnt/b", "…/qwen and …/a:…/b"),
        ("weights of /home/bob are missing", "weights of … are missing"),
        ("and/or 3/4 /single", "and/or 3/4 /single"),
    ],
)  # fmt: skip
def test_local_paths_become_relative_to_the_output(text: str, expected: str) -> None:
    assert portable_text(text, OUT) == expected


def test_values_of_all_depths_are_cleaned_and_a_folder_with_a_space_is_one_name() -> None:
    value = {"a": ["/home/ann/work/data", 3], "b": {"c": "/home/ann/x"}}
    assert portable(value, OUT) == {"a": ["../data", 3], "b": {"c": "…/x"}}
    value = ["--data=/mnt/of bob/my data", "--out", "/home/ann/work/my results/x", "/home/bob bob", "two /mnt/a/b"]
    assert portable(value, OUT) == ["--data=…/my data", "--out", "../my results/x", "…", "two …/b"]
