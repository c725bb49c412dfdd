"""V-FLUTE's tables and figures in the layout of the paper (NAACL 2025, arXiv 2405.01474), ours with the published ones.

Tables beyond the paper's follow: by subset, both parsers, by instruction, labels alone, and tests. Figures 6,
8, 9 and 11 are of our numbers; the paper prints none of those behind its own.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from statistics import mean, stdev
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Lines, Series
from pipelines.benchmarks.human import SAME_ITEMS, human_metric
from pipelines.benchmarks.layout import EACH_SETTING, Rows, Shown, TableDef, View, curves, value_of
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results, section, with_interval, with_our_rows, without_interval
from pipelines.benchmarks.tables import Origin, Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vflute.facts import (
    EXPLAINED,
    FACTS,
    GROUPS,
    HUMAN,
    LENGTH_BINS,
    SETTINGS,
    SUBSETS,
    TASK,
    TUNED_FOR,
    ModelSetting,
    entry_label,
    f1_curve,
    our_entries,
    published_entries,
    subset_notes,
)
from pipelines.benchmarks.vflute.people import RATES, predictor_table, rates_table

_F1: Final = tuple(map(Key, ("f1_at_0", "f1_at_53", "f1_at_60")))
_JUDGED_ITEMS: Final = ("95 test instances", "")
_JUDGEMENTS: Final = ("adequacy judgements", "")
_PREDICTOR: Final = ("pr_auc", "average_precision", "max_f1", "threshold_at_max_f1", "threshold_balanced")
_BY_TEMPLATE: Final = ("accuracy_by_template", "f1_at_0_by_template")
_PERSON: Final = re.compile(r"p_(?P<person>.+)_is_better")
_ALL_SETTINGS: Final = [Key("", TASK, setting) for setting in SETTINGS]


def make_tables(results: Results) -> list[Table]:
    """Lay out the paper's tables, then others, three of them only with a row of ours."""
    results = results.without_people()
    first = (_SOURCES, _SPLITS, _TABLE_4)
    appendices = (
        _appendix_table(17, "InstructBLIP-7B, zero-shot and with scene graph"),
        _appendix_table(18, "GPT-4o, zero-shot and 5-shot"),
    )
    return [
        *(table.lay_out(results) for table in first),
        *_study_tables(results),
        _human_table(results),
        *(table.lay_out(results) for table in appendices),
        *with_our_rows(table.lay_out(results) for table in (_BY_SUBSET, _PARSING, _TEMPLATES)),
        *(table.lay_out(results) for table in (_LABEL_ONLY, _SIGNIFICANCE)),
    ]


def _with_ends(number: TableValue | None) -> TableCell:
    if number is None or number.value is None:
        return without_interval(number)
    return TableValue(value=number.value, low=number.low, high=number.high)


def _p_cell(number: TableValue | None) -> TableCell:
    if number is None or number.value is None:
        return number and TableValue(value=None, note=number.note)
    return f"{number.value:.4f}"


def _sources(results: Results) -> Iterator[TableRow]:
    for subset in SUBSETS:
        entailment, size = _gold_counts(results, subset.name)
        facts = (subset.category, subset.source, subset.style, subset.figurative)
        printed = _printed_sizes(("instances", "entailment", "contradiction"), subset.name)
        ours: tuple[TableCell, ...] = (None, None) if entailment is None else (entailment, size - entailment)
        yield TableRow(label=subset.name, cells=(*facts, *printed, *ours), origin="published", baseline=True)


def _splits(results: Results) -> Iterator[TableRow]:
    for name in (*(subset.name for subset in SUBSETS), "Total"):
        entailment, size = _gold_counts(results, "" if name == "Total" else name)
        cells = (*_printed_sizes(("train", "valid", "test"), name), None if entailment is None else size)
        yield TableRow(label=name, cells=cells, origin="published", baseline=True)


