import pytest

from pipelines.benchmarks import benchmark, code_benchmarks
from pipelines.benchmarks.metrics_kernel.labels import MetricName, metric_label
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.rendering.formats import html, to_csv, to_markdown


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("agg_acc", "aggregate accuracy"),
        ("agg_acc_macro", "aggregate accuracy, mean of categories"),
        ("agg_acc@gpt", "aggregate accuracy, judged by gpt"),
        ("accuracy_of_people", "accuracy of people"),
        ("of_no_list", "of no list"),
    ],
)
def test_label_says_a_metric_in_words(metric: str, words: str) -> None:
    assert metric_label(metric) == words


def test_every_main_metric_has_a_label_in_words() -> None:
    names = {name for entry in code_benchmarks() for name in benchmark(entry).main_metrics}
    assert not [name for name in names if "_" in metric_label(name)]


def test_pages_show_the_label_with_the_id_as_tooltip_and_files_keep_the_id() -> None:
    rows = (TableRow(label=MetricName("agg_acc"), cells=(MetricName("none_rate"),)),)
    table = Table(id="t", title="t", columns=("Metric",), rows=rows)
    page = html(table)
    assert '<span title="agg_acc">aggregate accuracy</span>' in page
    assert '<span title="none_rate">unreadable answers</span>' in page
    assert "| aggregate accuracy | unreadable answers |" in to_markdown(table)
    assert "agg_acc,ours,none_rate" in to_csv(table)
