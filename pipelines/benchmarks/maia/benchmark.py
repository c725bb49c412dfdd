"""MAIA: questions about short Italian clips, asked as a choice between two statements and as an open question.

Paper: Testa et al., "All-in-one: Understanding and Generation in Multimodal Reasoning with the MAIA Benchmark",
Findings of EMNLP 2025, arXiv 2502.16989. Data: github.com/Caput97/MAIA-Multimodal_AI_Assessment.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from models.messages import logprobs_from_text
from pipelines.benchmarks.base import PromptInput, packaged_definition
from pipelines.benchmarks.maia.answers import read_oevqa, read_verdict, read_verdict_as_authors, unimodal_choice
from pipelines.benchmarks.maia.facts import LEAVE_ONE_OUT
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
from pipelines.benchmarks.records import (
    JudgeRequest,
    Notice,
    Prompt,
    RawSample,
    Reading,
    Rejection,
    Row,
    SimilarityRequest,
    Source,
)
from pipelines.metrics.meteor import find_wordnet, meteor_italian, meteor_nltk
from pipelines.metrics.text import rouge_1, rouge_l


class _Maia:
    """Source, prompter and grader of MAIA."""

    def read(self, source: Source, _column_map: Mapping[str, str], /) -> Iterator[RawSample | Rejection | Notice]:
        """Read `*.json` and `videos/N.mp4`, in the folder itself or in `dataset/` below it; see `read_maia`."""
        return read_maia(source)

    def prompts(self, query: PromptInput, /) -> Iterator[Prompt]:
        """Yield eight pairs or one open question, the clip before the text; see `maia_prompts`."""
        return maia_prompts(query)

    def read_answer(self, row: Row) -> Reading:
        return _read_vsv(row) if row.task == "vsv" else _read_oevqa(row)

    def expected(self, row: Row) -> Sequence[str]:
        """Return the letter of the true statement, without letters the statement, or the annotators' answers."""
        if row.task == "oevqa":
            return tuple(row.sample.data["answers"])
        index = int(row.variant)
        if row.setting == "unimodal":
            return (row.sample.data["true"][index],)
        return (true_letter(row.sample, index, row.seed),)

    def options(self, row: Row) -> Mapping[str, str]:
        """Return the two statements by letter; none of a task or setting without letters."""
        if row.task != "vsv" or row.setting == "unimodal":
            return {}
        return dict(zip("AB", statements(row.sample, int(row.variant), row.seed), strict=True))

    def similarity(self, row: Row) -> Sequence[SimilarityRequest]:
        if row.task != "oevqa" or row.status != "ok" or row.setting == LEAVE_ONE_OUT:
            return ()
        references = tuple(row.sample.data["answers"])
        return (
            SimilarityRequest(
                column="bertscore_f1", scorer="bertscore", candidate=read_oevqa(row.output), references=references
            ),
        )

    def judge_request(self, row: Row, texts: PromptTexts) -> JudgeRequest | bool | None:
        if row.task != "oevqa" or row.status != "ok":
            return None
        candidate = read_oevqa(row.output)
        sample = left_out(row.sample, row.variant) if row.setting == LEAVE_ONE_OUT else row.sample
        return judge_request(sample, candidate, texts) if candidate else False

    def read_verdict(self, text: str) -> bool | None:
        return read_verdict(text)


def _read_vsv(row: Row) -> Reading:
    if row.status != "ok":
        return Reading(answer=None, rule=row.status)
    if row.setting == "unimodal":
        return _read_scores(row)
    index = int(row.variant)
    letter = read_letter(row.output, *statements(row.sample, index, row.seed))
    true = true_letter(row.sample, index, row.seed)
    values = {
        "correct": float(letter.letter == true),
        "correct_authors": float(read_letter_as_authors(row.output) == true),
        "ts_at_a": float(true == "A"),
    }
    return Reading(answer=letter.letter, rule=letter.rule, values=values)


def _read_scores(row: Row) -> Reading:
    true = true_letter(row.sample, int(row.variant), row.seed)
    ts_at_a = {"ts_at_a": float(true == "A")}
    try:
        true_score, false_score = logprobs_from_text(row.output or "", 2)
        correct = unimodal_choice([true_score], [false_score])
    except ValueError:
        return Reading(answer=None, rule="no_logprobs", values={"correct": 0.0, **ts_at_a})
    letter = true if correct else {"A": "B", "B": "A"}[true]
    values = {"correct": float(correct), **ts_at_a, "true_logprob": true_score, "false_logprob": false_score}
    return Reading(answer=letter, rule="logprob", values=values)


def _read_oevqa(row: Row) -> Reading:
    if row.status != "ok":
        return Reading(answer=None, rule=row.status)
    text = read_oevqa(row.output)
    sample = left_out(row.sample, row.variant) if row.setting == LEAVE_ONE_OUT else row.sample
    references = [list(sample.data["answers"])]
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


BENCHMARK: Final = packaged_definition(
    __package__,
    _Maia(),
    prompt_texts=PROMPT_TEXTS,
    prompt_sets={"plain": {"oevqa-it-v1": "oevqa-it-v1-plain"}, "authors": AUTHORS_SET},
)