_SOURCES: Final = TableDef(
    id="vflute_table1",
    title="V-FLUTE Table 1: sources of the items",
    label_head="Subset",
    columns=dict.fromkeys(["Phenomenon", "Source", "Style", "Figurative part", "Items", "E", "C", "E here", "C here"]),
    rows=[_sources],
    notes=["E entailment, C contradiction; `here` counts the test rows of this report."],
)
_SPLITS: Final = TableDef(
    id="vflute_table3",
    title="V-FLUTE Table 3: sizes of the splits",
    label_head="Subset",
    columns=dict.fromkeys(["Train", "Validation", "Test", "Test, here"]),
    rows=[_splits],
)


def _printed_sizes(kinds: Sequence[str], name: str) -> tuple[int, ...]:
    """Return sizes of a subset as the paper prints them; what it leaves out is 0."""
    facts = load_dataset_facts("vflute")
    return tuple(int(facts[f"{kind}/{name}"] or 0) for kind in kinds)


def _gold_counts(results: Results, subset: str) -> tuple[int | None, int]:
    """Return entailment rows and all rows of a subset, of our model and setting with most of them."""
    group = next(group for group in GROUPS if group[0] == subset)
    numbers = (results.find(entry.key("gold_entailment", group)) for entry in our_entries(results))
    largest = max((number for number in numbers if number is not None), key=lambda number: number.n or 0, default=None)
    return (None, 0) if largest is None else (int(largest.value or 0), largest.n or 0)


def _notes(view: View) -> str:
    numbers = (view.find(key) for key in _F1)
    return "; ".join(dict.fromkeys(number.note for number in numbers if number is not None and number.note))


def _published_f1(table: str, heading: str = "", models: Collection[str] = ()) -> Rows:
    return Rows(
        heading,
        [Key("", TASK, EACH_SETTING)],
        sources=["published"],
        table=table,
        models=models,
        label=entry_label,
        note=_notes,
        columns=_F1,
        show=value_of,
    )


def _scored_table(number: int, title: str, rows: Sequence[Rows]) -> TableDef:
    return TableDef(
        id=f"vflute_table{number}",
        title=f"V-FLUTE Table {number}: {title}",
        columns={"F1@0": Shown(Key("f1_at_0"), _with_ends), "F1@53": Key("f1_at_53"), "F1@60": Key("f1_at_60")},
        rows=rows,
        style="percent2",
        second="block",
        better="higher",
        notes=[
            "F1@k counts an answer as right only where its explanation scores above k; percent.",
            "SG: with a scene graph of the model's own. \N{MINUS SIGN} Image: a white square in place of the picture.",
            "Ours with the 95% interval of F1@0 over pictures.",
        ],
        coverage=subset_notes,
    )


_TABLE_4: Final = _scored_table(
    4,
    "labels with explanations",
    [
        *(_published_f1("Table 4", heading, models) for heading, models in FACTS["models"].items()),
        Rows("This sweep", [Key("", TASK, setting) for setting in EXPLAINED], label=entry_label),
    ],
)


def _appendix_table(number: int, title: str) -> TableDef:
    """Return Table 17 or 18: another published model, in two settings, with ours in the same ones."""
    table = f"Table {number}"

    def is_printed(view: View) -> bool:
        return any(key.setting == view.key.setting for key in view.results.index("published", table))

    ours = Rows("This sweep, in these settings", _ALL_SETTINGS, label=entry_label, where=is_printed)
    return _scored_table(number, title, [_published_f1(table), ours])


def _study_tables(results: Results) -> list[Table]:
    """Lay out Table 6 and section 5.3 as printed."""
    systems = published_entries(results, "Table 6")
    rates = tuple(
        TableRow(
            label=head,
            cells=tuple(_published(results, system, metric, _JUDGED_ITEMS) for system in systems),
            origin="published",
        )
        for metric, head in RATES.items()
    )
    kappa = results.value(HUMAN.key("cohen_kappa", _JUDGED_ITEMS), "published")
    notes = () if kappa is None else (f"Cohen's kappa of the two annotators: {kappa:.2f}.",)
    score = ModelSetting("ExplanationScore", "")
    cells = tuple(_published(results, score, metric, _JUDGEMENTS) for metric in _PREDICTOR)
    return [
        rates_table(tuple(system.label for system in systems), rates, notes),
        predictor_table(TableRow(label="Published", cells=cells, origin="published")),
    ]


