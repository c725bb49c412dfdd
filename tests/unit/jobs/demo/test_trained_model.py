"""The demo's trained model as an instrument: pixels, the order of frames and the chat template must have their effect.

Scenes are held out: the model was trained on others (`python -m tests.tools.demo_model`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from jobs.demo.checkpoint import TRAINED_MODEL
from models.engines.transformers.engine import TransformersEngine
from models.messages import Answer, Call, Frames, Generation, Media, Part, Text, user
from models.spec import ModelSpec
from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.benchmark import WHITE_PICTURE
from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.media.decoder import blank_frames
from tests.tools.demo_model.formats import closed_questions
from tests.tools.demo_model.questions import clip_question, questions_about
from tests.tools.demo_model.scenes import Array, make_clip, make_noise, make_scenes
from tests.tools.demo_model.texts import draw_question

_SEED = 20_26
_SCENES = 20
_CLIPS = 24
_TEXTS = 24
_CLOSED = 40
_SHARED = 24


@dataclass(frozen=True, slots=True)
class Exam:
    """Calls with their media and right answers."""

    calls: Sequence[Call]
    media: Mapping[Media, Frames]
    gold: Mapping[str, str]

    def score(self, engine: TransformersEngine) -> float:
        """Return the share of right answers."""
        outputs = answers(engine, self)
        return float(np.mean([outputs[call_id] == answer for call_id, answer in self.gold.items()]))


def changed(exam: Exam, change: Callable[[Array], Array]) -> Exam:
    """Show other pixels, as media of their own: an engine takes a medium's source for its content."""
    other = {medium: replace(medium, source=f"changed-{medium.source}") for medium in exam.media}
    media = {other[medium]: replace(frames, pixels=change(frames.pixels)) for medium, frames in exam.media.items()}
    calls = []
    for each in exam.calls:
        parts = [other.get(part, part) if isinstance(part, Media) else part for part in each.turns[0].parts]
        calls.append(replace(each, turns=(user(*parts),)))
    return Exam(calls, media, exam.gold)


def media_of(calls: Sequence[Call]) -> list[Media]:
    return [part for each in calls for part in each.turns[0].parts if isinstance(part, Media)]


def answers(engine: TransformersEngine, exam: Exam) -> dict[str, str]:
    replies = list(engine.generate(exam.calls, exam.media))
    return {reply.call_id: reply.outcome.text for reply in replies if isinstance(reply.outcome, Answer)}


def call(name: str, *parts: Part | str, tokens: int = 12) -> Call:
    return Call(call_id=name, turns=(user(*parts),), generation=Generation(max_new_tokens=tokens), choices=())


@pytest.fixture(scope="module")
def picture_exam() -> Exam:
    """For each scene one question by shape and one by color, as MATE's `img2img` asks them without examples."""
    scenes = make_scenes(_SEED, _SCENES)
    calls, media, gold = [], {}, {}
    for place, scene in enumerate(scenes.scenes):
        picture = Media("image", f"{place:064d}")
        media[picture] = Frames(pixels=scenes.pictures[place][None])
        for group in questions_about(scene):
            if group:
                question, name = group[place % len(group)], f"{place}/{len(calls)}"
                calls.append(call(name, picture, build_prompt(scene, question)))
                gold[name] = gold_json(question.gold(scene))
    return Exam(calls, media, gold)


@pytest.fixture(scope="module")
def text_exam() -> Exam:
    """For each scene one question about its JSON, as MATE's `txt2txt` asks them without examples."""
    rng = np.random.default_rng(_SEED)
    calls, gold = [], {}
    for place, scene in enumerate(make_scenes(_SEED + 1, _TEXTS).scenes):
        question = draw_question(rng, scene)
        calls.append(call(str(place), WHITE_PICTURE, build_prompt(scene, question), tokens=64))
        gold[str(place)] = gold_json(question.gold(scene))
    return Exam(calls, {WHITE_PICTURE: blank_frames(WHITE_PICTURE)}, gold)


@pytest.fixture(scope="module")
def clip_exam() -> Exam:
    """Which of two colors a clip shows first, and which last."""
    rng = np.random.default_rng(_SEED)
    calls, media, gold = [], {}, {}
    for place in range(_CLIPS):
        pixels, first, last = make_clip(rng)
        clip = Media("video", f"{place:064d}", len(pixels))
        seconds = tuple(index / 2 for index in range(len(pixels)))
        media[clip] = Frames(pixels=pixels, seconds=seconds, fps=2.0, total_frames=len(pixels))
        for word, color in (("first", first), ("last", last)):
            calls.append(call(f"{place}/{word}", clip, clip_question(word)))
            gold[f"{place}/{word}"] = gold_json(color)
    return Exam(calls, media, gold)


@pytest.fixture(scope="module")
def engine() -> TransformersEngine:
    return engine_of(TRAINED_MODEL)


