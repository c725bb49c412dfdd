"""Results for which the tables and figures of the five papers are recorded, and their description as text.

`python -m tests.support.golden_tables` records them anew in `tests/golden/tables`; read the difference then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeAlias

from pipelines.benchmarks import benchmark, code_benchmarks
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from tests.support import maia_rows, unpie_rows, vague_rows, vflute_rows
from tests.support.maia_rows import Question, every_column
from tests.support.paths import GOLDEN
from tests.support.vflute_rows import Scored, whole_split

FOLDER = GOLDEN / "tables"
ByModel: TypeAlias = Mapping[str, Sequence[Metric]]


def _larger(metrics: Sequence[Metric], times: int) -> list[Metric]:
    """Return metrics of so many times the rows, so that a few items pass for the whole set."""
    return [replace(metric, n=metric.n * times) for metric in metrics]


# -------------------------------------------------------------------------------------------------------------- vague


def _shaky(sample: Sample, task: str, setting: str) -> str:
    """Answer correctly, but superficially every fourth time and emptily every tenth."""
    number = int(sample.sample_id.rpartition("-")[2])
    if number % 10 == 0:
        return "I don't know."
    superficial = number % 4 == 1 and task == "mcq" and setting != "vlm"
    return str(sample.data["ordering"][2]) if superficial else vague_rows.perfect(sample, task, setting)


def _vague(*items: Any, say: Any = _shaky, human: int = 0, **how: Any) -> list[Metric]:
    subset = how.pop("name", "human-400")
    return vague_rows.reduced(vague_rows.items(*items, human=human, name=subset), say, **how)


# --------------------------------------------------------------------------------------------------------------- maia

_CAUSAL = Question(pairs="TTTTTTTT", judged="accepted", category="Causal", video="video1", name="CausaleEsplicita_A")
_SENTIMENT = Question(pairs="TTTTTTFF", judged="rejected", category="Sentiment", video="video2", name="Sentiment_A")
_GAINS = [
    *(_CAUSAL, _SENTIMENT),
    *(replace(_CAUSAL, setting="1-frame", pairs="TTTTFFFF"), replace(_SENTIMENT, setting="1-frame", pairs="TTTTTTTT")),
    *(replace(q, setting="black-video", pairs="FFFFFFFF", judged="rejected") for q in (_CAUSAL, _SENTIMENT)),
]


def _every_setting(**how: Any) -> list[Question]:
    settings = ("black-video", "1-frame", "32-frames")
    return [replace(question, setting=setting) for setting in settings for question in every_column(**how)]


def _with_gap() -> list[Question]:
    first, *others = _every_setting(judged="absent")
    return [replace(first, pairs="MTTTTTTT"), *others]


def _contradictory() -> list[Metric]:
    questions = every_column(videos=1)
    samples = maia_rows.samples(questions)
    first = questions[0].sample_id
    samples[first] = replace(samples[first], data={**samples[first].data, "false": ["vera 0"] * 8})
    return benchmark("maia").metrics(maia_rows.frame(questions), samples)


def _varied() -> list[Question]:
    return [
        replace(question, pairs="T" * 8 if index % 5 else "TTTTFFFF", judged="rejected" if index % 4 else "accepted")
        for index, question in enumerate(_every_setting(videos=3))
    ]


# ------------------------------------------------------------------------------------------------------------- vflute


def _vflute(rows: Sequence[Scored]) -> list[Metric]:
    return benchmark("vflute").metrics(vflute_rows.frame(rows), vflute_rows.samples(rows))


@cache
def _whole_sweep() -> list[Metric]:
    rows = whole_split(
        label=lambda gold, index: gold if index % 4 else 1 - gold, es=lambda _, index: 0.4 + index / 2000
    )
    settings = ("zero-shot", "5-shot", "10-shot", "scene-graph", "no-image", "label-only")
    return _vflute([replace(row, setting=setting) for setting in settings for row in rows])


# --------------------------------------------------------------------------------------------------------------- mate


def _mate(
    task: str, value: float | None, setting: str = "2-shot", category: str = "", name: str = "exact_match"
) -> Metric:
    n, low, high = (100, max(0.0, value - 0.1), min(1.0, value + 0.1)) if value is not None else (0, None, None)
    return Metric(
        task=task, setting=setting, category=category, metric=name, value=value, n=n, ci_low=low, ci_high=high
    )


def _links(count: int) -> list[Metric]:
    names = ("links=1", "links=2", "links=3", "3D coords only")
    return [_mate("crossmodal", 0.5, category=f"{name} @{count} objects") for name in names]


_MATE = [
    *(_mate(task, value) for task, value in (("img2txt", 0.6), ("txt2img", 0.7), ("crossmodal", 0.65))),
    *(
        _mate(task, value, name="chance")
        for task, value in (("img2txt", 0.25), ("txt2img", 0.19), ("crossmodal", 0.22))
    ),
    *(_mate(task, 0.9) for task in ("img2img", "txt2txt", "unimodal")),
    *(_mate("crossmodal", value, category=f"{n} objects") for n, value in ((3, 0.9), (10, 0.4))),
    *(_mate("crossmodal", value, "2-shot-cot", f"{n} objects") for n, value in ((3, 0.8), (10, 0.7))),
    *(_mate("crossmodal", value, "2-shot-cot", name, "cot_delta") for name, value in (("", 0.1), ("10 objects", 0.3))),
    *(_mate("crossmodal", value, category=name) for name, value in (("Material+Size", 0.5), ("3D coords only", 0.3))),
    *(_mate("txt2img", value, category=name) for name, value in (("Shape", 0.8), ("shot_shows_target=true", 0.9))),
    *(_mate("img2txt", 0.4, category=name) for name in ("pointer=Color", "pointer=Color target=Name")),
    *(_mate("img2txt", 0.6, name=name) for name in ("exact_match_lenient", "format_ok", "exact_match_failures_wrong")),
    *(
        _mate("crossmodal", value, category=f"overlap={label}", name="share")
        for label, value in zip("43210-", (0.5, 0.3, 0.1, 0.05, 0.0, 0.05), strict=True)
    ),
    *(_mate("img2txt", 0.55, "0-shot"), _mate("txt2img", 0.6, "1-shot"), _mate("crossmodal", 0.04, name="ose")),
    _mate("crossmodal", 0.63, category="3D coords only", name="pct_correct_given_noncoord_match"),
    *_links(7),
]
_GENERATED = Metric(task="", setting="", metric="generated", value=5.0, n=5, unit="count")

# -------------------------------------------------------------------------------------------------------------- unpie


def _unpie(count: int, *, lost: int = 0, full: bool = True, scored: bool = True) -> list[Metric]:
    """Reduce all requests; the first `lost` puns of each kind have no pictures."""
    samples = unpie_rows.samples(count)

    def say(setting: str, how: Mapping[str, Any]) -> Any:
        lacks = {"status": "excluded", "output": None}
        return lambda pun, _: how if setting == "lm" or int(pun.sample_id[-4:]) >= lost else lacks

    rows: list[dict[str, Any]] = []
    for setting in ("lm", "sm", "vlm"):
        judged = {"output": "A pun.", "verdict": unpie_rows.judged(setting != "lm")}
        phrase = {"output": "bread" if setting == "lm" else "kneaded"}
        translated = unpie_rows.similar(0.91, 0.89) if scored else {"output": "Ein Satz."}
        rows += unpie_rows.cell(samples, "grounding", setting, say(setting, phrase))
        rows += unpie_rows.cell(samples, "reconstruction", setting, say(setting, judged))
        rows += unpie_rows.cell(samples, "disambiguation", setting, say(setting, translated)) if setting != "lm" else []
    metrics = unpie_rows.reduced(rows, samples)
    return [replace(m, n=6000) if full and m.metric == "coverage" else m for m in metrics]


_NO_WORDNET = Metric(
    task="reconstruction", setting="vlm", subset="Fr-En", category="Homo", metric="meteor_nowordnet", value=0.5, n=3
)

CASES: Mapping[str, Mapping[str, Callable[[], ByModel]]] = {
    "vague": {
        "two models": lambda: {
            "ours": _vague(20, 10, human=12, name="human-400-approx"),
            "second": _vague(20, 10, say=vague_rows.perfect),
        },
        "listed human items": lambda: {"ours": _vague(20, 10, human=12)},
        "two actions": lambda: {"ours": _vague(2, say=vague_rows.perfect, cells=[("mcq", "vlm")])},
    },
    "maia": {
        "two models": lambda: {name: maia_rows.reduced(_every_setting()) for name in ("model-a", "model-b")},
        "whole set": lambda: {"model": _larger(maia_rows.reduced(every_column()), 100)},
        "no judge, one gap": lambda: {"model": maia_rows.reduced(_with_gap())},
        "varied answers": lambda: {name: maia_rows.reduced(_varied()) for name in "ab"},
        "contradictory pools": lambda: {"m": _contradictory()},
        "text models": lambda: {"m": maia_rows.reduced(every_column(setting="unimodal", judged=""))},
        "gains": lambda: {"m": maia_rows.reduced(_GAINS)},
        "names": lambda: {
            name: maia_rows.reduced([_CAUSAL])
            for name in ("Org/Model 7B", "org-model-7b", "模型", "x" * 90, "x" * 91, "-")
        },
    },
    "vflute": {
        "two models": lambda: dict.fromkeys(("model-a", "model-b"), _whole_sweep()),
        "two rows": lambda: {"m": _vflute([Scored(), Scored(gold=0, label=0)])},
        "no scorer": lambda: {"m": _vflute(whole_split(es=None))},
        "tests against people": lambda: {
            "m": [
                Metric(task="entailment", setting="5-shot", metric=name, value=value, n=21)
                for name, value in (("p_ann_is_better", 0.0123), ("p_is_better", 0.5), ("accuracy", 0.5))
            ]
        },
    },
    "mate": {
        "one model": lambda: {"ours": _MATE},
        "generated scenes": lambda: {"ours": [*_MATE, _GENERATED]},
        "another setting": lambda: {"ours": [_mate("img2txt", 0.5, "0-shot")]},
        "seven objects": lambda: {"ours": [*_MATE, _mate("crossmodal", 0.5, category="7 objects")]},
        "twelve objects": lambda: {"ours": [_mate("crossmodal", 0.5, category="12 objects"), *_links(12)]},
        "runs": lambda: {"ours": _MATE, "random, mean of 10 runs": _MATE},
    },
    "unpie": {
        "two models": lambda: dict.fromkeys(("model-a", "model-b"), _unpie(3)),
        "low coverage": lambda: {"model": _unpie(50, lost=2)},
        "subset": lambda: {"model": _unpie(3, full=False)},
        "no scorer": lambda: {"model": _unpie(3, scored=False)},
        "no WordNet": lambda: {"m": [_NO_WORDNET]},
    },
}
"""Benchmark -> name of the results -> metrics by model."""


def described(name: str) -> str:
    """Return all tables and figures of a benchmark, without results and with those of each case, as text.

    What an earlier case has too is left out.
    """
    definition, published = benchmark(name), load_published(name)
    seen: set[str] = set()
    lines: list[str] = []
    for case, metrics in {"nothing measured": dict, **CASES[name]}.items():
        results = Results.of(name, metrics(), published)
        lines += ["", f"#### {case}"]
        for part in (*definition.tables(results), *definition.figures(results)):
            text = "\n".join(_table(part) if isinstance(part, Table) else _figure(part))
            lines += [f"{part.id}: as before"] if text in seen else ["", text]
            seen.add(text)
    return "\n".join(lines).strip() + "\n"


def _table(table: Table) -> list[str]:
    shown = ("label_head", "style", "styles", "groups", "better", "best_of", "second", "heat", "caption")
    layout = [f"{name}={getattr(table, name)}" for name in shown if getattr(table, name)]
    rows = [f"{row.origin}{' baseline' * row.baseline}: {row.label} | {_cells(row)}" for row in table.rows]
    notes = [f"note: {note}" for note in table.notes]
    return [f"## {table.id}: {table.title}", ", ".join(layout), " | ".join(table.columns), *rows, *notes]


def _cells(row: TableRow) -> str:
    note = f" ({row.note})" if row.note else ""
    return " | ".join(_shown(cell) for cell in row.cells) + note


def _shown(value: Any) -> str:
    if isinstance(value, TableValue):
        given = {field.name: getattr(value, field.name) for field in fields(value)[1:]}
        more = [f"{name}={_shown(given[name])}" for name in given if given[name] not in (None, "", False)]
        return " ".join([_shown(value.value), *more])
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _figure(figure: Figure) -> list[str]:
    parts = {field.name: getattr(figure, field.name) for field in fields(figure)}
    series = parts.pop("series", ()) or parts.pop("clouds")
    lines = [
        ", ".join(f"{field.name}={_shown(getattr(line, field.name))}" for field in fields(line)) for line in series
    ]
    return [f"## {figure.id}: {type(figure).__name__}", *(f"{n}={_shown(parts[n])}" for n in parts if parts[n]), *lines]


def _record() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in code_benchmarks():
        (FOLDER / f"{name}.txt").write_text(described(name), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(_record())