def _published(results: Results, entry: ModelSetting, metric: str, group: tuple[str, str]) -> TableCell:
    return without_interval(results.find(entry.key(metric, group), "published"))


def _on_peoples_rows(entry: ModelSetting, metric: str, group: tuple[str, str]) -> Key:
    return entry.key(metric, (SAME_ITEMS, group[0]))


def _human_table(results: Results) -> Table:
    """Lay out Table 7: people and models by subset; of ours each model in its first setting, on people's rows too."""
    published = [entry for entry in published_entries(results, "Table 7") if entry.setting]
    ours: dict[str, ModelSetting] = {}
    for entry in our_entries(results, *EXPLAINED):
        ours.setdefault(entry.model, entry)
    on_same = [
        entry for entry in ours.values() if results.find(_on_peoples_rows(entry, "f1_at_0", GROUPS[-1])) is not None
    ]
    compared = [(entry, human_metric("f1_at_0")) for entry in on_same[:1]] + [(entry, "f1_at_0") for entry in on_same]
    rows = []
    for group in GROUPS:
        cells = [_published(results, entry, "f1_at_0", group) for entry in (HUMAN, *published)]
        numbers = [results.find(entry.key("f1_at_0", group)) for entry in ours.values()]
        cells += map(without_interval, numbers)
        cells += (without_interval(results.find(_on_peoples_rows(entry, metric, group))) for entry, metric in compared)
        measured = any(number is not None and number.value is not None for number in numbers)
        origin: Origin = "ours" if measured else "published"
        rows.append(TableRow(label=group[0] or "Overall", cells=tuple(cells), origin=origin))
    labels = (
        *(f"{entry.label} (published)" for entry in published),
        *(entry.label for entry in ours.values()),
        *(["People, own rows"] if on_same else []),
        *(f"{entry.label}, people's rows" for entry in on_same),
    )
    return Table(
        id="vflute_table7",
        title="V-FLUTE Table 7: F1@0 of people and models",
        label_head="Subset",
        columns=("Human (published)", *labels),
        rows=tuple(rows),
        style="percent2",
        notes=(
            "The published columns are of 99 test rows whose ids are not known; ours are of all rows here.",
            *(["People's rows: those that the people of the files labelled; means over people."] if on_same else []),
            "NYCartoons has no contradiction: there a single wrong answer halves macro F1.",
            *subset_notes(results),
        ),
    )


_BY_SUBSET: Final = TableDef(
    id="vflute_subsets",
    title="V-FLUTE: F1, accuracy and reading by subset",
    label_head="Subset",
    columns={
        "Random": Key("chance_f1_at_0"),
        "All E": Key("all_entailment_f1_at_0"),
        "F1@0": Key("f1_at_0"),
        "F1@53": Key("f1_at_53"),
        "F1@60": Key("f1_at_60"),
        "Accuracy": Key("accuracy"),
        "No label": Key("none_rate"),
        "No explanation": Key("empty_explanation_rate"),
        "Readings differ": Key("parser_disagreement"),
    },
    rows=[
        Rows(
            keys=_ALL_SETTINGS,
            label=entry_label,
            parts={subset or "Overall": Key(subset=subset, category=category) for subset, category in GROUPS},
        )
    ],
    style="percent1",
    notes=[
        "Random: the expected F1@0 of a fair coin on these rows. All E: F1@0 of always entailment.",
        "NYCartoons has no contradiction: there a single wrong answer halves macro F1; read accuracy.",
    ],
    coverage=subset_notes,
)
_PARSING: Final = TableDef(
    id="vflute_reading",
    title="V-FLUTE: parsing of answers",
    columns={
        "F1 of labels": Key("label_f1"),
        "F1@0, second": Key("f1_at_0_robust"),
        "F1@53, second": Key("f1_at_53_robust"),
        "F1@60, second": Key("f1_at_60_robust"),
        "Readings differ": Key("parser_disagreement"),
        "No label": Key("none_rate"),
        "No explanation": Key("empty_explanation_rate"),
        "Cut off": Key("truncated_count"),
        "Failed": Key("errors"),
        "Label in caption": Key("leaking_captions"),
    },
    rows=[Rows(keys=_ALL_SETTINGS, label=entry_label)],
    style="percent1",
    notes=[
        "The first parser is that of the authors' script, oddities included; all other tables use it.",
        "The second handles negation and other markers. Shares are of answered rows.",
    ],
)
_LABEL_ONLY: Final = TableDef(
    id="vflute_appendix_j",
    title="V-FLUTE appendix J: labels alone, and labels with explanations",
    columns={
        "Label only": Key("f1_at_0", setting="label-only"),
        "Label and explanation": Key("label_f1", setting="zero-shot"),
        "p": Shown(Key("p_better_than_label-only", setting="zero-shot"), _p_cell),
    },
    rows=[
        Rows(
            keys=[Key("f1_at_0", TASK)],
            sources=["published"],
            table="Appendix J",
            columns=[*(Key(setting=setting) for setting in TUNED_FOR), lambda _view: "< 0.1"],
        ),
        Rows(keys=[Key("", TASK)], where=lambda view: view.find(Key("f1_at_0", setting="label-only")) is not None),
    ],
    style="percent2",
    notes=[
        "Macro F1 of labels. The paper fine-tunes on either; ours is one model with two prompts (zero-shot).",
        "p: one-sided test that the second has the higher F1@0.",
    ],
)


