"""The training of the demo's model sees what the engine shows it, and its loss falls."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

from pipelines.benchmarks.mate.scene import COLORS, SHAPES
from tests.tools.demo_model.lookup import ANSWER_END, LOOKUP_HEAD, VALUE_END, extend, quiet_directions
from tests.tools.demo_model.network import make_model, make_tokenizer
from tests.tools.demo_model.questions import (
    IGNORED,
    PICTURE_TOKENS,
    Chat,
    draw_turns,
    questions_about,
)
from tests.tools.demo_model.scenes import CELL, HEIGHT, WIDTH, Scenes, make_clip, make_scenes, mirror
from tests.tools.demo_model.texts import draw_text_turns, write_chat
from tests.tools.demo_model.training import Mixture, Trainer, patches

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return make_scenes(7, 8)


def test_patches_are_those_of_the_processors() -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    size = {"shortest_edge": 56 * 56, "longest_edge": WIDTH * HEIGHT}
    expected = Qwen2VLImageProcessor(size=size)(images=[Image.fromarray(picture)], return_tensors="pt")
    pixels, grid = patches(picture[None, None])
    torch.testing.assert_close(pixels, expected["pixel_values"])
    assert grid.tolist() == expected["image_grid_thw"].tolist()
    clip, _, _ = make_clip(rng)
    frames = torch.from_numpy(clip).permute(0, 3, 1, 2)
    processor = Qwen2VLVideoProcessor(size=size, patch_size=14, cap_pixels_per_frame=False)
    expected = processor(videos=[frames], return_tensors="pt", do_sample_frames=False)
    pixels, grid = patches(clip[None])
    torch.testing.assert_close(pixels, expected["pixel_values_videos"])
    assert grid.tolist() == expected["video_grid_thw"].tolist()


def test_cells_name_what_is_drawn_there(scenes: Scenes) -> None:
    for picture, cells, scene in zip(scenes.pictures, scenes.cells, scenes.scenes, strict=True):
        shown = {(COLORS[color], SHAPES[shape]) for color, shape in cells.tolist() if color < len(COLORS)}
        assert shown <= {(item.color, item.shape) for item in scene.objects}
        assert shown
        assert picture.shape == (HEIGHT, WIDTH, 3)


def test_mirrored_cells_stay_with_their_pixels(scenes: Scenes) -> None:
    picture, cells = mirror(scenes.pictures[0], scenes.cells[0])
    columns = WIDTH // CELL
    assert (picture[:, 0] == scenes.pictures[0][:, -1]).all()
    assert cells[columns - 1].tolist() == scenes.cells[0][0].tolist()


def test_only_answers_are_learned(scenes: Scenes) -> None:
    scene = scenes.scenes[0]
    turns = draw_turns(np.random.default_rng(3), scene, full_share=0, most=3)
    tokenizer = make_tokenizer([prompt for prompt, _ in turns])
    chat = Chat(tokenizer).about("image", turns)
    learned = [label for label in chat.labels if label != IGNORED]
    text = tokenizer.decode(learned)
    assert text == "".join(f"{answer}<|im_end|>" for _, answer in turns)
    assert chat.ids.count(tokenizer.convert_tokens_to_ids("<|image_pad|>")) == PICTURE_TOKENS


def test_questions_point_at_a_single_object(scenes: Scenes) -> None:
    for scene in scenes.scenes:
        for group in questions_about(scene):
            for question in group:
                question.object_index(scene)  # raises where several match


def test_all_phases_lower_their_loss(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_: nullcontext())  # bfloat16 takes minutes where it is emulated
    few = Scenes(pictures=scenes.pictures[:2], cells=scenes.cells[:2], scenes=scenes.scenes[:2])
    tokenizer = make_tokenizer([])
    trainer = Trainer(make_model(tokenizer, 0), tokenizer, few, seed=0)
    mixture = Mixture(pictures=2, clips=1, guesses=1)
    phases = (
        list(trainer.learn_cells(3)),
        list(trainer.learn_questions(3, 1e-3, Mixture(pictures=2, clips=1, late_share=0.4))),
        list(trainer.learn_questions(3, 1e-3, mixture, [("Yes or no?", ("yes", "no"))])),
    )
    kinds = [("cells",), ("pictures", "clips"), ("pictures", "clips", "guesses")]
    assert [tuple(losses[0]) for losses in phases] == kinds
    for losses in phases:
        assert sum(losses[-1].values()) < sum(losses[0].values())


def test_text_turns_ask_about_the_objects_that_the_prompt_shows(scenes: Scenes) -> None:
    scene = scenes.scenes[0]
    turns = draw_text_turns(np.random.default_rng(3), scene, objects=3, most=6)
    prompt = turns[0].question
    shown = json.loads(next(line for line in prompt.splitlines() if line.startswith('{"camera_location"')))["objects"]
    assert [item["name"] for item in shown] == ["Object_0", "Object_1", "Object_2"]
    assert {item["rotation"] for item in shown} <= {item.rotation for item in scene.objects}
    assert len(turns) > 1
    assert all("\n" not in turn.question for turn in turns[1:])
    for turn in turns:
        item = shown[int(turn.object_name.removeprefix("Object_"))]
        assert json.loads(turn.answer) == {"answer": item[turn.field]}


def test_sources_of_an_answer_are_the_same_tokens_in_the_scene(scenes: Scenes) -> None:
    turns = draw_text_turns(np.random.default_rng(4), scenes.scenes[1], objects=3, most=6)
    tokenizer = make_tokenizer([turns[0].question])
    model = make_model(tokenizer, 1)
    extend(model, tokenizer, quiet_directions(model, [tokenizer.encode(turns[0].question)]))
    written = write_chat(Chat(tokenizer), tokenizer, turns)
    ids = written.tokens.ids
    learned = [token for token, label in zip(ids, written.tokens.labels, strict=True) if label != IGNORED]
    pairs = [(ids[source], token) for source, token in zip(written.sources, learned, strict=True) if source != IGNORED]
    assert len(pairs) > len(learned) / 3
    value_end = tuple(tokenizer.convert_tokens_to_ids([VALUE_END, ANSWER_END]))
    assert all(source == token or (source, token) == value_end for source, token in pairs)
    assert sum(written.weights) == pytest.approx(len(turns))


def test_new_layers_begin_by_looking_at_the_asked_field_of_the_pointed_object(scenes: Scenes) -> None:
    rng = np.random.default_rng(5)
    turns = [draw_text_turns(rng, scene, objects=3, most=1) for scene in scenes.scenes for _ in range(4)]
    tokenizer = make_tokenizer([turns[0][0].question])
    model = make_model(tokenizer, 1)
    torch.manual_seed(1)
    extend(model, tokenizer, quiet_directions(model, [tokenizer.encode(turn.question) for turn, *_ in turns[:2]]))
    model.set_attn_implementation("eager")
    core = model.model.language_model
    looked = right = 0
    for turns_of_chat in turns:
        chat = write_chat(Chat(tokenizer), tokenizer, turns_of_chat)
        ids = torch.tensor([chat.tokens.ids])
        positions = torch.arange(ids.shape[1])[None, None].expand(3, 1, -1)
        with torch.inference_mode():
            output = core(inputs_embeds=core.embed_tokens(ids), position_ids=positions, output_attentions=True)
        first_new, last = output.attentions[-4][0], output.attentions[-1][0, LOOKUP_HEAD]
        assert first_new[0].diagonal(-1).mean() > 0.99
        assert first_new[1].diagonal(-2).mean() > 0.99
        learned = [place for place, label in enumerate(chat.tokens.labels[1:]) if label != IGNORED]
        for place, source in zip(learned, chat.sources, strict=True):
            looked += source != IGNORED
            right += source == int(last[place].argmax())
    assert right / looked > 0.5
