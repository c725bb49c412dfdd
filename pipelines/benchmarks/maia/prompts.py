"""Build MAIA's prompts and the questions to its judge."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from models.messages import Generation, Media, Step, Text, Turn, blank, user
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.maia.facts import BLACK_FRAME, LEAVE_ONE_OUT, POOL_SIZE
from pipelines.benchmarks.maia.letters import draw_ts_letter
from pipelines.benchmarks.prompt_templates import PromptTexts, load_texts
from pipelines.benchmarks.records import JudgeRequest, Prompt, Sample
from pipelines.errors import DatasetError

BLACK_CLIP: Final = blank("000000", 640, 360, frames=32, seconds=30)  # one media group

PROMPT_TEXTS: Final[Mapping[str, str]] = load_texts(__package__)
AUTHORS_SET: Final[Mapping[str, str]] = {
    name: f"{name}-authors" for name in ("vsv-it-v1", "oevqa-it-v1", "judge-it-v1")
}
_JUDGE_AUTHORS_SYSTEM: Final = (
    "You assess whether a candidate answer to a question is right, given eight reference answers. It is right if it "
    "agrees with at least one of them. Reply with exactly one label: Correct or Incorrect."
)
_UNIMODAL_VERSION: Final = "vsv-unimodal-v1"  # prompt version of bare statements, which have no wording
_VSV_GENERATION: Final = Generation(max_new_tokens=16)  # greedy, for a letter
_OEVQA_GENERATION: Final = Generation(max_new_tokens=128)  # greedy, for an answer
_JUDGE_GENERATION: Final = Generation(max_new_tokens=64)
_JUDGE_AUTHORS_GENERATION: Final = Generation(max_new_tokens=4)
_MAX_CANDIDATE_CHARS: Final = 2000  # characters of an answer that the judge gets


def maia_prompts(query: PromptInput) -> Iterator[Prompt]:
    """Yield eight pairs or one open question; `unimodal`: the bare statements of each pair, for log-probabilities."""
    sample, texts = query.sample, query.texts
    if query.setting == "unimodal":
        for index in range(POOL_SIZE):
            pair = (sample.data["true"][index], sample.data["false"][index])
            yield Prompt(variant=str(index), version=_UNIMODAL_VERSION, steps=(Step(turns=(), scored=pair),))
        return
    if query.setting == LEAVE_ONE_OUT:
        for index in range(POOL_SIZE):  # so that plans name the answers; none is ever sent
            step = Step(turns=(user(sample.data["question"]),))
            yield Prompt(variant=str(index), version=LEAVE_ONE_OUT, steps=(step,))
        return
    clip = _clip(sample, query.setting)
    if query.task == "oevqa":
        prompt = texts.fill("oevqa-it-v1", question=sample.data["question"])
        step = Step(turns=(user(clip, prompt),), generation=_OEVQA_GENERATION)
        yield Prompt(version=texts.version("oevqa-it-v1"), steps=(step,))
        return
    for index in range(POOL_SIZE):
        first, second = statements(sample, index, query.seed)
        prompt = texts.fill("vsv-it-v1", a=first, b=second)
        generation = _OEVQA_GENERATION if _is_authors(texts, "vsv-it-v1") else _VSV_GENERATION
        step = Step(turns=(user(clip, prompt),), generation=generation, choices=("A", "B"))
        yield Prompt(variant=str(index), version=texts.version("vsv-it-v1"), steps=(step,))


def left_out(sample: Sample, variant: str) -> Sample:
    """Return the sample with the seven answers other than this one as references."""
    answers = [text for index, text in enumerate(sample.data["answers"]) if index != int(variant)]
    return replace(sample, data={**sample.data, "answers": answers})


def judge_request(sample: Sample, candidate: str, texts: PromptTexts) -> JudgeRequest:
    """Ask about an open answer; the candidate comes last, so that all candidates of a question share a prefix."""
    is_authors = _is_authors(texts, "judge-it-v1")
    label = "R{}: {}" if is_authors else "{}. {}"
    references = "\n".join(label.format(i, text) for i, text in enumerate(sample.data["answers"], start=1))
    prompt = texts.fill(
        "judge-it-v1",
        question=sample.data["question"],
        references=references,
        candidate=candidate[:_MAX_CANDIDATE_CHARS].replace("</risposta>", "< /risposta>"),
    )
    if is_authors:
        turns = (Turn("system", (Text(_JUDGE_AUTHORS_SYSTEM),)), user(prompt))
        step = Step(turns=turns, generation=_JUDGE_AUTHORS_GENERATION, choices=("Correct", "Incorrect"))
        return JudgeRequest(step=step)
    choices = ('{"correct": true}', '{"correct": false}')
    return JudgeRequest(step=Step(turns=(user(prompt),), generation=_JUDGE_GENERATION, choices=choices))


def _is_authors(texts: PromptTexts, version: str) -> bool:
    return texts.version(version).startswith(AUTHORS_SET[version])


def statements(sample: Sample, index: int, seed: int) -> tuple[str, str]:
    """Return the two statements of a pair in the drawn order, A first."""
    true, false = sample.data["true"][index], sample.data["false"][index]
    return (true, false) if true_letter(sample, index, seed) == "A" else (false, true)


def true_letter(sample: Sample, index: int, seed: int) -> str:
    """Return the letter under which a pair shows its true statement: that of the data where they fix it, else drawn."""
    if fixed := sample.data.get("letters"):
        return str(fixed[index])
    return draw_ts_letter(seed, sample.data["video"], sample.data["category"], index)


def _clip(sample: Sample, setting: str) -> Media:
    if setting == "black-video":
        return BLACK_CLIP
    if setting == BLACK_FRAME:
        return replace(BLACK_CLIP, frames=1)
    ref = sample.ref("clip")
    if ref is None:
        raise DatasetError(f"{sample.sample_id}: no clip; ingest the data set again")
    return Media("video", ref.sha256, 1 if setting == "1-frame" else 32)