def _tests(results: Results) -> Iterator[TableRow]:
    for better, worse, p in FACTS["tests"]:
        origin: Origin = "human" if better.startswith("Human") else "published"
        yield TableRow(label=better, cells=(worse, p, None), origin=origin)
    for entry in our_entries(results):
        for setting in SETTINGS:
            number = results.find(entry.key(f"p_better_than_{setting}"))
            if number is not None:
                cells = (ModelSetting(entry.model, setting).label, _p_cell(number), number.n)
                yield TableRow(label=entry.label, cells=cells)
    for key, number in results.ours.items():
        if person := _PERSON.fullmatch(key.metric):
            cells = (ModelSetting(key.model, key.setting).label, _p_cell(number), number.n)
            yield TableRow(label=f"Person {person['person']}", cells=cells, origin="human")


_SIGNIFICANCE: Final = TableDef(
    id="vflute_significance",
    title="V-FLUTE: significance of differences",
    label_head="Better",
    columns=dict.fromkeys(["than", "p", "Rows"]),
    rows=[_tests],
    notes=["One-sided p of the paired bootstrap over rows, 10,000 resamples, of F1@0."],
)


def _by_template(results: Results) -> Iterator[TableRow]:
    """Yield accuracy and F1@0 by the instruction of the rows, with mean and spread over the instructions."""
    names = sorted({key.category for key in results.ours if key.metric in _BY_TEMPLATE})
    for entry in our_entries(results):
        measured = [(name, [results.find(entry.key(metric, ("", name))) for metric in _BY_TEMPLATE]) for name in names]
        block = [
            TableRow(label=name, cells=(numbers[0].n, *map(with_interval, numbers)))
            for name, numbers in measured
            if numbers[0] is not None
        ]
        columns = [
            [number.value for _, numbers in measured if (number := numbers[i])] for i in range(len(_BY_TEMPLATE))
        ]
        for label, statistic in (("Mean", mean), ("Standard deviation", stdev)):
            values = [column if None not in column and len(column) > 1 else [] for column in columns]
            cells = (statistic([value or 0.0 for value in column]) if column else None for column in values)
            block.append(TableRow(label=label, cells=(None, *cells)))
        yield from section(entry.label, block) if len(block) > 2 else []


_TEMPLATES: Final = TableDef(
    id="vflute_templates",
    title="V-FLUTE: results by instruction",
    label_head="Instruction",
    columns=dict.fromkeys(["Rows", "Accuracy of labels", "F1@0"]),
    rows=[_by_template],
    style="percent1",
    notes=[
        ("Percent; in brackets the 95% interval. The data assign an instruction to each row, so rows differ too."),
        "With `--prompt-version` all rows may be asked in other words; shown is the instruction of the data.",
        "Templates are numbered as in the paper's Table 8; another instruction is quoted.",
    ],
)


