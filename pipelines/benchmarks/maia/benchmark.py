"""MAIA: questions about short Italian clips, asked as a choice between two statements and as an open question.

Paper: Testa et al., "All-in-one: Understanding and Generation in Multimodal Reasoning with the MAIA Benchmark",
Findings of EMNLP 2025, arXiv 2502.16989. Data: github.com/Caput97/MAIA-Multimodal_AI_Assessment.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from models.messages import logprobs_from_text
from pipelines.benchmarks.base import BenchmarkDefinition, Ensemble, Judge, lazy
from pipelines.benchmarks.maia.answers import read_oevqa, read_verdict, read_verdict_as_authors, unimodal_choice
from pipelines.benchmarks.maia.facts import BLACK_FRAME, FULL, LEAVE_ONE_OUT
from pipelines.benchmarks.maia.letters import read_letter, read_letter_as_authors
from pipelines.benchmarks.maia.prompts import (
    AUTHORS_SET,
    PROMPT_TEXTS,
    judge_request,
    left_out,
    maia_prompts,
    statements,
    true_letter,
)
from pipelines.benchmarks.maia.source import read_maia
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeRequest, Publication, Reading, Row, Sample, SimilarityRequest
from pipelines.metrics.meteor import find_wordnet, meteor_italian, meteor_nltk
from pipelines.metrics.text import rouge_1, rouge_l


def _expected(row: Row) -> Sequence[str]:
    """Return the letter of the true statement, without letters the statement, or the annotators' answers."""
    if row.task == "oevqa":
        return tuple(row.sample.data["answers"])
    index, is_bare = int(row.variant), row.setting == "unimodal"
    return (row.sample.data["true"][index] if is_bare else true_letter(row.sample, index, row.seed),)


def _options(row: Row) -> Mapping[str, str]:
    """Return the two statements by letter; none of a task or setting without letters."""
    has_letters = row.task == "vsv" and row.setting != "unimodal"
    return dict(zip("AB", statements(row.sample, int(row.variant), row.seed), strict=True)) if has_letters else {}


def _judged_sample(row: Row) -> Sample:
    """Return the sample with the references that an open answer is compared with."""
    return left_out(row.sample, row.variant) if row.setting == LEAVE_ONE_OUT else row.sample


def _similarity(row: Row) -> Sequence[SimilarityRequest]:
    if row.task != "oevqa" or row.status != "ok" or row.setting == LEAVE_ONE_OUT:
        return ()
    text, references = read_oevqa(row.output), tuple(row.sample.data["answers"])
    return (SimilarityRequest(column="bertscore_f1", scorer="bertscore", candidate=text, references=references),)


def _ask_judge(row: Row, texts: PromptTexts) -> JudgeRequest | bool | None:
    if row.task != "oevqa" or row.status != "ok":
        return None
    candidate = read_oevqa(row.output)
    return judge_request(_judged_sample(row), candidate, texts) if candidate else False


def _read_vsv(row: Row) -> Reading:
    index = int(row.variant)
    true = true_letter(row.sample, index, row.seed)
    ts_at_a = {"ts_at_a": float(true == "A")}
    if row.setting == "unimodal":
        return _read_scores(row.output or "", true, ts_at_a)
    letter = read_letter(row.output, *statements(row.sample, index, row.seed))
    values = {"correct": float(letter.letter == true)}
    values["correct_authors"] = float(read_letter_as_authors(row.output) == true)
    return Reading(answer=letter.letter, rule=letter.rule, values=values | ts_at_a)


def _read_scores(output: str, true: str, ts_at_a: Mapping[str, float]) -> Reading:
    try:
        true_score, false_score = logprobs_from_text(output, 2)
        correct = unimodal_choice([true_score], [false_score])
    except ValueError:
        return Reading(answer=None, rule="no_logprobs", values={"correct": 0.0, **ts_at_a})
    values = {"correct": float(correct), **ts_at_a, "true_logprob": true_score, "false_logprob": false_score}
    return Reading(answer=true if correct else {"A": "B", "B": "A"}[true], rule="logprob", values=values)