def engine_of(folder: Path, *, share_prefix: bool = True) -> TransformersEngine:
    spec = ModelSpec(engine="transformers", model=str(folder), dtype="float32", device="cpu", share_prefix=share_prefix)
    return TransformersEngine(spec)


@pytest.fixture(scope="module")
def picture_score(engine: TransformersEngine, picture_exam: Exam) -> float:
    return picture_exam.score(engine)


def test_colors_and_shapes_are_read_off_pictures(picture_score: float) -> None:
    assert picture_score >= 0.5


@pytest.mark.full
def test_white_pictures_leave_chance(engine: TransformersEngine, picture_exam: Exam) -> None:
    # An eighth of the colors and a quarter of the shapes are guessed.
    assert changed(picture_exam, lambda pixels: np.full_like(pixels, 255)).score(engine) <= 0.35


@pytest.mark.full
def test_values_are_looked_up_in_scenes_as_text(engine: TransformersEngine, text_exam: Exam) -> None:
    assert text_exam.score(engine) >= 0.5
    prompts = [part.text for each in text_exam.calls for part in each.turns[0].parts if isinstance(part, Text)]
    scenes = [next(line for line in prompt.splitlines() if line.startswith("{")) for prompt in prompts]
    others = [
        call(each.call_id, WHITE_PICTURE, prompt.replace(scene, other), tokens=64)
        for each, prompt, scene, other in zip(text_exam.calls, prompts, scenes, [*scenes[1:], scenes[0]], strict=True)
    ]
    assert replace(text_exam, calls=others).score(engine) <= 0.35  # one of two sizes, one of a few names


@pytest.mark.full
def test_frames_are_seen_in_their_order(engine: TransformersEngine, clip_exam: Exam) -> None:
    assert clip_exam.score(engine) >= 0.8
    backwards = changed(clip_exam, lambda pixels: np.ascontiguousarray(pixels[::-1]))
    assert backwards.score(engine) <= 0.2
    other = {"first": "last", "last": "first"}
    places = {name: name.partition("/") for name in clip_exam.gold}
    gold = {f"{clip}/{other[word]}": clip_exam.gold[name] for name, (clip, _, word) in places.items()}
    assert replace(backwards, gold=gold).score(engine) >= 0.8


@pytest.mark.full
def test_black_clips_leave_chance(engine: TransformersEngine, clip_exam: Exam) -> None:
    assert changed(clip_exam, np.zeros_like).score(engine) <= 0.35


@pytest.mark.full
def test_the_chat_template_has_its_effect(tmp_path: Path, picture_exam: Exam, picture_score: float) -> None:
    for path in TRAINED_MODEL.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    template = tmp_path / "chat_template.jinja"
    template.write_text(template.read_text(encoding="utf-8").replace("<|im_start|>assistant\n", ""), encoding="utf-8")
    assert picture_exam.score(engine_of(tmp_path)) <= picture_score - 0.2


@pytest.mark.full
def test_shared_prefixes_change_no_answer(engine: TransformersEngine, picture_exam: Exam) -> None:
    calls = picture_exam.calls[:_SHARED]
    exam = replace(picture_exam, calls=calls, media={part: picture_exam.media[part] for part in media_of(calls)})
    replies = list(engine.generate(exam.calls, exam.media))
    assert sum(reply.outcome.cached_tokens for reply in replies if isinstance(reply.outcome, Answer)) > 0
    alone = answers(engine_of(TRAINED_MODEL, share_prefix=False), exam)
    assert alone == {reply.call_id: reply.outcome.text for reply in replies if isinstance(reply.outcome, Answer)}
    assert len(alone) == _SHARED


def test_answers_have_the_form_that_the_prompt_asks_for(engine: TransformersEngine, picture_exam: Exam) -> None:
    forms = [set(json.loads(text)) for text in answers(engine, picture_exam).values()]
    assert forms == [{"answer"}] * len(picture_exam.calls)


def test_closed_questions_get_one_of_their_choices(engine: TransformersEngine, tmp_path: Path) -> None:
    """What the model cannot know it guesses in the form that was asked for, so that its score is chance."""
    rng = np.random.default_rng(_SEED)
    questions = closed_questions(tmp_path, _SEED)
    chosen = [questions[place] for place in rng.choice(len(questions), _CLOSED, replace=False)]
    pixels = make_noise(rng, 1)[0]
    picture, clip = Media("image", "0" * 64), Media("video", "1" * 64, len(pixels))
    seconds = tuple(index / 2 for index in range(len(pixels)))
    noise = Frames(pixels=pixels, seconds=seconds, fps=2.0, total_frames=len(pixels))
    media = {picture: Frames(pixels=make_scenes(_SEED, 1).pictures[0][None]), clip: noise}
    calls = [call(str(place), (picture, clip)[place % 2], prompt) for place, (prompt, _) in enumerate(chosen)]
    texts = answers(engine, Exam(calls, media, {}))
    assert sum(texts[str(place)] in choices for place, (_, choices) in enumerate(chosen)) >= 0.9 * _CLOSED
