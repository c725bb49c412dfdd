"""V-FLUTE's prompts in the order of its protocol, and how one answer is scored."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from models.messages import Media, StepOutput, Text, blank
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import MediaRef, Prompt, Row, Sample
from pipelines.benchmarks.vflute.benchmark import BENCHMARK
from pipelines.benchmarks.vflute.facts import SETTINGS
from pipelines.benchmarks.vflute.prompts import GENERATION, PAPER_TEMPLATES, TEXTS
from pipelines.benchmarks.vflute.source import EXEMPLARS
from tests.support.paths import SHARED_DATA
from tests.support.sweeps import answered_row
from tests.support.vflute_source import TEMPLATES

TEXT = PromptTexts(TEXTS)
GOOD = "The sky is grey.\nLABEL: entailment"


def ref(role: str) -> MediaRef:
    return MediaRef(role=role, kind="image", sha256=f"hash of {role}", extension=".png", bytes=1, width=4, height=3)


def sample(prompt: str = TEMPLATES[0], shots: int = 10, **data: Any) -> Sample:
    solved = [
        {"id": f"{source}-train-{n}", "claim": f"shot {n}", "label": label, "explanation": f"why {n}",
         "prompt": TEMPLATES[n % 3] if prompt else ""}
        for n, (source, label) in enumerate(EXEMPLARS[:shots])
    ]  # fmt: skip
    return Sample(
        sample_id="irfl-test-0",
        media=(ref("picture"), *(ref(f"shot/{n}") for n in range(shots))),
        data={"claim": "Is {it} so?", "label": "entailment", "explanation": "The sky is grey.", "prompt": prompt,
              "shots": solved} | data,
    )  # fmt: skip


def ask(setting: str, item: Sample | None = None, texts: PromptTexts = TEXT) -> Prompt:
    [prompt] = BENCHMARK.prompts(PromptInput(item or sample(), "entailment", setting, texts=texts, seed=42))
    return prompt


def parts(prompt: Prompt, step: int = 0, turn: int = 0) -> list[object]:
    return list(prompt.steps[step].turns[turn].parts)


ASKED = 'Does the drawing back the words "Is {it} so?"? Say why and choose entailment or contradiction.'


def test_zero_shot_prompt_is_the_picture_and_the_instruction_of_the_data() -> None:
    prompt = ask("zero-shot")
    assert parts(prompt) == [Media("image", "hash of picture"), Text(ASKED)]
    assert len(prompt.steps) == len(prompt.steps[0].turns) == 1
    assert prompt.version == "vflute-instruction-data-v1"


@pytest.mark.parametrize("setting", SETTINGS)
def test_prompt_steps_have_the_papers_generation_settings(setting: str) -> None:
    prompt = ask(setting)
    assert all(step.generation == GENERATION for step in prompt.steps)
    assert (prompt.steps[-1].generation.max_new_tokens, prompt.steps[-1].generation.num_beams) == (256, 3)
    assert prompt.steps[-1].generation.temperature == 0
    assert prompt.steps[-1].choices == ("entailment", "contradiction")


def test_no_image_prompts_share_one_white_picture() -> None:
    assert parts(ask("no-image")) == [blank("FFFFFF", 336, 336), Text(ASKED)]


@pytest.mark.parametrize("count", [5, 10])
def test_few_shot_prompt_shows_exemplars_in_order(count: int) -> None:
    turns = ask(f"{count}-shot").steps[0].turns
    assert [turn.role for turn in turns] == ["user", "assistant"] * count + ["user"]
    for n, (_, label) in enumerate(EXEMPLARS[:count]):
        filled = TEMPLATES[n % 3].replace("REPLACE_CLAIM", f'"shot {n}"')
        assert turns[2 * n].parts == (Media("image", f"hash of shot/{n}"), Text(filled))
        assert turns[2 * n + 1].parts == (Text(f"why {n}\nLABEL: {label}"),)
    assert turns[-1].parts == (Media("image", "hash of picture"), Text(ASKED))


def test_exemplars_begin_with_a_contradiction_of_haivmet() -> None:
    kinds = [f"{source} {label[0]}" for source, label in EXEMPLARS]
    assert kinds[:5] == ["vismet c", "irfl e", "muse c", "memecap e", "nycartoons e"]
    assert kinds[5:] == ["vismet e", "irfl c", "muse e", "memecap c", "nycartoons e"]


@pytest.mark.parametrize(("shots", "left_out"), [(0, {"5-shot", "10-shot"}), (7, {"10-shot"}), (10, set())])
def test_few_shot_prompt_without_exemplars_is_excluded(shots: int, left_out: set[str]) -> None:
    prompt = {setting: ask(setting, sample(shots=shots)) for setting in SETTINGS}
    assert {setting for setting, prompt in prompt.items() if prompt.excluded} == left_out
    assert {prompt.excluded for prompt in prompt.values()} <= {"", "exemplars_missing"}


def test_scene_graph_prompt_requests_the_graph_first() -> None:
    prompt = ask("scene-graph")
    picture = Media("image", "hash of picture")
    first = parts(prompt, 0)
    assert first[0] == picture
    assert isinstance(first[1], Text)
    assert first[1].text.startswith('Question: Does the drawing back the words "Is {it} so "\n')
    assert "JSON" in first[1].text
    assert "reason" not in first[1].text.lower()
    assert first[1].text.endswith("Scene Graph:")
    assert prompt.steps[0].choices == ()
    shown, heading, graph, rest = parts(prompt, 1)
    assert (shown, graph) == (picture, StepOutput(0))
    assert heading == Text("Scene Graph:\n")
    assert isinstance(rest, Text)
    assert rest.text.endswith(f"Question:\n{ASKED}")


def test_label_only_prompt_quotes_the_caption() -> None:
    picture, text = parts(ask("label-only"))
    assert picture == Media("image", "hash of picture")
    assert isinstance(text, Text)
    assert '"Is {it} so?"' in text.text
    assert "why" not in text.text


def test_prompt_without_the_authors_file_has_our_wording_and_version() -> None:
    prompt = ask("zero-shot", sample(prompt=""))
    text = parts(prompt)[1]
    assert isinstance(text, Text)
    assert text.text.count('"Is {it} so?"') == 1
    assert text.text.index("entailment") < text.text.index("contradiction")
    assert prompt.version == "vflute-instruction-own-v1"
    graph = parts(ask("scene-graph", sample(prompt="")))[1]
    assert isinstance(graph, Text)
    assert "Say why" not in graph.text


def test_prompt_uses_and_marks_the_users_wording() -> None:
    texts = PromptTexts(TEXTS, {"vflute-label-only-v1": "{claim}: one word!"})
    prompt = ask("label-only", texts=texts)
    assert parts(prompt)[1] == Text('"Is {it} so?": one word!')
    assert prompt.version == "vflute-label-only-v1+custom"


def test_model_calls_of_the_test_split_equal_the_estimate() -> None:
    calls = {setting: 723 * len(ask(setting).steps) for setting in SETTINGS}
    assert calls == {"zero-shot": 723, "5-shot": 723, "10-shot": 723, "scene-graph": 1446, "no-image": 723,
                     "label-only": 723}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- answers


def row(
    output: str | None = GOOD,
    setting: str = "zero-shot",
    similarity_scores: Mapping[str, float] | None = None,
    label: str = "entailment",
    **how: Any,
) -> Row:
    return answered_row(sample(label=label), "entailment", setting, output, given=similarity_scores or {}, **how)


def test_read_answer_gives_labels_and_scores() -> None:
    read = BENCHMARK.reading(row(similarity_scores={"bertscore_f1": 0.8, "bleurt": 0.5}))
    assert read.answer == "entailment"
    assert read.values == {
        "correct": 1.0, "label": 1.0, "label_robust": 1.0, "empty": 0.0, "empty_robust": 0.0,
        "bertscore_f1": 0.8, "bleurt": 0.5, "es": 0.65, "es_robust": 0.65,
    }  # fmt: skip
    assert read.flags == ()


def test_read_answer_omits_unknown_scores() -> None:
    for scores in ({}, {"bertscore_f1": 0.8}, {"bleurt": 0.5}, {"bertscore_f1": 0.8, "bleurt": float("nan")}):
        assert not {"es", "es_robust"} & BENCHMARK.reading(row(similarity_scores=scores)).values.keys()


def test_read_answer_omits_a_missing_label() -> None:
    read = BENCHMARK.reading(row("The cartoon is inconsistent with the claim.", label="contradiction"))
    assert read.answer is None
    assert (read.values["correct"], read.values["label_robust"]) == (0.0, 0.0)
    assert "label" not in read.values
    assert read.flags == ("readings_differ",)


def test_read_answer_flags_truncated_text() -> None:
    assert BENCHMARK.reading(row("The sky", finish_reason="length")).flags == ("truncated",)


def test_similarity_compares_the_tidied_explanation() -> None:
    asks = BENCHMARK.similarity(row("The sky is grey. Therefore, yes. LABEL: entailment"))
    assert [(ask.column, ask.scorer, ask.candidate, ask.references) for ask in asks] == [
        ("bertscore_f1", "bertscore", "The sky is grey.", ("The sky is grey.",)),
        ("bleurt", "bleurt", "The sky is grey.", ("The sky is grey.",)),
        ("bertscore_f1_robust", "bertscore", "The sky is grey. Therefore, yes.", ("The sky is grey.",)),
        ("bleurt_robust", "bleurt", "The sky is grey. Therefore, yes.", ("The sky is grey.",)),
    ]


def test_similarity_compares_an_equal_explanation_once() -> None:
    assert [ask.column for ask in BENCHMARK.similarity(row())] == ["bertscore_f1", "bleurt"]


def test_columns_of_an_answers_file_hold_for_both_parsers() -> None:
    text = "The sky is grey. Therefore, yes. LABEL: entailment"
    scores = {"bertscore_f1": 0.8, "bleurt": 0.5}
    scored_row = row(text, similarity_scores=scores)
    assert [ask.column for ask in BENCHMARK.similarity(scored_row)] == ["bertscore_f1", "bleurt"]
    assert BENCHMARK.reading(scored_row).values["es_robust"] == 0.65


def test_similarity_scores_the_robust_explanation_separately() -> None:
    scores = {"bertscore_f1": 0.8, "bleurt": 0.5, "bertscore_f1_robust": 0.4, "bleurt_robust": 0.2}
    read = BENCHMARK.reading(row(similarity_scores=scores))
    assert (read.values["es"], read.values["es_robust"]) == (0.65, pytest.approx(0.3))
    half = {name: value for name, value in scores.items() if name != "bleurt_robust"}
    assert "es_robust" not in BENCHMARK.reading(row(similarity_scores=half)).values


def test_similarity_compares_nothing_for_label_only() -> None:
    scored_row = row("entailment", setting="label-only")
    assert BENCHMARK.similarity(scored_row) == []
    assert "es" not in BENCHMARK.reading(replace(scored_row, given={"bertscore_f1": 0.8, "bleurt": 0.5})).values


def test_read_answer_removes_scene_graph_mentions_in_its_setting_only() -> None:
    text = "The image and the scene graph both support the claim.\nLABEL: entailment"
    assert BENCHMARK.similarity(row(text, setting="scene-graph"))[0].candidate == "The image supports the claim."
    assert "scene graph" in BENCHMARK.similarity(row(text))[0].candidate


def test_default_prompts_do_not_contain_the_published_templates() -> None:
    real = SHARED_DATA / "vflute" / "vflute-v2-test-first400.csv"
    if not real.is_file():
        pytest.skip(f"the published rows are not at {real}")
    import csv

    with real.open(newline="", encoding="utf-8") as file:
        sentences = {piece.strip() for row in csv.DictReader(file) for piece in row["prompt"].split("?")}
    ours = [text for name, text in TEXTS.items() if name not in PAPER_TEMPLATES]
    assert len(ours) < len(TEXTS)
    assert not any(sentence in text for text in ours for sentence in sentences if sentence)
