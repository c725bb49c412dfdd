from models.spec import ModelSpec
from pipelines.ingest.dataset import Datasets
from pipelines.plan.requests import caption_targets, model_targets
from pipelines.plan.run_spec import RunSpec


def spec(maia_data: str, **more: object) -> RunSpec:
    models = {"one": ModelSpec(engine="random", seed=1), "two": ModelSpec(engine="random", seed=2)}
    return RunSpec(data=maia_data, out="out", models=models, benchmarks=("maia",), **more)  # type: ignore[arg-type]


def key(run: RunSpec, model: str) -> str:
    ((target, _),) = model_targets(run, model, Datasets())
    return target.prompts.captioner


def test_captions_are_of_the_named_captioner_or_each_models_own(maia_data: str) -> None:
    run = spec(maia_data)
    assert run.caption_models == {}
    assert key(run, "one") == ""
    assert run.record().captioner is None
    run = spec(maia_data, captioners=(("eye", ModelSpec(engine="random")),))
    assert list(run.caption_models) == ["eye"]
    assert key(run, "one") == key(run, "two")
    assert key(run, "one").startswith("eye@")
    assert run.record().captioner == "eye"
    run = spec(maia_data, own_captions=True)
    assert list(run.caption_models) == ["one", "two"]
    assert key(run, "one").startswith("one@")
    assert key(run, "two").startswith("two@")
    assert [target.prompts.kind for target, _ in caption_targets(run, "one", Datasets())] == ["caption"]
    assert run.record().captioner == "self"
    first = spec(maia_data, captioners=(("eye", ModelSpec(engine="random", seed=1)),))
    other = spec(maia_data, captioners=(("eye", ModelSpec(engine="random", seed=5)),))
    assert key(first, "one") != key(other, "one")