_DROPS: Final = (0, 1, 4, 5, 3, 2)  # subsets in the order of figure 6, as indices of `SUBSETS`
_PANELS: Final = (("a", 0), ("a", 1), ("b", 4), ("b", 5), ("c", 2), ("c", 3))
"""Figure 11: panel, and the subset's index in `SUBSETS`."""
_FIRST_THRESHOLD: Final = 40  # hundredths, where figure 11 begins


def make_figures(results: Results) -> list[Figure]:
    """Lay out figures 6, 8, 9 and 11."""
    return [*_drop_figure(results), *_length_figures(results), *_curve_figures(results)]


def _drop_figure(results: Results) -> Iterator[Figure]:
    groups = [(SUBSETS[index].name, SUBSETS[index].category) for index in _DROPS]
    lines = {
        entry.label: [entry.key("percent_drop", group) for group in groups]
        for entry in our_entries(results, *EXPLAINED)
    }
    if series := curves(results, lines, ends=False):
        yield Bars(
            id="vflute_figure6",
            title="V-FLUTE Figure 6: loss from F1@0 to F1@60",
            categories=tuple(name for name, _ in groups),
            series=series,
            y_label="Drop",
        )


def _length_figures(results: Results) -> Iterator[Figure]:
    """Yield figures 8 and 9: how long captions and explanations are, by source as the paper names it."""
    sources = {subset.name: subset.name.partition(" (")[0] for subset in SUBSETS}
    counts = {text: {source: [0] * bins for source in sources.values()} for text, (_, bins) in LENGTH_BINS.items()}
    for text in LENGTH_BINS:
        for subset, start, count in _length_counts(results, text):
            counts[text][sources[subset]][start // LENGTH_BINS[text][0]] += count
    for number, (text, (width, bins)) in zip((8, 9), LENGTH_BINS.items(), strict=True):
        if any(any(by_bin) for by_bin in counts[text].values()):
            yield Bars(
                id=f"vflute_figure{number}",
                title=f"V-FLUTE Figure {number}: length of {text}s by source",
                categories=(*(f"{i * width}" for i in range(bins - 1)), f"{(bins - 1) * width}+"),
                series=tuple(
                    Series(label=source, values=tuple(map(float, by_bin)))
                    for source, by_bin in counts[text].items()
                    if any(by_bin)
                ),
                x_label="Characters",
                y_label="Test rows",
                stacked=True,
                percent=False,
                notes=(f"Characters; each bar holds {width} lengths, starting at its label.",),
            )


def _length_counts(results: Results, text: str) -> Iterator[tuple[str, int, int]]:
    """Yield subset, first length and count of each bin, of one model: the data are the same for all."""
    prefix = f"{text}_chars_from_"
    lengths = {key: number for key, number in results.ours.items() if key.metric.startswith(prefix)}
    first_model = min((key.model for key in lengths), default="")
    for key, number in lengths.items():
        if key.model == first_model:
            yield key.subset, int(key.metric.removeprefix(prefix)), int(number.value or 0)


def _curve_figures(results: Results) -> Iterator[Figure]:
    """Yield figure 11: a curve a model and setting, a figure a subset."""
    thresholds = range(_FIRST_THRESHOLD, 101)
    for panel, index in _PANELS:
        subset = SUBSETS[index]
        series = [
            Series(label=entry.label, values=tuple(values[k] for k in thresholds))
            for entry in our_entries(results, *EXPLAINED)
            if (values := f1_curve(results, entry, (subset.name, subset.category)))
        ]
        if series:
            slug = "".join(c if c.isalnum() else "-" for c in subset.name.lower()).strip("-").replace("--", "-")
            yield Lines(
                id=f"vflute_figure11{panel}_{slug}",
                title=f"V-FLUTE Figure 11{panel}: F1 by threshold, {subset.name}",
                x=tuple(k / 100 for k in thresholds),
                series=tuple(series),
                x_label="Threshold of the explanation's score",
                y_label="F1",
                percent=True,
                y_range=(0.0, 1.0),
            )