def _read_oevqa(row: Row) -> Reading:
    text, references = read_oevqa(row.output), [list(_judged_sample(row).data["answers"])]
    values = {
        "rouge": rouge_l([text], references)[0],
        "meteor": meteor_italian([text], references)[0],
        "rouge1": rouge_1([text], references)[0],
    }
    if wordnet := find_wordnet():
        values["meteor_wordnet"] = meteor_nltk([text], references, wordnet=wordnet)[0]
    if "bertscore_f1" in row.given:
        values["bertscore"] = row.given["bertscore_f1"]
    flags = ["truncated"] if row.finish_reason == "length" else []
    if row.verdict.state == "ok":
        values["accepted"] = float(bool(row.verdict.accepted))
        if row.verdict.reply and "{" not in row.verdict.reply:  # the authors' judge replies with a label
            values["accepted_authors"] = float(read_verdict_as_authors(row.verdict.reply))
    elif row.verdict.state == "invalid":
        values["accepted"] = 0.0
        flags.append("judge_error")
    return Reading(answer=text, rule="text" if text else "empty", flags=tuple(flags), values=values)


BENCHMARK: Final = BenchmarkDefinition(
    name="maia",
    version="2",
    title="MAIA",
    citation="arXiv 2502.16989; github.com/Caput97/MAIA-Multimodal_AI_Assessment",
    tasks={
        "vsv": ("black-video", BLACK_FRAME, "1-frame", FULL, "unimodal"),
        "oevqa": ("black-video", BLACK_FRAME, "1-frame", FULL, LEAVE_ONE_OUT),
    },
    explicit_settings=("unimodal", BLACK_FRAME),
    people_settings=(LEAVE_ONE_OUT,),
    derived_tasks={"aggregate": ("vsv", "oevqa")},
    headline="agg_acc",
    headline_at=("aggregate", FULL),
    measure="Share of questions about clips of which a model judges all eight statement pairs rightly and whose open"
    " answer is accepted too, in one setting. Higher is better.",
    secondary_metrics=("statement_accuracy", "pool_accuracy", "oevqa_accuracy"),
    descriptive_values=("ts_at_a", "true_logprob", "false_logprob"),
    default_scorers={"bertscore": "bert-base-multilingual-cased:9"},
    publication=Publication(
        settings={"": FULL},  # Table 4 names none
        requests={"vsv": 19200, "oevqa": 2400},
        paper_prompts=("vsv-unimodal-v1",),  # bare statements; the paper's words are not published
        joint={"best of 5 text models": "Unimodal"},
        judges={("oevqa", "oevqa_accuracy"): "gpt-4o", ("aggregate", "agg_acc"): "gpt-4o"},
        same_settings={"black-video": (BLACK_FRAME,)},
        metrics={"rouge": "rouge1", "bleu": "bleu_shortest", "meteor": "meteor_wordnet", "cider": "cider_ptb"},
        scorers={"bertscore": ("bertscore",)},
    ),
    prompt_texts=PROMPT_TEXTS,
    prompt_sets={"plain": {"oevqa-it-v1": "oevqa-it-v1-plain"}, "authors": AUTHORS_SET},
    source=lambda source, _column_map: read_maia(source),
    prompts=maia_prompts,
    read=lambda row: _read_vsv(row) if row.task == "vsv" else _read_oevqa(row),
    judge=Judge(
        ask=_ask_judge,
        read=read_verdict,
        tasks=("oevqa",),
        metrics=("oevqa_accuracy", "agg_acc", "human_leave_one_out"),
    ),
    ensemble=Ensemble(metrics=lazy(__package__, "metrics.reduce_unimodal"), settings=("unimodal",)),
    similarity=_similarity,
    expected=_expected,
    options=_options,
    people=lazy(__package__, "people.MaiaHumanBaseline"),
    metrics=lazy(__package__, "metrics.reduce_scores"),
    measures=lazy(__package__, "metrics.paired_measures"),
    tables=lazy(__package__, "tables.make_tables"),
    figures=lazy(__package__, "tables.make_figures"),
    item_lists=lazy(__package__, "metrics.item_lists"),
)
