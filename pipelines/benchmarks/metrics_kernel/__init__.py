"""Metrics as definitions over scored rows: one definition gives the metric, its interval, and its test for two models.

A benchmark says what a row is worth; the rest is the same for all. In short::

    ACCURACY = MetricDef(name="accuracy", value="correct", form="both")
    BY_CATEGORY = Grouping(names=("animals", "tools"), mean_suffix="_macro")

    def measures(scores, samples):
        rows = ScoredRows.of(scores).where(task="mcq", setting="vlm").named(task="mcq", setting="vlm")
        return BY_CATEGORY.measures(ACCURACY, rows)

    with_intervals(estimates(measures(scores, samples)))              # one model
    compared(measures, scores_a, scores_b, samples)             # two models
"""
